"""Lesson 09: the pass backward of an engine for single numbers."""

from labsupport.course import Case, Exercise, Misconception, Probe
from labsupport.exercises._autograd_asking import altered, random_program
from labsupport.scalars import Node

__all__ = ["TOPOLOGICAL_BACKWARD", "Scalar"]

_MODES = "Baydin and others, Automatic differentiation in machine learning: a survey, 2018, section 3.2"
_MICROGRAD = "https://github.com/karpathy/micrograd, read 2026-11"


# -- topological-backward


class Scalar(Node):
    """A Node that can fill in the gradients of everything it was made from."""

    def backward(self, cotangent=1.0):
        order, seen, stack = [], set(), [(self, False)]
        while stack:
            node, finished = stack.pop()
            if finished:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((parent, False) for parent in node.parents)
        for node in order:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        for node in reversed(order):
            node.push()


class _Recursive(Node):
    def backward(self, cotangent=1.0):
        order, seen = [], set()

        def visit(node):
            if id(node) not in seen:
                seen.add(id(node))
                for parent in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        for node in order:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        for node in reversed(order):
            node.push()


class _PushesAtEveryVisit(Node):
    def backward(self, cotangent=1.0):
        self.grad = cotangent
        stack = [self]
        while stack:
            node = stack.pop()
            node.push()
            stack.extend(node.parents)


class _BreadthFirst(Node):
    def backward(self, cotangent=1.0):
        order, seen = [self], {id(self)}
        for node in order:
            for parent in node.parents:
                if id(parent) not in seen:
                    seen.add(id(parent))
                    order.append(parent)
        for node in order:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        for node in order:
            node.push()


class _EveryPath(Node):
    def backward(self, cotangent=1.0):
        stack = [(self, cotangent)]
        while stack:
            node, arriving = stack.pop()
            if not node.parents:
                node.grad += arriving
            for parent, slope in zip(node.parents, node.slopes):
                stack.append((parent, slope * arriving))


class _ByCallingTheParents(Node):
    def backward(self, cotangent=1.0):
        self.grad += cotangent
        for parent, slope in zip(self.parents, self.slopes):
            parent.backward(slope * cotangent)


class _AsSoonAsMet(Node):
    def backward(self, cotangent=1.0):
        order, seen, stack = [], set(), [self]
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                order.append(node)
                stack.extend(node.parents)
        for node in order:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        for node in order:
            node.push()


class _MarksWhatWaits(Node):
    def backward(self, cotangent=1.0):
        order, seen, stack = [], {id(self)}, [(self, False)]
        while stack:
            node, finished = stack.pop()
            if finished:
                order.append(node)
                continue
            stack.append((node, True))
            for parent in node.parents:
                if id(parent) not in seen:
                    seen.add(id(parent))
                    stack.append((parent, False))
        for node in order:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        for node in reversed(order):
            node.push()


_KEEPS_THE_LAST_PASS = altered(
    Scalar,
    ("        for node in order:\n            if node.parents:\n                node.grad = 0.0\n", ""),
)
_FORGETS_THE_LEAVES = altered(
    Scalar, ("            if node.parents:\n                node.grad = 0.0\n", "            node.grad = 0.0\n")
)
_SETS_ITS_OWN = altered(Scalar, ("self.grad += cotangent", "self.grad = cotangent"))
_AS_IN_MICROGRAD = altered(
    Scalar,
    ("        for node in order:\n            if node.parents:\n                node.grad = 0.0\n", ""),
    ("self.grad += cotangent", "self.grad = cotangent"),
)
_STARTS_AT_ONE = altered(Scalar, ("self.grad += cotangent", "self.grad += 1.0"))
_STARTS_AT_NOTHING = altered(Scalar, ("        self.grad += cotangent\n", ""))
_LEAVES_FIRST = altered(Scalar, ("reversed(order)", "order"))

_PROGRAM = random_program(seed=3, leaves=4, steps=12)
_LADDER = [step for i in range(10) for step in (("+", 2 * i, 2 * i), ("*", 2 * i + 1, ("number", 0.55)))]
_BOTH_WAYS = [("*", 0, 0), ("tanh", 1), ("exp", 2), ("*", 2, 3), ("*", 3, 2)]
_LONG_WAY = [("*", 0, 0), ("tanh", 1), ("exp", 2), ("tanh", 3), ("+", 4, 1), ("*", 5, 0)]
_CHAIN = [("*", i, ("number", 1.0002)) for i in range(5_000)]


def _passes(label, leaves, program, *calls):
    """Return a case: `calls` are the values whose `backward` is called, None where without a cotangent."""

    def make(rng):
        draw = [float(x) for x in rng.uniform(0.5, 2.0, leaves)]
        return draw, program, [(index, float(rng.uniform(1.5, 3.0)) if given else None) for index, given in calls]

    return Case(label, make)


