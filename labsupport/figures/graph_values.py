"""A computation read from objects of one's own: anything with `data`, `grad`, `parents` and `op`.

Backward is not imitated but run: while `root.backward()` works, every read and write of a `grad` is written down, and
so the figure shows what that code did, mistakes included. Afterwards all gradients are as they were before.
"""

import contextlib

from labsupport.errors import LabError
from labsupport.figures.graph_model import Add, Amount, Graph, Node, Step, Stop, amount_of, children_of, name_nodes
from labsupport.figures.words import clip_label, repr_label

__all__ = ["graph_of_values"]

MOST_EVENTS = 400_000  # of reading and writing gradients; a backward that goes on is stopped there
_PARENTS = ("parents", "_prev", "_parents", "prev", "children")
_OPS = ("op", "_op")
_NAMES = ("name", "label")


class _TooMuch(Exception):
    """Raised inside a backward that reads and writes without an end."""


def graph_of_values(root, names):
    """Return the `Graph` of a value computed by an engine of one's own.

    Args:
        root: the result: an object with `data`, `grad`, `parents` (a sequence of such objects) and `op` (text).
        names: {name: value}.

    Raises:
        LabError: an object in the graph lacks one of these, or the values go round in a circle.
    """
    objects = _in_order(root)
    places = {id(value): number for number, value in enumerate(objects)}
    called = {id(value): name for name, value in names.items()}
    nodes = name_nodes([_node(value, places, called) for value in objects])
    run = _backward_of(root, objects)
    if run is None:
        stop = Stop(None, "This value has no method `backward`, nor has every value a method `push`.")
        return Graph(nodes, [], Amount("1", 1.0), f"your own {type(root).__name__}", stop)
    with _watched(objects) as noted:
        problem = _attempt(run)
        events = list(noted)
        noted.clear()  # what is read from here on is not the learner's doing
        grads = {number: amount_of(value.grad) for number, value in enumerate(objects)}
    seed = grads[len(nodes) - 1] or Amount("–")
    steps, last = _steps(events, nodes, seed)
    touched = {add.target for step in steps for add in step.adds} | {len(nodes) - 1}
    return Graph(
        nodes, steps, seed, f"your own {type(root).__name__}", problem and Stop(last, *problem),
        {number: grads[number] for number in touched if grads[number] is not None},
    )  # fmt: skip


def _parents(value):
    for name in _PARENTS:
        found = getattr(value, name, None)
        if isinstance(found, tuple | list | set | frozenset):
            return list(found)
    step = "give it `data`, `grad`, `parents` (a tuple of the values it was computed from) and `op` (a text)"
    raise LabError(f"an object of type {type(value).__name__} does not say what it was computed from", next_step=step)


def _in_order(root):
    """Return all values behind `root`, every one after its parents, found without recursion."""
    order, state, stack = [], {}, [root]
    while stack:
        value = stack[-1]
        if state.get(id(value)) == "done":
            stack.pop()
        elif state.get(id(value)) == "open":
            order.append(stack.pop())
            state[id(value)] = "done"
        else:
            state[id(value)] = "open"
            for parent in reversed(_parents(value)):
                if state.get(id(parent)) == "open":
                    what = f"{repr_label(parent, 40)} was computed from itself"
                    raise LabError(what, next_step="look at `parents`: a value's own result cannot be among them")
                if id(parent) not in state:
                    stack.append(parent)
    return order


def _node(value, places, called):
    if not hasattr(value, "data") or not hasattr(value, "grad"):
        missing = "data" if not hasattr(value, "data") else "grad"
        raise LabError(f"{repr_label(value, 40)} has no `{missing}`", next_step="give every value `data` and `grad`")
    parents = tuple(places[id(parent)] for parent in _parents(value))
    op = next((str(getattr(value, name)) for name in _OPS if getattr(value, name, "")), "")
    own = next((getattr(value, name) for name in _NAMES if isinstance(getattr(value, name, None), str)), "")
    op = clip_label(op or ("?" if parents else ""), 9)
    kind = "op" if parents else "leaf"
    return Node(op, parents, amount_of(value.data), kind, called.get(id(value)) or own, full=op)


