"""Verdicts and other messages as text, and as HTML that says the same words."""

import html
import re

__all__ = ["Code", "Message", "Table", "plain", "show_verdict"]

# One colour per tone, for the bar at the side: it has to stand out on Lab's light and dark background alike. The first
# word says the same, so colour is never alone.
_TONES = {"good": "#2a8f47", "bad": "#d1453b", "wait": "#a87400", "plain": "#4a7bd0"}
# Lab's own variables follow its theme; outside Lab the light values hold.
_BOX = (
    "background:var(--jp-layout-color2,#f3f4f6);color:var(--jp-content-font-color1,#1f2328);"
    "padding:.5em .8em;margin:.2em 0;line-height:1.5"
)
_GRID = "display:grid;grid-template-columns:max-content minmax(0,1fr);column-gap:.8em"
_INHERIT = "background:transparent;color:inherit;padding:0"
_TONE_OF = {"passed": "good", "wrong": "bad", "crashed": "bad", "over limit": "bad", "not yet": "wait"}


class Message:
    """A few labelled lines that a notebook shows as a box and everything else as text.

    Args:
        head: the first line.
        lines: (label, text) pairs; an empty label continues the line above.
        tone: good, bad, wait or plain.
    """

    def __init__(self, head, lines=(), tone="plain"):
        self.head = head
        self.lines = [(label, text) for label, text in lines if text]
        self.tone = tone

    def __str__(self):
        width = max((len(label) for label, _ in self.lines), default=0) + 1
        return "\n".join([self.head, *(self._line(label, text, width) for label, text in self.lines)])

    @staticmethod
    def _line(label, text, width):
        start = f"  {label + ':' if label else '':<{width}} "
        return start + ("\n" + " " * len(start)).join(plain(text).splitlines())

    __repr__ = __str__

    def _repr_html_(self):
        rows = "".join(
            f'<div style="font-weight:600">{html.escape(label)}</div><div>{_as_html(text)}</div>'
            for label, text in self.lines
        )
        head = f'<div style="font-weight:600;white-space:pre-wrap">{_with_code(self.head)}</div>'
        box = f"border-left:4px solid {_TONES[self.tone]};{_BOX}"
        return f'<div role="status" style="{box}">{head}<div style="{_GRID}">{rows}</div></div>'


class Code(str):
    """Text of a `Message` that is a program: shown with its own line breaks, in a fixed width."""


class Table(Code):
    """Text of a `Message` in columns: aligned as text, a table as HTML.

    Args:
        rows: tuples of texts, the first those that stand above the columns; empty columns are left out.
    """

    def __new__(cls, rows):
        kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
        rows = [tuple(row[i] for i in kept) for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths)).rstrip() for row in rows]
        table = super().__new__(cls, "\n".join(lines))
        table.rows = tuple(rows)
        return table


_FENCED = re.compile(r"\s*^```\w*\n(.*?)\n```$\s*", re.DOTALL | re.MULTILINE)


def plain(text):
    """Return text for a terminal: lines between ``` fences are set in by four spaces, and the fences are gone."""
    parts = _FENCED.split(text)
    parts[1::2] = ["\n" + "\n".join("    " + line for line in part.splitlines()) + "\n" for part in parts[1::2]]
    return "".join(parts).strip("\n") if len(parts) > 1 else text


_CELL = "padding:0 1em .1em 0;text-align:left;vertical-align:top;border:0"


def _as_table(rows):
    head = "".join(f'<th scope="col" style="{_CELL}">{_with_code(text)}</th>' for text in rows[0])
    body = "".join(
        f'<tr style="{_INHERIT}">' + "".join(f'<td style="{_CELL}">{_with_code(text)}</td>' for text in row) + "</tr>"
        for row in rows[1:]
    )
    look = "border:0;border-collapse:collapse;margin:0;font-size:inherit;color:inherit"
    table = f'<table style="{look}"><thead><tr style="{_INHERIT}">{head}</tr></thead><tbody>{body}</tbody></table>'
    # On a narrow page it is the table that scrolls, also by the keyboard: letters in a column could not be read.
    return f'<div role="region" aria-label="table" tabindex="0" style="overflow-x:auto">{table}</div>'


def _as_html(text):
    if isinstance(text, Table):
        return _as_table(text.rows)
    if isinstance(text, Code):
        return f'<pre style="{_INHERIT};margin:0;overflow-x:auto">{html.escape(text)}</pre>'
    return "".join(
        _as_html(Code(part))
        if i % 2
        else f'<span style="white-space:pre-wrap;overflow-wrap:anywhere">{_with_code(part)}</span>'
        for i, part in enumerate(_FENCED.split(text))
        if part
    )


_LINK = re.compile(r"https://[^\s<>\"'`]+[^\s<>\"'`.,;)]")


def _with_code(text):
    """Return escaped text in which `backticked` words are set as code and addresses can be followed."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick belongs to the text
        return _with_links(text)
    return "".join(
        f'<code style="{_INHERIT};white-space:pre-wrap">{html.escape(part)}</code>' if i % 2 else _with_links(part)
        for i, part in enumerate(parts)
    )


def _with_links(text):
    pieces, end = [], 0
    for found in _LINK.finditer(text):
        address = html.escape(found[0], quote=True)
        pieces += [html.escape(text[end : found.start()]), f'<a href="{address}" rel="noreferrer">{address}</a>']
        end = found.end()
    return "".join([*pieces, html.escape(text[end:])])


def show_verdict(verdict, *, notes=()):
    """Return a verdict as a `Message`.

    Args:
        verdict: a `Verdict`.
        notes: further (label, text) lines, for example where a hint can be had.
    """
    head = f"{verdict.outcome.value}   {verdict.exercise}"
    if verdict.case:
        head += f"   case: {verdict.case}"
    lines = [
        ("call", verdict.call and f"`{verdict.call}`"),
        ("why", verdict.why),
        ("seen", verdict.seen),
        ("count", verdict.measured),
        ("next", verdict.next),
        *notes,
    ]
    return Message(head, lines, _TONE_OF.get(verdict.outcome.value, "plain"))
