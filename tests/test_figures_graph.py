"""The graph player: what it shows is what torch and one's own engine did, accumulation and mistakes included."""

import dataclasses
import json
import math
import random
import sys
from xml.etree import ElementTree

import pytest

from labsupport.errors import LabError
from labsupport.figures import graph
from labsupport.figures.graph_fold import folded
from labsupport.figures.graph_layout import NODE_H, NODE_W, laid_out
from labsupport.figures.graph_model import amount_of
from labsupport.figures.graph_torch import graph_of_tensor
from labsupport.figures.graph_values import graph_of_values

torch = pytest.importorskip("torch")


class Value:
    """An engine as a learner may write it; one that accumulates."""

    def __init__(self, data, parents=(), slopes=(), op=""):
        self.data, self.grad = data, 0.0
        self.parents, self.slopes, self.op = parents, slopes, op

    def __add__(self, other):
        return type(self)(self.data + other.data, (self, other), (1.0, 1.0), "+")

    def __mul__(self, other):
        return type(self)(self.data * other.data, (self, other), (other.data, self.data), "*")

    def tanh(self):
        t = math.tanh(self.data)
        return type(self)(t, (self,), (1 - t * t,), "tanh")

    def push(self):
        for parent, slope in zip(self.parents, self.slopes):
            parent.grad += slope * self.grad

    def backward(self):
        order, seen, stack = [], set(), [(self, False)]
        while stack:
            node, finished = stack.pop()
            if finished:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack += [(node, True), *((parent, False) for parent in node.parents)]
        self.grad = 1.0
        for node in reversed(order):
            node.push()


class Assigns(Value):
    def push(self):
        for parent, slope in zip(self.parents, self.slopes):
            parent.grad = slope * self.grad


class OnlyPush:
    """The course's engine before `backward` is written: `push` alone."""

    def __init__(self, data, parents=(), slopes=(), op=""):
        self.data, self.grad, self.parents, self.slopes, self.op = data, 0.0, parents, slopes, op

    __add__, __mul__, tanh, push = Value.__add__, Value.__mul__, Value.tanh, Value.push


class Slotted:
    """Another way to write it: slots, a closure for each result, other names."""

    __slots__ = ("_backward", "_op", "_prev", "data", "grad")

    def __init__(self, data, prev=(), op=""):
        self.data, self._prev, self._op, self.grad = data, prev, op, 0.0
        self._backward = lambda: None

    def _made(self, data, prev, op, slopes):
        out = Slotted(data, prev, op)

        def backward():
            for parent, slope in zip(prev, slopes):
                parent.grad = parent.grad + out.grad * slope

        out._backward = backward
        return out

    def __add__(self, other):
        return self._made(self.data + other.data, (self, other), "+", (1.0, 1.0))

    def __mul__(self, other):
        return self._made(self.data * other.data, (self, other), "*", (other.data, self.data))

    def tanh(self):
        t = math.tanh(self.data)
        return self._made(t, (self,), "tanh", (1 - t * t,))

    def backward(self):
        order, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for parent in node._prev:
                    visit(parent)
                order.append(node)

        visit(self)
        self.grad = 1.0
        for node in reversed(order):
            node._backward()


def expression(make, seed, steps=12):
    """Return (leaves, root) of a random expression, the same for every engine."""
    rng = random.Random(seed)
    leaves = [make(rng.uniform(-1.5, 1.5)) for _ in range(3)]
    values = list(leaves)
    for _ in range(steps):
        kind, one, two = rng.randrange(5), rng.choice(values), rng.choice(values)
        values.append(one.tanh() if kind == 0 else one * two if kind < 3 else one + two)
    root = values[-1]
    for leaf in leaves:  # every leaf is used
        root = root + leaf * leaf
    return leaves, root


