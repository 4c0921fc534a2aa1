"""The probe of rank exercises: calls an answer on several real ranks and looks at what each of them did.

`inputs` is one list with one tuple of positional arguments per rank. On every rank arrays arrive as tensors, the
process group is there (gloo on the loopback), the working directory is a fresh folder that all ranks of the case share,
and `__name__` is "answer".
"""

from labsupport.course import Observation, Raised
from labsupport.probing.fair import MOST_PATIENCE, TooBusy
from labsupport.probing.ranks_start import NotMade
from labsupport.probing.vocabulary import words_used

__all__ = ["EVERY_RANK", "patience_s", "run"]

EVERY_RANK = "every rank"
_SPARE_S = 30.0  # beyond the time of the calls: making ranks on a busy machine, ending them
_VICTIMS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Socket closed",
    "Broken pipe",
    "Connection refused",
)


def run(subject, inputs, options, limits):
    """Call `names[0](*args)` on as many ranks as `inputs[0]` has tuples and return the observation.

    The value is {"rank 0": result, "rank 1": ...}. An exception is that of the rank at fault; its message begins
    "rank 1: ", or "every rank: " when all raised the same. When ranks wait for ever, `over` says who waits for whom
    and fact `stuck` which kind of waiting it is. Fact `inputs changed`: per rank the indices of changed arguments.

    Options (all may be missing):
        seed: the ranks' random numbers start from seed + rank, before loading and before each call; 0 without it.
        free_inputs: True: whether arguments are changed is not looked at.
        collectives: True, or names of operations; fact `collectives`: per rank (operation, how often) of those called.
        max_collectives: {operation: most per rank}; fact `calls`, notes with the largest counts.
        max_sent: bytes a rank may send, or a list of them per rank; fact `sent`, note `sent_bytes` (the largest).
        files: True; fact `files`: {file: ranks that opened it for writing} of those there in the end.
        read_back: names of files, loaded afterwards by `torch.load(weights_only=True)`; the value has "file NAME".
        kill: {"rank": r, "item": i, "batches": n}: at the first start, reading item i of the list that is argument n
            (0 without it) ends that rank by SIGKILL; with `max_restarts` all ranks are then started again, and item i
            stands in the place of each before it: what was done is not done once more. Fact `killed`.
        forbid: words of `vocabulary`; fact `vocabulary`: those used.

    Raises:
        TooBusy: the ranks got so little of a processor that nothing can be said.
        NotMade: there are no ranks.
    """
    (per_rank,) = inputs
    question = {
        "program": {"setup": subject.setup, "source": subject.source or "", "names": list(subject.names)},
        "args": [tuple(args) for args in per_rank],
        "options": {name: value for name, value in options.items() if name in _FOR_HOST},
        "call_s": limits.call_s,
        "counts": any(name in options for name in ("collectives", "max_collectives", "max_sent")),
        "own": subject.own,
    }
    seen = _observation(_observe(question, patience_s(options, limits)), options)
    if "forbid" in options and not (seen.raised or seen.over):
        words = words_used(subject.source or "", options["forbid"], subject.namespace)
        return Observation(value=seen.value, facts={**seen.facts, "vocabulary": words}, notes=seen.notes)
    return seen


_FOR_HOST = ("seed", "kill", "batches", "max_restarts", "read_back")


def patience_s(options, limits):
    """Return the seconds within which the observation of a case is there on any machine, whatever the answer does."""
    return MOST_PATIENCE * limits.call_s * (1 + options.get("max_restarts", 0)) + _SPARE_S


HERE = None  # a `ranks_host.Host` of this very process, in one that may fork


def _observe(question, seconds):
    if HERE is not None:
        return HERE.observe(question)
    from labsupport.probing.ranks_live import host

    return host().observe(question, seconds)


