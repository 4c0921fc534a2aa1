"""Where the collective player's marks go: one lane for each rank, one column for each chunk, arrows for messages."""

from labsupport.figures.collective_model import REDUCING
from labsupport.figures.film import named
from labsupport.figures.key import key
from labsupport.figures.picture import PAD, cell, path, text
from labsupport.figures.words import clip_label, short_bytes, value_label

__all__ = ["draw_lanes", "widths_for"]

CELL_H = 40
ROW_GAP = 26  # room for an arrow between two lanes
HEAD_H = 18  # column heads
BOTH_GAP = 4  # between the two rows of a lane that has an input and an output
WIDE = 520  # from here on, ranks and chunks are named in words


def widths_for(plan):
    """Return the widths that are laid out; the narrowest keeps every cell readable."""
    least = _least(plan)
    return [least, *(width for width in (WIDE, 760) if width > least + 60)]


def _least(plan):
    left, right = _sides(plan, wide=False)
    return max(270, 2 * PAD + left + right + (46 if plan.ranks <= 4 else 55) * plan.chunks)


def draw_lanes(plan, number, width):
    """Return (marks, height) of frame `number`: 0 is the start, then one for each step, then the result."""
    lanes = _Lanes(plan, width)
    step = plan.steps[number - 1] if 0 < number <= len(plan.steps) else None
    state = min(number, len(plan.steps))
    marks = list(_heads(plan, lanes))
    moving = {}
    for message in step.messages if step else ():
        moving |= {(message.src, slot): "communicating!" for slot in message.slots}
        moving |= {(message.dst, slot): "computing!" for slot in message.into}
    for rank, lane in enumerate(plan.states[state]):
        marks.append(named(f"sent{rank}", text(lanes.sent_x, lanes.top(rank, 0) + CELL_H // 2 + 4, "small",
                                               short_bytes(plan.sent[state][rank]))))  # fmt: skip
        for slot, piece in enumerate(lane):
            role = moving.get((rank, slot)) or _role(plan, number, rank, slot, piece)
            x, y, w, h = lanes.box(rank, slot)
            lines = _lines(plan, number, rank, slot, piece, w)
            marks.append(cell(f"c{rank}.{slot}", x, y, w, h, role, lines))
    if step:
        marks += _arrows(lanes, step.messages, plan.name == "all_to_all")
    height = _legend(marks, plan, lanes.bottom + 14, width)
    return marks, height + PAD