def leaf64(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


NAMES = ("a", "b", "c")


@pytest.mark.parametrize("make", [Value, OnlyPush, Slotted], ids=["value", "push", "slots"])
@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_ones_own_engine_are_torchs(make, seed):
    leaves, root = expression(make, seed)
    tensors, result = expression(leaf64, seed)
    expected = torch.autograd.grad(result, tensors)
    made = graph_of_values(root, dict(zip(NAMES, leaves)))
    by_name = {node.name: n for n, node in enumerate(made.nodes) if node.name}
    for name, grad in zip(NAMES, expected):
        assert made.grads[by_name[name]].number == pytest.approx(grad.item(), abs=1e-9)
        adds = [add for step in made.steps for add in step.adds if add.target == by_name[name]]
        uses = sum(node.parents.count(by_name[name]) for node in made.nodes)
        assert len(adds) == uses and not any(add.assigned for add in adds)
        assert sum(add.amount.number for add in adds) == pytest.approx(grad.item(), abs=1e-9)
    assert made.nodes[-1].value.number == pytest.approx(result.item(), abs=1e-12)
    assert made.stop is None and all(v.grad == 0.0 for v in leaves)


@pytest.mark.parametrize("seed", range(12))
def test_every_gradient_of_a_torch_graph_is_torchs(seed):
    tensors, result = expression(leaf64, seed)
    made = graph_of_tensor(result, dict(zip(NAMES, tensors)))
    order = sorted({s.source for s in made.steps}, reverse=True)
    assert [s.source for s in made.steps] == order  # backward goes the way forward came
    expected = torch.autograd.grad(result, tensors, retain_graph=True)
    for name, grad in zip(NAMES, expected):
        number = next(n for n, node in enumerate(made.nodes) if node.name == name)
        assert made.grads[number].number == grad.item()
        last = [add.becomes for s in made.steps for add in s.adds if add.target == number][-1]
        assert last.number == grad.item()
    assert all(t.grad is None for t in tensors)
    result.backward()  # the graph is still there


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_in_the_figure_is_the_gradient(seed):
    tensors, result = expression(leaf64, seed)
    figure = graph.draw(result, names=dict(zip(NAMES, tensors)))
    expected = {name: amount_of(g).text for name, g in zip(NAMES, torch.autograd.grad(result, tensors))}
    rows = {row[0]: row for row in figure.film["table"]["rows"]}
    assert {name: rows[name][4] for name in NAMES} == expected
    scene = figure.set(step=figure.steps).scene(760)
    heads = {m["text"]: m["name"][1:] for m in scene["marks"] if m["kind"] == "text"}
    cells = {m["name"]: m for m in scene["marks"] if m["kind"] == "cell"}
    for name, text in expected.items():
        assert cells[f"c{heads[name]}"]["lines"][1] == f"grad {text}"[:14]
        assert f"{name} {text}" in figure.words()["walk"]


def small(make=Value):
    a, b = make(2.0), make(3.0)
    c = a * b
    d = c + a
    return a, b, d * d


def test_a_node_used_twice_gets_two_contributions_one_after_the_other():
    a, b, root = small()
    figure = graph.draw(root, names={"a": a, "b": b})
    titles = [f["title"] for f in figure.film["frames"]]
    assert titles == [
        "start: what is given", "step 1: forward #3 *", "step 2: forward #4 +", "step 3: forward #5 *",
        "step 4: backward begins", "step 5: backward #5 *", "step 6: backward #4 +", "step 7: backward #3 *",
        "result: all gradients",
    ]  # fmt: skip
    walk = figure.set(step=5).words()["walk"]
    assert "#4.grad += 8 (1 × local derivative 8), not complete yet." in walk and "8 becomes 16. Next is #4 +." in walk
    cells = {m["name"]: m for m in figure.scene(760)["marks"] if m["kind"] == "cell"}
    assert cells["t3"]["lines"] == ["+= 8 += 8"] and cells["c3"]["lines"] == ["8", "grad 16"]
    figure.set(step=6)
    cells = {m["name"]: m for m in figure.scene(760)["marks"] if m["kind"] == "cell"}
    assert cells["c0"]["role"] == "waiting~" and cells["c0"]["lines"] == ["2", "grad 16"]  # a is not complete
    walk = figure.set(step=7).words()["walk"]
    assert "a.grad += 48 (16 × local derivative 3): 16 becomes 64." in walk
    assert "Used more than once: a (2 times) and #4 (2 times)" in figure.words()["summary"]
    assert figure.code() == "a.grad += 48  # from n3\nb.grad += 32  # from n3"


def test_an_engine_that_assigns_is_shown_to_lose_what_was_there():
    a, b, root = small(Assigns)
    figure = graph.draw(root, names={"a": a, "b": b})
    assert "a.grad was 8 and is replaced by 24: the old is lost." in figure.set(step=7).words()["walk"]
    cells = {m["name"]: m for m in figure.scene(760)["marks"] if m["kind"] == "cell"}
    assert cells["t0"]["lines"] == ["= 24"]


def test_ones_own_objects_are_left_as_they_were():
    a, b, root = small()
    a.grad, root.grad = 5.0, None
    graph.draw(root)
    assert (a.grad, b.grad, root.grad) == (5.0, 0.0, None)
    assert type(a) is Value and "grad" in vars(a)


def test_the_next_gradient_can_be_predicted():
    a, b, root = small()
    figure = graph.draw(root, names={"a": a, "b": b}).set(step=5)
    assert figure.reason("#3", "16") == "" == figure.reason("a", "16")
    assert "no input of the node that is next" in figure.reason("b", "16")
    assert "is still to be multiplied" in graph.draw(root, names={"a": a, "b": b}).set(step=4).reason("#4", "1")
    figure.set(step=6)
    assert figure.reason("a", "64") == ""
    assert "contributions add up" in figure.reason("a", "48")
    assert "is what a has before the step" in figure.reason("a", "16")
    with pytest.raises(LabError):
        figure.set(step=2).reason("a", "16")  # forward is not asked


@pytest.mark.parametrize("value, text", [
    (1 / 3, "0.3333"), (-1.23456e-5, "−1.23e−05"), (-6.368e-109, "−6.4e−109"), (1e300, "1e+300"), (7, "7"),
    (float("nan"), "nan"), (float("-inf"), "−inf"), (123456.0, "1.235e+05"), (-0.0, "−0"), (True, "True"),
])  # fmt: skip
def test_numbers_keep_their_exponents(value, text):
    assert amount_of(value).text == text and len(text) <= 9


# ---- torch


def test_saved_tensors_are_told_with_bytes_and_versions():
    w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    x = torch.tensor([0.3, 0.2, 0.9])
    figure = graph.draw((w * x).exp().sum(), names={"w": w, "x": x})
    rows = {row[1]: row for row in figure.film["table"]["rows"]}
    assert rows["MulBackward0"][5] == "other: 12 bytes, v0"  # x is needed for w's gradient, w for nobody's
    assert rows["ExpBackward0"][5] == "result: 12 bytes, v0"
    assert rows["constant"][0] == "x" and rows["constant"][3] == "[0.3, 0.2, 0.9]" and rows["constant"][4] == "–"
    assert "Saved for backward: 2 tensors, 24 bytes. Values" in figure.alt


@pytest.mark.parametrize("seed", range(6))
def test_saved_bytes_are_those_that_hooks_count(seed):
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.nbytes) or t, lambda t: t):
        _, result = expression(leaf64, seed)
    plain = expression(leaf64, seed)[1]
    made = graph_of_tensor(plain, {})
    assert graph_of_tensor(result, {}).grads[len(made.nodes) - 1].number == 1
    in_graph = sum(s.bytes for node in made.nodes for s in node.saved)
    assert in_graph <= sum(seen)  # hooks also see what no path to the result needs
    alone = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    seen.clear()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.nbytes) or t, lambda t: t):
        ((alone * alone).tanh().exp() * alone).sigmoid()
    made = graph_of_tensor(((alone * alone).tanh().exp() * alone).sigmoid(), {})
    assert sum(s.bytes for node in made.nodes for s in node.saved) == sum(seen)


