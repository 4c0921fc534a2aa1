"""What the graph player says: one frame for each node on the way forward and back, a prediction, and the table."""

from dataclasses import replace

from labsupport.figures.film import Ask, Frame, Table
from labsupport.figures.graph_scene import Moment
from labsupport.figures.words import byte_text, count, join_words, number

__all__ = ["ask_of", "frames_of", "summary_of", "table_of"]

MOST_ASKED = 30  # options of a field


def frames_of(graph, together=1):
    """Return ([Frame, ...], [Moment, ...]): start, forward, seed, backward, result.

    Args:
        graph: a `Graph`.
        together: how many nodes are computed in one step forward; above 1 everything else is said in fewer words too,
            and without code.
    """
    given = {n for n, node in enumerate(graph.nodes) if node.kind in ("leaf", "constant")}
    frames = [Frame(title="start: what is given", words=_start_words(graph, given), counts=False)]
    moments = [Moment(set(given), saves=together == 1)]
    ops = [n for n in range(len(graph.nodes)) if n not in given]
    for first in range(0, len(ops), together):
        some = ops[first : first + together]
        frames.append(_forward(graph, some, len(frames)))
        lines = frozenset((n, place) for n in some for place in range(len(graph.nodes[n].parents)))
        now = frozenset(some) if together == 1 else frozenset()
        moments.append(Moment(given | {*ops[: first + together]}, now=now, lines=lines, saves=together == 1))
    _backward(graph, frames, moments, brief=together > 1)
    return frames if together == 1 else [replace(frame, code="") for frame in frames], moments


def _forward(graph, some, k):
    nodes = [graph.nodes[n] for n in some]
    if len(nodes) == 1:
        return Frame(title=f"step {k}: forward {_called(nodes[0])}", words=_forward_words(graph, nodes[0]),
                     code=_forward_code(graph, nodes[0]))  # fmt: skip
    words = "; ".join(f"{n.ref} = {n.value.text}" if n.value is not None else n.ref for n in nodes)
    return Frame(title=f"step {k}: forward {nodes[0].ref} to {nodes[-1].ref}", words=f"{words}.")


def _start_words(graph, given):
    leaves = [_valued(graph.nodes[n]) for n in sorted(given)] or ["nothing outside of the folded nodes"]
    ops = len(graph.nodes) - len(given)
    words = f"Given: {join_words(leaves[:8])}" + (f" and {number(len(leaves) - 8)} more" if len(leaves) > 8 else "")
    them = "it" if len(leaves) == 1 else "them"
    made = f"{count(ops, 'node')} will be" if ops else "Nothing is"
    return f"{words}. {made} computed from {them}."


def _called(node):
    if node.kind == "fold":
        return f"{node.ref} ({node.op})"
    return node.ref if node.kind == "leaf" or node.name == node.op else f"{node.ref} {node.op}"


def _valued(node):
    if node.value is None:
        return node.ref
    return f"a constant {node.value.words}" if node.kind == "constant" and not node.name else \
        f"{node.ref} = {node.value.words}"  # fmt: skip


def _forward_words(graph, node):
    inputs = [graph.nodes[p] for p in node.parents]
    if node.kind == "fold":
        words = f"{node.ref} stands for {count(node.members, 'node')} ({node.full})"
    else:
        words = f"{node.ref} = {_term(node, [_plain(n) for n in inputs])}"
        if all(n.value is not None for n in inputs) and any(n.name or n.kind != "constant" for n in inputs):
            words += f" = {_term(node, [n.value.words for n in inputs])}"
    changed = any(s.now > s.version for s in node.saved)
    words += f" = {node.value.words}{' now, after a change in place' if changed else ''}." if node.value else "."
    if node.value is None and node.kind == "op" and not any(s.problem for s in node.saved):
        words += " Its value is not kept: no gradient needs it."
    return words + _saving_words(node)


def _saving_words(node):
    words = "".join(f" It saved {s.name} at version {s.version}." for s in node.saved[:3] if s.problem)
    if sound := [s for s in node.saved if not s.problem]:
        some = [f"{s.name} (version {s.version})" for s in sound[:3]]
        if len(sound) > 3:
            some.append(f"{number(len(sound) - 3)} more")
        words += f" For backward it saves {join_words(some)}: {byte_text(sum(s.bytes for s in sound))}."
    return words


