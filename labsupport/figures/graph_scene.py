"""The marks of a computation graph at one moment: boxes with a value and a gradient, lines, and what is added now."""

from dataclasses import dataclass, field

from labsupport.figures.film import named
from labsupport.figures.graph_layout import HEAD, NODE_H, NODE_W
from labsupport.figures.key import key
from labsupport.figures.picture import PAD, cell, path, text
from labsupport.figures.words import clip_label, short_bytes

__all__ = ["Moment", "draw_graph"]

TAG_H = 20
KEYS = (
    ("idle~", "not computed yet"), ("touched", "value"), ("computing!", "now"), ("waiting~", "gradient not complete"),
    ("wanted", "gradient complete"), ("communicating", "added now"),
)  # fmt: skip
_TROUBLE = ("trouble!", "where backward stopped")


@dataclass
class Moment:
    """What a frame shows: which nodes have values, gradients so far, and what happens now."""

    computed: set
    grads: dict = field(default_factory=dict)  # number -> text
    complete: frozenset = frozenset()
    now: frozenset = frozenset()  # the nodes that are computed, or the one that backward goes through
    lines: frozenset = frozenset()  # (child, place) of the lines in use
    tags: dict = field(default_factory=dict)  # number -> what is added to its gradient
    trouble: int | None = None
    saves: bool = False  # whether boxes say how much is saved for backward


def draw_graph(graph, layout, moment):
    """Return (marks, height) of one frame for a layout made with a margin of PAD."""
    width = layout.width + 2 * PAD
    marks = []
    for (child, place), d in layout.routes.items():
        role = "send" if (child, place) in moment.lines else "edge"
        marks.append(named(f"l{child}.{place}", path(role, d)))
    for (child, place), (x, y) in layout.ends.items():
        words = f"from {clip_label(graph.nodes[graph.nodes[child].parents[place]].ref, 6)}"
        marks.append(named(f"e{child}.{place}", text(x, y, "small", words)))
    heads = "".join(f"M{x} {y - HEAD}h{NODE_W}v{HEAD}h-{NODE_W}z" for x, y in layout.places.values())
    marks.append(named("heads", path("box", heads)))
    for number, node in enumerate(graph.nodes):
        x, y = layout.places[number]
        marks.append(named(f"n{number}", text(x + NODE_W // 2, y - 5, "small", _head(node))))
        role, lines = _role(node, number, moment), _lines(node, number, moment)
        marks.append(cell(f"c{number}", x, y, NODE_W, NODE_H, role, lines))
    for number, words in moment.tags.items():
        x, y = layout.places[number]
        marks.append(cell(f"t{number}", x, y + NODE_H, NODE_W, TAG_H, "communicating", [words]))
    bottom = _key(marks, graph, layout.height + PAD + 14, width)
    return marks, bottom + PAD


def _head(node):
    """Return the words above a box: "w", "#5 mul", "layers.0"."""
    if node.kind == "constant" and not node.name:
        return "constant"
    if node.kind == "fold":
        return clip_label(f"{node.ref}: {node.op}", NODE_W // 7)
    words = node.ref if node.kind in ("leaf", "constant") or node.name == node.op else f"{node.ref} {node.op}"
    return clip_label(words, NODE_W // 7)


def _role(node, number, moment):
    if moment.trouble == number:
        return "trouble!"
    if number in moment.now:
        return "computing!"
    if number not in moment.computed:
        return "idle~"
    if number in moment.grads:
        return "wanted" if number in moment.complete else "waiting~"
    return "touched" if node.kind != "constant" else "idle"


def _lines(node, number, moment):
    if number not in moment.computed:
        return ["", ""]
    value = node.value.text if node.value is not None else "·" if node.kind == "fold" else "not kept"
    if number in moment.grads:
        return [value, clip_label(f"grad {moment.grads[number]}", 14)]
    if node.kind == "constant":
        return [value, "no gradient"]
    size = sum(s.bytes for s in node.saved)
    if node.saved and moment.saves:
        return [value, f"saves {short_bytes(size)}"]
    return [value, ""]


def _key(marks, graph, y, width):
    keys = [*KEYS, _TROUBLE] if graph.stop is not None and graph.stop.node is not None else KEYS
    return key(marks, keys, y, width)
