"""Lesson 09: a custom function with a backward of its own, and a chain of blocks that fits into a budget."""

import math
from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe
from labsupport.exercises._autograd_asking import altered

if TYPE_CHECKING:  # torch takes a second to load, and reading the course's exercises must not cost that
    from torch.utils.checkpoint import checkpoint

__all__ = ["CHECKPOINT_BUDGET", "STRAIGHT_THROUGH"]

_EXTENDING = "https://docs.pytorch.org/docs/2.13/notes/extending.html, read 2026-11"
_ESTIMATOR = "https://arxiv.org/abs/1308.3432 (Bengio, Leonard and Courville, 2013), section 4"
_CHECKPOINT = "https://docs.pytorch.org/docs/2.13/checkpoint.html, read 2026-11"
_SUBLINEAR = "https://arxiv.org/abs/1604.06174 (Chen and others, 2016)"


# -- straight-through: as text, since its base class is torch's

_ROUND_WITHIN = '''class RoundWithin(torch.autograd.Function):
    """x rounded to whole numbers between -limit and limit; backward as if it had not been rounded."""

    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.round().clamp(-limit, limit)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * (x.abs() <= ctx.limit), None
'''

_ONE_GRADIENT = altered(_ROUND_WITHIN, ("<= ctx.limit), None", "<= ctx.limit)"))
_GRADIENT_FOR_A_NUMBER = altered(
    _ROUND_WITHIN,
    ("(x.abs() <= ctx.limit), None", "(x.abs() <= ctx.limit), (cotangent * (x.abs() > ctx.limit)).sum()"),
)
_ON_CTX = altered(
    _ROUND_WITHIN,
    ("ctx.save_for_backward(x)", "ctx.x = x"),
    ("        (x,) = ctx.saved_tensors\n", ""),
    ("x.abs()", "ctx.x.abs()"),
)
_EVERYWHERE = altered(_ROUND_WITHIN, ("cotangent * (x.abs() <= ctx.limit), None", "cotangent, None"))
_TRUE_SLOPE = altered(_ROUND_WITHIN, ("cotangent * (x.abs() <= ctx.limit), None", "cotangent * 0, None"))
_MASK_OF_THE_RESULT = altered(_ROUND_WITHIN, ("x.abs() <=", "x.round().abs() <="))
_NO_COTANGENT = altered(_ROUND_WITHIN, ("cotangent * (x.abs() <= ctx.limit)", "(x.abs() <= ctx.limit).to(x.dtype)"))
_EDGE_OUT = altered(_ROUND_WITHIN, ("<= ctx.limit", "< ctx.limit"))
_NOT_CLAMPED = altered(_ROUND_WITHIN, (".round().clamp(-limit, limit)", ".round()"))


def _rounded(label, values, limit, dtype=np.float64, shape=None):
    """Return a case: `values` with a little noise, except the whole numbers, which stay exact."""
    shape = shape or (len(values),)

    def make(rng):
        noise = np.array([0.0 if value == round(value) else rng.uniform(-0.05, 0.05) for value in values])
        x = (np.array(values) + noise).astype(dtype).reshape(shape)
        return x, limit, rng.uniform(0.5, 2.0, shape).astype(dtype)

    return Case(label, make)


