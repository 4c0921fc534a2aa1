"""The recorded half of the collective player: what every rank of a real job called, in which order, and who waits.

Time runs downwards, one lane for each rank; calls that belong together stand in one row (`collective_rows.py`). A
column of boxes is what one rank did; a row with an empty place is a collective that somebody never called.
"""

import datetime
import platform

from labsupport.errors import LabError
from labsupport.figures.collective_rows import pairs_of, rows_of, waiting_at
from labsupport.figures.film import Frame, Table, film, named
from labsupport.figures.picture import PAD, cell, text
from labsupport.figures.player import PlayerFigure
from labsupport.figures.words import clip_label, count, join_words, repr_label, tuple_text

__all__ = ["figure", "lanes_of"]

MOST_ROWS = 24  # of calls; earlier ones are left out, and said so
MOST_RANKS = 8
CELL_H = 40
PITCH_H = 48
HEAD_H = 20
LEFT = 26
LEAST = 94  # of a lane: the longest name of an ordinary collective fits


def figure(record, **state):
    """Return the player of a record.

    Args:
        record: a `Record` of a `%%torchrun` job, or the calls of every rank: a list with one list for each rank, or a
            dict from rank to list; calls are `recorder.Call`s or their dicts.

    Raises:
        LabError: there are no calls in it, or more ranks than are drawn.
    """
    lanes, note = lanes_of(record)
    if not 1 <= len(lanes) <= MOST_RANKS:
        raise LabError(f"{len(lanes)} ranks are not drawn", next_step=f"pass the calls of 1 to {MOST_RANKS} ranks")
    pairs = pairs_of(lanes)
    rows = rows_of(lanes, pairs)
    if not rows:
        raise LabError("no rank called a collective in this run", next_step="pass the record of one that did")
    left_out, rows = max(0, len(rows) - MOST_ROWS), rows[-MOST_ROWS:]
    waits, halves = waiting_at(rows), _halves(rows, lanes, pairs)
    steps = (_frame(row, lanes, early, halves) for row, early in zip(rows, waits))
    frames = [_start(lanes, left_out), *steps, _end(rows, lanes)]
    widths = [max(260, 2 * PAD + LEFT + LEAST * len(lanes))]
    widths += [w for w in (520, 760) if w > widths[-1] + 60]
    played = film(
        kind="collective", title="Collectives of a run", note=note, slider="Call",
        summary=_summary(rows, lanes, left_out), frames=frames, widths=widths, table=_table(rows, lanes),
        draw=lambda k, width: _draw(rows, waits, sorted(lanes), k, width),
    )  # fmt: skip
    return PlayerFigure(played, **state)


# ---- reading


def lanes_of(record):
    """Return ({rank: [call as a dict]}, note) of a record in any of its forms."""
    if hasattr(record, "ranks") and hasattr(record, "started"):
        last = max((r.attempt for r in record.ranks), default=0)
        lanes = {r.rank: getattr(r, "calls", None) for r in record.ranks if r.attempt == last}
        if not any(lanes.values()):
            raise LabError("this record holds no calls", next_step="pass the record of a job that called collectives")
        return _plain(lanes), _note(len(lanes), record.started)
    if isinstance(record, dict):
        lanes = record
    elif isinstance(record, list | tuple):
        lanes = dict(enumerate(record))
    else:
        raise LabError(f"{repr_label(record, 40)} is no record of a run", next_step="pass the calls of every rank")
    lanes = _plain(lanes)
    first = min((call["began_ns"] for lane in lanes.values() for call in lane if call["began_ns"]), default=None)
    return lanes, _note(len(lanes), first and first / 1e9)


def _note(ranks, started):
    where = f"{platform.system()} {platform.machine()}"
    when = f" · {datetime.datetime.fromtimestamp(started):%Y-%m-%d %H:%M}" if started else ""
    return f"recorded on {where}{when} · {count(ranks, 'rank')}"