def changed_in_place():
    x = torch.tensor(2.0, requires_grad=True)
    y = x.exp()
    z = y * 3
    y.add_(1)
    return x, z + y


def test_an_in_place_change_is_shown_at_its_node_and_not_raised():
    x, root = changed_in_place()
    figure = graph.draw(root, names={"x": x}).set(step=0)
    figure.set(step=figure.steps)
    assert "step 9: backward stops at #2 exp" in figure.film["frames"][-1]["title"]
    walk = figure.words()["walk"]
    assert "it kept a tensor at version 0 for backward, and an in-place change has made that version 1" in walk
    assert "RuntimeError: one of the variables needed" in walk
    cells = {m["name"]: m for m in figure.scene(760)["marks"] if m["kind"] == "cell"}
    assert [name for name, m in cells.items() if m["role"] == "trouble!" and name[0] == "c"] == ["c1"]
    assert "result: kept at v0, now v1" in str(figure.film["table"]["rows"])
    with pytest.raises(RuntimeError):
        root.backward()


def test_a_freed_graph_is_shown_where_it_was_freed():
    x = torch.tensor(2.0, requires_grad=True)
    root = x.exp() * x
    root.backward()
    figure = graph.draw(root, names={"x": x})
    assert "what it kept was freed by an earlier backward" in figure.alt
    assert "Not drawn: x.grad holds an earlier gradient" in figure.alt


