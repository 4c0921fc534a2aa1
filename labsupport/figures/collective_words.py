"""What the collective player says: titles, sentences, code, the table, and why a predicted transfer is not the next."""

from labsupport.figures.collective_model import message_bytes, plan_of
from labsupport.figures.film import Ask, Frame, Table
from labsupport.figures.words import byte_text, count, join_words

__all__ = ["ask_of", "frames_of", "name_in_words", "refusal", "summary_of", "table_of"]

_TITLES = {
    ("all_reduce", "ring"): "Ring all-reduce",
    ("all_reduce", "tree"): "All-reduce along a tree",
    ("all_reduce", "naive"): "All-reduce through one rank",
    ("all_reduce", "yours"): "Your all-reduce",
    ("reduce_scatter", "ring"): "Reduce-scatter in a ring",
    ("all_gather", "ring"): "All-gather in a ring",
    ("all_to_all", "pairwise"): "All-to-all",
    ("broadcast", "tree"): "Broadcast along a tree",
    ("broadcast", "flat"): "Broadcast",
    ("reduce", "tree"): "Reduce along a tree",
    ("reduce", "flat"): "Reduce",
    ("gather", "flat"): "Gather",
    ("scatter", "flat"): "Scatter",
}
# the call that does it, and what it leaves behind
_CALLS = {
    "all_reduce": "dist.all_reduce(x{op})  # x holds the result on every rank; the call returns None",
    "reduce": "dist.reduce(x, dst={root}{op})  # the result is in x on rank {root}; elsewhere x is undefined",
    "broadcast": "dist.broadcast(x, src={root})  # x of rank {root} replaces x everywhere",
    "reduce_scatter": "dist.reduce_scatter(mine, chunks{op})  # rank r gets the reduced chunk r",
    "all_gather": "dist.all_gather(everyones, x)  # everyones: one tensor for each rank, each with memory of its own",
    "gather": "dist.gather(x, everyones if rank == {root} else None, dst={root})",
    "scatter": "dist.scatter(mine, chunks if rank == {root} else None, src={root})",
    "all_to_all": "dist.all_to_all(gets, gives)  # lists with one tensor for each rank",
}
_OPS = {"sum": "", "product": ", op=dist.ReduceOp.PRODUCT", "max": ", op=dist.ReduceOp.MAX",
        "min": ", op=dist.ReduceOp.MIN"}  # fmt: skip
_RESULTS = {
    "all_reduce": "Every rank holds the {op} over all ranks.",
    "reduce": "Rank {root} holds the {op} over all ranks. What the other ranks hold now is undefined: do not read it.",
    "broadcast": "Every rank holds what rank {root} had.",
    "reduce_scatter": "Rank r holds chunk r of the {op}, and no other.",
    "all_gather": "Every rank holds the chunks of all ranks, in the order of ranks.",
    "gather": "Rank {root} holds the chunks of all ranks, in the order of ranks.",
    "scatter": "Rank r holds chunk r of what rank {root} had.",
    "all_to_all": "Chunk c of rank r is now chunk r of rank c: a transposition.",
}


def name_in_words(plan):
    """Return the title: "Ring all-reduce", "Gather at rank 0"."""
    title = _TITLES[plan.name, plan.algorithm]
    where = {"reduce": "to", "gather": "at", "scatter": "from", "broadcast": "from"}.get(plan.name)
    if plan.algorithm == "naive":
        return f"All-reduce through rank {plan.root}"
    return f"{title}, {where} rank {plan.root}" if where else title