def _plain(node):
    return node.value.words if node.kind == "constant" and not node.name and node.value else node.ref


def _term(node, inputs):
    """Return "a + b" or "tanh(a)"."""
    if node.op in _INFIX and len(inputs) == 2:
        return f"{inputs[0]} {_INFIX[node.op].replace('*', '×').replace('××', '**')} {inputs[1]}"
    return f"{node.op}({', '.join(inputs)})"


def _python(node):
    return node.name.replace(".", "_") if node.name else node.ref.replace("#", "n")


_INFIX = {"+": "+", "-": "-", "*": "*", "/": "/", "**": "**", "@": "@", "add": "+", "sub": "-", "mul": "*", "div": "/",
          "mm": "@"}  # fmt: skip


def _forward_code(graph, node):
    if node.kind == "fold":
        return ""
    inputs = [graph.nodes[p] for p in node.parents]
    given = [n.value.text.replace("−", "-") if n.kind == "constant" and n.value else _python(n) for n in inputs]
    return f"{_python(node)} = {_term(node, given).replace('×', '*')}"


# ---- backward


def _backward(graph, frames, moments, brief):
    everything, done = set(range(len(graph.nodes))), len(frames) - 1
    root = len(graph.nodes) - 1
    last = {add.target: k for k, step in enumerate(graph.steps) for add in step.adds}
    if not graph.steps and graph.stop is not None:
        _stopped(graph, frames, moments, done + 1, Moment(everything))
        return
    grads = {root: graph.seed.text}
    seed = f"The gradient of the result with respect to itself is {graph.seed.text}: backward begins with it."
    frames.append(Frame(title=f"step {done + 1}: backward begins", words=seed + _next_words(graph, 0),
                        code=f"{_python(graph.nodes[root])}.grad = 1.0", verdict=_verdict(graph, 0)))  # fmt: skip
    moments.append(Moment(everything, dict(grads), frozenset([root]), frozenset([root])))
    for k, step in enumerate(graph.steps):
        grads |= {add.target: add.becomes.text for add in step.adds}
        complete = frozenset(n for n in grads if last.get(n, -1) <= k)
        node = graph.nodes[step.source]
        frames.append(Frame(
            title=f"step {done + 2 + k}: backward {_called(node)}",
            words=_step_words(graph, k, last, brief) + ("" if brief else _next_words(graph, k + 1)),
            code=_step_code(graph, step), verdict=_verdict(graph, k + 1),
        ))  # fmt: skip
        moments.append(Moment(everything, dict(grads), complete, frozenset([step.source]), _lines_of(graph, step),
                              _tags(step)))  # fmt: skip
    if graph.stop is not None:
        moment = Moment(everything, dict(grads), frozenset(grads))
        _stopped(graph, frames, moments, done + 2 + len(graph.steps), moment)
        return
    frames.append(Frame(title="result: all gradients", words=_result_words(graph), counts=False))
    final = grads | {n: amount.text for n, amount in graph.grads.items()}
    moments.append(Moment(everything, final, frozenset(final)))


def _stopped(graph, frames, moments, number, moment):
    stop = graph.stop
    moment.trouble = stop.node
    where = "" if stop.node is None else f" at {_called(graph.nodes[stop.node])}"
    words = stop.words
    if not words.endswith("."):
        words = f"Backward cannot go through it: {words}." if words else "Backward cannot go through it."
    title = f"step {number}: backward stops{where}"
    frames.append(Frame(title=title, words=words + (f" {stop.error}" if stop.error else "")))
    moments.append(moment)


def _next_words(graph, k):
    if k >= len(graph.steps):
        return ""
    return f" Next is {_called(graph.nodes[graph.steps[k].source])}."


def _lines_of(graph, step):
    targets = {add.target for add in step.adds}
    return frozenset((step.source, p) for p, n in enumerate(graph.nodes[step.source].parents) if n in targets)


