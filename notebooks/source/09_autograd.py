# %% [markdown]
# # Follow a gradient back
# Build the machine that finds every slope of a computation in one pass, then learn where torch's version of it
# surprises people.
#
# **60 minutes (core), any laptop.** What is marked (more) adds about 34 minutes. You will be able to
# write an engine that goes back like torch's, say which tensor ends up with which gradient, and mend gradients that are
# missing or NaN. You need: broadcasting (lesson 06), a little calculus. Not here: the training loop (lesson 10).

# %%
import numpy as np
import torch

from labsupport import lesson
from labsupport.scalars import Node, Number

lab = lesson("autograd")

# %% [markdown]
# ## Part 1. An engine for numbers
# ### The obvious way
# A linear model gives ten scores to each image; the loss says how badly they name the digit. How does it change with
# each of the 640 weights? The obvious way nudges one weight at a time and looks.

# %%
images = lab.data("digits")[:100].reshape(100, 64) / 16  # (image, pixel), ink 0 to 1
labels = lab.data("digit_labels")[:100].astype(np.int64)  # (image,), the digit written
calls = 0


def loss_of(weights):  # (pixel, digit)
    global calls
    calls += 1
    scores = images @ weights  # (image, digit)
    return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(100), labels])


# %%
start = np.random.default_rng(0).normal(0, 0.1, (64, 10))
nudges = 1e-6 * np.eye(start.size).reshape(-1, *start.shape)  # (weight, pixel, digit)
base = loss_of(start)
slopes = np.array([loss_of(start + nudge) - base for nudge in nudges]).reshape(start.shape) / 1e-6
f"{calls} runs of the model for {slopes.size} slopes"

# %%
calls = 0
weights = torch.tensor(start, requires_grad=True)
scores = torch.from_numpy(images) @ weights
loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels))  # one run
loss.backward()  # one pass back
print(f"the nudges differ by up to {np.abs(weights.grad.numpy() - slopes).max():.1e}")
print(f"slopes are of size {np.abs(slopes).max():.1e}")

# %% [markdown]
# One run and one pass back give all 640 slopes, as exactly as float64 allows. The nudges took 641 runs, are right to
# about six digits, and for a model of a billion weights nobody could wait for them.
#
# ### The idea
# While the model runs, write down each operation: what went in, and how steep the result is in each of its inputs.
# Going back, every value hears one number, *by how much the loss grows if I grow*, and tells each of its parents that
# number times the slope. A value that was used twice adds up what it hears.

# %%
# By hand, for loss = a * b + a with a = 2, b = -3. `heard` is what each value hears.
a, b = 2.0, -3.0
product = a * b  # slopes: b by a, a by b
total = product + a  # slopes: 1 by product, 1 by a
heard = {"total": 1.0, "product": 1.0, "a": 0.0, "b": 0.0}  # product: its slope, 1, times what total heard
heard["a"] += 1.0 * heard["total"]  # a as a term
heard["a"] += b * heard["product"]  # a as a factor
heard["b"] += a * heard["product"]
heard

# %% [markdown]
# ### Your turn: `Value` (core)
# - `Value(2.0)` has `data`, `grad` (0.0), `parents` (an empty tuple) and `op` (an empty text)
# - `+` and `*` give new Values that know their `parents`, in order, and their `op`, `"+"` or `"*"`; the other side may
#   be a plain number, left or right
# - `push()` adds to the `grad` of each parent what reaches it through this value
# - **done when** pushing every value once, last made first, gives the right gradients, for `a + a` too
#
# More arguments of the constructor are yours to choose, more methods too.


# %%
# exercise: autograd/value-add-mul
class Value:
    """A number that remembers how it was made."""

    def __init__(self, data):
        raise NotImplementedError

    def __add__(self, other):
        raise NotImplementedError

    def __mul__(self, other):
        raise NotImplementedError

    def push(self):
        raise NotImplementedError


# %%
lab.check("value-add-mul")

# %% [markdown]
# The rest of an engine is more of the same. `Node`, in `labsupport/scalars.py`, has your four attributes and `push`,
# also `- / **`, `exp`, `log`, `tanh` and `relu`. It keeps its slopes, worked out when the value is made.

# %%
import inspect

print(inspect.getsource(Node.push))
print(inspect.getsource(Node.tanh))

# %% [markdown]
# ### See
# `Number` is a `Node` that can go back. Step forward, then backward. `inner` is used twice: before it has heard from
# both results, should it hand anything on?