def test_a_change_through_data_is_shown_to_go_unnoticed():
    a = torch.tensor(2.0, requires_grad=True)
    b = a.exp()
    b.data.zero_()
    made = graph_of_tensor(b * 1, {"a": a})
    assert made.stop is None and made.grads[0].number == 0.0


def test_a_function_of_ones_own_and_several_outputs():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 3 * grad  # not what forward did: the figure shows what is run

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    first, second = Twice.apply(x).unbind()
    figure = graph.draw(first * second, names={"x": x})
    rows = {row[1]: row for row in figure.film["table"]["rows"]}
    assert rows["leaf"][4] == "[12, 6]" and "Twice" in str(rows) and "saved_tensors[0]: 8 bytes, v0" in str(rows)


def test_a_model_with_named_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    loss = model(torch.ones(5, 3)).pow(2).mean()
    figure = graph.draw(loss, names=dict(model.named_parameters()))
    refs = [row[0] for row in figure.film["table"]["rows"]]
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= set(refs)
    assert next(row for row in figure.film["table"]["rows"] if row[0] == "0.weight")[4] == "(4, 3)"


# ---- large graphs


def layers(n):
    model = torch.nn.Sequential(*[m for _ in range(n) for m in (torch.nn.Linear(4, 4), torch.nn.Tanh())])
    return model, model(torch.ones(2, 4)).sum()


def tangle(n, seed, make=lambda x: Value(x)):
    rng = random.Random(seed)
    values = [make(rng.uniform(0.5, 1.0)) for _ in range(6)]
    for _ in range(n - 6):
        one, two = values[-1], rng.choice(values[-8:])
        values.append(one * two if rng.random() < 0.5 else (one + two).tanh())
    return values[-1]


LARGE = {
    "chain": lambda: graph_of_values(chain(300), {}),
    "tangle": lambda: graph_of_values(tangle(200, 1), {}),
    "model": lambda: graph_of_tensor(layers(20)[1], dict(layers(20)[0].named_parameters())),
    "unnamed": lambda: graph_of_tensor(layers(40)[1], {}),
}


