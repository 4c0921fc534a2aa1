"""Lesson 09: who has a gradient afterwards, and which: each question is a few lines of code, and its last is asked."""

import warnings

from labsupport.course import Drill, Exercise, Misconception, Probe
from labsupport.exercises._strides_asking import instead, questions
from labsupport.probing.plain import as_written

__all__ = ["WHO_HAS_GRAD"]

_NOTES = "https://docs.pytorch.org/docs/2.13/notes/autograd.html, read 2026-11"
_START = "x = torch.tensor([1.0, 1.0], requires_grad=True)"


def answered(code):
    """Return what the last line of `code` gives after the lines before it, tensors as lists; `x` holds two ones."""
    import torch

    *before, last = code.replace("; ", "\n").splitlines()
    names = {"torch": torch}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about some of what is asked here
        exec("\n".join([_START, *before]), names)
        value = eval(last, names)
    return as_written(value) if isinstance(value, torch.Tensor) else value


def _rewritten(*changes):
    """Return a specimen: what would be right if the code were another one."""

    def believed(code):
        for old, new in changes:
            code = code.replace(old, new)
        return answered(code)

    return believed


def _everyone_keeps_theirs(code):
    """The belief that every tensor has a `grad` after backward."""
    *before, last = code.split("; ")
    name = last.partition(".grad")[0]
    made = next((line for line in before if line.startswith(f"{name} = ")), None)
    if not last.endswith(".grad") or name == "x" or made is None:
        return answered(code)
    return answered(code.replace(f"{made}; ", f"{made}; {name}.retain_grad(); "))


_TWICE = "(x * x).sum().backward(); (x * x).sum().backward(); x.grad"
_BETWEEN = "y = x * 2; y.sum().backward(); y.grad"
_CAST = "w = torch.ones(2, requires_grad=True).double(); w.sum().backward(); w.grad"
_MAX = "x.max().backward(); x.grad"
_MAX_DIM = "x.max(dim=0).values.backward(); x.grad"
_WRAPPED = "torch.tensor(x * 2).requires_grad"
_ROUNDED = "(1.6 * x).round().sum().backward(); x.grad"
_BIAS = "b = torch.zeros(1, requires_grad=True); (x + b).sum().backward(); b.grad"
_QUESTIONS = (_TWICE, _BETWEEN, _CAST, _MAX, _MAX_DIM, _WRAPPED, _ROUNDED, _BIAS)

# Templates of the drill: a, b, c are whole numbers that differ, all at least 2.
_TEMPLATES = (
    "x = torch.tensor([{a}., {b}.], requires_grad=True); y = {c} * x; (y * y).sum().backward(); y.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); y = {c} * x; y.retain_grad(); y.prod().backward(); y.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); y = {c} * x; (y * y.detach()).sum().backward(); x.grad",
    "x = torch.tensor([{a}., {b}., {b}.], requires_grad=True); (x * {c}).max().backward(); x.grad",
    "x = torch.tensor([{b}., {b}., 1.], requires_grad=True); (x * {c}).max(dim=0).values.backward(); x.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); w = x.double(); (w * {c}).sum().backward(); w.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); w = x.double(); (w * {c}).sum().backward(); x.grad",
    "b = torch.zeros(1, requires_grad=True); (torch.ones({a}) * b * {c}).sum().backward(); b.grad",
    "x = torch.tensor([{a}., 1.], requires_grad=True); (x * {c}).sum().backward(); (x * {b}).sum().backward(); x.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); (x[[0, 0, 1]] * {c}).sum().backward(); x.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); (x / {c}).round().sum().backward(); x.grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); (x * {c}).argmax().requires_grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); torch.tensor(x * {c}).requires_grad",
    "x = torch.tensor([{a}., {b}.], requires_grad=True); (x.clamp(max={b}.) * {c}).sum().backward(); x.grad",
)


def _fresh(rng):
    a, b, c = (int(n) for n in rng.permutation(range(2, 10))[:3])
    return (str(rng.choice(_TEMPLATES)).format(a=a, b=b, c=c),)


