"""The calls of a recorded run in rows: what belongs together stands in one, and every rank's own order is kept.

A collective belongs with the calls of the same number of its group on the other ranks; the k-th send from one rank to
another with a tag belongs with the k-th receive there. A rank that called early waits until the row of its call.
"""

__all__ = ["pairs_of", "rows_of", "waiting_at"]


def pairs_of(lanes):
    """Return {(rank, place in its lane): (peer, place in the peer's lane)} of sends and receives, both ways round."""
    sends, wild = {}, []
    for rank, place, call, nth in _numbered(lanes, "dst"):
        sends[call["group"], rank, call["peer"], call["tag"], nth] = (rank, place)
    pairs = {}
    for rank, place, call, nth in _numbered(lanes, "src"):
        if call["peer"] is None:
            wild.append((rank, place, call))
        elif sent := sends.pop((call["group"], call["peer"], rank, call["tag"], nth), None):
            pairs[sent], pairs[rank, place] = (rank, place), sent
    for rank, place, call in wild:  # from any rank: what was sent first of what nobody has named
        left = [(lanes[key[1]][sent[1]]["began_ns"], key) for key, sent in sends.items()
                if (key[0], key[2], key[3]) == (call["group"], rank, call["tag"])]  # fmt: skip
        if left:
            sent = sends.pop(min(left)[1])
            pairs[sent], pairs[rank, place] = (rank, place), sent
    return pairs


def _numbered(lanes, way):
    """Yield (rank, place, call, nth of its kind) of every send, or of every receive."""
    for rank, calls in lanes.items():
        counts = {}
        for place, call in enumerate(calls):
            if call["way"] == way:
                kind = (call["group"], call["peer"], call["tag"])
                counts[kind] = call["nth"] or counts.get(kind, 0) + 1
                yield rank, place, call, counts[kind]


def rows_of(lanes, pairs=None):
    """Return the calls in rows: each a dict from rank to its call.

    A row is complete before any of its ranks goes on. Where that is impossible, since ranks call the same things in
    crossed order, sends stand in a row before their receives, and a collective in one row for each order.

    Args:
        lanes: {rank: [call as a dict]}.
        pairs: what `pairs_of(lanes)` returns.
    """
    belongs = _belongings(lanes, pairs_of(lanes) if pairs is None else pairs)
    next_at, rows = dict.fromkeys(lanes, 0), []
    while heads := {(rank, place) for rank, place in next_at.items() if place < len(lanes[rank])}:
        ready = [head for head in sorted(heads) if heads.issuperset(belongs[head])]
        row = _complete(ready, lanes, belongs) if ready else _crossed(heads, lanes, belongs)
        rows.append({rank: lanes[rank][place] for rank, place in sorted(row)})
        for rank, place in row:
            next_at[rank] += 1
            rest = [at for at in belongs[rank, place] if at not in row]
            belongs |= dict.fromkeys(rest, rest)
    return rows


def _belongings(lanes, pairs):
    """Return {(rank, place): [(rank, place) of all that belongs with it]}."""
    units = {}
    for rank, calls in lanes.items():
        for place, call in enumerate(calls):
            pair = min((rank, place), pairs.get((rank, place), (rank, place)))
            units.setdefault(pair if call["way"] else (call["group"], call["number"], ""), []).append((rank, place))
    return {at: unit for unit in units.values() for at in unit}


def _complete(ready, lanes, belongs):
    """Return what was complete first; sends, or receives, whose other half is not there stand together."""
    call = lambda at: lanes[at[0]][at[1]]  # noqa: E731
    row = min((belongs[head] for head in ready), key=lambda unit: max(call(at)["began_ns"] for at in unit))
    if len(row) > 1 or not call(row[0])["way"]:
        return row
    return [at for at in ready if len(belongs[at]) == 1 and call(at)["way"] == call(row[0])["way"]]


def _crossed(heads, lanes, belongs):
    """Return the heads that go on although others of theirs are to come: of ranks that wait for each other in a ring.

    The sends of them; without any, the receives, which then do not wait; else what has been called of one collective.
    """
    own = {rank: (rank, place) for rank, place in heads}
    seen, rank = [], min(own)
    while rank not in seen:
        seen.append(rank)
        rank = next(other for other, place in belongs[own[rank]] if (other, place) not in heads)
    ring = [own[rank] for rank in seen[seen.index(rank) :]]
    call = lambda at: lanes[at[0]][at[1]]  # noqa: E731
    for way in ("dst", "src"):
        if found := [at for at in ring if call(at)["way"] == way]:
            return found
    first = min(ring, key=lambda at: call(at)["began_ns"])
    return [at for at in belongs[first] if at in heads]


def waiting_at(rows):
    """Return for each row {rank: its call in a later row} of the ranks that had begun that call when the row began.

    A row begins once the last of its ranks has called; where a call's time is not known, nobody is said to wait.
    """
    coming = {}  # rank: the call it comes to next
    waiting = [{} for _ in rows]
    for k in reversed(range(len(rows))):
        moment = max(call["began_ns"] for call in rows[k].values())
        for rank, call in coming.items():
            if rank not in rows[k] and 0 < call["began_ns"] <= moment and not call["asynchronous"]:
                waiting[k][rank] = call
        coming |= rows[k]
    return waiting