def frames_of(plan):
    """Return the frames: start, one for each step, result."""
    call = _CALLS[plan.name].format(root=plan.root, op=_OPS[plan.op])
    places = _places(plan)
    yours = plan.algorithm == "yours"
    frames = [Frame(title="start: before the call", words=_start_words(plan), code=call, counts=False,
                    verdict=None if yours else _verdict(plan, 0))]  # fmt: skip
    for k, step in enumerate(plan.steps, 1):
        frames.append(Frame(
            title=f"step {k}: {step.phase} {places[k - 1]}",
            words=f"{_messages_words(plan, step)} {_sent_words(plan.sent[k])}",
            code=_step_code(plan, step),
            verdict=None if yours or k == len(plan.steps) else _verdict(plan, k),
        ))  # fmt: skip
    if missing := yours and _missing(plan):
        return [*frames, Frame(title="so far: not complete", words=missing, counts=False)]
    result = _RESULTS[plan.name].format(root=plan.root, op=plan.op)
    sent = _sent_words(plan.sent[-1])
    return [*frames, Frame(title="result: after the call", words=f"{result} {sent}", code=call, counts=False)]


def _missing(plan):
    """Return which chunks are not complete yet, "" when all are."""
    lacking = [
        f"rank {rank} chunk{'s' if len(found) > 1 else ''} {join_words(found)}"
        for rank, lane in enumerate(plan.states[-1])
        if (found := [str(c) for c, piece in enumerate(lane) if not plan.finished(c, piece)])
    ]
    return f"Not complete yet: {'; '.join(lacking)}." if lacking else ""


def _places(plan):
    """Return for each step where it stands in its phase: "3 of 3"."""
    phases = [step.phase for step in plan.steps]
    return [f"{phases[: k + 1].count(p)} of {phases.count(p)}" for k, p in enumerate(phases)]


def _start_words(plan):
    if plan.name in ("broadcast", "scatter"):
        return f"Rank {plan.root} holds what the others are to get."
    if plan.name in ("gather", "all_gather"):
        return "Every rank holds one chunk, its own."
    if plan.name == "all_to_all":
        return "Every rank has one chunk for each rank; the one for itself needs no message."
    return f"Every rank holds {count(plan.chunks, 'chunk')} of its own values."


def _messages_words(plan, step):
    """Return who sends what to whom."""
    whole = len(step.messages[0].slots) > 1
    parts = []
    for n, m in enumerate(step.messages):
        what = "the whole buffer" if whole else f"chunk {m.slots[0]}"
        route = f"{m.src} to {m.dst}"
        parts.append(f"{what} goes from rank {route}" if n == 0 else f"{route}" if whole else f"{what} from {route}")
    words = join_words(parts)
    adds = {"sum": "added to", "product": "multiplied with"}.get(plan.op, f"compared with ({plan.op})")
    added = [str(m.slots[0]) for m in step.messages if m.adds]
    what = "It is" if len(step.messages) == 1 else "Each is"
    if len(added) not in (0, len(step.messages)):  # only where someone moves by hand
        what = f"Chunk {added[0]} is" if len(added) == 1 else f"Chunks {join_words(added)} are"
    after = f" {what} {adds} what is there." if added else ""
    return f"{words[0].upper()}{words[1:]}.{after}"


def _sent_words(sent):
    if max(sent) == 0:
        return "Nothing has been sent."
    if min(sent) == max(sent):
        return f"Sent so far: {byte_text(sent[0])} by every rank."
    most = max(sent)
    who = [str(r) for r, n in enumerate(sent) if n == most]
    return f"Sent so far: {byte_text(sum(sent))}, at most {byte_text(most)} by one rank ({', '.join(who)})."


def _step_code(plan, step):
    """Return what one rank runs in this step: the first that takes part."""
    rank = min(r for m in step.messages for r in (m.src, m.dst))
    out = [m for m in step.messages if m.src == rank]
    come = [m for m in step.messages if m.dst == rank]
    name = {"all_to_all": ("gives", "gets")}.get(plan.name, ("chunk", "chunk"))
    lines = [f"# rank {rank} in this step"]
    lines += [f"sending = dist.isend({_operand(plan, m.slots, name[0])}, dst={m.dst})" for m in out]
    for m in come:
        target = "arrived" if m.adds else _operand(plan, m.into, name[1])
        lines.append(f"dist.recv({target}, src={m.src})")
    lines += ["sending.wait()"] if out else []
    lines += [_combine(plan.op, _operand(plan, m.into, name[1])) for m in come if m.adds]
    return "\n".join(lines)


