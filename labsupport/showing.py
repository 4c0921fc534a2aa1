"""Verdicts and other messages as text, and as HTML that says the same words."""

import html
import re

__all__ = ["Code", "Message", "show_verdict"]

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
        return start + ("\n" + " " * len(start)).join(text.splitlines())

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


def _as_html(text):
    if isinstance(text, Code):
        return f'<pre style="{_INHERIT};margin:0;overflow-x:auto">{html.escape(text)}</pre>'
    return f'<span style="white-space:pre-wrap;overflow-wrap:anywhere">{_with_code(text)}</span>'


_LINK = re.compile(r"https://[^\s<>\"'`]+[^\s<>\"'`.,;)]")


def _with_code(text):
    """Return escaped text in which `backticked` words are set as code and addresses can be followed."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick belongs to the text
        return _with_links(text)
    return "".join(
        f'<code style="{_INHERIT}">{html.escape(part)}</code>' if i % 2 else _with_links(part)
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
