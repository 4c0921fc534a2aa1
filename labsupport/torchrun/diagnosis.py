"""A failed job on one screen: which rank, what, at which line, what followed from it, what helps, what explains it."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from labsupport.ranks import waiting
from labsupport.ranks.wording import ranks_in_words
from labsupport.showing import Code, Message, Table
from labsupport.torchrun import causes, hints

__all__ = ["Report", "diagnose", "unnoticed"]

WIDTH, HEIGHT = 100, 24
_FRAMES = 8  # lines of a traceback that are shown


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is told of a failed job; every part but the headline may be empty.

    Args:
        headline: the culprit rank, what it did, and the line, as one sentence.
        cause: more on it, in words.
        where: the line's text, or a short traceback.
        table: what each rank called, a `Table`; set for a mismatch.
        consequences: what happened to the other ranks, and to earlier attempts.
        hint: what helps.
        lesson: the lesson that explains it, in words.
        kind: signal, exception, mismatch, missing, exit or timeout.
        ranks: the culprits.
    """

    headline: str
    cause: str = ""
    where: str = ""
    table: str = ""
    consequences: tuple = ()
    hint: str = ""
    lesson: str = ""
    kind: str = ""
    ranks: tuple = ()

    def text(self):
        """Return it as text of at most 24 lines of 100 columns."""
        return str(self)

    def __str__(self):
        shown = [*_wrapped(self.headline, WIDTH), *self._lines()]
        if len(shown) > HEIGHT:  # the place gives way first: the rank's own output has it in full
            room = max(1, len(self.where.splitlines()) - (len(shown) - HEIGHT))
            shorter = "\n".join(self.where.splitlines()[-room:])
            shown = [*_wrapped(self.headline, WIDTH), *self._lines(shorter)]
        return "\n".join(shown[:HEIGHT])

    def _lines(self, where=None):
        lines = []
        for label, text in self._parts(where):
            start = f"  {label + ':':<7} "
            room = WIDTH - len(start)
            rows = text.splitlines() if isinstance(text, Code) else _wrapped(text, room)
            for row in rows:
                row = row if len(row) <= room else row[: room - 4] + " ..."
                lines.append(start + row)
                start = " " * len(start)
        return lines

    def _parts(self, where=None):
        parts = [
            ("why", self.cause),
            ("at", Code(self.where if where is None else where)),
            ("calls", self.table),
            ("then", "; ".join(self.consequences)),
            ("try", self.hint),
            ("read", self.lesson),
        ]
        return [(label, text) for label, text in parts if text]

    def html(self):
        """Return it as HTML that follows the notebook's theme and says the same words."""
        return Message(self.headline, self._parts(), "bad")._repr_html_()


def _wrapped(text, width):
    """Return a text's lines within a width; a word that is longer is cut."""
    found = []
    for line in text.splitlines() or [""]:
        found += textwrap.wrap(line, width, break_on_hyphens=False) or [""]
    return found


def diagnose(folder, snapshot):
    """Return the `Report` on a job that has failed, or None when no rank of it has.

    Args:
        folder: the job's; its ranks' own folders are in the snapshot.
        snapshot: the job's last `Snapshot`.
    """
    source = _source(folder)
    ends = causes.ends_of(snapshot.ranks, snapshot.events, source)
    cause = causes.find(ends)
    if cause is None:
        return None
    hint = _hint(cause)
    return Report(
        headline=cause.headline,
        cause=cause.why or _more(cause, known=hint is not None),
        where=_where(cause),
        table=_table(cause),
        consequences=tuple(_consequences(cause, ends)) + tuple(_before(snapshot, source)),
        hint=hint.advice if hint else "",
        lesson=hints.lesson_in_words(hint.slug) if hint else "",
        kind=cause.kind,
        ranks=cause.ranks,
    )