def _plain(lanes):
    """Return calls as dicts with every key that is read here, those that make groups left out."""
    found = {}
    for rank, calls in lanes.items():
        rows = [dict(call) if isinstance(call, dict) else vars(call) for call in calls or ()]
        if any("op" not in row or "number" not in row for row in rows):
            raise LabError(
                f"what is given for rank {rank} are no calls", next_step="pass recorder.Call objects or dicts"
            )
        plain = {"group": "0", "shapes": (), "dtypes": (), "done": True, "raised": False, "peer": None, "way": "",
                 "tag": 0, "nth": 0, "asynchronous": False, "lineno": None, "line": "", "members": None,
                 "began_ns": 0}  # fmt: skip
        found[int(rank)] = [plain | row for row in rows if row.get("group", "0")]
    return found


# ---- words


def _what(call):
    if call["way"]:
        peer = "any" if call["peer"] is None else call["peer"]
        return f"{call['op']} {'→' if call['way'] == 'dst' else '←'} {peer}"
    return call["op"]


def _shape(call):
    return ", ".join(tuple_text(shape) for shape in call["shapes"][:2])


def _same(row):
    """Return whether all calls of a row fit together: one operation, one shape and dtype."""
    calls = list(row.values())
    if calls[0]["way"]:
        return True
    kinds = {(c["op"], repr(c["shapes"]), repr(c["dtypes"])) for c in calls}
    loose = {"scatter", "gather", "barrier", "all_gather_object", "broadcast_object_list", "gather_object"}
    return len(kinds) == 1 or ({c["op"] for c in calls} <= loose and len({c["op"] for c in calls}) == 1)


def _absent(row, ranks):
    """Return the ranks that belong to a row's group and never called it."""
    call = next(iter(row.values()))
    if call["way"]:
        return []
    members = ranks if call["members"] is None else call["members"]
    members = ranks if call["group"] == "0" else members if call["members"] is not None else row
    return [rank for rank in members if rank not in row and rank in ranks]


def _halves(rows, lanes, pairs):
    """Return {id of a send or receive: (its other half, the number of that one's row, 0 when it is left out)}."""
    number = {id(call): k for k, row in enumerate(rows, 1) for call in row.values()}
    call = lambda at: lanes[at[0]][at[1]]  # noqa: E731
    return {id(call(at)): (call(other), number.get(id(call(other)), 0)) for at, other in pairs.items()}


def _start(lanes, left_out):
    early = f" {_left_out(left_out)}" if left_out else ""
    whose = "1 rank with its calls" if len(lanes) == 1 else f"{len(lanes)} ranks, each with its own calls"
    words = f"{whose}, in their order.{early}"
    return Frame(title="start", words=words, counts=False)


def _left_out(rows):
    return "The first row is left out." if rows == 1 else f"The first {rows:,} rows are left out."


def _frame(row, lanes, early, halves):
    number, words = next(iter(row.values()))["number"], ""
    calls = list(row.values())
    if calls[0]["way"]:
        title = ", ".join(f"rank {rank} {_what(call)}" for rank, call in row.items())
        words = _pair_row(row, halves)
    elif _same(row):
        title = f"{calls[0]['op']} {number}"
    else:
        title = f"call {number}: a mismatch"
    words = words or _row_words(row, sorted(lanes))
    return Frame(title=title, words=" ".join([words, *_early(early)]), code=_code(row))


def _early(waits):
    """Return who has called something that comes in a later row, and waits in it."""
    calls = {}
    for rank, call in sorted(waits.items()):
        calls.setdefault(_what(call), []).append(rank)
    return [f"{_ranks(ranks, 'waits', 'wait')} in {what} already." for what, ranks in calls.items()]