# %%
a, b = Number(2.0), Number(-0.3)
inner = (a * b).tanh()  # the long way from a to the result
lab.show("graph", inner * a + inner.exp(), names={"a": a, "b": b, "inner": inner})

# %% [markdown]
# ### Your turn: `backward` (core)
# - **in**: a Node, whose `push()` is given; `cotangent`, what it hears itself, 1.0 by default
# - **out**: nothing; the `grad` of every leaf, a node without parents, has grown by the cotangent times the derivative
#   of this node by that leaf
# - leaves add up from call to call; nodes in between start again from 0
# - **done when** no node is visited once per path, and a chain of 5,000 nodes works
# - **not allowed**: `setrecursionlimit`


# %%
# exercise: autograd/topological-backward
class Scalar(Node):
    """A Node that can fill in the gradients of everything it was made from."""

    def backward(self, cotangent=1.0):
        raise NotImplementedError


# %%
lab.check("topological-backward")

# %%
# Your backward, step by step. Until it is written, the figure says so.
lab.show("graph", (Scalar(0.2) * 3 + Scalar(-0.5)).tanh() * Scalar(0.5))

# %% [markdown]
# ### Does it agree with torch?
# `expression` runs on both: it draws operations and applies them to whatever it is given. Put your `Scalar` in place
# of `Number` once its check has passed.


# %%
def expression(seed, leaves, steps=12):
    rng, pool = np.random.default_rng(seed), list(leaves)
    for _ in range(steps):
        p, q = (pool[rng.integers(len(pool))] for _ in range(2))
        made = [p + q, p * q, p - q, p / (q * q + 1), (p * 0.5).exp(), (p * p + 1).log(), p.relu()]
        pool.append(made[rng.integers(len(made))].tanh())
    return sum(pool[1:], pool[0])


# %%
worst, made_by = 0.0, Number
for seed in range(500):
    data = np.random.default_rng(seed).normal(size=3)
    ours = [made_by(x) for x in data]
    theirs = [torch.tensor(x, requires_grad=True) for x in data]
    expression(seed, ours).backward()
    expression(seed, theirs).backward()
    worst = max(worst, *(abs(n.grad - t.grad.item()) for n, t in zip(ours, theirs, strict=True)))
f"500 expressions, three gradients each, largest difference {worst:.0e}"

# %% [markdown]
# ## Part 2. From numbers to arrays
# Nothing about the rule needs single numbers. torch makes one node per *operation on arrays*, and each knows how to
# turn what it hears, an array shaped like its result, into one array per input.


# %%
def nodes_behind(grad_fn, seen):
    if grad_fn is not None and grad_fn not in seen:
        seen.add(grad_fn)
        for parent, _ in grad_fn.next_functions:
            nodes_behind(parent, seen)
    return seen


by_number = 100 * 10 * (64 + 63)  # products and sums of the scores alone
names = sorted(type(fn).__name__ for fn in nodes_behind(loss.grad_fn, set()))
print(f"{len(names)} nodes for the whole loss: {', '.join(names)}")
print(f"{by_number:,} nodes for the scores, one per number")

# %% [markdown]
# Broadcasting adds a twist. A bias of shape (10,) is added to scores of shape (100, 10): forward, each of its elements
# is read a hundred times. Backward, what it hears has the shape of the scores, and its own gradient must have its own.
#
# ### Your turn: `unbroadcast` (core)
# - **in**: `grad`, an array; `shape`, that of an operand that was broadcast to `grad.shape`
# - **out**: the operand's gradient, of exactly shape `shape`, in the dtype of `grad`
# - **done when** it is right for axes put in front, axes stretched from 1, both, and neither


# %%
# exercise: autograd/unbroadcast
def unbroadcast(grad, shape):
    """Return the gradient of an operand of `shape` that was broadcast to `grad.shape`."""
    raise NotImplementedError


# %%
lab.check("unbroadcast")

# %% [markdown]
# *A good place to rest. When you come back, run the setup cell at the top; nothing else is needed.*
#
# ## Part 3. The rules of torch
# ### Predict: who has a gradient (core)
# Each line starts from `x = torch.tensor([1.0, 1.0], requires_grad=True)`. Write what the last part gives: a list of
# numbers, `None`, `True` or `False`. The drill below asks more of this kind.

