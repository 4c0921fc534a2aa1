"""The flight recorder's entries and a ledger's notes, made into one list of calls. Pure."""

import bisect

from labsupport.ranks.calls import Call
from labsupport.ranks.ledger import OPEN, RAISED

__all__ = ["calls_of"]

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip


def calls_of(entries, notes):
    """Return the calls of one rank, oldest first, numbered within their groups."""
    entries = [entry for entry in entries if not _of_debug_mode(entry)]
    owners = _owners(entries, notes)
    wires = {}
    for entry, owner in zip(entries, owners):
        wires.setdefault(owner, []).append(entry)
    names = _names(entries, owners, notes)
    calls = [_of_note(note, wires.get(note.index, []), names) for note in notes]
    calls += [_of_entry(entry, names) for entry, owner in zip(entries, owners) if owner is None]
    if notes and notes[0].index:  # the ring has begun anew, so the first one known is not the first
        calls[0]["lost"] = True
    return _numbered(sorted(calls, key=lambda call: call["began_ns"]))


def _of_debug_mode(entry):
    """Whether an entry is a check of the DETAIL mode: groups have no names then, and each second one is torch's own."""
    return entry["process_group"][0] == "" and entry["pg_id"] % 2 == 1


def _owners(entries, notes):
    """Return for each entry the index of the note it belongs to, or None: calls of one thread do not overlap."""
    threads = {}
    for note in notes:
        if note.said["group"]:
            threads.setdefault(note.thread, []).append(note)
    begins = {thread: [note.began_ns for note in own] for thread, own in threads.items()}
    found = []
    for entry in entries:
        made, thread = entry["time_created_ns"], int(entry.get("thread_id") or 0)
        nearest = bisect.bisect_right(begins.get(thread, ()), made) - 1
        note = threads[thread][nearest] if nearest >= 0 else None
        found.append(note.index if note and (made <= note.ended_ns or not note.ended_ns) else None)
    return found


def _epochs(notes):
    """Return when each default group was made: groups are named anew after it."""
    return [note.began_ns for note in notes if note.said["op"] == "init_process_group"]


def _names(entries, owners, notes):
    """Return (pg_id -> group name, as the ledger has it): in the DETAIL mode the recorder does not know it."""
    by_index = {note.index: note for note in notes}
    starts = _epochs(notes)
    names = {}
    for entry, owner in zip(entries, owners):
        if owner is not None:
            names[entry["pg_id"]] = _qualified(by_index[owner].said["group"], by_index[owner].said["epoch"])
        else:
            epoch = sum(start <= entry["time_created_ns"] for start in starts)
            names.setdefault(entry["pg_id"], _qualified(entry["process_group"][0], epoch))
    return names


def _qualified(group, epoch):
    return f"{group}#{epoch}" if group and epoch > 1 else group


def _of_note(note, wire, names):
    said = note.said
    is_open, is_pair = note.state == OPEN, "way" in said
    done = not is_open  # the recorder learns of an end a moment after the call has returned
    if said.get("async"):
        done = note.work == 2 or (bool(wire) and all(entry["retired"] for entry in wire))
    return {
        "op": said["op"],
        "group": _qualified(said["group"], said.get("epoch", 1)),
        "shapes": _tuples(said.get("shapes", ())),
        "dtypes": _each(said.get("dtypes", ()), len(said.get("shapes", ()))),
        "done": done,
        "peer": said.get("peer"),
        "lineno": said.get("lineno"),
        "line": said.get("line", ""),
        "file": said.get("file", ""),
        "at": said.get("at") if not is_pair else None,
        "waiting": is_open or note.work == 1,
        "asynchronous": said.get("async", False),
        "raised": note.state == RAISED,
        "way": said.get("way", ""),
        "nth": said.get("nth", 0),
        "tag": said.get("tag", 0),
        "root": said.get("root"),
        "how": said.get("how", ""),
        "members": _tuples(said["members"]) if said.get("members") else None,
        "timeout_ms": said.get("timeout") or (wire[0]["timeout_ms"] if wire else said.get("group_timeout")),
        "own_timeout": said.get("timeout") is not None,
        "threads": said.get("threads", 0),
        "began_ns": note.began_ns,
    }


def _each(dtypes, count):
    """Return one dtype per tensor: a single one is that of all."""
    return tuple(dtypes) * count if len(dtypes) == 1 else tuple(dtypes)


def _of_entry(entry, names):
    return {
        "op": entry["profiling_name"].partition(":")[2] or entry["profiling_name"],
        "group": names[entry["pg_id"]] or "0",
        "shapes": _tuples(entry["input_sizes"]),
        "dtypes": tuple(_DTYPES.get(name, name) for name in entry["input_dtypes"]),
        "done": entry["retired"],
        "at": entry["collective_seq_id"],
        "asynchronous": True,
        "origin": "torch",
        "timeout_ms": entry.get("timeout_ms"),
        "began_ns": entry["time_created_ns"],
    }


def _tuples(value):
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _numbered(fields):
    """Return the calls, numbered within their groups, each with its group's members and timeout where known."""
    counts, members, timeouts, found = {}, {}, {}, []
    for one in fields:
        group, kind = one["group"], (one["group"], bool(one.get("way")))
        first = one["at"] if kind not in counts and one["at"] else 1  # older ones have left the ring
        counts[kind] = counts[kind] + 1 if kind in counts else first
        if one.get("members") is not None:
            members[group], timeouts[group] = one["members"], one["timeout_ms"]
        one["members"] = members.get(group)
        if one["timeout_ms"] is None:
            one["timeout_ms"] = timeouts.get(group)
        found.append(Call(number=counts[kind], **one))
    return found