STRAIGHT_THROUGH = Exercise(
    id="autograd/straight-through",
    kind="class",
    task="Write the custom function RoundWithin: `RoundWithin.apply(x, limit)` rounds to whole numbers and clamps to "
    "[-limit, limit]. Backward passes the cotangent on where |x| <= limit and 0 elsewhere; the limit has no gradient. "
    "Tensors that backward needs go through save_for_backward.",
    names=("RoundWithin",),
    setup="import torch",
    reference=_ROUND_WITHIN,
    probe=Probe("through", {"driver": "autograd:round_function"}),
    cases=(
        _rounded("all within the limit", (0.4, -1.3, 1.7, 0.8), 4),
        _rounded("some outside", (0.4, -5.3, 3.7, 9.1), 4),
        _rounded("just outside: 2.3 rounds to 2", (2.3, -2.3, 1.7, 0.2), 2),
        _rounded("exactly at the limit", (3, -3, 2.4, 7), 3),
        _rounded("float32, two axes", (0.3, 1.6, -2.2, 4.4, -0.7, 2.1), 2, np.float32, (2, 3)),
    ),
    misconceptions=(
        Misconception(
            id="one-gradient-for-two-inputs",
            specimen=_ONE_GRADIENT,
            says="`backward` returns one gradient and `forward` took two inputs. Each input gets its answer, in order, "
            "also those that are no tensors.",
            next="For an input without a gradient that answer is None.",
        ),
        Misconception(
            id="gradient-for-a-number",
            specimen=_GRADIENT_FOR_A_NUMBER,
            says="You return a gradient for the limit. It came in as a plain number, and a number cannot have one.",
            next="The second answer is None.",
        ),
        Misconception(
            id="keeps-tensors-on-ctx",
            specimen=_ON_CTX,
            says="The numbers are right. A tensor that hangs on `ctx` as an attribute stays alive as long as the "
            "graph, is not seen by saved-tensor hooks, and may be changed in place unnoticed.",
            next="`ctx.save_for_backward` takes tensors, `ctx.saved_tensors` gives them back.",
        ),
        Misconception(
            id="passes-everywhere",
            specimen=_EVERYWHERE,
            says="You pass the cotangent on for every entry. Entries that were clamped cannot change the result "
            "however they move: they get 0.",
            next="Which entries lie outside the limit? Backward must know x, or a mask.",
        ),
        Misconception(
            id="slope-of-a-step",
            specimen=_TRUE_SLOPE,
            says="0 is the true slope of rounding, and the reason why nothing can be trained through it. Straight "
            "through means: as if it had not been rounded.",
            next="Within the limit hand on what arrives.",
        ),
        Misconception(
            id="mask-of-the-rounded",
            specimen=_MASK_OF_THE_RESULT,
            says="You compare the rounded entries with the limit. 2.3 rounds to 2 and yet lies outside a limit of 2.",
            next="Compare x itself.",
        ),
        Misconception(
            id="forgets-the-cotangent",
            specimen=_NO_COTANGENT,
            says="You return 1 and 0, the slope alone. What arrives from above is multiplied with it.",
            next="The cotangent is the second argument of `backward`.",
        ),
        Misconception(
            id="edge-counts-as-outside",
            specimen=_EDGE_OUT,
            says="An entry exactly at the limit counts as inside here, as it does in torch's `clamp`.",
            next="Which comparison includes the limit?",
        ),
        Misconception(
            id="does-not-clamp",
            specimen=_NOT_CLAMPED,
            says="You round and do not clamp: a 9 goes through a limit of 4.",
            next="`clamp(-limit, limit)` after rounding.",
        ),
    ),
    hints=(
        "Two static methods: `forward(ctx, x, limit)` returns the tensor, `backward(ctx, cotangent)` one gradient per "
        "input of forward.",
        "A number may be an attribute of ctx; a tensor goes through `save_for_backward`. x is enough to know the mask.",
    ),
    core=False,
    level=3,
    minutes=9,
    source=f"{_EXTENDING}; {_ESTIMATOR}",
)


# -- checkpoint-budget


def run_blocks(blocks, x):
    """Return the result of all blocks, one after the other; only the inputs of some are kept for backward."""
    width = math.isqrt(len(blocks))

    def run(x, first):
        for block in blocks[first : first + width]:
            x = block(x)
        return x

    for first in range(0, len(blocks), width):
        x = checkpoint(run, x, first, use_reentrant=False)
    return x


_KEEPS_ALL = altered(run_blocks, ("checkpoint(run, x, first, use_reentrant=False)", "run(x, first)"))
_EACH_BLOCK = altered(run_blocks, ("math.isqrt(len(blocks))", "1"))
_ONE_SEGMENT = altered(run_blocks, ("math.isqrt(len(blocks))", "len(blocks)"))
_REENTRANT = altered(run_blocks, ("use_reentrant=False", "use_reentrant=True"))
_DETACHES = altered(run_blocks, ("x = checkpoint(run, x, first, use_reentrant=False)", "x = run(x.detach(), first)"))
_NESTED = altered(run_blocks, ("x = block(x)", "x = checkpoint(block, x, use_reentrant=False)"))
_SHORT_PIECES = altered(run_blocks, ("math.isqrt(len(blocks))", "2"))
_LONG_PIECES = altered(run_blocks, ("math.isqrt(len(blocks))", "len(blocks) // 2"))
_LATE = altered(
    run_blocks,
    ("def run(x, first):", "def run(x):"),
    ("checkpoint(run, x, first,", "checkpoint(run, x,"),
)
_LOSES_THE_REST = altered(run_blocks, ("range(0, len(blocks), width)", "range(0, len(blocks) - width + 1, width)"))

_ROWS, _FEATURES = 128, 8
_ACTIVATION = _ROWS * _FEATURES * 8  # bytes of one activation


