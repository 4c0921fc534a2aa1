"""Who waits for whom: from every rank's calls to a sentence, and whether anybody can still go on. Pure functions."""

from dataclasses import dataclass

from labsupport.ranks.scene import ENDED, Scene, differs, spoiled
from labsupport.ranks.wording import call_in_words, line_in_words, named, ranks_in_words, shapes_in_words

__all__ = ["Stall", "Standing", "Watch", "explain", "first_difference", "unnoticed"]

COLUMNS = ("rank", "call", "shape", "dtype", "line")


@dataclass(frozen=True)
class Standing:
    """Where one rank stands.

    Args:
        state: starting, running, done, failed, or gone (its process has ended without a word).
        calls: `recorder.Call`s; None where they are not known: the rank may then have done its part of anything.
        stack_line: the line of the cell it is at now, where known.
        stack_text: that line's text.
    """

    state: str
    calls: tuple = ()
    stack_line: int | None = None
    stack_text: str = ""


@dataclass(frozen=True)
class Stall:
    """Why ranks wait.

    `kind`: mismatch, both send, both receive, missing call, ended early, straggler (a rank still runs Python and may
    come), circle (ranks wait for each other in different things). `rows` is a table under `columns`, for a mismatch.
    `culprits`: the ranks that keep the others waiting. `certain`: provably nobody can go on.
    """

    kind: str
    sentence: str
    rows: tuple = ()
    culprits: tuple = ()
    certain: bool = False
    waiting: tuple = ()
    columns: tuple = COLUMNS


class Watch:
    """Looks at the same ranks again and again; only a second look at which nothing has moved can be certain."""

    def __init__(self):
        self._before = None

    def look(self, standings):
        """Return `explain` of these standings, compared with those of the look before."""
        before, self._before = self._before, dict(standings)
        return explain(standings, before)


def explain(now, earlier=None):
    """Return who waits for whom as a `Stall`, or None when nobody waits for a call that is not there.

    A healthy program looks like this for moments: show it after some silence, or act on it when it is `certain`.

    Args:
        now: {rank: Standing} of every rank of the job.
        earlier: the same from a look that was over before this one began; without it nothing is certain, because the
            ranks of one look are asked one after another.
    """
    scene = Scene(now)
    waits = {}
    for rank in sorted(now):
        call = scene.blocking(rank)
        if call is not None and scene.lacking(rank, call):
            waits[rank] = call
    if not waits:
        return None
    hopeless = scene.hopeless()
    unmoved = earlier is not None and all(rank in earlier and earlier[rank] == now[rank] for rank in now)
    certain = unmoved and hopeless == set(now)
    for telling in (_mismatch, _circle_of_pairs, _lacking):
        if (found := telling(scene, waits)) is not None:
            kind, sentence, rows, culprits = found
            return Stall(kind, sentence, rows, tuple(culprits), certain, tuple(waits))
    return None


# -- calls that do not fit ----------------------------------------------------------------------------------------


def _mismatch(scene, waits):
    for _, call in sorted(waits.items()):
        if call.pair or call.setup:
            continue
        together = scene.at.get((call.group, scene.place(call)), {})
        if len(together) > 1 and (what := _difference(together)):
            return _told(scene, call, together, what)
    return None


def _difference(together):
    calls = list(together.values())
    return next((what for call in calls[1:] if (what := differs(calls[0], call))), "")


def _told(scene, call, together, what):
    rows, groups = _rows(scene, together)
    least = min(groups, key=lambda ranks: (len(ranks), -min(ranks)))
    sides = [f"{ranks_in_words(ranks)} called {named(call)}{_with(call, what)}"
             for ranks in groups for call in [together[ranks[0]]]]  # fmt: skip
    sentence = f"collective {call.number} has different {what}s: {'; '.join(sides)}"
    return "mismatch", sentence, rows, least


def _with(call, what):
    """Return that in which a call differs from others, where its name and shape do not say it."""
    if what == "dtype":
        return f" of {', '.join(dict.fromkeys(call.dtypes))}"
    if what == "root":
        return f" with root {call.root}"
    return f" with {call.how}" if what == "reduction" else ""


def _rows(scene, together):
    """Return (one row for ranks that did the same, those ranks)."""
    groups, hows = {}, {call.how for call in together.values()}
    for rank, call in sorted(together.items()):
        line = line_in_words(call.lineno, call.line) or _where(scene, rank)
        more = f" {call.how}" if len(hows) > 1 and call.how else ""
        more += "" if call.root is None else f" (root {call.root})"
        row = (call.op + more, shapes_in_words(call.shapes), ", ".join(dict.fromkeys(call.dtypes)), line)
        groups.setdefault(row, []).append(rank)
    rows = tuple((", ".join(map(str, ranks)), *row) for row, ranks in groups.items())
    return rows, list(groups.values())


def first_difference(standings):
    """Return the last place of a group where ranks called things that do not fit, as a `Stall`, or None.

    For the time after a crash: it does not matter whether anybody waits.
    """
    scene = Scene(standings)
    for _, place in sorted(scene.at, key=lambda key: -key[1]):
        for (group, at), together in scene.at.items():
            if at == place and len(together) > 1 and (what := _difference(together)):
                call = next(iter(together.values()))
                kind, sentence, rows, culprits = _told(scene, call, together, what)
                del group
                return Stall(kind, sentence, rows, tuple(culprits))
    return _different_pair(scene)


def unnoticed(standings):
    """Return the first collective that completed although its ranks did not call the same, as a `Stall`, or None.

    For the time after a job that went through: its result is worthless and nobody has said so.
    """
    scene = Scene(standings)
    for (_, _), together in sorted(scene.at.items(), key=lambda item: item[0][1]):
        calls = list(together.values())
        if not all(call.done and not call.raised for call in calls):
            continue
        if what := next((what for call in calls[1:] if (what := spoiled(calls[0], call))), ""):
            _, sentence, rows, culprits = _told(scene, calls[0], together, what)
            return Stall("unnoticed", sentence, rows, tuple(culprits))
    return None