def chain(n):
    value = Value(1.5)
    for _ in range(n):
        value = value * Value(1.001)
    return value


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("most", [60, 20])
def test_a_folded_graph_is_small_counts_everything_and_stays_a_graph(name, most):
    whole = LARGE[name]()
    made = folded(whole, most)
    assert len(made.nodes) <= most < len(whole.nodes)
    assert sum(node.members for node in made.nodes) == len(whole.nodes)
    assert all(parent < number for number, node in enumerate(made.nodes) for parent in node.parents)
    assert all(step.source > add.target for step in made.steps for add in step.adds)
    assert f" of {len(whole.nodes)} are drawn as " in made.folded
    assert made.nodes[-1].value == whole.nodes[-1].value


def test_the_many_inputs_of_one_value_are_gone_through_a_few_times_and_not_once_for_each():
    class Counted(tuple):
        passes = 0

        def __iter__(self):
            Counted.passes += 1
            return super().__iter__()

    total = Value(0.0, tuple(Value(1.0) for _ in range(500)), op="sum")
    whole = graph_of_values(total, {})
    whole.nodes[-1] = dataclasses.replace(whole.nodes[-1], parents=Counted(whole.nodes[-1].parents))
    folded(whole, 60)
    assert 0 < Counted.passes < 50


def test_modules_fold_by_their_names():
    model, loss = layers(20)
    made = folded(graph_of_tensor(loss, dict(model.named_parameters())))
    assert [node.ref for node in made.nodes if node.kind == "fold"] == [str(2 * k) for k in range(20)]


def test_a_chain_of_five_thousand_nodes_is_walked_without_recursion():
    limit = sys.getrecursionlimit()
    figure = graph.draw(chain(5000))
    assert sys.getrecursionlimit() == limit
    assert "10,001 nodes" in figure.alt and "chains, folded" in figure.alt
    x = torch.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(5000):
        y = y * 1.0001
    figure = graph.draw(y, names={"x": x})
    assert {row[0]: row[4] for row in figure.film["table"]["rows"]}["x"] == amount_of(y.detach() / 1).text


def test_recursion_that_goes_too_deep_is_told():
    value = Slotted(1.0)
    for _ in range(3000):
        value = value.tanh()
    assert "calls itself for every node" in graph.draw(value).alt