def unnoticed(folder, snapshot):
    """Return a `Report` on a job that went through although its ranks did not call the same, or None.

    gloo adds float32 to int32, SUM to MAX, and 3 elements to 7 without a word: what comes out is worthless.
    """
    ends = causes.ends_of(snapshot.ranks, snapshot.events, _source(folder))
    stall = waiting.unnoticed({end.rank: waiting.Standing(end.state, end.calls) for end in ends})
    if stall is None:
        return None
    hint = hints.for_kind("mismatch")
    return Report(
        headline=stall.sentence,
        cause="gloo does not compare what ranks call: this went through, and its result is worthless",
        table=_table(stall),
        hint=hint.advice,
        lesson=hints.lesson_in_words(hint.slug),
        kind="unnoticed",
        ranks=stall.culprits,
    )


def _source(folder):
    try:
        return Path(folder, "cell.py").read_text(encoding="utf-8")
    except OSError:
        return ""


def _hint(cause):
    end = cause.end
    if cause.kind == "exception":
        return hints.for_text(end.message, end.line)
    if cause.kind == "exit":
        return hints.for_text(end.said) or hints.for_kind("exit")
    return hints.for_kind(cause.about) or (hints.for_text(end.message) if end and end.error else None)


# Lines of long messages that say what a hint cannot: names and sizes.
_TELLING = re.compile(
    r"did not receive grad|[Mm]issing key|[Uu]nexpected key|size mismatch|inconsistent|expected .* got"
)


def _more(cause, known):
    """Return the rest of an exception's message; where a hint explains it, only its lines with names and sizes."""
    if cause.kind != "exception":
        return ""
    message = cause.end.error["message"].strip()
    lines = [line.strip() for line in message.splitlines()]
    if known:
        own = [line.partition("In addition, you can")[0].strip() for line in lines[1:]]
        rest = "; ".join(line for line in own if _TELLING.search(line))
    else:
        rest = " ".join(lines).removeprefix(causes.first_sentence(message))
    return textwrap.shorten(rest, 300, placeholder=" ...")


def _where(cause):
    """Return the line of the cell, or the way there when it lies in a function of the cell."""
    end = cause.end
    if end is None or cause.rows or cause.kind == "missing":
        return ""
    told = end.error.get("traceback", "") if end.error else ""
    frames = [line for line in told.splitlines() if line.startswith("  ")]
    if sum(line.startswith("  File") for line in frames) > 1:
        return "\n".join(line[2:] for line in frames[-_FRAMES:])
    return f"line {end.lineno}: {end.line}".rstrip(": ") if end.lineno else ""


def _table(found):
    """Return what each rank called, in columns under their names."""
    return Table([tuple(map(str, row)) for row in (found.columns, *found.rows)]) if found.rows else ""


def _consequences(cause, ends):
    """Yield what happened to the other ranks, one phrase for ranks with the same fate."""
    fates = {}
    for end in ends:
        if end.rank not in cause.ranks and not cause.rows:
            fates.setdefault(_fate(end), []).append(end.rank)
    for fate, ranks in fates.items():
        if fate:
            yield f"{ranks_in_words(ranks)} {fate}"


def _fate(end):
    line = f" (line {end.lineno})" if end.lineno else ""
    if end.error and causes.is_echo(end.error):
        late = "imed out" in end.error["message"] or "failed to pass" in end.error["message"]
        return f"gave up waiting{line}" if late else f"lost the connection{line}"
    if end.error:
        text = textwrap.shorten(end.message, 80, placeholder=" ...")
        return f"raised {text}{line}"
    if end.asked:
        return "ended with the job"
    if end.code:
        return f"ended with exit code {end.code}" if end.code > 0 else f"ended by signal {-end.code}"
    return "done" if end.code == 0 else ""


def _before(snapshot, source):
    """Yield what ended earlier attempts."""
    attempts = sorted({rank.attempt for rank in snapshot.earlier})
    for attempt in attempts:
        ranks = [rank for rank in snapshot.earlier if rank.attempt == attempt]
        cause = causes.find(causes.ends_of(ranks, snapshot.events, source))
        if cause is not None:
            yield f"attempt {attempt} had ended before: {cause.headline}"
