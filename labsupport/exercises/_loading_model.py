"""Lesson 12: what a step takes with w workers."""

from labsupport.course import Case, Drill, Exercise, Misconception, Probe
from labsupport.loading.clock import steady_ms

__all__ = ["PREDICT_STEP_TIME", "STEP_TIME"]

_LOADER = "https://docs.pytorch.org/docs/2.13/data.html#multi-process-data-loading, read 2026-11"


# -- predict-step-time


def _step(load, compute, workers):
    """Play some hundred batches by the loader's rules on a clock, and take the steady part."""
    return round(steady_ms(load, compute, workers), 6)


def _shared_then_added(load, compute, workers):
    return load / max(1, workers) + compute


def _overlaps_by_itself(load, compute, workers):
    return max(load / max(1, workers), compute)


def _nothing_overlaps(load, compute, workers):
    return load + compute


def _only_loading(load, compute, workers):
    return load / max(1, workers)


def _workers_hide_all(load, compute, workers):
    return compute if workers else load + compute


def _draw_step(rng):
    load = int(rng.choice((20, 30, 60, 80, 120, 240)))
    compute = int(rng.choice((10, 15, 20, 40, 50)))
    return load, compute, int(rng.choice((0, 1, 2, 3, 4, 6)))


def _ask_step(load, compute, workers):
    return (
        f"A batch takes {load} ms to load, a step {compute} ms to compute; `num_workers={workers}`. "
        "Milliseconds from one step to the next, once it runs steadily?"
    )


PREDICT_STEP_TIME = Exercise(
    id="loading/predict-step-time",
    kind="prediction",
    task="Loading a batch takes 80 ms, computing on it 20 ms. Predict the milliseconds from one step to the next, once "
    "it runs steadily, with 0, 1, 2, 4 and 8 workers on a machine with cores enough.",
    names=("with_0", "with_1", "with_2", "with_4", "with_8"),
    reference=_step,
    cases=tuple(Case(f"{n} workers", lambda rng, n=n: (80, 20, n)) for n in (0, 1, 2, 4, 8)),
    probe=Probe("literal"),
    drill=Drill(_draw_step, _ask_step),
    misconceptions=(
        Misconception(
            id="shares-then-adds",
            specimen=_shared_then_added,
            says="You add the computing to the loading. While the model computes, the workers go on loading: the two "
            "overlap.",
            next="Of two things that happen at the same time, which one decides when both are done?",
        ),
        Misconception(
            id="overlaps-without-workers",
            specimen=_overlaps_by_itself,
            says="Without workers there is one process, and it does one thing after the other.",
            next="Who loads the next batch while the only process computes?",
        ),
        Misconception(
            id="nothing-overlaps",
            specimen=_nothing_overlaps,
            says="You add loading and computing, whatever the number of workers. That holds for 0 workers only.",
            next="What does a worker do while the main process computes?",
        ),
        Misconception(
            id="forgets-the-model",
            specimen=_only_loading,
            says="You count the loading only. However many workers there are, the model needs its own time for each "
            "step.",
            next="With workers without end, what is left?",
        ),
        Misconception(
            id="one-worker-hides-all",
            specimen=_workers_hide_all,
            says="A worker loads ahead, but it still takes 80 ms per batch: one worker delivers one batch every 80 ms, "
            "and the model has to wait for it.",
            next="How many batches do w workers finish in 80 ms?",
        ),
    ),
    hints=(
        "With w workers, w batches are being loaded at the same time: one arrives every load / w milliseconds.",
        "The slower of the two sets the pace: the arriving batches or the computing model.",
    ),
    core=True,
    level=2,
    minutes=4,
    source=_LOADER,
)


# -- step-time


def step_ms(load_ms, compute_ms, workers, receive_ms):
    """Return the milliseconds from one step to the next, once it runs steadily."""
    if workers == 0:
        return load_ms + compute_ms  # one process, one thing after the other
    return max(load_ms / workers, receive_ms + compute_ms)  # main receives and computes while the workers load


def _sum_of_both(load_ms, compute_ms, workers, receive_ms):
    if workers == 0:
        return load_ms + compute_ms
    return load_ms / workers + receive_ms + compute_ms


def _sum_without_receiving(load_ms, compute_ms, workers, receive_ms):
    return load_ms / max(1, workers) + compute_ms


def _receives_beside(load_ms, compute_ms, workers, receive_ms):
    if workers == 0:
        return load_ms + compute_ms
    return max(load_ms / workers, compute_ms)


