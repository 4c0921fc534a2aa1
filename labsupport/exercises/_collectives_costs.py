"""Lesson 15: what a ring all-reduce costs, counted by walking through its steps."""

from labsupport.course import Case, Drill, Exercise, Misconception, Probe

__all__ = ["PREDICT_COST", "RING_COST"]

_BUS_DOC = "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md, read 2026-11"


# -- ring-cost


def ring_cost(n_ranks, size_bytes, seconds):
    """Return (steps, bytes sent per rank, bus bandwidth in bytes/s) of a ring all-reduce of `size_bytes`."""
    steps = 2 * (n_ranks - 1)
    sent = steps * size_bytes / n_ranks  # one chunk per step
    return steps, sent, sent / seconds


def _one_round(n_ranks, size_bytes, seconds):
    sent = (n_ranks - 1) * size_bytes / n_ranks
    return n_ranks - 1, sent, sent / seconds


def _whole_vectors(n_ranks, size_bytes, seconds):
    sent = 2 * (n_ranks - 1) * size_bytes
    return 2 * (n_ranks - 1), float(sent), sent / seconds


def _n_steps_per_round(n_ranks, size_bytes, seconds):
    return 2 * n_ranks, 2.0 * size_bytes, 2 * size_bytes / seconds


def _algorithm_bandwidth(n_ranks, size_bytes, seconds):
    steps = 2 * (n_ranks - 1)
    return steps, steps * size_bytes / n_ranks, size_bytes / seconds


def _all_ranks_together(n_ranks, size_bytes, seconds):
    steps = 2 * (n_ranks - 1)
    sent = steps * size_bytes
    return steps, float(sent), sent / n_ranks / seconds


def _both_directions(n_ranks, size_bytes, seconds):
    steps = 2 * (n_ranks - 1)
    sent = steps * size_bytes / n_ranks
    return steps, sent, 2 * sent / seconds


def _ring(n_ranks):
    """Return a maker: a size that n_ranks divides, and a time that gives no round numbers.

    The size is a float, so that bytes are floats whichever way they are computed.
    """
    return lambda rng: (n_ranks, float(rng.integers(10, 400)) * 1000 * n_ranks, float(rng.uniform(0.001, 0.02)))


RING_COST = Exercise(
    id="collectives/ring-cost",
    kind="function",
    task="Return (steps, bytes each rank sends, bus bandwidth in bytes per second) of a ring all-reduce of "
    "`size_bytes` on `n_ranks` ranks that took `seconds`. Bus bandwidth is what one rank sends per second. "
    "Steps are an int; `size_bytes` is a float, and so are the bytes sent and the bandwidth.",
    names=("ring_cost",),
    reference=ring_cost,
    cases=(
        Case("4 ranks", _ring(4)),
        Case("8 ranks", _ring(8)),
        Case("2 ranks", _ring(2)),
        Case("5 ranks", _ring(5)),
    ),
    misconceptions=(
        Misconception(
            id="one-round-only",
            specimen=_one_round,
            says="You count one round. After it each rank has one finished chunk; a second round of N - 1 steps hands "
            "the chunks out.",
            next="Reduce-scatter and all-gather: how many steps has each?",
        ),
        Misconception(
            id="whole-vectors",
            specimen=_whole_vectors,
            says="Your bytes are steps times the whole size. What travels at a step is a chunk, one N-th of it.",
            next="Bytes per step first, then times the steps.",
        ),
        Misconception(
            id="n-steps-per-round",
            specimen=_n_steps_per_round,
            says="You count N steps per round. A chunk has to visit N ranks and starts on one of them.",
            next="How many steps do two ranks need to exchange one chunk each?",
        ),
        Misconception(
            id="size-over-time",
            specimen=_algorithm_bandwidth,
            says="You divide the size by the time. That is what nccl-tests calls algorithm bandwidth; it falls as "
            "ranks are added, although every link is as busy as before.",
            next="Divide what a rank really sent.",
        ),
        Misconception(
            id="all-ranks-together",
            specimen=_all_ranks_together,
            says="You count the bytes of all ranks together. Asked for is what each of them sends: they send at the "
            "same time.",
            next="One chunk per step and rank.",
        ),
        Misconception(
            id="counts-both-directions",
            specimen=_both_directions,
            says="You count what is received as well. A link carries both directions at once, and bus bandwidth is "
            "given for one.",
            next="Steps and bytes are right: divide those bytes by the time.",
        ),
    ),
    hints=(
        "A chunk has size / N bytes. Each rank sends one chunk per step.",
        "There are two rounds, reduce-scatter and all-gather, with N - 1 steps each.",
    ),
    core=False,
    level=2,
    minutes=5,
    source=_BUS_DOC,
)


# -- predict-cost

_STEPS, _SENT, _BUS = "steps", "GB sent by each rank", "bus bandwidth in GB/s"


