"""Where the nodes of a graph go: rows from the inputs at the top to the result at the bottom, and lines between them.

Lines pass through places of their own in every row between, so that none crosses a box; where there are many rows
between, only an end is drawn, with a label that says where it comes from. A graph that is long and narrow is cut into
columns that stand side by side.
"""

from dataclasses import dataclass
from itertools import pairwise

from labsupport.figures.graph_model import children_of

__all__ = ["Layout", "NODE_H", "NODE_W", "laid_out"]

NODE_W, NODE_H = 106, 40
HEAD = 17  # the band with the name above a box
GAP_X, GAP_Y = 16, 38
PITCH = HEAD + NODE_H + GAP_Y
THIN = 12  # the width of a line's place in a row
GUTTER = 40  # between columns
MOST_ROWS = 9  # in a column, where there is room for another one
MOST_BETWEEN = 5  # rows that a line passes; a longer one is only an end with a label
END = 8  # the length of such an end
LABEL_H = 20
SWEEPS = 8


@dataclass(frozen=True)
class Layout:
    """Corners of the boxes, one path for each line by (child, place among its inputs), and the size.

    `ends` has the (x, y) of a label for each line of which only the end at its child is drawn.
    """

    places: dict
    routes: dict
    ends: dict
    width: int
    height: int