# %%
# exercise: autograd/who-has-grad
of_twice = ...  # (x * x).sum().backward(); (x * x).sum().backward(); x.grad
of_between = ...  # y = x * 2; y.sum().backward(); y.grad
of_cast = ...  # w = torch.ones(2, requires_grad=True).double(); w.sum().backward(); w.grad
of_max = ...  # x.max().backward(); x.grad
of_max_dim = ...  # x.max(dim=0).values.backward(); x.grad
of_wrapped = ...  # torch.tensor(x * 2).requires_grad
of_rounded = ...  # (1.6 * x).round().sum().backward(); x.grad
of_bias = ...  # b = torch.zeros(1, requires_grad=True); (x + b).sum().backward(); b.grad

# %%
lab.check("who-has-grad")

# %%
lab.drill("who-has-grad", ...)

# %% [markdown]
# A *leaf* is a tensor no recorded operation made: your weights, your data. Only leaves that want a gradient keep one,
# and there it adds up. The figure shows torch's own graph of two such weights; Table says what each node has saved. A
# value that no node saved is gone by then: "not kept".

# %%
x = torch.tensor([0.5, -1.0, 2.0])
w, bias = torch.tensor([0.3, 0.1, -0.2], requires_grad=True), torch.tensor([0.1], requires_grad=True)
lab.show("graph", (w * x + bias).tanh().sum(), names={"w": w, "bias": bias, "x": x})

# %% [markdown]
# ### Mend: `train` (core)
# A first training loop. With one step its loss is right; with two it stops.
#
# - **in**: `w`, (features,), a leaf; `w.grad` may hold something from before, which does not count. `x`, (rows,
#   features), `y`, (rows,); `lr`; `steps`
# - **out**: a list with the loss before each step, as Python numbers
# - **done when** the caller's `w` has moved, by the gradient of each step alone, and still is a leaf that wants one


# %%
# exercise: autograd/sgd-step
def train(w, x, y, lr, steps):
    """Take `steps` steps of gradient descent on `w`, in place; return the loss before each step."""
    losses = []
    for _ in range(steps):
        loss = (x @ w - y).square().mean()
        loss.backward()
        w = w - lr * w.grad
        losses.append(loss.item())
    return losses


# %%
lab.check("sgd-step")

# %% [markdown]
# ### Three switches that are not the same
# `eval()` tells layers how to behave. `no_grad` tells autograd not to write anything down. Neither does the other's
# work. Which of these three columns do you expect to be true where?

# %%
model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
batch = torch.arange(24.0).reshape(6, 4) ** 2
for training in (True, False):
    for recording in (True, False):
        model.train(training)
        mean_before = model[0].running_mean.clone()
        with torch.set_grad_enabled(recording):
            result = model(batch)
        moved = not torch.equal(mean_before, model[0].running_mean)
        print(f"{'train()' if training else 'eval() '}  {'recording' if recording else 'no_grad  '}  ", end="")
        print(f"graph {result.requires_grad!s:5}  drops {bool((result == 0).any())!s:5}  statistics move {moved}")

# %% [markdown]
# The third, `detach()`, concerns one tensor: the same numbers in the same memory, without a history. And `.data`, its
# older sibling, also leaves out the alarm. `exp` saves its result for backward; below, somebody overwrites it.


# %%
def overwrite(way):
    a = torch.tensor(2.0, requires_grad=True)
    b = a.exp()
    getattr(b, way)().zero_() if way == "detach" else b.data.zero_()
    said = f"{way}: version {b._version}"
    try:
        b.backward()
    except RuntimeError as error:
        return f"{said}, {str(error).split(': [')[0]}"
    return f"{said}, gradient {a.grad.item()}; it should be {np.exp(2):.2f}"


print(overwrite("data"), overwrite("detach"), sep="\n")

# %% [markdown]
# Every tensor counts its changes. A node remembers at which version it saved something, and backward compares. `.data`
# does not count, so a wrong gradient comes out without a word. Press Last: the figure shows the alarm at its node.

# %%
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a.exp()
total = (b * a).sum()
b.detach().zero_()
lab.show("graph", total, names={"a": a, "b": b})

# %% [markdown]
# ### Mend: `relative_scores` (more)
# The values are right. No gradient reaches `x` or `w`, and the day it does, it will be wrong.
#
# - **in**: `x`, (rows, features); `w`, (features,); `cap`, a number
# - **out**: scores exp(x @ w), those above `cap` counted as `cap` (gradient 0), divided by their mean, squared
# - **done when** the gradient treats the mean as a constant, and nothing else


