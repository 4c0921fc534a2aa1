"""The chart of `--trace`: two lanes for each rank, what it computed above what it sent, as a picture and in words."""

import base64
from html import escape

from labsupport.figures.palette import PALETTE
from labsupport.figures.picture import PAD, cell, paragraph, path, svg, text
from labsupport.figures.words import count, join_words

__all__ = ["TracePicture", "duration"]

_WIDTH = 760  # of the picture, in CSS pixels, as every figure's
_NAME_W = 62  # room for "rank 12"
_LANE_H, _GAP, _RANK_GAP = 15, 2, 12
_MOST_RANKS = 16  # drawn; the sentences name all
_HALF = 5  # height of a transfer that computing overlaps: a shape tells it apart, not only a colour
_LEGEND = (
    ("computing", 11, "computing"),
    ("communicating", _HALF, "communicating while computing"),
    ("communicating", 11, "communicating, nothing computed"),
    ("waiting", 11, "waiting for other ranks"),
)


def duration(microseconds):
    """Return a time in words: "0.4 ms", "84 ms", "2.31 s"."""
    ms = microseconds / 1000
    if ms < 9.95:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 9_999.5 else f"{ms / 1000:.2f} s"


class TracePicture:
    """What the ranks of a job did, and when. Shows itself as the last value of a cell; `text()` is the same in words.

    Args:
        timeline: a `Timeline`.
    """

    def __init__(self, timeline):
        self.timeline = timeline
        self.sums = {rank: timeline.sums(rank) for rank in timeline.ranks}

    def sentences(self):
        """Return a sentence for each rank, with its sums."""
        return [f"Rank {rank} {_did(sums)}." for rank, sums in self.sums.items()]

    def summary(self):
        """Return one sentence on what communication cost."""
        total = self.timeline.end - self.timeline.begin
        if not any(sums.communicating or sums.waiting for sums in self.sums.values()):
            return f"In {duration(total)} no rank communicated."
        worst = max(self.sums, key=lambda rank: self.sums[rank].exposed)
        share = 100 * self.sums[worst].exposed / total if total else 0
        return (
            f"Of {duration(total)}, communication that no computing overlapped took at most {share:.0f} % "
            f"(rank {worst}: {duration(self.sums[worst].exposed)})."
        )

    def text(self):
        """Return the summary and every rank's sentence as lines."""
        return "\n".join([self.summary(), *self.sentences()])

    @property
    def alt(self):
        """The chart as text, with its numbers."""
        return f"Time chart of {count(len(self.sums), 'rank')}. {self.summary()} {' '.join(self.sentences())}"

    def scene(self, width=_WIDTH):
        """Return the marks of the drawing."""
        marks = [text(PAD, PAD + 11, "title", "What each rank did, and when")]
        y = _legend(marks, PAD, PAD + 32, width - 2 * PAD) + 18
        shown = list(self.sums)[:_MOST_RANKS]
        for rank in shown:
            self._draw_rank(marks, rank, y, width)
            y += 2 * _LANE_H + _GAP + _RANK_GAP
        y = self._axis(marks, y - _RANK_GAP + 6, width)
        if len(shown) < len(self.sums):
            more = count(len(self.sums) - len(shown), "more rank is", "more ranks are")
            y = paragraph(marks, PAD, y + 22, "note", f"{more} not drawn.", width)
        for sentence in (self.summary(), *self.sentences()[:_MOST_RANKS]):
            y = paragraph(marks, PAD, y + 22, "words", sentence, width - 2 * PAD)
        return {"width": width, "height": y + PAD, "marks": marks}

    def _draw_rank(self, marks, rank, y, width):
        lanes, left = self.timeline.lanes(rank), PAD + _NAME_W
        marks.append(text(PAD, y + _LANE_H + 4, "words", f"rank {rank}"))
        marks.append(path("line", f"M{left} {y + _LANE_H + 1}H{width - PAD}"))
        below = y + _LANE_H + _GAP
        # Waiting first and what costs most last: where two fall on one pixel, the later one is seen.
        for name, spans, role, top, height in (
            ("w", lanes.waiting, "waiting", below, _LANE_H - 2),
            ("h", lanes.hidden, "communicating", below, _HALF),
            ("e", lanes.exposed, "communicating", below, _LANE_H - 2),
            ("c", lanes.computing, "computing", y, _LANE_H - 2),
        ):
            for k, (x, w) in enumerate(self._pixels(spans, left, width - PAD)):
                marks.append(cell(f"{name}{rank}.{k}", x, top, w, height, role, [""]))

    def _pixels(self, spans, left, right):
        """Return (x, width) of boxes in whole pixels, each at least one wide; what touches becomes one box."""
        scale = (right - left) / ((self.timeline.end - self.timeline.begin) or 1)
        boxes = []
        for begin, end in spans:
            x = left + int((begin - self.timeline.begin) * scale)
            x = min(x, right - 1)
            after = min(max(x + 1, left + round((end - self.timeline.begin) * scale)), right)
            if boxes and x <= boxes[-1][1]:
                boxes[-1][1] = max(boxes[-1][1], after)
            else:
                boxes.append([x, after])
        return [(x, after - x) for x, after in boxes]

    def _axis(self, marks, y, width):
        left, right, total = PAD + _NAME_W, width - PAD, self.timeline.end - self.timeline.begin
        step = _round_step(total / 5 or 1)
        marks.append(path("line", f"M{left} {y}H{right}"))
        k = 0
        while k * step <= total:
            x = left + round(k * step / (total or 1) * (right - left))
            marks.append(path("tick", f"M{x} {y}v4"))
            marks.append(text(x, y + 17, "small", duration(k * step) if k else "0"))
            k += 1
        return y + 17

    def svg(self, theme="light"):
        """Return the chart as SVG text on an opaque ground; `theme` is "light" or "dark"."""
        return svg(self.scene(), theme)

    def html(self):
        """Return the chart as an HTML image element with alt text; its dark form shows where dark is preferred."""
        light, dark = (_address(self.svg(theme)) for theme in PALETTE)
        return (
            f'<picture class="lab-figure-still"><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
            f'<img alt="{escape(self.alt)}" width="{_WIDTH}" style="max-width:100%;height:auto" src="{light}">'
            "</picture>"
        )

    def _repr_html_(self):
        return self.html()

    def __repr__(self):
        return self.text()


def _address(drawn):
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"


def _did(sums):
    parts = [f"computed for {duration(sums.computing)}"]
    if sums.communicating:
        covered = (
            "all of it while computing" if sums.exposed < 50 else f"{duration(sums.exposed)} of it computing nothing"
        )
        parts.append(f"communicated for {duration(sums.communicating)} ({covered})")
    if sums.waiting >= 50:
        parts.append(f"waited {duration(sums.waiting)} for other ranks")
    return join_words(parts)


def _legend(marks, x, y, room):
    left = x
    for k, (role, height, words) in enumerate(_LEGEND):
        w = 30 + len(words) * 7
        if left + w > x + room:
            left, y = x, y + 20
        marks.append(cell(f"legend{k}", left, y - 10, 16, height, role, [""]))
        marks.append(text(left + 24, y, "note", words))
        left += w + 16
    return y


def _round_step(least):
    """Return the smallest of 1, 2, 5, 10, 20, 50... times a power of ten that is at least `least` microseconds."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if factor * step >= least:
                return factor * step
        step *= 10
