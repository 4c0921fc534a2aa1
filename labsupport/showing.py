"""Verdicts and other messages as text, and as HTML that says the same words."""

import html

__all__ = ["Message", "show_verdict"]

# Border, background and text per tone; the first word says the same, so colour is never alone.
_TONES = {
    "good": ("#1a7f37", "#e9f7ee", "#0f3d1e"),
    "bad": ("#b3261e", "#fdeceb", "#4a0f0b"),
    "wait": ("#8a6100", "#fdf5e2", "#402d00"),
    "plain": ("#3b5b92", "#eef3fb", "#172a4a"),
}
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
        border, back, ink = _TONES[self.tone]
        rows = "".join(
            '<div><span style="display:inline-block;min-width:4.5em;padding-right:.6em;font-weight:600">'
            f"{html.escape(label)}</span>"
            f'<span style="white-space:pre-wrap">{_code(text)}</span></div>'
            for label, text in self.lines
        )
        box = (
            f"border-left:4px solid {border};background:{back};color:{ink};"
            "padding:.5em .8em;margin:.2em 0;line-height:1.5"
        )
        head = f'<div style="font-weight:600;white-space:pre-wrap">{_code(self.head)}</div>'
        return f'<div role="status" style="{box}">{head}{rows}</div>'


def _code(text):
    """Return escaped text in which `backticked` words are set as code."""
    parts = html.escape(text).split("`")
    if len(parts) % 2 == 0:  # an odd backtick belongs to the text
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def show_verdict(verdict, *, notes=()):
    """Return a verdict as a `Message`.

    Args:
        verdict: a `Verdict`.
        notes: further (label, text) lines, for example where a hint can be had.
    """
    head = f"{verdict.outcome.value}   {verdict.exercise}"
    if verdict.case:
        head += f"   case: {verdict.case}"
    lines = [("why", verdict.why), ("seen", verdict.seen), ("count", verdict.measured), ("next", verdict.next), *notes]
    return Message(head, lines, _TONE_OF.get(verdict.outcome.value, "plain"))