def _backward_of(root, objects):
    """Return what runs backward: the root's own method, or every value's `push` in reverse order; None without both."""
    if callable(getattr(root, "backward", None)):
        return root.backward
    made = [value for value in objects if _parents(value)]
    if not made or not all(callable(getattr(value, "push", None)) for value in made):
        return None

    def push_all():
        root.grad = 1.0
        for value in reversed(made):
            value.push()

    return push_all


def _attempt(run):
    """Call backward; return (sentence, first line of the error) when it fails, else None."""
    try:
        run()
    except _TooMuch:
        return f"Backward was stopped after reading and writing gradients {MOST_EVENTS:,} times.", ""
    except NotImplementedError:
        return "`backward` is still to be written.", ""
    except RecursionError:
        return "`backward` calls itself for every node, and Python allows only so many calls inside each other.", ""
    except Exception as error:  # the learner's own code: told in the figure, at the node where it happened
        said = (str(error).splitlines() or [""])[0][:160]
        return "`backward` ended in an error.", f"{type(error).__name__}: {said}"
    return None


@contextlib.contextmanager
def _watched(objects):
    """Yield a list that fills with ("read", number) and ("write", number, old, new) while gradients are used."""
    events, before = [], [(value, type(value), value.grad) for value in objects]
    numbers = {id(value): number for number, value in enumerate(objects)}
    kinds = {}
    try:
        for value, kind, grad in before:
            if grad is not None:
                value.grad = 0.0 if isinstance(grad, bool | int | float) else grad * 0
            if kind not in kinds:
                kinds[kind] = _watching(kind, numbers, events)
            with contextlib.suppress(TypeError):  # a class of a layout that cannot be exchanged: only results show
                value.__class__ = kinds[kind]
        yield events
    finally:
        for value, kind, grad in before:
            with contextlib.suppress(TypeError):
                value.__class__ = kind
            value.grad = grad


def _watching(kind, numbers, events):
    """Return a subclass of `kind` whose `grad` tells `events` about every read and write."""
    own = getattr(kind, "grad", None)  # a slot or a property
    own = own if hasattr(own, "__set__") else None

    def note(*event):
        events.append(event)
        if len(events) > MOST_EVENTS:
            raise _TooMuch

    def held(value):
        return own.__get__(value, kind) if own else value.__dict__.get("grad")

    def read(value):
        if id(value) in numbers:
            note("read", numbers[id(value)])
        return held(value)

    def write(value, new):
        if id(value) in numbers:
            note("write", numbers[id(value)], _kept(held(value)), _kept(new))
        own.__set__(value, new) if own else value.__dict__.__setitem__("grad", new)

    body = {"__slots__": (), "grad": property(read, write), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), body)


def _kept(grad):
    """Return a gradient that later changes in place do not reach."""
    return grad.copy() if hasattr(grad, "copy") and hasattr(grad, "shape") else grad


def _steps(events, nodes, seed):
    """Return (steps, the node that was being worked on at the end) of what was noted.

    A write belongs to that child of its node whose gradient was read last: that is what a chain rule reads.
    """
    uses = [{child for child, _ in own} for own in children_of(nodes)]
    read_at, wrote_at, steps, source = {}, {}, [], None
    for when, (kind, number, *values) in enumerate(events):
        if kind == "read":
            read_at[number] = when
            source = number
            continue
        known = [child for child in uses[number] if child in read_at] or (read_at and list(uses[number]))
        if known:  # without a read of any child, the child computed last: it is the first that backward comes to
            source = max(known, key=lambda child: (read_at.get(child, -1), child))
            added = read_at.get(number, -1) > wrote_at.get(number, -1)
            steps.append((source, _add(number, *values, added)))
        wrote_at[number] = when
    return _grouped(steps, len(nodes) - 1, seed), source


def _add(number, old, new, added):
    amount = new
    if added:
        amount = new if old is None else new - old
    before = amount_of(old)
    nothing = before is None or before.number == 0
    return Add(number, amount_of(amount), amount_of(new), before, assigned=not added and not nothing)


def _grouped(writes, root, seed):
    """Return the writes as `Step`s: those of one source that follow each other belong together."""
    steps, now = [], {root: seed}
    for source, add in writes:
        if not steps or steps[-1][0] != source:
            steps.append((source, now.get(source), []))
        steps[-1][2].append(add)
        now[add.target] = add.becomes
    return [Step(source, arrived, tuple(adds)) for source, arrived, adds in steps]
