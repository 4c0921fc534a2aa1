"""Lesson 09: what an engine for single numbers records."""

from labsupport.course import Case, Exercise, Misconception, Probe
from labsupport.exercises._autograd_asking import altered

__all__ = ["VALUE_ADD_MUL", "Value"]

_MODES = "Baydin and others, Automatic differentiation in machine learning: a survey, 2018, section 3.2"
_MICROGRAD = "https://github.com/karpathy/micrograd, read 2026-11"


# -- value-add-mul


class Value:
    """A number that remembers how it was made."""

    def __init__(self, data, parents=(), slopes=(), op=""):
        self.data, self.grad = data, 0.0
        self.parents, self.slopes, self.op = parents, slopes, op

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, (self, other), (1.0, 1.0), "+")

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data), "*")

    __radd__, __rmul__ = __add__, __mul__

    def push(self):
        """Add to each parent's `grad` what reaches it through this value."""
        for parent, slope in zip(self.parents, self.slopes):
            parent.grad += slope * self.grad


_ASSIGNS = altered(Value, ("parent.grad += slope", "parent.grad = slope"))
_SWAPS = altered(Value, ("(other.data, self.data)", "(self.data, other.data)"))
_LOCAL_ONLY = altered(Value, ("slope * self.grad", "slope"))
_NUMBERS_ON_THE_RIGHT = altered(Value, ("    __radd__, __rmul__ = __add__, __mul__\n", ""))
_ONLY_VALUES = altered(
    Value,
    ("        other = other if isinstance(other, Value) else Value(other)\n        return Value(self.data +",
     "        return Value(self.data +"),
    ("        other = other if isinstance(other, Value) else Value(other)\n        return Value(self.data *",
     "        return Value(self.data *"),
    ("    __radd__, __rmul__ = __add__, __mul__\n", ""),
)  # fmt: skip
_EACH_PARENT_ONCE = altered(Value, ("zip(self.parents, self.slopes)", "dict(zip(self.parents, self.slopes)).items()"))
_SET_OF_PARENTS = altered(Value, ("data, 0.0\n", "data, 0.0\n        parents = tuple(dict.fromkeys(parents))\n"))
_PUSHES_ON = altered(
    Value,
    (
        "parent.grad += slope * self.grad",
        "parent.grad += slope * self.grad\n        for parent in self.parents:\n            parent.push()",
    ),
)
_NO_PARENTS = altered(
    Value, ('self.data * other.data, (self, other), (other.data, self.data), "*"', "self.data * other.data")
)


def _leaves(count, low=0.5, high=2.0):
    return lambda rng: [float(x) for x in rng.uniform(low, high, count) * rng.choice([-1, 1], count)]


def _recorded(label, leaves, program):
    draw = _leaves(leaves)
    return Case(label, lambda rng: (draw(rng), program, float(rng.uniform(1.5, 3.0))))


VALUE_ADD_MUL = Exercise(
    id="autograd/value-add-mul",
    kind="class",
    task="Write a class `Value` of numbers that record how they were made: `data`, `grad` (0.0 at first), `parents` (a "
    "tuple of Values, in order), `op` ('+', '*', or '' for a leaf). `+` and `*` accept Values and, on either side, "
    "plain numbers. `push()` adds to each parent's `grad` what reaches it through this value.",
    names=("Value",),
    reference=Value,
    probe=Probe("through", {"driver": "autograd:recorder"}),
    cases=(
        _recorded("a * b + a", 2, [("*", 0, 1), ("+", 2, 0)]),
        _recorded("a + a", 1, [("+", 0, 0)]),
        _recorded("a * a * a", 1, [("*", 0, 0), ("*", 1, 0)]),
        _recorded("a * 3 + 1.5", 1, [("*", 0, ("number", 3)), ("+", 1, ("number", 1.5))]),
        _recorded("1.5 + 3 * a", 1, [("*", ("number", 3), 0), ("+", ("number", 1.5), 1)]),
        _recorded(
            "nine operations, some values used three times",
            3,
            [("*", 0, 1), ("+", 3, 2), ("*", 4, 3), ("+", 5, 0), ("*", 6, 6), ("+", 7, 4), ("*", 8, 2), ("+", 9, 9),
             ("+", 10, 3)],
        ),
    ),
    misconceptions=(
        Misconception(
            id="assigns-instead-of-adding",
            specimen=_ASSIGNS,
            says="`push` overwrites a parent's gradient. A value that is used twice hears from two results, and the "
            "last one to speak wins.",
            next="What should `a.grad` be for `a + a`? Add to what is there.",
        ),
        Misconception(
            id="swaps-the-factors",
            specimen=_SWAPS,
            says="In a product you hand each factor its own value. If a grows by a little, `a * b` grows by b times as "
            "much.",
            next="Which number multiplies `a` in `a * b`?",
        ),
        Misconception(
            id="forgets-what-arrives",
            specimen=_LOCAL_ONLY,
            says="You hand on the slope alone. What reaches a parent is the slope times the gradient that arrived at "
            "this value: the chain rule.",
            next="`self.grad` belongs into what you add.",
        ),
        Misconception(
            id="one-share-per-parent",
            specimen=_EACH_PARENT_ONCE,
            says="A value that is both parents at once gets one share, where it should get two: in `a + a` a small "
            "step of a counts twice.",
            next="Walk through the parents by position; a dict or a set keeps each only once.",
        ),
        Misconception(
            id="parents-without-repeats",
            specimen=_SET_OF_PARENTS,
            says="You record each parent once, so `a + a` has one parent where the sum has two terms.",
            next="`parents` has one entry per operand, in order, even if they are the same object.",
        ),
        Misconception(
            id="numbers-only-on-the-right",
            specimen=_NUMBERS_ON_THE_RIGHT,
            says="`a * 3` works and `3 * a` does not: Python asks the number first, and the number does not know "
            "Values.",
            next="Python then tries `__rmul__` and `__radd__` of the right operand.",
        ),
        Misconception(
            id="no-plain-numbers",
            specimen=_ONLY_VALUES,
            says="Your operators expect a Value on the other side and find a plain number, which has no `data`.",
            next="Wrap it first: a number is a Value nobody will ask for its gradient.",
        ),
        Misconception(
            id="pushes-on",
            specimen=_PUSHES_ON,
            says="Your `push` has the parents push too. Whoever goes back pushes every value once; with yours a parent "
            "pushes again each time something made from it does.",
            next="`push` goes one step: from this value to its own parents.",
        ),
        Misconception(
            id="product-without-parents",
            specimen=_NO_PARENTS,
            says="Your product knows its number and not where it came from, so nothing flows back through it.",
            next="Record the two factors, and for each the slope, when the product is made.",
        ),
    ),
    hints=(
        "Let the constructor take `data, parents=(), slopes=(), op=''`. A result knows, when it is made, how much it "
        "would grow for a small step of each operand: that is its slope by this parent.",
        "`push` is then one loop over parents and slopes: each parent's grad grows by slope times self.grad.",
    ),
    core=True,
    level=3,
    minutes=10,
    points=2,
    source=f"{_MODES}; {_MICROGRAD}",
)  # fmt: skip