def _walk(n_ranks):
    """Return [(chunk, sender, receiver), ...] per step, for as many steps as until every rank has every sum."""
    holds = [[{rank} for _ in range(n_ranks)] for rank in range(n_ranks)]  # whose numbers are in it: [rank][chunk]
    steps = []
    while any(len(whose) < n_ranks for chunks in holds for whose in chunks):
        step = [((r - len(steps)) % n_ranks, r, (r + 1) % n_ranks) for r in range(n_ranks)]
        moving = [(chunk, to, set(holds[sender][chunk])) for chunk, sender, to in step]
        for chunk, to, whose in moving:
            holds[to][chunk] |= whose
        steps.append(step)
    return steps


def _cost(question, n_ranks, size_gb, seconds):
    steps = _walk(n_ranks)
    sent = sum(sender == 0 for step in steps for _, sender, _ in step) * size_gb / n_ranks
    return {_STEPS: len(steps), _SENT: round(sent, 6), _BUS: round(sent / seconds, 6)}[question]


def _round_trip(question, n_ranks, size_gb, seconds):
    if question == _STEPS:
        return n_ranks - 1
    return round((n_ranks - 1) * size_gb / n_ranks / (seconds if question == _BUS else 1), 6)


def _as_many_as_ranks(question, n_ranks, size_gb, seconds):
    if question == _STEPS:
        return 2 * n_ranks
    return round(2.0 * size_gb / (seconds if question == _BUS else 1), 6)


def _vectors_not_chunks(question, n_ranks, size_gb, seconds):
    if question == _STEPS:
        return 2 * (n_ranks - 1)
    return round(2.0 * (n_ranks - 1) * size_gb / (seconds if question == _BUS else 1), 6)


def _all_but_its_own(question, n_ranks, size_gb, seconds):
    if question == _STEPS:
        return 2 * (n_ranks - 1)
    return round(1.0 * (n_ranks - 1) * size_gb / (seconds if question == _BUS else 1), 6)


def _size_by_time(question, n_ranks, size_gb, seconds):
    return round(size_gb / seconds, 6) if question == _BUS else _cost(question, n_ranks, size_gb, seconds)


def _draw_cost(rng):
    question = (_STEPS, _SENT, _BUS)[int(rng.integers(3))]
    n_ranks = int(rng.choice((2, 4, 5, 8, 10, 16)))
    return question, n_ranks, float(rng.choice((0.5, 1.0, 2.0, 4.0))), float(rng.choice((0.01, 0.02, 0.1)))


def _ask_cost(question, n_ranks, size_gb, seconds):
    task = f"A ring all-reduce of {size_gb:g} GB on {n_ranks} ranks"
    if question == _STEPS:
        return f"{task}: how many steps?"
    if question == _SENT:
        return f"{task}: how many GB does each rank send?"
    return f"{task} took {seconds * 1000:g} ms. Bus bandwidth in GB/s?"


PREDICT_COST = Exercise(
    id="collectives/predict-cost",
    kind="prediction",
    task="Predict steps, bytes sent by each rank, and bus bandwidth of a ring all-reduce of 1 GB.",
    names=("steps_of_4", "sent_gb_of_4", "sent_gb_of_8", "bus_gb_s_of_8"),
    reference=_cost,
    cases=(
        Case("4 ranks, 1 GB: steps", lambda rng: (_STEPS, 4, 1.0, 0.01)),
        Case("4 ranks, 1 GB: GB sent by each rank", lambda rng: (_SENT, 4, 1.0, 0.01)),
        Case("8 ranks, 1 GB: GB sent by each rank", lambda rng: (_SENT, 8, 1.0, 0.01)),
        Case("8 ranks, 1 GB in 10 ms: bus bandwidth in GB/s", lambda rng: (_BUS, 8, 1.0, 0.01)),
    ),
    probe=Probe("literal"),
    drill=Drill(_draw_cost, _ask_cost),
    misconceptions=(
        Misconception(
            id="one-round-only",
            specimen=_round_trip,
            says="You count one round of N - 1 steps. Then each rank has one finished chunk and not the others.",
            next="How do the finished chunks reach the other ranks?",
        ),
        Misconception(
            id="one-step-per-rank",
            specimen=_as_many_as_ranks,
            says="You count N steps per round. A chunk starts on one of the N ranks and has N - 1 others to visit.",
            next="How many steps do two ranks need for one round?",
        ),
        Misconception(
            id="whole-vectors",
            specimen=_vectors_not_chunks,
            says="You send the whole vector at each of the 2 (N - 1) steps. A step moves one chunk.",
            next="What part of the vector is a chunk?",
        ),
        Misconception(
            id="once-per-other-rank",
            specimen=_all_but_its_own,
            says="You send the whole vector once to each other rank. On a ring a rank sends chunks, and only to its "
            "neighbour.",
            next="A chunk has 1/N of the bytes; how many of them does a rank send?",
        ),
        Misconception(
            id="size-over-time",
            specimen=_size_by_time,
            says="You divide the size by the time: the algorithm bandwidth. Bus bandwidth divides what a rank really "
            "sends, which is more than the size from three ranks on.",
            next="How much does each rank send? Divide that by the time.",
        ),
    ),
    hints=(
        "Two rounds of N - 1 steps, and in each step every rank sends one chunk.",
        "A chunk of 1 GB on 4 ranks has 0.25 GB.",
    ),
    core=False,
    level=2,
    minutes=4,
    source=_BUS_DOC,
)