def _pair_row(row, halves):
    """Return what is said of sends and receives: a pair in one sentence, a half with the row of its other half."""
    words, told = [], set()
    for rank, call in row.items():
        other, at = halves.get(id(call), (None, 0))
        together = next((peer for peer, c in row.items() if c is other), None)
        if rank in told:
            continue
        if together is None:
            where = f" ({'received' if call['way'] == 'dst' else 'sent'} in row {at})" if at else ""
            words.append(f"Rank {rank} {_pair_words(call)}{where}{_ending(call)}.")
            continue
        told.add(together)
        sender, receiver = (rank, together) if call["way"] == "dst" else (together, rank)
        words.append(f"Rank {sender} {_pair_words(row[sender])}, which receives it.")
        words += [f"Rank {r} waits in it." for r in (sender, receiver) if not row[r]["done"]]
        words += _lateness({r: row[r] for r in (sender, receiver)})
    return " ".join(words)


def _row_words(row, ranks):
    words, waiting = [], [rank for rank, call in row.items() if not call["done"]]
    calls, absent = list(row.values()), _absent(row, ranks)
    if _same(row):
        who = "All ranks call" if len(row) == len(ranks) else _ranks(row, "calls", "call")
        words.append(f"{who} {_in_full(calls[0])}.")
        words += _lateness(row)
    else:
        told = "; ".join(f"rank {rank} {_in_full(call)}" for rank, call in row.items())
        words.append(f"The ranks do not call the same: {told}.")
    if calls[0]["group"] != "0":
        words.append(f"They are of group {calls[0]['group']}.")
    if absent:
        words.append(f"{_ranks(absent, 'has', 'have')} not called it.")
    if waiting:
        words.append(f"{_ranks(waiting, 'waits', 'wait')} in it.")
    return " ".join(words)


def _pair_words(call):
    """Return "sends (4,) float32 to rank 1" or "receives (4,) float32 from rank 0"."""
    peer = "any rank" if call["peer"] is None else f"rank {call['peer']}"
    verb, link = ("sends", "to") if call["way"] == "dst" else ("receives", "from")
    return " ".join(part for part in (verb, _shape(call), *call["dtypes"][:1], link, peer) if part)


def _in_full(call):
    """Return the operation with shape and dtype: "all_reduce (4,) float32"."""
    return " ".join(part for part in (call["op"], _shape(call), *call["dtypes"][:1]) if part)


def _ending(call):
    return " and fails in it" if call["raised"] else "" if call["done"] else " and waits in it"


def _ranks(ranks, one, more):
    ranks = list(ranks)
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {join_words(map(str, ranks))} {one if len(ranks) == 1 else more}"


def _lateness(row):
    """Return who came last, where that is known and at least a millisecond."""
    began = {rank: call["began_ns"] for rank, call in row.items() if call["began_ns"]}
    if len(began) < 2:
        return []
    last = max(began, key=began.get)
    late_ms = (began[last] - min(began.values())) / 1e6
    return [f"Rank {last} comes last, {late_ms:.3g} ms after the first."] if late_ms >= 1 else []


def _code(row):
    lines = {call["line"].strip(): call["lineno"] for call in row.values() if call["line"]}
    return "\n".join(f"{line}  # line {number}" if number else line for line, number in lines.items())


def _standing(lanes):
    """Return {rank: its last call} of the ranks that wait in it, or that failed in it: one waits until it gives up."""
    last = {rank: calls[-1] for rank, calls in lanes.items() if calls}
    return {rank: call for rank, call in last.items() if call["raised"] or not call["done"]}


def _held_up(waits, ranks):
    """Return "Rank 0 waits" or "Ranks 0 and 2 failed"."""
    failed = any(waits[rank]["raised"] for rank in ranks)
    return _ranks(sorted(ranks), *(("failed", "failed") if failed else ("waits", "wait")))


