"""The graph player: a computation goes forward, then backward node by node, and gradients add up where paths meet."""

import json
from typing import NamedTuple

from labsupport.errors import LabError
from labsupport.figures.figure import told
from labsupport.figures.film import MOST_BYTES, film
from labsupport.figures.graph_fold import MOST_NODES, folded
from labsupport.figures.graph_layout import laid_out
from labsupport.figures.graph_scene import draw_graph
from labsupport.figures.graph_torch import graph_of_tensor
from labsupport.figures.graph_values import graph_of_values
from labsupport.figures.graph_words import ask_of, frames_of, summary_of, table_of
from labsupport.figures.picture import PAD
from labsupport.figures.player import PlayerFigure
from labsupport.figures.tensors import is_tensor
from labsupport.figures.words import repr_label

__all__ = ["draw"]

MOST_LINES = 45  # beyond, the films of the finest details are too large anyway
MOST_FORWARD = 8  # steps forward of a graph too large for one for each node


class Detail(NamedTuple):
    """How much of a graph is drawn: `each` has one step and code for every node on the way forward."""

    nodes: int
    widths: tuple
    curved: bool = True
    each: bool = True


# tried in this order, until the film is no larger than films may be
DETAILS = (
    Detail(MOST_NODES, (270, 520, 760)), Detail(MOST_NODES, (520, 760)), Detail(MOST_NODES, (520, 760), curved=False),
    Detail(MOST_NODES, (760,), curved=False), Detail(MOST_NODES, (760,), curved=False, each=False),
    Detail(45, (760,), curved=False, each=False), Detail(30, (520, 760), each=False), Detail(20, (520, 760)),
)  # fmt: skip


@told('lab.show("graph", root), with a result of your own engine or a tensor; option: names={"w": w}')
def draw(root, *, names=None, **state):
    """Return the graph behind a result, to be stepped forward and then backward.

    Args:
        root: the result. Either a tensor of one element with a `grad_fn`, whose backward is run once on the side: no
            `.grad` changes, and the graph can still be used. Or a value of your own engine, an object with `data`,
            `grad`, `parents` (a tuple of such objects), `op` (a text) and a method `backward`: that is run and
            watched, and every `grad` is put back afterwards. Where there is only a `push` that hands one value's
            gradient on to its parents, the figure calls it in reverse order.
        names: {name: object} for what should be called by name: leaves, constants or values on the way; for a model
            `dict(model.named_parameters())`.
        state: step, code, table, predict: what is set at first.

    Graphs of more than 60 nodes are folded: chains first, then modules (from names with dots), then stretches of the
    order of computing; every fold says how many nodes it holds. An error of backward is shown at its node.

    Raises:
        LabError: root is in no graph, is not a single number, or lacks what is named above.
    """
    names = _names(names)
    graph = graph_of_tensor(root, names) if is_tensor(root) else graph_of_values(root, names)
    lines = sum(len(node.parents) for node in graph.nodes)
    for detail in DETAILS[0 if lines <= MOST_LINES else 2 if lines <= 2 * MOST_LINES else 3 :]:
        made = _film(graph, detail)
        if len(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()) <= MOST_BYTES:
            break
    return PlayerFigure(made, **state)


def _names(names):
    if names is None:
        return {}
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names):
        raise LabError(f"names cannot be {repr_label(names, 40)}", next_step='pass a dict such as names={"w": w}')
    return names


def _film(graph, detail):
    graph = folded(graph, detail.nodes)
    layouts = {}
    for width in detail.widths:
        made = laid_out(graph.nodes, width - 2 * PAD, detail.curved, PAD)
        layouts.setdefault(made.width + 2 * PAD, made)
    ops = sum(bool(node.parents) for node in graph.nodes)
    frames, moments = frames_of(graph, 1 if detail.each else max(2, -(-ops // MOST_FORWARD)))
    return film(
        kind="graph", title="A computation, forward and backward", note=f"recorded from {graph.maker}",
        summary=summary_of(graph), frames=frames, widths=sorted(layouts), ask=ask_of(graph),
        draw=lambda k, width: draw_graph(graph, layouts[width], moments[k]), table=table_of(graph, frames),
    )  # fmt: skip
