"""Lesson 09: three programs that run and are wrong: a training step, a masked root, a graph that was cut."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe
from labsupport.exercises._autograd_asking import altered

if TYPE_CHECKING:  # torch takes a second to load, and reading the course's exercises must not cost that
    import torch

__all__ = ["DETACHED", "SAFE_SQRT", "SGD_STEP"]

_NOTES = "https://docs.pytorch.org/docs/2.13/notes/autograd.html, read 2026-11"
_WHERE = "https://github.com/pytorch/pytorch/issues/68425, read 2026-11"


# -- sgd-step


def train(w, x, y, lr, steps):
    """Take `steps` steps of gradient descent on `w`, in place; return the loss before each step."""
    losses = []
    for _ in range(steps):
        w.grad = None  # backward adds to what is there
        loss = (x @ w - y).square().mean()
        loss.backward()
        with torch.no_grad():  # the update is not part of the computation that is differentiated
            w -= lr * w.grad
        losses.append(loss.item())
    return losses


_UPDATE = """\
        with torch.no_grad():  # the update is not part of the computation that is differentiated
            w -= lr * w.grad
"""
_REBINDS = altered(train, (_UPDATE, "        w = w - lr * w.grad\n"))
_REBINDS_UNRECORDED = altered(train, ("            w -= lr * w.grad", "            w = w - lr * w.grad"))
_NOTHING_RECORDED = altered(
    train,
    ("        loss = (x @ w - y).square().mean()\n        loss.backward()\n", ""),
    (
        "            w -= lr",
        "            loss = (x @ w - y).square().mean()\n            loss.backward()\n            w -= lr",
    ),
)
_LOSS_AFTERWARDS = altered(train, ("losses.append(loss.item())", "losses.append((x @ w - y).square().mean().item())"))
_A_NEW_LEAF = altered(train, (_UPDATE, "        w = (w - lr * w.grad).detach().requires_grad_()\n"))
_RECORDED = altered(train, (_UPDATE, "        w -= lr * w.grad\n"))
_NEVER_CLEARS = altered(train, ("        w.grad = None  # backward adds to what is there\n", ""))
_CLEARS_AFTERWARDS = altered(
    train,
    ("        w.grad = None  # backward adds to what is there\n", ""),
    ("        losses.append", "        w.grad = None\n        losses.append"),
)
_CLEARS_TOO_EARLY = altered(train, ("            w -=", "            w.grad.zero_()\n            w -="))
_CLIMBS = altered(train, ("w -= lr", "w += lr"))
_KEEPS_TENSORS = altered(train, ("loss.item()", "loss"))


def _steps(label, steps, before, rows=6, features=2):
    def make(rng):
        x = rng.normal(size=(rows, features))
        return rng.normal(size=features), x, rng.normal(size=rows), 0.05, steps, before

    return Case(label, make)


SGD_STEP = Exercise(
    id="autograd/sgd-step",
    kind="debug",
    task="Repair train: it takes `steps` steps of gradient descent on the mean squared error of `x @ w`, in the tensor "
    "`w` it is given, a leaf; `w.grad` may hold something from before, which does not count. It returns the losses "
    "before each step as Python numbers; `w` remains a leaf that wants a gradient.",
    names=("train",),
    setup="import torch",
    reference=train,
    probe=Probe("through", {"driver": "autograd:training"}),
    cases=(
        _steps("one step", 1, None),
        _steps("five steps", 5, None),
        _steps("three steps, a gradient from before", 3, 100.0),
        _steps("four steps, three features", 4, None, 8, 3),
    ),
    misconceptions=(
        Misconception(
            id="rebinds-w",
            specimen=_REBINDS,
            says="`w = w - ...` makes a new tensor, with a history, and calls it w. The caller's w stays as it was; "
            "the new one is no leaf, so the next backward leaves its `grad` at None.",
            next="Change the numbers of the tensor you were given, in place.",
        ),
        Misconception(
            id="rebinds-unrecorded",
            specimen=_REBINDS_UNRECORDED,
            says="Inside `no_grad`, `w = w - ...` still makes a new tensor and calls it w, now one that wants no "
            "gradient. The caller's w stays as it was.",
            next="`w -= ...` changes the tensor you were given.",
        ),
        Misconception(
            id="nothing-recorded",
            specimen=_NOTHING_RECORDED,
            says="The loss is computed inside `no_grad` too, so nothing is written down and `backward` finds no way.",
            next="Only the update belongs inside.",
        ),
        Misconception(
            id="loss-after-the-step",
            specimen=_LOSS_AFTERWARDS,
            says="Your losses are those after each step. Asked for are those before it: the numbers backward started "
            "from.",
            next="The loss is there already when the step is taken; keep that one.",
        ),
        Misconception(
            id="a-new-leaf",
            specimen=_A_NEW_LEAF,
            says="Inside your loop all is well: each w is a leaf. But it is a new one every time, and the caller's w "
            "has not moved.",
            next="An update in place, with recording switched off, needs no new leaf.",
        ),
        Misconception(
            id="records-the-update",
            specimen=_RECORDED,
            says="Autograd records what you do to a leaf, and refuses to have a leaf changed in place while it does.",
            next="The update is not part of the loss: switch recording off around it.",
        ),
        Misconception(
            id="never-clears",
            specimen=_NEVER_CLEARS,
            says="`backward` adds to `grad`. Your second step uses the sum of two gradients, your third the sum of "
            "three.",
            next="Clear it once per step.",
        ),
        Misconception(
            id="clears-afterwards",
            specimen=_CLEARS_AFTERWARDS,
            says="You clear the gradient after the step, so the first step still counts what the caller left in it.",
            next="Clear before `backward`, not after the step.",
        ),
        Misconception(
            id="clears-before-the-step",
            specimen=_CLEARS_TOO_EARLY,
            says="You clear the gradient between `backward` and the step, which then subtracts 0.",
            next="Clear, backward, step: in this order.",
        ),
        Misconception(
            id="climbs",
            specimen=_CLIMBS,
            says="You walk along the gradient, uphill: the losses grow.",
            next="Descent subtracts.",
        ),
        Misconception(
            id="keeps-tensors",
            specimen=_KEEPS_TENSORS,
            says="Your losses are tensors. Unless it is detached, each keeps the graph of its step alive for as long "
            "as the list lives.",
            next="`item()` takes the number out.",
        ),
    ),
    hints=(
        "Run two steps and look at `w.is_leaf` and `w.grad` after each.",
        "`with torch.no_grad():` around the update, and `w -= ...` inside. When must `w.grad` be None?",
    ),
    core=True,
    level=2,
    minutes=6,
    limits=Limits(call_s=30.0),  # the first use of an optimizer loads much of torch
    source=_NOTES,
)


# -- safe-sqrt


def safe_sqrt(x):
    """Return the square root of `x` where it is positive and 0 elsewhere, with gradient 0 there."""
    positive = x > 0
    inside = torch.where(positive, x, 1.0)  # the root never sees a number it has no slope at
    return torch.where(positive, inside.sqrt(), 0.0)


_SAFE = """\
    positive = x > 0
    inside = torch.where(positive, x, 1.0)  # the root never sees a number it has no slope at
    return torch.where(positive, inside.sqrt(), 0.0)