def _different_pair(scene):
    sends = {}
    for rank, standing in scene.standings.items():
        for call in standing.calls or ():
            if call.pair and call.way == "dst":
                sends[rank, call.peer, call.group, call.tag, call.nth] = call
    for rank, standing in scene.standings.items():
        for call in reversed(standing.calls or ()):
            sent = sends.get((call.peer, rank, call.group, call.tag, call.nth)) if call.way == "src" else None
            if sent is not None and (sent.shapes, sent.dtypes) != (call.shapes, call.dtypes):
                rows, _ = _rows(scene, {call.peer: sent, rank: call})
                sentence = f"rank {call.peer} sends {_content(sent)}, rank {rank} receives into {_content(call)}"
                return Stall("mismatch", sentence, rows, (rank,))
    return None


def _content(call):
    return " ".join([shapes_in_words(call.shapes), ", ".join(dict.fromkeys(call.dtypes))])


# -- sends and receives -------------------------------------------------------------------------------------------


def _circle_of_pairs(scene, waits):
    """Ranks that send to each other, or receive from each other, round a circle: nobody does the other half."""
    for start in sorted(waits):
        chain, rank = [], start
        while rank in waits and waits[rank].pair and waits[rank].peer is not None and rank not in chain:
            chain.append(rank)
            rank = waits[rank].peer
        if rank != start or len(chain) < 2 or len({waits[r].way for r in chain}) > 1:
            continue
        sends = waits[start].way == "dst"
        places = _places(waits, chain)
        if sends:
            kind, words = "both send", "all send and none receives: a send waits until its receiver is there"
        else:
            kind, words = "both receive", "all wait to receive and none has sent"
        circle = " to " if sends else " from "
        sentence = f"ranks {circle.join(map(str, [*chain, start]))}: {words} ({places})"
        return kind, sentence, (), chain
    return None


def _places(waits, ranks):
    """Return "ranks 0, 1 at line 9", grouped by line."""
    lines = {}
    for rank in ranks:
        call = waits[rank]
        lines.setdefault(f"in {call.op}" + (f" at line {call.lineno}" if call.lineno else ""), []).append(rank)
    return "; ".join(f"{ranks_in_words(found)} {line}" for line, found in lines.items())


# -- what is not there --------------------------------------------------------------------------------------------


def _lacking(scene, waits):
    start = min(waits, key=lambda rank: (waits[rank].pair, scene.place(waits[rank]), rank))
    seen = [start]
    while True:
        rank = seen[-1]
        lacking = scene.lacking(rank, waits[rank])
        idle = [r for r in lacking if r not in waits]
        if idle or any(r in seen for r in lacking):
            break
        seen.append(lacking[0])
    if not idle:
        return _circle(scene, waits, seen[seen.index(next(r for r in lacking if r in seen)) :])
    call = waits[rank]
    alike = [r for r in sorted(waits) if _same(scene, call, waits[r])]
    ended = [r for r in idle if scene.ended(r)]
    kind = "ended early" if len(ended) == len(idle) else "straggler"
    return kind, _sentence(scene, call, rank, idle, alike, waits), (), idle


def _same(scene, one, other):
    if one.pair or other.pair or one.setup or other.setup:
        return one is other
    return (one.group, scene.place(one)) == (other.group, scene.place(other))


def _sentence(scene, call, rank, idle, alike, waits):
    who, n_ranks = ranks_in_words(idle), len(scene.standings)
    has = "has" if len(idle) == 1 else "have"
    if call.pair:
        done = "receives it" if call.way == "dst" else "sends"
        missing = f"rank {rank} waits in {named(call)}{_at(scene, rank, call)}, and {who} has not called what {done}"
        if len(idle) > 1:
            missing = f"rank {rank} waits in {named(call)}{_at(scene, rank, call)}, and no rank has sent to it"
    else:
        it = "wait in it" if len(alike) > 1 else "waits in it"
        missing = f"{who} {has} not called {call_in_words(call, n_ranks)}; "
        missing += f"{ranks_in_words(alike)} {it}{_at(scene, rank, call)}"
    return missing + _whereabouts(scene, idle)


def _at(scene, rank, call):
    lineno = call.lineno if call.lineno is not None else scene.standings[rank].stack_line
    return f" at line {lineno}" if lineno is not None else ""


def _whereabouts(scene, ranks):
    told = {}
    for rank in ranks:
        told.setdefault(_where(scene, rank), []).append(rank)
    parts = [
        f"{ranks_in_words(found)} {'is' if len(found) == 1 else 'are'} at {where}"
        if where.startswith("line")
        else f"{ranks_in_words(found)} {'has' if len(found) == 1 else 'have'} {where}"
        for where, found in told.items()
        if where
    ]
    return "".join(f"; {part}" for part in parts)


def _where(scene, rank):
    standing = scene.standings[rank]
    if standing.state in ENDED:
        return {"done": "ended", "failed": "failed", "gone": "gone"}[standing.state]
    if standing.state == "starting":
        return "not started yet"
    return line_in_words(standing.stack_line, standing.stack_text)


def _circle(scene, waits, ranks):
    parts = []
    for rank in ranks:
        call = waits[rank]
        others = scene.lacking(rank, call)
        parts.append(
            f"rank {rank} waits in {call_in_words(call, len(scene.standings))}{_at(scene, rank, call)} "
            f"for {ranks_in_words(others)}"
        )
    kind = "missing call" if len(ranks) > 1 else "straggler"
    return kind, "; ".join(parts), (), ranks
