"""A computation read from a torch tensor: its `grad_fn`, what that keeps for backward, and one real backward pass.

Nothing of the learner's is changed: the pass runs through `torch.autograd.grad` with the graph retained, so that no
`.grad` is written and the graph can still be used. torch is never imported here; whoever has a tensor has it loaded.
"""

import re
import sys

from labsupport.errors import LabError
from labsupport.figures.graph_model import Add, Amount, Graph, Node, Saved, Step, Stop, amount_of, name_nodes
from labsupport.figures.words import clip_label

__all__ = ["graph_of_tensor"]

MOST_KEPT = 16  # elements of a gradient that is kept as it is; of larger ones only the shape
_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_LEAF = "AccumulateGrad"


def graph_of_tensor(root, names):
    """Return the `Graph` behind a tensor of one element.

    Args:
        root: the result; it must have been computed from something that requires a gradient.
        names: {name: tensor}, for leaves, constants and values on the way.

    Raises:
        LabError: the tensor is in no graph, or has more than one element.
    """
    torch = sys.modules["torch"]
    if root.grad_fn is None:
        why = "it requires a gradient, but is a leaf" if root.requires_grad else "its requires_grad is False"
        step = "pass the result of a computation on tensors made with requires_grad=True, outside of torch.no_grad()"
        raise LabError("this tensor was not computed in a graph", why=why, next_step=step)
    if root.numel() != 1:
        raise LabError(f"backward starts from a single number; this tensor has shape {tuple(root.shape)}",
                       next_step="pass a sum or a mean of it: x.sum()")  # fmt: skip
    fns = _in_order(root.grad_fn)
    reader = _Reader(fns, root, names)
    nodes = name_nodes(reader.nodes())
    steps, grads, stop = _Pass(torch, fns, reader).run(root)
    maker = f"torch {torch.__version__.split('+')[0]}"
    held = [f"{nodes[reader.places[id(fn)]].ref}.grad" for fn in fns if _is_leaf(fn) and fn.variable.grad is not None]
    return Graph(nodes, steps, Amount("1", 1.0), maker, stop, grads, keeps=True, held=tuple(held))


def _in_order(last):
    """Return every function behind `last` in the order in which they were called; leaves before their first use."""
    found, stack = {id(last): last}, [last]
    while stack:
        for parent, _ in stack.pop().next_functions:
            if parent is not None and id(parent) not in found:
                found[id(parent)] = parent
                stack.append(parent)
    order, placed = [], set()
    stack = sorted((fn for fn in found.values() if not _is_leaf(fn)), key=_called_at, reverse=True)
    while stack:  # torch numbers calls; a graph put together in several threads is ordered by its edges
        fn = stack[-1]
        missing = [p for p, _ in fn.next_functions if p is not None and id(p) not in placed]
        if id(fn) in placed or not missing:
            stack.pop()
            if id(fn) not in placed:
                placed.add(id(fn))
                order.append(fn)
        else:
            stack += reversed(missing)
    return order


def _is_leaf(fn):
    return fn.name().endswith(_LEAF)


def _called_at(fn):
    return fn._sequence_nr() if hasattr(fn, "_sequence_nr") else 0