# %%
# exercise: autograd/detached
def relative_scores(x, w, cap):
    """Return the squares of the capped scores exp(x @ w), relative to their mean, which counts as a constant."""
    scores = torch.exp(x @ w)
    scores.data.clamp_(max=cap)
    scale = scores.mean()
    relative = torch.tensor((scores / scale).tolist(), dtype=x.dtype)
    return relative.square()


# %%
lab.check("detached")

# %% [markdown]
# ## Part 4. Gradients that are no numbers
# The slope of a square root at 0 is infinite, and 0 times infinite is no number. So a length, taken apart, has no
# gradient at the zero vector, while the ready-made function has one.

# %%
for name, length in {
    "sqrt of the sum of squares": lambda v: (v * v).sum().sqrt(),
    "torch.linalg.vector_norm": torch.linalg.vector_norm,
    "where(v > 0, sqrt(v), 0)": lambda v: torch.where(v > 0, v.sqrt(), 0.0).sum(),
}.items():
    v = torch.zeros(3, requires_grad=True)
    length(v).backward()
    print(f"{name:27} {v.grad.tolist()}")

# %% [markdown]
# The last line masks its result, and the gradient is no number all the same. `where` sends 0 back into the branch it
# did not take; that branch multiplies it with an infinite slope. One such entry in a batch, and every weight is NaN.
#
# ### Mend: `safe_sqrt` (core)
# - **in**: `x`, any shape, any floating dtype
# - **out**: the square root where x is positive, 0 elsewhere
# - **done when** the gradient is 0 where x is not positive, and exact where it is, however small


# %%
# exercise: autograd/safe-sqrt
def safe_sqrt(x):
    """Return the square root of `x` where it is positive and 0 elsewhere, with gradient 0 there."""
    return torch.where(x > 0, torch.sqrt(x), 0.0)


# %%
lab.check("safe-sqrt")

# %% [markdown]
# *That was the core. Rest here; what follows is worth a second sitting.*
#
# ## Part 5. A backward of your own (more)
# Sometimes the derivative is not what you want. Rounding has slope 0 almost everywhere, so a network with rounded
# weights would never learn. The *straight-through* trick: round forward, and go back as if nothing had been rounded.
#
# ### Your turn: `RoundWithin`
# - `RoundWithin.apply(x, limit)`: `x` rounded to whole numbers and clamped to [-limit, limit]; `limit` is a number
# - backward: the cotangent where |x| <= limit, 0 elsewhere; nothing for the limit
# - **done when** what backward needs went through `ctx.save_for_backward`


# %%
# exercise: autograd/straight-through
class RoundWithin(torch.autograd.Function):
    """x rounded to whole numbers between -limit and limit; backward as if it had not been rounded."""

    @staticmethod
    def forward(ctx, x, limit):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, cotangent):
        raise NotImplementedError


# %%
lab.check("straight-through")

# %% [markdown]
# A backward of your own wants a test of its own. `gradcheck` nudges each input, as we did at the beginning, in float64.
# `create_graph=True` writes the way back down as well, so it can be differentiated again: a *double backward*.