def _operand(plan, slots, name):
    return "x" if len(slots) > 1 else f"{name}[{slots[0] % plan.chunks}]"


def _combine(op, target):
    return {
        "sum": f"{target} += arrived",
        "product": f"{target} *= arrived",
        "max": f"torch.maximum({target}, arrived, out={target})",
        "min": f"torch.minimum({target}, arrived, out={target})",
    }[op]


# ---- the sentence and the table


def summary_of(plan, made_up):
    """Return steps and bytes in sentences, and how the other ways to do the same compare."""
    whole, n = sum(plan.chunk_bytes[: plan.chunks]), plan.ranks
    words = [f"{n} ranks, {_size_words(plan, whole)}: {count(len(plan.steps), 'step')}."]
    sent = plan.sent[-1]
    if plan.name == "all_reduce" and plan.algorithm == "ring":
        formula = f"2 × {n - 1}/{n} × {byte_text(whole)}"
        if min(sent) == max(sent):
            words.append(f"Every rank sends {byte_text(sent[0])} = {formula}.")
        else:
            words.append(f"A rank sends {byte_text(min(sent))} to {byte_text(max(sent))}; {formula} on average.")
    else:
        words.append(_who_sends(sent))
    words += _comparison(plan)
    return " ".join([*words, "The values are made up." if made_up else ""]).strip()


def _size_words(plan, whole):
    if plan.name in ("gather", "all_gather", "scatter"):
        return f"{byte_text(plan.chunk_bytes[0])} for each"
    return f"a buffer of {byte_text(whole)} on {'rank ' + str(plan.root) if plan.name == 'broadcast' else 'each'}"


def _who_sends(sent):
    if min(sent) == max(sent):
        return f"Every rank sends {byte_text(sent[0])}."
    by_amount = {}
    for rank, amount in enumerate(sent):
        by_amount.setdefault(amount, []).append(str(rank))
    parts = []
    for amount, who in sorted(by_amount.items(), reverse=True):
        noun, verb = ("rank", "sends") if len(who) == 1 else ("ranks", "send")
        parts.append(f"{noun} {join_words(who)} {verb} {byte_text(amount) if amount else 'nothing'}")
    words = "; ".join(parts)
    return f"{words[0].upper()}{words[1:]}."


def _comparison(plan):
    """Return sentences that compare the ways to do the same collective."""
    ways = {"all_reduce": ("ring", "tree", "naive"), "broadcast": ("tree", "flat"), "reduce": ("tree", "flat")}
    if plan.name not in ways:
        return []
    flat = f"Straight {'from' if plan.name == 'broadcast' else 'to'} rank {plan.root}"
    names = {"ring": "In a ring", "tree": "Along a tree", "naive": f"Through rank {plan.root}", "flat": flat}
    words = [f"The longest chain of transfers carries {byte_text(plan.waits_for)}."]
    for way in ways[plan.name]:
        if way != plan.algorithm:
            other = _same_with(plan, way)
            steps, most = count(len(other.steps), "step"), byte_text(max(other.sent[-1]))
            chain = byte_text(other.waits_for)
            words.append(f"{names[way]}: {steps}, at most {most} from one rank, a chain of {chain}.")
    return words


def _same_with(plan, algorithm):
    parts = [[None if piece is None else piece.values for piece in lane] for lane in plan.held]
    return plan_of(plan.name, algorithm, parts, root=plan.root, op=plan.op, chunk_bytes=plan.chunk_bytes)


def table_of(plan):
    """Return the steps as a table."""
    places, rows = _places(plan), []
    for k, step in enumerate(plan.steps, 1):
        moves = ", ".join(_move(plan, m) for m in step.messages)
        sent = plan.sent[k]
        rows.append((str(k), f"{step.phase} {places[k - 1]}", moves, byte_text(message_bytes(plan, step.messages[0])),
                     byte_text(max(sent)), byte_text(sum(sent))))  # fmt: skip
    head = ("step", "phase", "messages", "size of one", "sent so far, most by one rank", "sent so far, all ranks")
    return Table(caption="All steps as a table", head=head, rows=tuple(rows), shown=tuple(range(1, len(rows) + 1)))