def _op_of(fn):
    """Return "log_softmax" for LogSoftmaxBackward0, and the name of a Function of one's own as it is."""
    name = fn.name().split("::")[-1]
    builtin = re.search(r"Backward\d+$", name)
    name = re.sub(r"Backward\d*$", "", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() if builtin else name


class _Reader:
    """What the functions of a graph tell: operations, saved tensors, and from these the values on the way."""

    def __init__(self, fns, root, names):
        self.fns, self.root = fns, root
        self.tensors = {name: value for name, value in names.items() if hasattr(value, "grad_fn")}
        self.kept = [_saved_of(fn) for fn in fns]
        self.by_fn = {}  # id of a function -> the tensor it made
        for tensor in [t for _, found in self.kept for t in found] + list(self.tensors.values()) + [root]:
            if tensor.grad_fn is not None and not tensor.is_leaf and _outputs_of(tensor.grad_fn) == 1:
                self.by_fn[id(tensor.grad_fn)] = tensor
        self.names = {}
        for name, tensor in self.tensors.items():
            self.names.setdefault(_memory(tensor), name)
        self.own_names = {id(t.grad_fn): name for name, t in self.tensors.items() if t.grad_fn is not None}

    def nodes(self):
        """Return the nodes; `self.places` then says where each function is, `self.constants` are ones without any."""
        self.places, made = {}, []
        for fn, (saved, found) in zip(self.fns, self.kept):
            if _is_leaf(fn):
                made.append(Node("", (), amount_of(fn.variable.detach()), "leaf", self._name(fn.variable)))
            else:
                parents = [None if p is None else self.places[id(p)] for p, _ in fn.next_functions]
                constants = self._constants(found, parents.count(None))
                for constant in constants:
                    made.append(Node("", (), amount_of(constant.detach()), "constant", self._name(constant)))
                fill = iter(range(len(made) - len(constants), len(made)))
                parents = [next(fill, None) if p is None else p for p in parents]
                value = self.by_fn.get(id(fn))
                made.append(Node(
                    clip_label(_op_of(fn), 12), tuple(p for p in parents if p is not None),
                    None if value is None else amount_of(value.detach()), "op", self.own_names.get(id(fn), ""),
                    fn.name().split("::")[-1], saved,
                ))  # fmt: skip
            self.places[id(fn)] = len(made) - 1
        return made

    def _constants(self, found, room):
        """Return the saved tensors that are inputs without a gradient, when it is plain which they are."""
        plain = {_memory(t): t for t in found if not t.requires_grad}
        return list(plain.values()) if 0 < len(plain) == room else []

    def _name(self, tensor):
        return self.names.get(_memory(tensor), "")


def _outputs_of(fn):
    return len(getattr(fn, "_input_metadata", None) or (1,))


def _memory(tensor):
    try:
        return (tensor.data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.dtype)
    except RuntimeError:  # a kind of tensor without memory of its own
        return (id(tensor),)


def _saved_of(fn):
    """Return ((Saved, ...), [tensors that could be read]) of what a function keeps for backward."""
    names = [name for name in dir(fn) if name.startswith("_saved_")]
    if hasattr(fn, "saved_tensors") or "saved_tensors" in dir(type(fn)):
        names.append("saved_tensors")
    saved, tensors = [], []
    for name in names:
        words = name.removeprefix("_saved_")
        try:
            value = getattr(fn, name)
        except RuntimeError as error:
            found = _VERSIONS.search(str(error))
            now, version = map(int, found.groups()) if found else (0, 0)
            saved.append(Saved(words, 0, version, now, (), _sentence(error)))
            continue
        several = isinstance(value, tuple | list)
        for k, tensor in enumerate(value if several else [value]):
            if hasattr(tensor, "grad_fn"):
                own = f"{words}[{k}]" if several else words
                memory = (tensor.untyped_storage().data_ptr(), tensor.nbytes)
                saved.append(Saved(own, tensor.nbytes, tensor._version, tensor._version, memory))
                tensors.append(tensor)
    return tuple(saved), tensors


def _sentence(error):
    """Return what an error of backward means, in words."""
    said = str(error)
    if found := _VERSIONS.search(said):
        now, then = found.groups()
        return f"it kept a tensor at version {then} for backward, and an in-place change has made that version {now}"
    if "second time" in said or "already been freed" in said:
        return "what it kept was freed by an earlier backward; that call needed retain_graph=True"
    return ""


class _Pass:
    """One backward pass, watched by hooks on every function."""

    def __init__(self, torch, fns, reader):
        self.torch, self.fns, self.places = torch, fns, reader.places
        self.sums, self.steps, self.grads, self.now = {}, [], {}, None

    def run(self, root):
        """Return (steps, grads, Stop or None)."""
        leaves = [fn for fn in self.fns if _is_leaf(fn)]
        hooks, stop = [], None
        try:
            for fn in self.fns:
                if not _is_leaf(fn):
                    hooks.append(fn.register_prehook(self._before(fn)))
                    hooks.append(fn.register_hook(self._after(fn)))
            found = self.torch.autograd.grad(
                root, [fn.variable for fn in leaves], self.torch.ones_like(root), retain_graph=True, allow_unused=True
            )
            for fn, grad in zip(leaves, found):
                if grad is not None:
                    self.grads[self.places[id(fn)]] = amount_of(grad)
        except Exception as error:  # what backward has to say is shown at its node, not raised
            words = _sentence(error)
            said = (str(error).splitlines() or [""])[0].partition(". Hint")[0][:220]
            stop = Stop(self.now, words, f"{type(error).__name__}: {said}")
        finally:
            for hook in hooks:
                hook.remove()
        self.grads[self.places[id(root.grad_fn)]] = Amount("1", 1.0)
        return self.steps, self.grads, stop

    def _before(self, fn):
        def note(grads):
            self.now = self.places[id(fn)]
            arrived = _single(grads)
            if arrived is not None:
                self.grads[self.now] = arrived

        return note

    def _after(self, fn):
        def note(given, grads):
            adds = []
            for (parent, output), grad in zip(fn.next_functions, given):
                if parent is not None and grad is not None:
                    adds.append(self._add(self.places[id(parent)], output, grad))
            self.steps.append(Step(self.places[id(fn)], _single(grads), tuple(adds)))

        return note

    def _add(self, target, output, grad):
        amount, before = amount_of(grad), self.sums.get((target, output))
        if grad.numel() <= MOST_KEPT:
            total = grad.detach().clone() if before is None else before + grad.detach()
            self.sums[target, output] = total
            return Add(target, amount, amount_of(total), None if before is None else amount_of(before))
        self.sums[target, output] = amount
        return Add(target, amount, amount, before)


def _single(grads):
    """Return the one gradient among those of a function's outputs, as an `Amount`."""
    given = [grad for grad in grads if grad is not None]
    if len(given) == 1:
        return amount_of(given[0])
    return Amount(f"{len(given)} outputs") if given else None