# %%
x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", torch.autograd.gradcheck(lambda x: x**3, x))
(first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
print("3 x² is", first.tolist(), "  6 x is", second.tolist())

# %% [markdown]
# ### Your turn: `logsumexp_backward`
# - **in**: `result = torch.logsumexp(x, dim)`, the log of the sum of exp(x) along dim, and all that belongs to
#   it; `cotangent`, of the shape of `result`
# - **out**: the gradient of `x`, of its shape
# - **done when** gradcheck agrees, as does gradgradcheck, which nudges once more to test a double backward, and entries
#   of 1,000 do no harm


# %%
# exercise: autograd/logsumexp-backward
def logsumexp_backward(cotangent, x, result, dim):
    """Return the gradient of `x` for `result = torch.logsumexp(x, dim)`."""
    raise NotImplementedError


# %%
lab.check("logsumexp-backward")

# %% [markdown]
# ## Part 6. What backward keeps (more)
# Every node holds on to what its backward will need. `saved_tensors_hooks` calls us for each such tensor. We count
# each memory once, and leave out the weights, which are there anyway.


# %%
def kept_bytes(run, model):
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def note(tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in own:
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = run()  # held, so that all that is counted is alive at once
    return sum(kept.values()), result


# %%
from torch.utils.checkpoint import checkpoint

blocks = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(16)]
model, batch = torch.nn.Sequential(*blocks), torch.randn(256, 64)
print(f"one activation       {batch.nbytes:9,} bytes")
print(f"16 blocks            {kept_bytes(lambda: model(batch), model)[0]:9,} bytes")
with torch.no_grad():
    print(f"without recording    {kept_bytes(lambda: model(batch), model)[0]:9,} bytes")
in_one_piece = kept_bytes(lambda: checkpoint(model, batch, use_reentrant=False), model)[0]
print(f"as one checkpoint    {in_one_piece:9,} bytes")

# %% [markdown]
# Plain, the input and sixteen results are kept. A *checkpoint* keeps only the input of a piece of the model and runs
# the piece again when backward gets there. Put everything into one piece, and backward will have all of it at once.
# The art is in between.
#
# ### Your turn: `run_blocks`
# - **in**: `blocks`, a list of modules that keep one activation each; `x`, data, which wants no gradient
# - **out**: what the last block gives, with the gradients of the plain loop
# - **done when** of 36 blocks at most 12 activations are kept for backward, and at most 17 are alive at a time during
#   it; of 10 blocks 7 and 11; no block runs more than twice


# %%
# exercise: autograd/checkpoint-budget
def run_blocks(blocks, x):
    """Return the result of all blocks, one after the other; only the inputs of some are kept for backward."""
    raise NotImplementedError


# %%
lab.check("checkpoint-budget")

# %% [markdown]
# ## Bring your own
# Any loss of yours, a tensor with one element, or any computation on `Number` or your `Scalar`. Which node keeps the
# most? Which leaf hears from more than one side? The course's example is the loss from the beginning.

# %%
images = torch.tensor(lab.data("digits")[:100].reshape(100, 64) / 16)  # (image, pixel)
labels = torch.tensor(lab.data("digit_labels")[:100].astype(np.int64))  # (image,)
weights = torch.zeros(64, 10, dtype=torch.float64, requires_grad=True)  # (pixel, digit)
mine = torch.nn.functional.cross_entropy(images @ weights, labels)
lab.show("graph", mine, names={"weights": weights, "images": images})

# %% [markdown]
# ## Close
# You have an engine that agrees with torch, you know who ends up with which gradient, and you can count what backward
# keeps.
#
# What production code does differently:
#
# - torch counts, for each node, the results that depend on it, and lets a node run when the last has reported: the
#   order you found, without a stack, and on several threads where there are several devices.
# - It frees what a node saved as soon as the node has run. A second backward through such a node is an error, unless
#   the first one was asked to keep things: `retain_graph=True`.
# - micrograd, the engine many learn from, finds its order by recursion and lets all nodes add up over calls, so a
#   second backward gives wrong numbers (issue 53). Yours does not.
# - NaN from the branch not taken has been reported to torch for years, in 2019 and again in 2026; the answer remains
#   your double `where`. `torch.linalg.vector_norm` has its zero built in.
# - `torch.utils.checkpoint` costs one more forward. Chen and others showed that pieces of about √n blocks bring n
#   activations down to about 2 √n.
#
# Sources, read 2026-11: PyTorch 2.13, [autograd mechanics](https://docs.pytorch.org/docs/2.13/notes/autograd.html) for
# leaves, saved tensors, versions and points without a slope,
# [extending](https://docs.pytorch.org/docs/2.13/notes/extending.html) for functions of your own,
# [checkpoint](https://docs.pytorch.org/docs/2.13/checkpoint.html); its
# [blog](https://pytorch.org/blog/how-computational-graphs-are-executed-in-pytorch/) for the order of backward;
# pytorch [#17455](https://github.com/pytorch/pytorch/issues/17455),
# [#68425](https://github.com/pytorch/pytorch/issues/68425) and
# [#187297](https://github.com/pytorch/pytorch/issues/187297) for masks and NaN;
# [micrograd](https://github.com/karpathy/micrograd) and its
# [issue 53](https://github.com/karpathy/micrograd/issues/53); Bengio, Léonard and Courville,
# [straight-through](https://arxiv.org/abs/1308.3432), 2013; Chen and others,
# [sublinear memory](https://arxiv.org/abs/1604.06174), 2016.
#
# Next: [loading](12_loading.ipynb), which keeps the device fed while it computes gradients.