def _end(rows, lanes):
    waits = _standing(lanes)
    if not waits:
        return Frame(title="end: nobody waits", words="Every call has been completed.", counts=False)
    groups = {}
    for rank, call in waits.items():
        groups.setdefault((call["group"], call["number"], _what(call)), []).append(rank)
    words = []
    for (_, number, what), ranks in groups.items():
        row = next((row for row in rows if any(row.get(rank) is waits[rank] for rank in ranks)), {})
        absent = _absent(row, sorted(lanes)) if row else []
        without = f", which {_ranks(absent, 'has', 'have').lower()} not called" if absent else ""
        words.append(f"{_held_up(waits, ranks)} in {what} {number}{without}.")
    title = "end: who failed" if any(call["raised"] for call in waits.values()) else "end: who waits"
    return Frame(title=title, words=" ".join(words), counts=False)


def _summary(rows, lanes, left_out):
    wrong = sum(not _same(row) for row in rows)
    words = [
        f"{count(sum(map(len, lanes.values())), 'call')} of {count(len(lanes), 'rank')} in {count(len(rows), 'row')}."
    ]
    if left_out:
        words.append(_left_out(left_out))
    if wrong:
        words.append(f"{count(wrong, 'row')} with a mismatch.")
    waits = _standing(lanes)
    words.append(f"{_held_up(waits, waits)} at the end." if waits else "Nobody waits at the end.")
    return " ".join(words)


def _table(rows, lanes):
    ranks = sorted(lanes)
    body = []
    for k, row in enumerate(rows, 1):
        cells = [_in_table(row[rank]) if rank in row else "" for rank in ranks]
        for rank in _absent(row, ranks):
            cells[ranks.index(rank)] = "not called"
        body.append((str(k), *cells))
    return Table(caption="All calls as a table", head=("row", *(f"rank {r}" for r in ranks)), rows=tuple(body))


def _in_table(call):
    line = f", line {call['lineno']}" if call["lineno"] else ""
    return f"{_what(call)} {_shape(call)}".rstrip() + f"{line}{_ending(call)}"


# ---- the drawing


def _draw(rows, waits, ranks, number, width):
    """Return (marks, height); rows up to `number` have happened, and some ranks wait in a later one."""
    early = [id(call) for call in waits[number - 1].values()] if 0 < number <= len(rows) else []
    pitch = min(180, (width - 2 * PAD - LEFT) // len(ranks))
    marks = []
    for lane, rank in enumerate(ranks):
        x = PAD + LEFT + lane * pitch
        marks.append(named(f"rank{rank}", text(x + (pitch - 8) // 2, PAD + 8, "small", f"rank {rank}")))
    for k, row in enumerate(rows):
        y = PAD + HEAD_H + k * PITCH_H
        marks.append(named(f"row{k}", text(PAD, y + 25, "note", str(k + 1))))
        absent = _absent(row, ranks)
        for lane, rank in enumerate(ranks):
            if rank not in row and rank not in absent:
                continue
            role, lines = _look(row, rank, k + 1, number, early, pitch - 8)
            marks.append(cell(f"c{k}.{rank}", PAD + LEFT + lane * pitch, y, pitch - 8, CELL_H, role, lines))
    return marks, PAD + HEAD_H + len(rows) * PITCH_H + PAD


def _look(row, rank, at, number, early, width):
    """Return role and lines of a call, given that row `number` is the one just reached, and who waits early."""
    if rank not in row:
        return ("trouble~" if number >= at else "idle~"), ["–", "not called" if number >= at else ""]
    call = row[rank]
    label = clip_label(_what(call), max(6, (width - 4) // 8))
    note = clip_label(_shape(call), max(6, (width - 4) // 7))
    if number < at:
        return ("waiting", [label, "waits"]) if id(call) in early else ("idle", [label, note])
    if call["raised"] or not _same(row):
        return "trouble!", [label, "✗ " + clip_label(_shape(call) or call["op"], max(4, (width - 18) // 7))]
    if not call["done"]:
        return "waiting!", [label, "waits"]
    return ("communicating!" if number == at else "touched"), [label, note]