def laid_out(nodes, room, curved=True, margin=0):
    """Return the `Layout` of nodes in forward order for a room in CSS pixels; wider where one node does not fit.

    Args:
        nodes: as in a `Graph`.
        room: in CSS pixels.
        curved: whether lines bend smoothly; straight ones take half the letters.
        margin: pixels left free on the left and at the top; width and height are without it.
    """
    most = max(1, (room + GAP_X) // (NODE_W + GAP_X))
    uses = children_of(nodes)
    for widest in range(most, 0, -1):
        rows, chains = _rows(nodes, uses, widest)
        if widest == 1 or max(_needs(row) for row in rows) <= room:
            break
    rows = _ordered(rows, _links(nodes, chains))
    wide = max(_needs(row) for row in rows)
    columns = max(1, min((room + GUTTER) // (wide + GUTTER), -(-len(rows) // MOST_ROWS)))
    high = -(-len(rows) // columns)
    own = (max(room, wide) - (columns - 1) * GUTTER) // columns
    centres = _centres(rows, _links(nodes, chains), own)
    at, top = {}, HEAD + (LABEL_H if len(chains) < sum(len(node.parents) for node in nodes) else 0)
    for k, row in enumerate(rows):
        x0, y = margin + k // high * (own + GUTTER), margin + top + k % high * PITCH
        at |= {item: (x0 + centres[item], y, k // high) for item in row}
    places = {n: (at[n][0] - NODE_W // 2, at[n][1]) for n in range(len(nodes))}
    routes, ends = _routes(nodes, uses, chains, at, own, curved, margin)
    return Layout(places, routes, ends, max(room, wide), top + min(high, len(rows)) * PITCH - GAP_Y)


def _is_line(item):
    return isinstance(item, tuple)


def _width(item):
    return THIN if _is_line(item) else NODE_W


def _needs(row):
    return sum(_width(item) + GAP_X for item in row) - GAP_X


def _rows(nodes, uses, widest):
    """Return rows of items, the inputs first: nodes, and (child, place, row) where a line passes; and each line's own.

    A node comes as near above its uses as there is room: given values stand next to where they are used.
    """
    level, held = {}, {}
    for number in reversed(range(len(nodes))):
        row = 1 + max((level[child] for child, _ in uses[number]), default=-1)
        while held.get(row, 0) >= widest:
            row += 1
        level[number] = row
        held[row] = held.get(row, 0) + 1
    top = max(level.values())
    rows = [[] for _ in range(top + 1)]
    for number in range(len(nodes)):
        rows[top - level[number]].append(number)
    chains = {}
    for child, node in enumerate(nodes):
        for place, parent in enumerate(node.parents):
            between = range(top - level[parent] + 1, top - level[child])
            if len(between) > MOST_BETWEEN:
                continue
            chains[child, place] = [(child, place, row) for row in between]
            for row in between:
                rows[row].append((child, place, row))
    return rows, chains


def _links(nodes, chains):
    """Return {item: [items in the row above]} and the reverse, both for neighbouring rows."""
    up, down = {}, {}
    for (child, place), between in chains.items():
        path = [nodes[child].parents[place], *between, child]
        for upper, lower in pairwise(path):
            up.setdefault(lower, []).append(upper)
            down.setdefault(upper, []).append(lower)
    return up, down


def _ordered(rows, links):
    """Return the rows in the order with the fewest crossings found by going up and down a few times."""
    best, fewest = rows, _crossings(rows, links[1])
    for sweep in range(SWEEPS):
        if not fewest:
            break
        rows = [list(row) for row in rows]
        downward = sweep % 2
        for k in range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1):
            place = {item: n for n, item in enumerate(rows[k - 1 if downward else k + 1])}
            near = links[0] if downward else links[1]
            old = {item: n for n, item in enumerate(rows[k])}

            def middle(item, near=near, place=place, old=old):
                found = [place[other] for other in near.get(item, ())]
                return sum(found) / len(found) if found else old[item]

            rows[k].sort(key=middle)
        if (crossings := _crossings(rows, links[1])) < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows, down):
    total = 0
    for upper, lower in pairwise(rows):
        place = {item: n for n, item in enumerate(lower)}
        ends = [place[other] for item in upper for other in down.get(item, ())]
        total += sum(a > b for k, b in enumerate(ends) for a in ends[:k])
    return total


def _centres(rows, links, room):
    """Return the centre of every item: near those it is linked to, apart from its neighbours, inside the room."""
    centres = {}
    for row in rows:
        x = (room - _needs(row)) // 2
        for item in row:
            centres[item] = x + _width(item) // 2
            x += _width(item) + GAP_X
    for sweep in range(6):
        near = links[sweep % 2]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for item in row:
                found = [centres[other] for other in near.get(item, ())]
                wanted.append(sum(found) / len(found) if found else centres[item])
            for item, x in zip(row, _apart(row, wanted, room)):
                centres[item] = x
    return centres


def _apart(row, wanted, room):
    """Return positions as near to `wanted` as order and distances allow (pool adjacent violators)."""
    offsets, at = [], _width(row[0]) / 2
    for item, following in zip(row, [*row[1:], None]):
        offsets.append(at)
        if following is not None:
            at += (_width(item) + _width(following)) / 2 + GAP_X
    pools = []
    for want, offset in zip(wanted, offsets):
        pools.append([want - offset, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    spare = max(0, room - _needs(row))
    shifts = [min(max(0, mean), spare) for mean, n in pools for _ in range(n)]
    return [round(shift + offset) for shift, offset in zip(shifts, offsets)]


def _routes(nodes, uses, chains, at, own, curved, margin):
    """Return a path for each line, in relative steps: down where it runs along a row, a bend between two rows."""
    starts = _ends(nodes, uses, chains, at)
    routes, ends, around = {}, {}, 0
    for number, node in enumerate(nodes):
        for place, parent in enumerate(node.parents):
            if (number, place) not in chains:
                x, y = at[number][0] + starts[number, place, "head"], at[number][1] - HEAD
                routes[number, place], ends[number, place] = f"M{x} {y - END}v{END}", (x, y - END - 2)
                continue
            x, y, column = at[parent]
            x, y = x + starts[number, place, "foot"], y + NODE_H
            d = [f"M{x} {y}"]
            for item in [*chains[number, place], number]:
                x1, y1, other = at[item]
                x1 += starts[number, place, "head"] if item == number else 0
                if other != column:  # from the foot of a column to the head of the next one
                    side = margin + other * (own + GUTTER) - GUTTER + 6 + around % 5 * 7
                    low, high = y + 8 + around % 5 * 4, max(margin + 2, y1 - HEAD - 2)
                    d += [("v", low - y), ("h", side - x), ("v", high - low), ("h", x1 - side)]
                    y, around = high, around + 1
                elif x1 != x:
                    down, across = y1 - HEAD - y, x1 - x
                    bend = down * 2 // 3
                    d.append(("c", 0, bend, across, down - bend, across, down) if curved else ("l", across, down))
                    y += down
                end = y1 + (NODE_H if _is_line(item) else -HEAD)
                d.append(("v", end - y))
                x, y, column = x1, end, other
            routes[number, place] = _path(d)
    return routes, ends


def _path(parts):
    """Return path data of a start and relative steps; steps down that follow each other are one."""
    words = [parts[0]]
    down = 0
    for command, *numbers in parts[1:]:
        if command == "v":
            down += numbers[0]
            continue
        if down:
            words.append(f"v{down}")
        down = 0
        words.append(command + " ".join(map(str, numbers)).replace(" -", "-"))
    return "".join(words) + (f"v{down}" if down else "")


def _ends(nodes, uses, chains, at):
    """Return how far from the middle each line leaves its parent and meets its child: ordered by what they join."""
    ends = {}
    for number, node in enumerate(nodes):
        above = []
        for place, parent in enumerate(node.parents):
            passing = chains.get((number, place))
            above.append((float("inf") if passing is None else at[[parent, *passing][-1]][0], number, place))
        labelled = any(x == float("inf") for x, _, _ in above)
        _spread_out(ends, "head", above, 40 if labelled else 20)
        drawn = [use for use in uses[number] if use in chains]
        _spread_out(ends, "foot", [(at[[*chains[use], use[0]][0]][0], *use) for use in drawn], 20)
    return ends


def _spread_out(ends, side, lines, apart):
    for k, (_, child, place) in enumerate(sorted(lines)):
        ends[child, place, side] = _spread(k, len(lines), apart)


def _spread(place, n, apart):
    """Return how far from the middle of a box one of n lines meets it."""
    return 0 if n == 1 else round((place / (n - 1) - 0.5) * min(NODE_W - 26, apart * (n - 1)))