def _ask(code):
    lines = "\n".join(code.split("; "))
    return f"What does the last line give?\n\n```python\n{lines}\n```"


WHO_HAS_GRAD = Exercise(
    id="autograd/who-has-grad",
    kind="prediction",
    task="Each question begins with `x = torch.tensor([1.0, 1.0], requires_grad=True)`. Write what its last line "
    "gives: a list of numbers, None, True or False.",
    names=("of_twice", "of_between", "of_cast", "of_max", "of_max_dim", "of_wrapped", "of_rounded", "of_bias"),
    setup="import torch",
    probe=Probe("literal"),
    reference=answered,
    cases=questions(*_QUESTIONS),
    misconceptions=(
        Misconception(
            id="backward-starts-over",
            specimen=instead(answered, {_TWICE: [2, 2]}),
            says="That is the gradient of one call. `backward` adds to what is in `grad`.",
            next="Nobody cleared it between the two calls.",
        ),
        Misconception(
            id="everyone-keeps-theirs",
            specimen=_everyone_keeps_theirs,
            says="Gradients pass through every tensor, but only leaves keep theirs: those not made by an operation. A "
            "cast is an operation too.",
            next="Is the tensor a leaf? If not, its `grad` stays None, unless `retain_grad()` asked for it.",
        ),
        Misconception(
            id="what-reaches-the-leaf",
            specimen=instead(answered, {_BETWEEN: [2, 2]}),
            says="That is what reaches x. Asked for is the `grad` of y, which was made from x.",
            next="y is no leaf: does it keep what it hears?",
        ),
        Misconception(
            id="max-picks-one",
            specimen=_rewritten((".max().", ".max(dim=0).values.")),
            says="You give all of it to the first of two equal entries. `max()` over everything shares it among them.",
            next="Two entries are largest: how would you treat them alike?",
        ),
        Misconception(
            id="max-always-shares",
            specimen=_rewritten((".max(dim=0).values.", ".amax().")),
            says="You share between equal entries. `max(dim=...)` also returns an index, one per result, and its "
            "gradient goes there alone.",
            next="Which index does it return when two entries are equal?",
        ),
        Misconception(
            id="each-gets-all",
            specimen=instead(answered, {_MAX: [1, 1], _MAX_DIM: [1, 1]}),
            says="You give each of the two largest entries a full gradient. Together that would be more than the "
            "result can change.",
            next="Whatever `max` does with a tie, the shares add up to 1.",
        ),
        Misconception(
            id="a-new-tensor-remembers",
            specimen=_rewritten(("torch.tensor(x *", "(x *")),
            says="`torch.tensor(...)` copies numbers into a new leaf without history, and warns that it does.",
            next="Who would tell the new tensor where its numbers came from?",
        ),
        Misconception(
            id="rounding-has-slope-one",
            specimen=_rewritten((".round()", "")),
            says="You differentiate as if nothing had been rounded. Rounded values do not move under small steps of x.",
            next="How steep is a staircase, between its steps?",
        ),
        Misconception(
            id="rounding-cuts-the-graph",
            specimen=instead(answered, {_ROUNDED: None}),
            says="`round` has a derivative, and torch computes with it: it is only a useless one. `argmax` is another "
            "matter: its result is an index and has no graph.",
            next="Which slope has a staircase almost everywhere?",
        ),
        Misconception(
            id="bias-counts-once",
            specimen=instead(answered, {_BIAS: [1]}),
            says="The bias was added to each of two entries, and the sum hears of both.",
            next="If b grows by 1, by how much does the sum grow?",
        ),
    ),
    hints=(
        "For each tensor ask: is it a leaf, did anyone cut the way to it, and how often was it used?",
        "`None` means that no gradient was kept; 0 that one was, and it is 0.",
    ),
    core=True,
    level=3,
    minutes=6,
    points=2,
    drill=Drill(_fresh, _ask),
    source=_NOTES,
)