def _move(plan, message):
    chunk = "" if len(message.slots) > 1 else f"chunk {message.slots[0]}: "
    return f"{chunk}{message.src} → {message.dst}".replace(" ", "\u00a0")  # a message stays on one line


# ---- predictions


def ask_of(plan):
    """Return what is predicted: which chunk goes from which rank to which; no chunk where whole buffers go."""
    ranks = tuple(str(r) for r in range(plan.ranks))
    fields = (("from rank", ranks), ("to rank", ranks))
    prompt = "What moves in the next step? Name one transfer."
    if _asks_chunk(plan):
        fields += (("chunk", tuple(str(c) for c in range(plan.chunks))),)
    return Ask(prompt=prompt, fields=fields)


def _asks_chunk(plan):
    return len(plan.steps[0].messages[0].slots) == 1 and plan.name != "all_to_all"


def _verdict(plan, k):
    """Return a function that says why a transfer is not in step k + 1; it takes the options' numbers."""
    held, step = plan.states[k], plan.steps[k]
    first = step.messages[0]

    def verdict(*answer):
        src, dst, chunk = answer if _asks_chunk(plan) else (*answer, None)
        for m in step.messages:
            if (m.src, m.dst) == (src, dst) and chunk in (None, m.slots[0]):
                return ""
        slot = dst if chunk is None and plan.name == "all_to_all" else chunk or 0
        into = plan.ranks + src if plan.name == "all_to_all" else slot
        why = refusal(plan, held, src, dst, slot, into, first.adds)
        return _with_fields(why or _other_order(plan, k, src, dst), _asks_chunk(plan))

    return verdict


def refusal(plan, held, src, dst, slot, into, adds):
    """Return why rank `src` cannot send this slot to `dst` now, "" when it can, with {src}, {dst} and {chunk}."""
    if src == dst:
        return "A rank does not send to itself."
    piece, there = held[src][slot], held[dst][into]
    if piece is None:
        return "Rank {src} does not hold chunk {chunk} yet."
    if plan.finished(into, there):
        return "Rank {dst} holds chunk {chunk} complete already."
    if adds and there is not None and there.parts & piece.parts:
        return "Chunk {chunk} of rank {dst} already contains part of what rank {src} would send: it would count twice."
    if not adds and plan.name != "all_to_all" and not plan.finished(slot, piece):
        return "Rank {src} does not hold chunk {chunk} complete yet."
    return ""


def _with_fields(words, asks_chunk):
    """Put the fields' numbers in place of the names, as `film.py` wants them."""
    if not asks_chunk:
        words = words.replace("Chunk {chunk} of rank", "The buffer of rank").replace("chunk {chunk}", "the buffer")
    for n, name in enumerate(("src", "dst", "chunk")):
        words = words.replace(f"{{{name}}}", f"{{{n}}}")
    return words


def _other_order(plan, k, src, dst):
    """Return why a transfer that would be possible is not the one that this way of doing it makes next."""
    step = plan.steps[k]
    if plan.algorithm == "ring":
        if (dst - src) % plan.ranks != 1:
            return "In the ring a rank sends only to the next one, and the last to rank 0."
        if k == 0:
            first = step.messages[0].slots[0]
            return f"Possible, but here the ring begins otherwise: rank 0 sends chunk {first}, rank 1 the one after it."
        return "Rank {src} passes on what has just arrived; chunk {chunk} is not that."
    if plan.algorithm == "pairwise":
        return f"In the next step every rank sends to the one {count(k + 1, 'place')} after it."
    if plan.algorithm == "tree":
        distance = (step.messages[0].src - step.messages[0].dst) % plan.ranks
        distance = min(distance, plan.ranks - distance)
        return f"Possible, but the tree comes to it in another step: the next goes over a distance of {distance}."
    return f"Possible, but rank {plan.root} handles one message at a time, in the order of ranks."