@pytest.mark.parametrize("n", [2, 10, 30, 58, 200])
@pytest.mark.parametrize("seed", [0, 1])
def test_films_and_pictures_keep_their_size(n, seed):
    root = tangle(n, seed) if n > 6 else Value(1.0) * Value(2.0)
    figure = graph.draw(root)
    assert len(json.dumps(figure.film, ensure_ascii=False, separators=(",", ":")).encode()) <= 40_000
    for step in (0, figure.steps // 2, figure.steps):
        assert len(figure.set(step=step).html()) <= 60_000
        ElementTree.fromstring(figure.svg())


@pytest.mark.parametrize("room", [240, 492, 732])
@pytest.mark.parametrize("seed", range(4))
def test_boxes_lie_apart_inside_and_no_line_runs_through_one(room, seed):
    nodes = graph_of_values(tangle(30, seed), {}).nodes
    layout = laid_out(nodes, room)
    boxes = list(layout.places.values())
    for k, (x, y) in enumerate(boxes):
        assert 0 <= x and x + NODE_W <= layout.width and 0 <= y and y + NODE_H <= layout.height
        for u, v in boxes[:k]:
            assert abs(x - u) >= NODE_W or abs(y - v) >= NODE_H
    for d in layout.routes.values():
        for x, top, bottom in falls(d):
            assert not any(u < x < u + NODE_W and top < v + NODE_H and v < bottom for u, v in boxes), d


def test_a_long_way_is_only_an_end_with_a_label():
    a = Value(0.5)
    root = a
    for _ in range(24):
        root = (root * a).tanh()
    figure = graph.draw(root, names={"a": a})
    assert "folded" not in figure.alt
    for width in figure.film["widths"]:
        scene = figure.set(step=figure.steps).scene(width)
        labels = [m for m in scene["marks"] if m["kind"] == "text" and m["text"] == "from a"]
        assert 15 < len(labels) < 24
        boxes = [m for m in scene["marks"] if m["kind"] == "cell"]
        for m in labels:
            assert m["y"] >= 12
            assert not any(
                b["x"] - 20 < m["x"] < b["x"] + b["w"] + 20 and b["y"] < m["y"] < b["y"] + b["h"] for b in boxes
            )
    assert torch_grad_of_chain() == pytest.approx(graph_of_values(root, {"a": a}).grads[0].number, abs=1e-12)


def torch_grad_of_chain():
    a = leaf64(0.5)
    root = a
    for _ in range(24):
        root = (root * a).tanh()
    return torch.autograd.grad(root, a)[0].item()


def falls(d):
    """Yield (x, top, bottom) of every vertical piece of a path."""
    import re

    x = y = 0
    for command, numbers in re.findall(r"([MvhcVHl])([-\d ]*)", d):
        values = [int(v) for v in re.findall(r"-?\d+", numbers)]
        if command == "M":
            x, y = values
        elif command == "v":
            yield x, min(y, y + values[0]), max(y, y + values[0])
            y += values[0]
        elif command == "h":
            x += values[0]
        else:
            x, y = x + values[-2], y + values[-1]


# ---- what is passed


class Round:
    data, grad, op = 1.0, 0.0, "+"

    def __init__(self):
        self.parents = (self,)


class Raises(Value):
    def push(self):
        if self.op == "+":
            raise ZeroDivisionError("no slope here\nand more")
        super().push()


class Endless(Value):
    def backward(self):
        while True:
            self.parents[0].grad += self.grad


def test_errors_of_ones_own_backward_are_shown_at_their_node():
    a, _, root = small(Raises)
    figure = graph.draw(root, names={"a": a})
    last = figure.film["frames"][-1]
    assert last["title"].startswith("step 6: backward stops") and "ZeroDivisionError: no slope here" in last["words"]
    assert "#3 *" not in last["title"]
    assert a.grad == 0.0 and type(a) is Raises


def test_a_backward_without_an_end_is_stopped(monkeypatch):
    monkeypatch.setattr("labsupport.figures.graph_values.MOST_EVENTS", 500)
    assert "Backward was stopped after" in graph.draw(Endless(1.0) + Endless(2.0)).alt


def test_a_value_without_backward_goes_forward():
    class Plain:
        def __init__(self, data, parents=(), op=""):
            self.data, self.parents, self.op, self.grad = data, parents, op, 0.0

    one, two = Plain(1.0), Plain(2.0)
    figure = graph.draw(Plain(3.0, (one, two), "+"))
    assert "has no method `backward`" in figure.alt and "#3 = #1 + #2 = 1 + 2 = 3" in figure.set(step=1).words()["walk"]


@pytest.mark.parametrize("wrong", [
    lambda: graph.draw(3), lambda: graph.draw(None), lambda: graph.draw(Round()), lambda: graph.draw("x"),
    lambda: graph.draw(torch.ones(2)), lambda: graph.draw(torch.ones(1, requires_grad=True)),
    lambda: graph.draw(torch.ones(2, requires_grad=True) * 2), lambda: graph.draw(Value(1.0), names=[1]),
    lambda: graph.draw(Value(1.0) + Value(2.0), zoom=2), lambda: graph.draw(),
])  # fmt: skip
def test_wrong_use_is_told_in_words(wrong):
    with pytest.raises(LabError) as raised:
        wrong()
    assert raised.value.next_step and "Error" not in raised.value.what


def test_a_picture_needs_neither_torch_nor_numpy():
    import subprocess

    code = "import sys; from labsupport.figures import graph, timeline; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "set()"
