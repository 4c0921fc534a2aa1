"""Small reports that are shown under a job: who waits for whom, and how ranks ended where nobody knows why."""

import re

from labsupport.showing import Message, Table
from labsupport.torchrun import hints

__all__ = ["Told", "stall_report"]


class Told(Message):
    """A `Message` with the interface of a `diagnosis.Report`.

    Args:
        headline: one sentence.
        lines: (label, text) pairs.
        tone: as of `Message`.
    """

    def __init__(self, headline, lines=(), tone="bad"):
        super().__init__(headline, lines, tone)
        self.headline = headline

    def text(self):
        return str(self)

    def html(self):
        return self._repr_html_()


_KINDS = {"missing call": "missing", "ended early": "missing"}  # of a stall, as the hints call them


def stall_report(stall, running=True):
    """Return what `waiting.explain` found as a `Told`; `running`: the job still runs and can be interrupted."""
    lines = [("calls", Table([stall.columns, *(tuple(map(str, row)) for row in stall.rows)]))] if stall.rows else []
    if hint := hints.for_kind(_KINDS.get(stall.kind, stall.kind)):
        lines += [("try", hint.advice), ("read", hints.lesson_in_words(hint.slug))]
    if running:
        sure = "none of the ranks can go on" if stall.certain else "the job may still go on"
        lines.append(("next", f"{sure}; interrupting the cell ends it"))
    return Told(stall.sentence if running else _past(stall.sentence), lines, "wait" if running else "bad")


_PAST = (
    (r"\b(has|have) (not called|not started|ended|failed|gone)\b", r"had \2"),
    (r"\bwaits? in\b", "waited in"),
    (r"\bis at line\b", "was at line"),
    (r"\bare at line\b", "were at line"),
    (r"\ball send and none receives\b", "all sent and none received"),
    (r"\ball wait to receive and none has sent\b", "all waited to receive and none had sent"),
)


def _past(sentence):
    """Return a sentence on what ranks do as one on what they did: they are gone."""
    for now, then in _PAST:
        sentence = re.sub(now, then, sentence)
    return sentence