def _tags(step):
    tags = {}
    for add in step.adds:
        sign = "=" if add.assigned else "+="
        tags.setdefault(add.target, []).append(f"{sign} {add.amount.text}")
    return {n: " ".join(own) if len(" ".join(own)) <= 12 else f"{number(len(own))} × +=" if len(own) > 1 else own[0]
            for n, own in tags.items()}  # fmt: skip


def _step_words(graph, k, last, brief):
    step = graph.steps[k]
    arrived = step.arrived
    node = graph.nodes[step.source]
    words = [f"The gradient of {node.ref} is {arrived.words}." if arrived else f"Backward through {node.ref}."]
    for n, add in enumerate(step.adds):
        name = f"{graph.nodes[add.target].ref}.grad"
        how = "" if brief else _local(arrived, add)
        again = any(other.target == add.target for other in step.adds[n + 1 :])
        so_far = "" if last[add.target] == k and not again else ", not complete yet"
        if add.assigned:
            words.append(f"{name} was {add.before.words} and is replaced by {add.becomes.words}: the old is lost.")
        elif add.before is None or add.before.number == 0:
            words.append(f"{name} += {add.amount.words}{how}{so_far}.")
        else:
            words.append(f"{name} += {add.amount.words}{how}: {add.before.words} becomes {add.becomes.words}{so_far}.")
    if not step.adds:
        words.append("It has no input that needs a gradient.")
    return " ".join(words)


def _local(arrived, add):
    """Return " (3 × local derivative 2)" where both are single numbers and the local one is no puzzle of rounding."""
    if arrived is None or not arrived.number or add.amount.number is None or add.amount.number != add.amount.number:
        return ""
    ratio = add.amount.number / arrived.number
    if abs(ratio) in (0, 1) or abs(ratio) == float("inf"):
        return "" if abs(ratio) != 0 else f" ({arrived.text} × local derivative 0)"
    return f" ({arrived.text} × local derivative {f'{ratio:.4g}'.replace('-', '−')})"


def _step_code(graph, step):
    node = graph.nodes[step.source]
    lines = []
    for add in step.adds:
        sign = "=" if add.assigned else "+="
        lines.append(f"{_python(graph.nodes[add.target])}.grad {sign} {add.amount.text.replace('−', '-')}"
                     f"  # from {_python(node)}")  # fmt: skip
    return "\n".join(lines)


def _result_words(graph):
    leaves = [f"{graph.nodes[n].ref} {amount.words}" for n, amount in sorted(graph.grads.items())
              if graph.nodes[n].kind == "leaf"]  # fmt: skip
    if not leaves:
        return "Backward has gone through every node."
    some = leaves[:8] + ([f"{number(len(leaves) - 8)} more"] if len(leaves) > 8 else [])
    return f"The gradients of what was given: {join_words(some)}."


# ---- prediction


def _receivers(graph):
    return list(dict.fromkeys(add.target for step in graph.steps for add in step.adds))


def _amounts(graph):
    found = {add.becomes.text for step in graph.steps for add in step.adds}
    found |= {add.amount.text for step in graph.steps for add in step.adds} | {graph.seed.text}
    return sorted(found, key=_as_number)


def _as_number(text):
    try:
        return (0, float(text.replace("−", "-")), text)
    except ValueError:
        return (1, 0.0, text)


def ask_of(graph):
    """Return the `Ask`, None where a prediction would have too many options or no numbers."""
    receivers, amounts = _receivers(graph), _amounts(graph)
    if not receivers or not 1 < len(amounts) <= MOST_ASKED or len(receivers) > MOST_ASKED:
        return None
    if any(add.becomes.number is None for step in graph.steps for add in step.adds):
        return None
    names = tuple(graph.nodes[n].ref for n in sorted(receivers))
    prompt = "Name one gradient that changes in the next step, and what it is afterwards."
    return Ask(prompt=prompt, fields=(("gradient of", names), ("is then", tuple(amounts))))


