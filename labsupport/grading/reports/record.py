"""grades.json: the full record, signed when there is a secret, and the check of that signature."""

import hmac
import json
from dataclasses import asdict

from labsupport.errors import LabError, UsageError

__all__ = ["canonical", "dump", "record", "verify"]

FORMAT = "labsupport-grades-1"
_ALGORITHM = "HMAC-SHA256 over the canonical JSON of everything but the signature"


def record(report, secret):
    """Return the record as plain data: header, limits, an entry per learner and exercise, signature or None."""
    said = {"line": report.header.line, **asdict(report.header)}
    body = {
        "format": FORMAT,
        "header": said,
        "limits": _limits(report),
        "notes": list(report.notes),
        "rows": [_entry(row) for row in report.rows],
    }
    value = secret.sign(canonical(body))
    return body | {"signature": {"algorithm": _ALGORITHM, "value": value} if value else None}


def _entry(row):
    entry = asdict(row)
    return entry | {"notes": list(row.notes), "usage": {name: _number(value) for name, value in row.usage.items()}}


def _number(value):
    """JSON has no infinities, and a record must read the same everywhere."""
    return value if isinstance(value, int) or (isinstance(value, float) and abs(value) < float("inf")) else str(value)


def _limits(report):
    """Return what a submission may use, and what one call of each exercise in the report may."""
    from labsupport import catalog
    from labsupport.grading.allowance import Allowance

    asked = {exercise for row in report.rows if (exercise := row.exercise)}
    limits = {e.id: asdict(e.limits) for slug in report.exercises for e in catalog.exercises(slug)}
    exercises = {name: limit for name, limit in sorted(limits.items()) if name in asked}
    return {"submission": asdict(Allowance()), "exercises": exercises}


def canonical(value):
    """Return the one spelling of a record that is signed: sorted keys, no blanks, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def dump(value):
    """Return a record as text, one entry per line; ASCII only, so that nothing in it can act on a terminal."""
    rows = ",\n  ".join(json.dumps(row, sort_keys=True, allow_nan=False) for row in value["rows"])
    rest = {name: part for name, part in value.items() if name != "rows"}
    lines = [f" {json.dumps(name)}: {json.dumps(part, sort_keys=True, allow_nan=False)}" for name, part in rest.items()]
    # DELETE is ASCII too, and a terminal may act on it.
    text = "{\n" + ",\n".join([*lines, f' "rows": [\n  {rows}\n ]']) + "\n}\n"
    return text.replace("\x7f", "\\u007f")


def verify(path, secret):
    """Return the record of a file whose signature is right.

    Raises:
        UsageError: there is no secret to check with.
        LabError: the file is no record, is not signed, or is not what was signed.
    """
    if not secret:
        raise UsageError(
            "a signature can only be checked with the secret it was made with",
            next_step="set LAB_SECRET or name the file with --secret-file",
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
        signature = found.pop("signature")
        value = signature["value"] if signature else ""
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LabError(f"{path} is not a record of grades", next_step="name a grades.json") from None
    if not value:
        raise LabError(f"{path} carries no signature", why="it was made without a secret, as feedback")
    if not isinstance(value, str) or not hmac.compare_digest(value.encode(), secret.sign(canonical(found)).encode()):
        raise LabError(
            f"{path} is not what was signed",
            why="it was changed after grading, or graded with another secret",
            next_step="grade again from the submissions; kept observations make that quick",
        )
    return found


def _refuse(name):
    raise ValueError(f"{name} is not JSON")


def _once(pairs):
    """A name said twice could be read as one thing here and as another elsewhere."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name is there twice")
    return dict(pairs)