def _receives_in_the_worker(load_ms, compute_ms, workers, receive_ms):
    if workers == 0:
        return load_ms + compute_ms
    return max((load_ms + receive_ms) / workers, compute_ms)


def _receives_after_waiting(load_ms, compute_ms, workers, receive_ms):
    if workers == 0:
        return load_ms + compute_ms
    return max(load_ms / workers, compute_ms) + receive_ms


def _receives_from_itself(load_ms, compute_ms, workers, receive_ms):
    if workers == 0:
        return load_ms + receive_ms + compute_ms
    return max(load_ms / workers, receive_ms + compute_ms)


def _main_loads_too(load_ms, compute_ms, workers, receive_ms):
    if workers == 0:
        return load_ms + compute_ms
    return max(load_ms / (workers + 1), receive_ms + compute_ms)


def _zero_is_one(load_ms, compute_ms, workers, receive_ms):
    return max(load_ms / max(1, workers), receive_ms + compute_ms)


def _times(low, high):
    """Return a function that draws milliseconds between two bounds, with tenths."""
    return lambda rng: round(float(rng.uniform(low, high)), 1)


def _times_case(label, load, compute, workers, receive):
    def make(rng):
        return _times(*load)(rng), _times(*compute)(rng), workers, _times(*receive)(rng)

    return Case(label, make)


STEP_TIME = Exercise(
    id="loading/step-time",
    kind="function",
    task="Return the milliseconds from one step to the next, once it runs steadily: workers load side by side while "
    "main receives a batch and computes on it. Without workers, main does all by itself and receives nothing.",
    names=("step_ms",),
    reference=step_ms,
    cases=(
        _times_case("no workers", (60, 90), (10, 30), 0, (3, 6)),
        _times_case("one worker, slow loading", (60, 90), (10, 30), 1, (3, 6)),
        _times_case("three workers, still slow", (120, 150), (10, 20), 3, (3, 6)),
        _times_case("four workers, slow model", (60, 90), (40, 50), 4, (3, 6)),
        _times_case("eight workers: receiving is the larger part", (8, 12), (1, 2), 8, (5, 9)),
        _times_case("nearly balanced, two workers", (60, 64), (27, 29), 2, (6, 7)),
    ),
    misconceptions=(
        Misconception(
            id="adds-all-up",
            specimen=_sum_of_both,
            says="You add what overlaps: while main receives and computes, the workers load the next batches.",
            next="Two lanes at the same time: which one decides?",
        ),
        Misconception(
            id="adds-the-two",
            specimen=_sum_without_receiving,
            says="You add loading and computing, which overlap with one worker or more; and what main spends on "
            "receiving is missing.",
            next="Draw a lane for the workers and one for main: which of them decides?",
        ),
        Misconception(
            id="receives-for-nothing",
            specimen=_receives_beside,
            says="You leave out receiving. Main reads every batch from the worker's pipe and unpacks it, and cannot "
            "compute meanwhile.",
            next="Write down everything main does for one batch.",
        ),
        Misconception(
            id="workers-receive",
            specimen=_receives_in_the_worker,
            says="You give the receiving to the workers. They send; it is main that has to take each batch in, and "
            "main is one process however many workers there are.",
            next="Which of the three times does not get shorter with more workers?",
        ),
        Misconception(
            id="receives-while-all-wait",
            specimen=_receives_after_waiting,
            says="You add receiving on top, as if the workers stopped for it. They are loading the next batches "
            "while main receives.",
            next="Put receiving into the lane of the process that does it.",
        ),
        Misconception(
            id="receives-from-itself",
            specimen=_receives_from_itself,
            says="Without workers nothing is sent, so nothing is received: the batch is in main's memory already.",
            next="Read the task's sentence on 0 workers.",
        ),
        Misconception(
            id="main-helps-loading",
            specimen=_main_loads_too,
            says="You count main among those who load. With one worker or more, main loads nothing at all.",
            next="With one worker, how often does a batch arrive?",
        ),
        Misconception(
            id="zero-is-one",
            specimen=_zero_is_one,
            says="You treat 0 workers as 1. A worker loads while main computes; without one, nothing overlaps.",
            next="Give 0 workers a line of its own.",
        ),
    ),
    hints=(
        "Draw two lanes. In one, a batch arrives every load / w milliseconds; in the other stands what main does for "
        "it.",
        "Main's lane: receive, then compute. The step takes what the slower lane takes.",
    ),
    core=True,
    level=2,
    minutes=6,
    source=_LOADER,
)