def _verdict(graph, k):
    """Return a function that says what is wrong with a guess about step k of backward; None after the last one."""
    if k >= len(graph.steps) or not graph.steps[k].adds:
        return None
    receivers, amounts, step = sorted(_receivers(graph)), _amounts(graph), graph.steps[k]
    after = {add.target: add for add in step.adds}

    def verdict(node, amount):
        add, text = after.get(receivers[node]), amounts[amount]
        if add is None:
            return "{0} is no input of the node that is next, so its gradient does not change."
        if text == add.becomes.text:
            return ""
        if any(text == a.amount.text for a in step.adds if a.target == add.target):
            return "{1} is what is added, but {0} has or gets more than that: contributions add up."
        if add.before is not None and text == add.before.text:
            return "{1} is what {0} has before the step; something is added to it."
        if step.arrived is not None and text == step.arrived.text:
            return "{1} is the gradient that arrives; it is still to be multiplied by the local derivative."
        return "{0} changes, but not to {1}: multiply what arrives by the local derivative, and add that."

    return verdict


# ---- summary and table


def summary_of(graph):
    """Return the sentence below the figure: nodes, what is used more than once, what is saved."""
    inputs = [n for n in graph.nodes if not n.parents]
    words = [f"{count(sum(n.members for n in graph.nodes), 'node')}, {len(inputs)} of them given."]
    if graph.folded:
        words.append(graph.folded)
    used = {}
    for node in graph.nodes:
        for parent in node.parents:
            used[parent] = used.get(parent, 0) + 1
    twice = [f"{graph.nodes[n].ref} ({number(times)} times)" for n, times in sorted(used.items())
             if times > 1 and graph.nodes[n].kind != "constant"]  # fmt: skip
    if twice:
        some = twice[:4] + ([f"{number(len(twice) - 4)} more"] if len(twice) > 4 else [])
        verb = "has" if len(twice) == 1 else "have"
        words.append(f"Used more than once: {join_words(some)}, which {verb} a contribution for each use.")
    if graph.keeps:
        words.append(_kept_words(graph))
    if graph.held:
        some = join_words(graph.held[:3]) + (" and others" if len(graph.held) > 3 else "")
        words.append(f"Not drawn: {some} {'holds' if len(graph.held) == 1 else 'hold'} an earlier gradient, to which "
                     "a call of backward() adds.")  # fmt: skip
    return " ".join(words)


def _kept_words(graph):
    every = [s for node in graph.nodes for s in node.saved]
    kept = [s for s in every if not s.problem]
    words = [] if every else ["No tensor is saved for backward."]
    if kept:
        total, distinct = sum(s.bytes for s in kept), sum(size for _, size in {s.memory for s in kept})
        apart = f", of them {byte_text(distinct)} in different memory" if distinct != total else ""
        words.append(f"Saved for backward: {count(len(kept), 'tensor')}, {byte_text(total)}{apart}.")
    if lost := len(every) - len(kept):
        words.append(f"{count(lost, 'saved tensor')} cannot be read any more: freed, or changed since.")
    return " ".join([*words, "Values are what is in memory now."])


def table_of(graph, frames):
    """Return the `Table`: one row for each node."""
    backward = next((k for k, f in enumerate(frames) if "backward" in f.title), len(frames))
    shown = {add.target: backward + 1 + k for k, step in enumerate(graph.steps) for add in step.adds}
    head = ["node", "made by", "from", "value", "gradient"] + (["saved for backward"] if graph.keeps else [])
    rows = []
    for at, node in enumerate(graph.nodes):
        grad = graph.grads.get(at)
        row = [node.ref, node.full or node.kind, ", ".join(graph.nodes[p].ref for p in node.parents) or "–",
               node.value.words if node.value else "–", grad.words if grad else "–"]  # fmt: skip
        rows.append((*row, _saved(node)) if graph.keeps else tuple(row))
    return Table(caption="All nodes as a table", head=tuple(head), rows=tuple(rows),
                 shown=tuple(shown.get(n, 0) for n in range(len(graph.nodes))))  # fmt: skip


def _saved(node):
    if node.kind == "fold":
        return byte_text(sum(s.bytes for s in node.saved)) if node.saved else "–"
    return ", ".join(map(_one_saved, node.saved)) or "–"


def _one_saved(saved):
    if saved.problem:
        return f"{saved.name}: kept at v{saved.version}, now v{saved.now}" if saved.now else f"{saved.name}: freed"
    return f"{saved.name}: {byte_text(saved.bytes)}, v{saved.version}"