def _chain(label, count, kept, at_once):
    """Return a case; its budgets are in activations, with half a one for the gradients of the weights."""

    def make(rng):
        weights = rng.normal(0.0, 0.5, (count, _FEATURES, _FEATURES))
        x, cotangent = rng.normal(size=(2, _ROWS, _FEATURES))
        return weights, x, cotangent, int(kept * _ACTIVATION), int(at_once * _ACTIVATION)

    return Case(label, make)


CHECKPOINT_BUDGET = Exercise(
    id="autograd/checkpoint-budget",
    kind="budget",
    task="Run a list of blocks one after the other. For 36 blocks keep at most 12 activations for backward, and have "
    "at most 17 alive at a time during it; for 10 blocks 7 and 11. No block runs more than twice; result and "
    "gradients are those of the plain loop. x wants no gradient, the blocks' weights do.",
    names=("run_blocks",),
    setup="import math\n\nimport torch\nfrom torch.utils.checkpoint import checkpoint",
    reference=run_blocks,
    probe=Probe("through", {"driver": "autograd:segments"}),
    cases=(
        _chain("36 blocks", 36, 12.5, 17.5),
        _chain("10 blocks", 10, 7.5, 11.5),
    ),
    misconceptions=(
        Misconception(
            id="keeps-every-activation",
            specimen=_KEEPS_ALL,
            says="Every block keeps its result for backward: 36 blocks, 36 activations.",
            next="`checkpoint(run, x, use_reentrant=False)` runs a piece without keeping what is inside it, and runs "
            "it again when backward gets there.",
        ),
        Misconception(
            id="checkpoints-each-block",
            specimen=_EACH_BLOCK,
            says="Each checkpoint keeps its input, and a block keeps one tensor anyway: you run everything twice and "
            "save nothing.",
            next="Put several blocks into one checkpoint.",
        ),
        Misconception(
            id="one-checkpoint-for-all",
            specimen=_ONE_SEGMENT,
            says="After forward almost nothing is kept. Then backward runs the whole chain again, and this time keeps "
            "every activation at once.",
            next="The longest piece decides what is alive during backward, the number of pieces what is kept before.",
        ),
        Misconception(
            id="pieces-too-short",
            specimen=_SHORT_PIECES,
            says="Your pieces are so short that there are many of them, and the input of each is kept.",
            next="Fewer pieces keep less before backward; longer ones need more during it. Look for the balance.",
        ),
        Misconception(
            id="pieces-too-long",
            specimen=_LONG_PIECES,
            says="Little is kept before backward. But a piece is kept in full while backward is in it, and your "
            "longest one is too long for that.",
            next="Shorter pieces, and a few more inputs kept.",
        ),
        Misconception(
            id="reads-the-loop-later",
            specimen=_LATE,
            says="Your piece reads a variable of the loop. It runs again in backward, when the loop is over, and every "
            "piece then runs the last blocks.",
            next="Hand the piece what it needs as an argument, or as a default of one.",
        ),
        Misconception(
            id="reentrant-without-gradient",
            specimen=_REENTRANT,
            says="The result is right and nothing recorded how it came about. `no_grad` does that; so does the "
            "reentrant kind of checkpoint when none of its tensor inputs wants a gradient: yours is data.",
            next="`use_reentrant=False`, and no `no_grad`.",
        ),
        Misconception(
            id="detaches-between-pieces",
            specimen=_DETACHES,
            says="`detach` between the pieces lets memory go and the gradient with it: only the last blocks learn.",
            next="The way back must stay whole. Keep the inputs of the pieces and compute the rest again.",
        ),
        Misconception(
            id="checkpoints-inside-checkpoints",
            specimen=_NESTED,
            says="Checkpoints inside checkpoints: a block runs once forward, once for the outer and once more for the "
            "inner one.",
            next="One level is enough for this budget.",
        ),
        Misconception(
            id="loses-the-last-blocks",
            specimen=_LOSES_THE_REST,
            says="10 blocks do not divide into threes. The last one never runs.",
            next="The last piece may be shorter.",
        ),
    ),
    hints=(
        "With pieces of k blocks out of n, about n / k inputs are kept, and k activations appear when a piece runs "
        "again. Which k makes the sum small?",
        "`checkpoint(run, x, first, use_reentrant=False)` calls `run(x, first)`; `run` takes the blocks from first to "
        "first + k.",
    ),
    core=False,
    level=4,
    minutes=10,
    limits=Limits(call_s=30.0),  # the first use of a checkpoint loads much of torch
    source=f"{_CHECKPOINT}; {_SUBLINEAR}",
)