TOPOLOGICAL_BACKWARD = Exercise(
    id="autograd/topological-backward",
    kind="class",
    task="Write `backward(cotangent=1.0)` for a Node: add to the `grad` of each leaf the cotangent times the "
    "derivative of this node by the leaf. Leaves add up from call to call, the nodes in between start again. A chain "
    "of 5,000 nodes is fine, and no node is visited once per path. Not allowed: setrecursionlimit.",
    names=("Scalar",),
    setup="from labsupport.scalars import Node",
    reference=Scalar,
    probe=Probe("through", {"driver": "autograd:engine", "forbid": ("setrecursionlimit", "Number")}),
    cases=(
        _passes("a * b + a", 2, [("*", 0, 1), ("+", 2, 0)], (-1, False)),
        _passes("twelve operations of all kinds, a cotangent", 4, _PROGRAM, (-1, True)),
        _passes("a short and a long way to the same node", 1, _LONG_WAY, (-1, True)),
        _passes("b * exp(b), then exp(b) * b", 1, _BOTH_WAYS, (4, True), (5, True)),
        _passes("ten doublings: 1,024 ways to one leaf", 1, _LADDER, (-1, True)),
        _passes("called twice", 2, [("*", 0, 1), ("tanh", 2), ("+", 3, 0)], (-1, True), (-1, True)),
        _passes("two results that share a part", 2, [("*", 0, 1), ("exp", 2), ("tanh", 2)], (3, True), (4, True)),
        _passes("a leaf itself, twice", 1, [("*", 0, 0)], (0, True), (0, True)),
        _passes("a chain of 5,000 products", 1, _CHAIN, (-1, True)),
    ),
    misconceptions=(
        Misconception(
            id="recursion-too-deep",
            specimen=_Recursive,
            says="Your order is right, and you find it by recursion: Python stops at about a thousand calls, and a sum "
            "of a few thousand losses is that deep.",
            next="Keep the nodes that wait in a list of your own, and mark each as 'seen' or 'done with its parents'.",
        ),
        Misconception(
            id="pushes-at-every-visit",
            specimen=_PushesAtEveryVisit,
            says="You push a node each time you come across it, so what it had handed on before is handed on again.",
            next="Each node pushes once: when everything that depends on it has pushed.",
        ),
        Misconception(
            id="nearest-first",
            specimen=_BreadthFirst,
            says="You go by distance from the result. A node that is near on one way and far on another pushes before "
            "all of its gradient has arrived.",
            next="A node's turn comes after all that were made from it, not after the first of them.",
        ),
        Misconception(
            id="as-soon-as-met",
            specimen=_AsSoonAsMet,
            says="You let a node push in the order in which you meet it. What comes to it along another way, met "
            "later, arrives after it has pushed.",
            next="Wait with a node until all that were made from it have pushed: put it in the list after its parents.",
        ),
        Misconception(
            id="marks-what-waits",
            specimen=_MarksWhatWaits,
            says="You mark a node as seen when you put it on the stack. While it waits there, a node made from it can "
            "be finished first, and then their order is wrong.",
            next="Mark it when you take it off the stack; it may lie there more than once.",
        ),
        Misconception(
            id="calls-the-parents",
            specimen=_ByCallingTheParents,
            says="Each node calls its parents, and so once per path: ten doublings make 1,024 calls, thirty a billion. "
            "A long chain also ends at Python's limit of nested calls.",
            next="Find an order first, in a loop; then one push per node.",
        ),
        Misconception(
            id="walks-every-path",
            specimen=_EveryPath,
            says="Right gradients, at the price of one visit per path: ten doublings make 1,024, thirty a billion.",
            next="Let gradients meet in a node and go on together, once.",
        ),
        Misconception(
            id="keeps-the-last-pass",
            specimen=_KEEPS_THE_LAST_PASS,
            says="A second call starts with the gradients the first one left in the nodes in between, and hands those "
            "on again.",
            next="Leaves add up over calls. Which nodes must start from 0?",
        ),
        Misconception(
            id="as-in-micrograd",
            specimen=_AS_IN_MICROGRAD,
            says="The nodes in between start your second pass with what the first left in them, and hand it on again. "
            "Your own `grad` is overwritten, although you may be a leaf.",
            next="Before the pass, 0 for all that have parents; then add the cotangent.",
        ),
        Misconception(
            id="sets-its-own",
            specimen=_SETS_ITS_OWN,
            says="You set your own `grad` to the cotangent. A node may be a leaf itself, and leaves add up from call "
            "to call.",
            next="What is `a.grad` after two calls of `a.backward()` on a leaf: 1 or 2?",
        ),
        Misconception(
            id="clears-the-leaves",
            specimen=_FORGETS_THE_LEAVES,
            says="You set the leaves to 0 as well, so the second of two calls forgets the first. torch adds up, and "
            "code for large batches relies on it.",
            next="A leaf is a node without parents: leave its gradient alone.",
        ),
        Misconception(
            id="starts-at-one",
            specimen=_STARTS_AT_ONE,
            says="You start at 1 whatever the cotangent is.",
            next="1 is only its default: what does the caller pass?",
        ),
        Misconception(
            id="starts-at-nothing",
            specimen=_STARTS_AT_NOTHING,
            says="Every gradient is 0: the result itself never gets one, so there is nothing to hand on.",
            next="The derivative of the result by itself is 1; times the cotangent, that is where the pass begins.",
        ),
        Misconception(
            id="leaves-first",
            specimen=_LEAVES_FIRST,
            says="You let the nodes push in the order they were made, when nothing has arrived yet.",
            next="The same order, from its other end.",
        ),
    ),
    hints=(
        "First collect the nodes so that each stands after its parents; then let them push from the last to the first.",
        "Without recursion: a stack of (node, finished). A node that comes up unfinished is put back as finished, with "
        "its parents on top.",
        "Before the pass set `grad` to 0 on every node that has parents, then add the cotangent to your own.",
    ),
    core=True,
    level=4,
    minutes=12,
    points=2,
    source=f"{_MODES}; {_MICROGRAD}",
)