"""


def _instead(*lines):
    return altered(safe_sqrt, (_SAFE, "".join(f"    {line}\n" for line in lines)))


def _signed(label, values, shape=None, dtype=np.float64):
    """Return a case: each of `values` is scaled by a random factor between 1 and 2, so that signs and zeros stay."""
    shape = shape or (len(values),)

    def make(rng):
        x = (np.array(values) * rng.uniform(1.0, 2.0, len(values))).astype(dtype).reshape(shape)
        return x, rng.uniform(0.5, 2.0, shape).astype(dtype)

    return Case(label, make)


SAFE_SQRT = Exercise(
    id="autograd/safe-sqrt",
    kind="debug",
    task="Repair safe_sqrt: the square root where x is positive, 0 elsewhere; and its gradient is 0 elsewhere too, "
    "where now it is no number. Values and gradients of positive entries stay exact.",
    names=("safe_sqrt",),
    setup="import torch",
    reference=safe_sqrt,
    probe=Probe("through", {"driver": "autograd:slopes", "names": ("x",)}),
    cases=(
        _signed("all positive", (1.0, 4.0, 0.3)),
        _signed("a zero among them", (1.0, 0.0, 4.0)),
        _signed("negative entries", (1.0, -2.0, 4.0, -0.5)),
        _signed("very small and very large", (1e-14, 1e-9, 1e9)),
        _signed("float32, two axes, all kinds", (0.0, -1.0, 2.0, 0.0, 3.0, -4.0), (2, 3), np.float32),
        _signed("nothing positive", (0.0, -1.0)),
    ),
    misconceptions=(
        Misconception(
            id="masks-the-result",
            specimen=_instead("return x.sqrt().masked_fill(x <= 0, 0.0)"),
            says="You take the root of everything and mask the result. Backward sends 0 into those entries, and there "
            "0 meets the slope of the root, infinite or no number: the product is no number.",
            next="Mask what goes into the root, too.",
        ),
        Misconception(
            id="replaces-nan",
            specimen=_instead("return torch.nan_to_num(x.sqrt())"),
            says="You replace what is no number in the result. At 0 the root is fine, it is 0: its slope is infinite, "
            "and that goes back to x.",
            next="Which entries may the root see at all?",
        ),
        Misconception(
            id="adds-epsilon",
            specimen=_instead("return torch.where(x > 0, (x.clamp(min=0) + 1e-12).sqrt(), 0.0)"),
            says="A small number under the root tames the slope at 0 and changes all values: those below it by much.",
            next="Entries that are positive need no help. Change the others only.",
        ),
        Misconception(
            id="lifts-to-epsilon",
            specimen=_instead("return x.clamp(min=1e-12).sqrt()"),
            says="You lift everything to a small positive number: the root of 0 is then no longer 0, and very small "
            "entries come out too large, without a gradient.",
            next="Let the result be 0 where x is not positive, and untouched where it is.",
        ),
        Misconception(
            id="clamps-at-zero",
            specimen=_instead("return x.clamp(min=0).sqrt()"),
            says="Negative entries are fine now. At 0, `clamp` lets the gradient pass, and the slope of the root there "
            "is infinite.",
            next="0 itself must not reach the root.",
        ),
        Misconception(
            id="root-of-the-size",
            specimen=_instead("return torch.where(x > 0, x.abs().sqrt(), 0.0)"),
            says="Negative entries are fine now, since the root sees their size. The root still sees 0, where 0 times "
            "an infinite slope is no number.",
            next="Put another number in place of 0 before you take the root.",
        ),
        Misconception(
            id="detaches",
            specimen=_instead("return torch.where(x > 0, x.detach().sqrt(), 0.0)"),
            says="No gradient is wrong now, because there is none: `detach`, or `no_grad`, cuts x off from the result.",
            next="Positive entries need their slope.",
        ),
    ),
    hints=(
        "Print the gradient for x = 0 alone, and follow the 0 that `where` sends back into `sqrt`: what is it "
        "multiplied with?",
        "Two `where`: one puts a harmless number in place of the entries that will be masked, one masks the result.",
    ),
    core=True,
    level=3,
    minutes=6,
    source=_WHERE,
)


# -- detached


def relative_scores(x, w, cap):
    """Return the squares of the capped scores exp(x @ w), relative to their mean, which counts as a constant."""
    scores = torch.exp(x @ w).clamp(max=cap)
    scale = scores.mean().detach()
    return (scores / scale).square()


_BODY = "    scores = torch.exp(x @ w).clamp(max=cap)\n    scale = scores.mean().detach()\n"
_RESULT = "return (scores / scale).square()"


def _capping(*lines):
    return altered(relative_scores, (_BODY, "".join(f"    {line}\n" for line in lines)))


_BEHIND = _capping("scores = torch.exp(x @ w)", "scores.data.clamp_(max=cap)", "scale = scores.mean().detach()")
_IN_PLACE = _capping(
    "scores = torch.exp(x @ w)", "with torch.no_grad():", "    scores.clamp_(max=cap)", "scale = scores.mean().detach()"
)
_UNCAPPED = _capping("scores = torch.exp(x @ w)", "scale = scores.mean().detach()", "scores = scores.clamp(max=cap)")
_BOTH_CUT = altered(
    relative_scores, (_RESULT, "return (torch.tensor(scores.tolist(), dtype=x.dtype) / scale).square()")
)
_SCALE_COUNTS = altered(relative_scores, (".mean().detach()", ".mean()"))
_HALF_CUT = altered(relative_scores, (_RESULT, "return (scores / scale) * (scores / scale).detach()"))


def _scored(label, cap):
    def make(rng):
        x = np.stack([np.linspace(-1.0, 1.5, 6), rng.uniform(-0.2, 0.2, 6)], axis=1)
        return x, np.array([1.0, rng.uniform(0.5, 1.5)]), cap, rng.uniform(0.5, 2.0, 6)

    return Case(label, make)


DETACHED = Exercise(
    id="autograd/detached",
    kind="debug",
    task="Repair relative_scores: scores exp(x @ w), those above `cap` count as `cap` and have gradient 0; divided by "
    "the mean of the capped scores, which is a constant to the gradient; squared. Values are right today, and no "
    "gradient reaches x or w.",
    names=("relative_scores",),
    setup="import torch",
    reference=relative_scores,
    probe=Probe("through", {"driver": "autograd:slopes", "names": ("x", "w")}),
    cases=(
        _scored("no score above the cap", 100.0),
        _scored("some scores above the cap", 2.0),
        _scored("all but one above the cap", 0.55),
    ),
    misconceptions=(
        Misconception(
            id="caps-behind-autograd",
            specimen=_BEHIND,
            says="`.data` changes the numbers and tells nobody. The backward of `exp` reads its own result, so it now "
            "works with the cap: a silently wrong gradient instead of 0.",
            next="Make the cap an operation of the computation, one that returns a new tensor.",
        ),
        Misconception(
            id="caps-in-place",
            specimen=_IN_PLACE,
            says="You change the result of `exp` in place, and its backward needs that result as it was. Autograd "
            "counts the versions of a tensor and stops you, here with an error instead of a wrong number.",
            next="`clamp` without the underscore returns a new tensor and leaves the old one alone.",
        ),
        Misconception(
            id="scale-counts",
            specimen=_SCALE_COUNTS,
            says="The mean takes part in the gradient: you also differentiate the number everything is divided by.",
            next="The scale is a constant here. Which method gives its value without its history?",
        ),
        Misconception(
            id="scale-of-uncapped",
            specimen=_UNCAPPED,
            says="Your scale is the mean of the scores before the cap.",
            next="Cap first, then take the mean.",
        ),
        Misconception(
            id="new-tensor-from-numbers",
            specimen=_BOTH_CUT,
            says="The values are right and the result has no history, so nothing flows back from it: a new tensor made "
            "from numbers has none, and `detach` or `no_grad` leave none.",
            next="Go on with the tensors you have. Only the scale is to be cut off.",
        ),
        Misconception(
            id="half-a-square",
            specimen=_HALF_CUT,
            says="You cut off one of the two factors of the square, which halves every gradient.",
            next="Only the scale is a constant; the scores count wherever they occur.",
        ),
    ),
    hints=(
        "Look at `grad_fn` after each line. Which line loses it, and which one changes numbers behind its back?",
        "One call belongs after the mean: `detach()`. None belongs anywhere else.",
    ),
    core=False,
    level=3,
    minutes=7,
    source=_NOTES,
)
