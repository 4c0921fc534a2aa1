"""Large graphs made small: chains, modules and, where that is not enough, stretches of the order become one node each.

A fold never hides how many nodes it holds. Folds are made of whole stretches of an order in which every node comes
after its inputs, or of chains, so that what is left is again a graph without circles.
"""

from dataclasses import replace

from labsupport.figures.graph_model import Add, Node, Step, Stop, children_of, name_nodes
from labsupport.figures.words import clip_label, count, join_words

__all__ = ["MOST_NODES", "folded"]

MOST_NODES = 60


def folded(graph, most=MOST_NODES):
    """Return the graph with at most `most` nodes; itself when it has no more."""
    if len(graph.nodes) <= most:
        return graph
    groups, kinds = _chains(graph), {"chains"}
    if len(set(groups)) > most:
        parts = _modules(graph, most)
        if parts:
            groups, kinds = parts, {"modules"}
    if len(set(groups)) > most:
        groups, kinds = _stretches(graph, max(2, most * 2 // 3)), {"stretches of the order of computing"}
    return _contracted(graph, groups, join_words(sorted(kinds)))


def _chains(graph):
    """Return a group for every node: that of its only user, along chains in which each node has one input.

    Inputs that are given, have no name and are used nowhere else (the 2 of `x * 2`) belong to their user.
    """
    nodes, uses = graph.nodes, children_of(graph.nodes)
    private = [not n.parents and not n.name and len(own) == 1 for n, own in zip(nodes, uses)]
    inputs = [[p for p in n.parents if not private[p]] for n in nodes]
    groups = list(range(len(nodes)))
    for number in reversed(range(len(nodes))):
        child = uses[number][0][0] if len(uses[number]) == 1 else None
        if child is None or (nodes[number].name and not nodes[number].parents):
            continue
        if private[number] or inputs[child] == [number]:
            groups[number] = groups[child]
    alone = {}
    for number, group in enumerate(groups):
        alone.setdefault(group, []).append(number)
    for members in alone.values():  # a node with nothing but the numbers it was given is no chain
        if sum(bool(nodes[n].parents) for n in members) < 2:
            for n in members:
                groups[n] = n
    return groups


def _late(graph):
    """Return the numbers in forward order, with every given value right before its first use."""
    order, placed = [], set()
    for number, node in enumerate(graph.nodes):
        if node.parents:
            order += [p for p in dict.fromkeys(node.parents) if p not in placed and not graph.nodes[p].parents]
            placed.update(node.parents)
            order.append(number)
            placed.add(number)
    return order


def _modules(graph, most):
    """Return groups by module, from names such as "layers.0.weight", or None where names tell none."""
    order = _late(graph)
    for depth in (8, 4, 3, 2, 1):
        groups, module, run = [0] * len(graph.nodes), None, -1
        for number in order:
            name = graph.nodes[number].name if not graph.nodes[number].parents else ""
            if "." in name and (own := ".".join(name.split(".")[:-1][:depth])) != module:
                module, run = own, number
            groups[number] = number if module is None else run
        if module is not None and len(set(groups)) <= most:
            return groups
    return None


def _stretches(graph, n):
    order = _late(graph)
    groups = [0] * len(graph.nodes)
    for place, number in enumerate(order):
        groups[number] = order[place * n // len(order) * len(order) // n]
    return groups


def _contracted(graph, groups, kinds):
    """Return the graph with one node for each group."""
    members = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    # a group comes where its last member comes: all its inputs are there by then
    place = {number: k for k, number in enumerate(_late(graph))}
    order = sorted(members.values(), key=lambda own: max(place[n] for n in own))
    new = {number: k for k, own in enumerate(order) for number in own}
    uses = children_of(graph.nodes)
    out = [[n for n in own if any(new[c] != k for c, _ in uses[n]) or n == len(graph.nodes) - 1]
           for k, own in enumerate(order)]  # fmt: skip
    nodes = [_one(graph, own, out[k], new, k) for k, own in enumerate(order)]
    last = {k: own[0] for k, own in enumerate(out) if len(own) == 1}
    made = [n.members for n in nodes if n.members > 1]
    words = f"{count(sum(made), 'node')} of {len(graph.nodes):,} are drawn as {len(made)}: {kinds}, folded."
    grads = {k: graph.grads[number] for k, number in last.items() if number in graph.grads}
    stop = graph.stop and Stop(None if graph.stop.node is None else new[graph.stop.node], graph.stop.words,
                               graph.stop.error)  # fmt: skip
    steps = _steps(graph, new, last)
    return replace(graph, nodes=name_nodes(nodes), steps=steps, stop=stop, grads=grads, folded=words)


def _one(graph, own, out, new, k):
    nodes = graph.nodes
    if len(own) == 1:
        node = nodes[own[0]]
        return replace(node, parents=tuple(new[p] for p in node.parents))
    parents = dict.fromkeys(new[p] for n in own for p in nodes[n].parents if new[p] != k)
    modules = {".".join(nodes[n].name.split(".")[:-1]) for n in own if "." in nodes[n].name}
    stem = clip_label(_common(modules), 14) if modules else ""
    value = nodes[out[0]].value if len(out) == 1 else None
    saved = tuple(s for n in own for s in nodes[n].saved)
    kind = "fold"
    return Node(count(len(own), "node"), tuple(parents), value, kind, stem, _ops(nodes, own), saved, len(own))


def _common(modules):
    parts = [module.split(".") for module in sorted(modules)]
    same = 0
    while all(len(p) > same and p[same] == parts[0][same] for p in parts):
        same += 1
    return ".".join(parts[0][:same]) or "model"


def _ops(nodes, own):
    ops = [nodes[n].op for n in own if nodes[n].parents]
    some = list(dict.fromkeys(ops))
    return ", ".join(some[:4]) + (", …" if len(some) > 4 else "")


def _steps(graph, new, last):
    """Return the steps between groups: each group's where its last contribution leaves it."""
    adds, when, arrived = {}, {}, {}
    for k, step in enumerate(graph.steps):
        group = new[step.source]
        arrived.setdefault(group, step.arrived if last.get(group) == step.source else None)
        for add in step.adds:
            target = new[add.target]
            if target != group:
                exact = last.get(target) == add.target
                adds.setdefault(group, []).append((target, exact, add))
                when[group] = k
    made = []
    for group in sorted(when, key=when.get):
        own = [Add(t, a.amount, a.becomes, a.before, a.assigned) for t, exact, a in adds[group] if exact]
        own += [Add(t, a.amount, a.amount, None, a.assigned) for t, exact, a in adds[group] if not exact]
        made.append(Step(group, arrived[group], tuple(own)))
    return made
