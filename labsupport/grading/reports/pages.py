"""index.html and one page per learner: static, no scripts, nothing loaded from anywhere, every text escaped."""

import base64
import hashlib
import html
import re
from pathlib import Path

from labsupport.grading.reports.texts import line, marked_up, plain
from labsupport.showing import show_verdict

__all__ = ["FOLDER", "page_of", "pages"]

FOLDER = "learners"
_STYLE = (Path(__file__).parent / "pages.css").read_text(encoding="utf-8")
# Only this very style block applies: markup that slipped through could neither run nor load nor dress up anything.
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode("utf-8")).digest()).decode("ascii")
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def pages(report):
    """Return {file name: HTML} of the overview and of every learner."""
    return {"index.html": _index(report)} | {page_of(name): _learner(report, name) for name in report.learners}


def page_of(learner):
    """Return the file name of a learner's page: readable where the name is plain, and never shared by two names."""
    readable = re.sub(r"[^a-z0-9]+", "-", learner.lower()).strip("-")[:40]
    digest = hashlib.sha256(learner.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{FOLDER}/{readable + '-' if readable else ''}{digest}.html"


def _page(title, report, body):
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(line(title))}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<header><p class="header">{_text(report.header.line)}</p></header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(value):
    return html.escape(line(value))


def _name(learner):
    """A name written from right to left must not turn what stands beside it."""
    return f"<bdi>{_text(learner)}</bdi>"


def _word(outcome):
    return f'<span class="o {outcome.replace(" ", "-")}">{_text(outcome)}</span>'


def _counted(outcomes):
    return ", ".join(f"{count} {_word(outcome)}" for outcome, count in outcomes.items()) or "nothing"


# -- the overview --------------------------------------------------------------------------------------------------


def _index(report):
    learners = report.learners
    parts = [f"<h1>{len(learners)} {'learner' if len(learners) == 1 else 'learners'}</h1>"]
    parts += [f"<p>{_counted(report.outcomes())}</p>", _layers(report.header)]
    if report.notes:
        parts.append(
            f"<h2>About the files</h2>\n<ul>{''.join(f'<li>{marked_up(note)}</li>' for note in report.notes)}</ul>"
        )
    for lesson, exercises in report.exercises.items():
        parts += [
            f"<h2>{_text(lesson or 'lesson unknown')}</h2>",
            _table(report, lesson, exercises),
            _beliefs(report, exercises),
        ]
    return _page("Grades", report, "\n".join(parts))


def _layers(header):
    told = "".join(f"<dt>{_text(name)}</dt><dd>{_text(said)}</dd>" for name, said in header.layers.items())
    return f"<details><summary>what held the answers back</summary><dl>{told}</dl></details>" if told else ""


def _table(report, lesson, exercises):
    head = "".join(f'<th scope="col">{_text(e.split("/")[-1] or "file")}</th>' for e in exercises)
    rows = []
    for learner in report.learners:
        found = {row.exercise: row for row in report.of(learner) if row.lesson == lesson}
        if found:
            rows.append(_table_row(learner, found, exercises))
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="outcomes of {_text(lesson)}"><table>\n'
        f'<thead><tr><th scope="col">learner</th>{head}<th scope="col">points</th></tr></thead>\n'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def _table_row(learner, found, exercises):
    cells = "".join(f"<td>{_word(found[e].outcome) if e in found else ''}</td>" for e in exercises)
    points, possible = (sum(getattr(row, name) for row in found.values()) for name in ("points", "points_of"))
    link = f'<a href="{page_of(learner)}">{_name(learner)}</a>'
    return f'<tr><th scope="row">{link}</th>{cells}<td class="n">{points:g} of {possible:g}</td></tr>'


def _beliefs(report, exercises):
    """What the class believes: per exercise the outcomes, then each known mistake with how many made it."""
    parts = ["<h3>What the class believes</h3>"]
    for exercise in exercises:
        rows = [row for row in report.rows if row.exercise == exercise]
        parts.append(f"<h4>{_text(exercise or 'the file')}</h4>\n<p>{_counted(report.outcomes(rows))}</p>")
        known = report.misconceptions(exercise)
        if known:
            items = "".join(
                f'<li><b class="n">{count}</b> <code>{_text(name)}</code> {marked_up(says)}</li>'
                for name, count, says in known
            )
            parts.append(f'<ul class="beliefs">{items}</ul>')
    return "\n".join(parts)


# -- one learner ---------------------------------------------------------------------------------------------------


def _learner(report, learner):
    rows = report.of(learner)
    points, possible = (sum(getattr(row, name) for row in rows) for name in ("points", "points_of"))
    parts = ['<p><a href="../index.html">all learners</a></p>', f"<h1>{_name(learner)}</h1>"]
    parts.append(f"<p>{points:g} of {possible:g} points: {_counted(report.outcomes(rows))}</p>")
    notes = list(dict.fromkeys(note for row in rows for note in row.notes))
    if notes:
        parts.append(f"<h2>About the file</h2>\n<ul>{''.join(f'<li>{marked_up(note)}</li>' for note in notes)}</ul>")
    for lesson in dict.fromkeys(row.lesson for row in rows):
        parts.append(f"<h2>{_text(lesson or 'lesson unknown')}</h2>")
        parts += [_exercise(row) for row in rows if row.lesson == lesson]
    return _page(learner, report, "\n".join(parts))


def _exercise(row):
    """The message in the very words of the live check, then where the answer came from."""
    message = show_verdict(row.verdict())
    head = message.head.removeprefix(row.outcome)
    told = "".join(f"<dt>{_text(label)}</dt><dd>{marked_up(text)}</dd>" for label, text in message.lines)
    return (
        f'<section class="{row.outcome.replace(" ", "-")}">\n<h3>{_word(row.outcome)}{html.escape(plain(head))}</h3>\n'
        f"<dl>{told}</dl>\n{_origin(row)}\n</section>"
    )


def _origin(row):
    facts = {
        "answer found": row.taken,
        "clean run": row.clean_run,
        "points": f"{row.points:g} of {row.points_of:g}",
        "file (SHA-256)": row.submission,
        "answer (SHA-256)": row.answer,
        "tier": row.tier,
    }
    told = "".join(f"<dt>{name}</dt><dd>{marked_up(value)}</dd>" for name, value in facts.items() if value)
    return f"<details><summary>where this comes from</summary><dl>{told}</dl></details>"