def _observation(seen, options):
    ranks = seen["ranks"]
    if faults := [reply["fault"] for reply in ranks if "fault" in reply]:
        raise RuntimeError(f"a rank could not be asked: {faults[0][-1500:]}")
    printed = next((reply["printed"] for reply in ranks if reply.get("printed")), "")
    notes = {"printed": printed} if printed else {}
    if seen["over"]:
        over = seen["over"]
        if over["busy_s"] is not None:
            raise TooBusy(over["busy_s"])
        return Observation(over=over["sentence"], facts={"stuck": over["kind"]} if over["kind"] else {}, notes=notes)
    if raised := _at_fault(ranks):
        return Observation(raised=raised, notes=notes)
    if large := [rank for rank, reply in enumerate(ranks) if "too_large" in reply]:
        return Observation(over=f"returning {ranks[large[0]]['too_large']} on rank {large[0]}", notes=notes)
    value = {f"rank {rank}": reply["value"] for rank, reply in enumerate(ranks)}
    value |= {f"file {name}": content for name, content in seen["read"].items()}
    facts, more = _facts(seen, options)
    return Observation(value=value, facts=facts, notes=notes | more)


def _facts(seen, options):
    """Return (facts, notes) that the options ask for."""
    ranks, facts, notes = seen["ranks"], {}, {}
    if not options.get("free_inputs"):
        facts["inputs changed"] = tuple(tuple(reply["changed"]) for reply in ranks)
    counts = [reply.get("counts", {}) for reply in ranks]
    if wanted := options.get("collectives"):
        facts["collectives"] = tuple(_counted(of_rank, wanted) for of_rank in counts)
    if "max_collectives" in options:
        most = {op: max(of_rank.get(op, 0) for of_rank in counts) for op in options["max_collectives"]}
        beyond = [f"over {allowed:,} {op}" for op, allowed in options["max_collectives"].items() if most[op] > allowed]
        facts["calls"] = beyond[0] if beyond else "within the budget"
        notes |= {f"{op} calls": count for op, count in most.items()}
    if "max_sent" in options:
        sent, allowed = [reply.get("sent", 0) for reply in ranks], options["max_sent"]
        allowed = allowed if isinstance(allowed, (list, tuple)) else [allowed] * len(sent)
        beyond = {rank: most for rank, most in enumerate(allowed) if sent[rank] > most}
        # Who is over tells ways apart: everything through rank 0, whole vectors round the ring.
        who = "every rank" if len(beyond) == len(sent) else f"rank {', '.join(map(str, beyond))}"
        facts["sent"] = f"over on {who}: {max(beyond.values()):,}" if beyond else "within the budget"
        notes["sent_bytes"] = max(sent)
    if options.get("files"):
        facts["files"] = {name: tuple(who) for name, who in seen["writers"].items()}
    if "kill" in options:
        facts["killed"] = seen["restarts"] > 0
    return facts, notes


def _counted(counts, wanted):
    names = sorted(counts) if wanted is True else wanted
    return tuple((op, counts[op]) for op in names if counts.get(op))


def _at_fault(ranks):
    """Return the exception of the rank at fault: an end before an exception, an exception before its consequences."""
    for rank, reply in enumerate(ranks):
        if "ended" in reply:
            return Raised(type="ProcessEnded", message=f"rank {rank}: {reply['ended']}")
    raised = {rank: _raised(reply["raised"]) for rank, reply in enumerate(ranks) if reply.get("raised")}
    if not raised:
        return None
    # What kept a rank from the group of its case was never the answer, which had not begun.
    begun = {rank: error for rank, error in raised.items() if not ranks[rank].get("joins")}
    own = {rank: error for rank, error in begun.items() if not any(sign in error.message for sign in _VICTIMS)}
    rank, error = min((own or begun or raised).items())
    if not own and len(begun) < len(raised):
        raise NotMade(f"the ranks could not join a group: {error.message}")
    same = len(raised) == len(ranks) and len({(one.type, one.message) for one in raised.values()}) == 1
    who = EVERY_RANK if same else f"rank {rank}"
    return Raised(**{**vars(error), "message": f"{who}: {error.message}"})


def _raised(fields):
    return Raised(**{**fields, "bases": tuple(fields.get("bases", ()))})