class _Lanes:
    """Where ranks and chunks are, for one width."""

    def __init__(self, plan, width):
        self.plan, self.wide = plan, width >= max(WIDE, _least(plan) + 1)
        self.left, self.right = _sides(plan, self.wide)
        self.pitch = min(130, (width - 2 * PAD - self.left - self.right) // plan.chunks)
        self.gap = 20 if self.pitch >= 66 else 14 if self.pitch >= 55 else 10
        self.rows = 2 if plan.name == "all_to_all" else 1
        self.lane_h = self.rows * CELL_H + (self.rows - 1) * BOTH_GAP
        self.bottom = PAD + HEAD_H + plan.ranks * (self.lane_h + ROW_GAP) - (ROW_GAP if self.rows == 1 else 0)
        self.sent_x = PAD + self.left + plan.chunks * self.pitch + (self.right - 8) // 2 + 6

    def top(self, rank, row):
        return PAD + HEAD_H + rank * (self.lane_h + ROW_GAP) + row * (CELL_H + BOTH_GAP)

    def box(self, rank, slot):
        row, column = divmod(slot, self.plan.chunks)
        return PAD + self.left + column * self.pitch, self.top(rank, row), self.pitch - self.gap, CELL_H


def _sides(plan, wide):
    """Return the room for the names of the ranks, on the left, and for the bytes sent, on the right."""
    if plan.name == "all_to_all":
        return (84, 50) if wide else (22, 36)
    return (58, 50) if wide else (14, 44)


def _heads(plan, lanes):
    y = PAD + HEAD_H - 8
    for column in range(plan.chunks):
        x, _, w, _ = lanes.box(0, column)
        words = f"chunk {column}" if lanes.wide else str(column)
        yield named(f"head{column}", text(x + w // 2, y, "small", words))
    yield named("sent", text(lanes.sent_x, y, "small", "sent"))
    for rank in range(plan.ranks):
        for row in range(lanes.rows):
            words = f"rank {rank}" if lanes.wide else str(rank)
            if lanes.rows == 2:
                words += (" gives", " gets")[row] if lanes.wide else ("↑", "↓")[row]
            yield named(f"rank{rank}.{row}", text(PAD, lanes.top(rank, row) + CELL_H // 2 + 5, "words", words))


def _role(plan, number, rank, slot, piece):
    if piece is None:
        return "idle~"
    if number > len(plan.steps) and (rank, slot) not in plan.wanted:
        return "waiting~"
    if _is_own(plan, number, rank, piece):
        return "idle"
    if plan.finished(slot, piece):
        return "wanted"
    return "touched" if len(piece.parts) > 1 else "idle"


def _is_own(plan, number, rank, piece):
    """Return whether a piece is to be called a rank's own: until the result, of which it may be a part like others."""
    return piece.parts == {rank} and (plan.name in REDUCING or number <= len(plan.steps))


def _lines(plan, number, rank, slot, piece, width):
    """Return the values of a piece and, below, whose they are."""
    if piece is None:
        return ["·", ""]
    label = clip_label(" ".join(value_label(v) for v in piece.values), max(3, (width - 4) // 8))
    return [label or "none", _parts_label(plan, number, rank, slot, piece)]


def _parts_label(plan, number, rank, slot, piece):
    """Return, in at most six letters, whose contributions are in a piece."""
    if plan.name in REDUCING:
        if plan.finished(slot, piece):
            return "✓ all"
        if piece.parts == {rank}:
            return "own"
        return "+".join(map(str, sorted(piece.parts))) if plan.ranks <= 4 else f"{len(piece.parts)} of {plan.ranks}"
    if plan.name == "all_to_all" and slot < plan.chunks:
        return f"for {slot}"
    (part,) = piece.parts
    return "own" if _is_own(plan, number, rank, piece) else f"of {part}"


def _arrows(lanes, messages, crossing):
    """Return an arrow for every message: down to the next lane, round the side of a column, or straight across."""
    taken = []  # (column, first lane, last lane) of arrows that go round
    for message in messages:
        name = f"m{message.src}.{message.dst}.{message.slots[0]}"
        source, target = lanes.box(message.src, message.slots[-1]), lanes.box(message.dst, message.into[-1])
        if crossing:
            d = _below(source, target, lanes.gap)
        elif len(message.slots) == 1 and abs(message.dst - message.src) == 1:
            d = _down(source, target)
        else:
            span = (message.slots[-1], *sorted((message.src, message.dst)))
            track = sum(span[0] == c and span[1] < b and a < span[2] for c, a, b in taken)
            taken.append(span)
            d = _round(source, target, lanes.gap, track)
        yield named(name, path("send", d))


def _down(source, target):
    """Return an arrow to the cell in the next lane, or in the one before."""
    down = target[1] > source[1]
    x = source[0] + source[2] // 2 + (0 if down else 10)  # two that exchange do not lie on each other
    start, end = (source[1] + CELL_H + 2, target[1] - 3) if down else (source[1] - 2, target[1] + CELL_H + 3)
    tip = -7 if down else 7
    return f"M{x} {start}V{end}m-5 {tip}L{x} {end}l5 {tip}"


def _round(source, target, gap, track):
    """Return an arrow out of the right side of a cell, along the gap between two columns, into the right of another."""
    x, start, end = source[0] + source[2] + 2, source[1] + CELL_H // 2 - 6, target[1] + CELL_H // 2 + 6
    side = max(3, gap - 7) + 6 * track
    bend = min(4, side)
    turn, arm = bend if end > start else -bend, min(5, side + 1)
    return (
        f"M{x} {start}h{side - bend}q{bend} 0 {bend} {turn}V{end - turn}q0 {turn} -{bend} {turn}H{x + 1}"
        f"m{arm} -5L{x + 1} {end}l{arm} 5"
    )  # fmt: skip


def _below(source, target, gap):
    """Return an arrow out of the right side of a cell, along two gaps, into another cell from below."""
    x, start = source[0] + source[2] + 2, source[1] + CELL_H // 2
    x1, level, end = target[0] + target[2] // 2, target[1] + CELL_H + 15, target[1] + CELL_H + 3
    side = max(3, gap // 2 - 2)
    bend = min(4, side)
    turn, way = bend if level > start else -bend, bend if x1 > x else -bend
    return (
        f"M{x} {start}h{side - bend}q{bend} 0 {bend} {turn}V{level - turn}q0 {turn} {way} {turn}H{x1}V{end}"
        f"m-5 7L{x1} {end}l5 7"
    )  # fmt: skip


def _legend(marks, plan, y, width):
    """Add what the colours mean; return the y below it."""
    items = [("idle", "own values"), ("wanted", "part of the result")]
    if plan.name in REDUCING:
        items[1:1] = [("touched", "partial " + ("sum" if plan.op == "sum" else plan.op))]
    items += [("communicating!", "sent in this step"), ("computing!", "arrives in it")]
    if len(plan.wanted) < plan.ranks * len(plan.held[0]):
        items.append(("waiting~", "no part of the result"))
    return key(marks, items, y, width)
