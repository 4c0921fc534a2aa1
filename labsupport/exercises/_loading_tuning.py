"""Lesson 12: choosing settings by measurement, on a device whose delays are counted and not slept."""

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["TUNE"]

_OPTIONS = "https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.DataLoader, read 2026-11"


def tune(bench, batch_bytes, memory_bytes, most_workers):
    """Return (workers, prefetch_factor): the fewest workers, then the least prefetch, within 5 % of the best."""
    took, deepest = {0: bench(0, None)}, {}
    for workers in range(1, most_workers + 1):
        fitting = [p for p in (1, 2, 4, 8) if workers * p * batch_bytes <= memory_bytes]
        if fitting:
            deepest[workers] = fitting[-1]  # the most prefetch is never the slower one
            took[workers] = bench(workers, fitting[-1])
    enough = 1.05 * min(took.values())
    workers = next(w for w in sorted(took) if took[w] <= enough)
    if workers == 0:
        return 0, None
    for prefetch in (1, 2, 4, 8):
        if prefetch == deepest[workers] or bench(workers, prefetch) <= enough:
            return workers, prefetch


def _as_many_as_there_are(bench, batch_bytes, memory_bytes, most_workers):
    return most_workers, 2


def _rule_of_thumb(bench, batch_bytes, memory_bytes, most_workers):
    return 4, 2


def _tries_everything(bench, batch_bytes, memory_bytes, most_workers):
    took = {(0, None): bench(0, None)}
    for workers in range(1, most_workers + 1):
        for prefetch in (1, 2, 4, 8):
            if workers * prefetch * batch_bytes <= memory_bytes:
                took[workers, prefetch] = bench(workers, prefetch)
    enough = 1.05 * min(took.values())
    fitting = sorted((w, p or 0) for (w, p), ms in took.items() if ms <= enough)
    workers, prefetch = fitting[0]
    return workers, prefetch or None


def _forgets_memory(bench, batch_bytes, memory_bytes, most_workers):
    took = {0: bench(0, None)}
    for workers in range(1, most_workers + 1):
        took[workers] = bench(workers, 8)
    enough = 1.05 * min(took.values())
    workers = next(w for w in sorted(took) if took[w] <= enough)
    if workers == 0:
        return 0, None
    return workers, next(p for p in (1, 2, 4, 8) if bench(workers, p) <= enough)


def _the_fastest(bench, batch_bytes, memory_bytes, most_workers):
    took = {(0, None): bench(0, None)}
    for workers in range(1, most_workers + 1):
        fitting = [p for p in (1, 2, 4, 8) if workers * p * batch_bytes <= memory_bytes]
        if fitting:
            took[workers, fitting[-1]] = bench(workers, fitting[-1])
    return min(took, key=took.get)


def _never_without_workers(bench, batch_bytes, memory_bytes, most_workers):
    took, deepest = {}, {}
    for workers in range(1, most_workers + 1):
        fitting = [p for p in (1, 2, 4, 8) if workers * p * batch_bytes <= memory_bytes]
        if fitting:
            deepest[workers] = fitting[-1]
            took[workers] = bench(workers, fitting[-1])
    enough = 1.05 * min(took.values())
    workers = next(w for w in sorted(took) if took[w] <= enough)
    for prefetch in (1, 2, 4, 8):
        if prefetch == deepest[workers] or bench(workers, prefetch) <= enough:
            return workers, prefetch


def _prefetch_stays_two(bench, batch_bytes, memory_bytes, most_workers):
    took = {0: bench(0, None)}
    for workers in range(1, most_workers + 1):
        if workers * 2 * batch_bytes <= memory_bytes:
            took[workers] = bench(workers, 2)
    enough = 1.05 * min(took.values())
    workers = next(w for w in sorted(took) if took[w] <= enough)
    return (workers, 2) if workers else (0, None)


def _stops_at_the_first_hill(bench, batch_bytes, memory_bytes, most_workers):
    workers, took = 0, bench(0, None)
    while workers < most_workers and (workers + 1) * 2 * batch_bytes <= memory_bytes:
        after = bench(workers + 1, 2)
        if after >= took * 0.95:
            break
        workers, took = workers + 1, after
    return (workers, 2) if workers else (0, None)


def _prefetch_as_deep_as_fits(bench, batch_bytes, memory_bytes, most_workers):
    took, deepest = {0: bench(0, None)}, {0: None}
    for workers in range(1, most_workers + 1):
        fitting = [p for p in (1, 2, 4, 8) if workers * p * batch_bytes <= memory_bytes]
        if fitting:
            deepest[workers] = fitting[-1]
            took[workers] = bench(workers, fitting[-1])
    enough = 1.05 * min(took.values())
    workers = next(w for w in sorted(took) if took[w] <= enough)
    return workers, deepest[workers]


_MEGABYTE = 1_000_000


def _machine_case(label, *, load, compute, receive=1.0, slow=0.0, channels=0, batch=10, memory=(10_000,), most=12):
    """Return a case; `load`, `compute` and `memory` are drawn from lists, `slow` is a multiple of the load drawn."""

    def make(rng):
        usual = float(rng.choice(load))
        machine = {
            "load_ms": usual, "slow_ms": usual * slow, "compute_ms": float(rng.choice(compute)),
            "receive_ms": receive, "channels": channels,
        }  # fmt: skip
        return machine, batch * _MEGABYTE, int(rng.choice(memory)) * _MEGABYTE, most

    return Case(label, make)


TUNE = Exercise(
    id="loading/tune",
    kind="budget",
    task="Choose (workers, prefetch_factor) with the help of `bench(workers, prefetch_factor)`, which returns "
    "milliseconds per step. Allowed: 0 workers with None, else prefetch 1, 2, 4 or 8, with workers * prefetch * "
    "batch_bytes within memory_bytes. Of all settings within 5 % of the best, take the fewest workers, then the least "
    "prefetch. At most most_workers + 8 runs.",
    names=("tune",),
    reference=tune,
    cases=(
        _machine_case("slow loading", load=(60, 90, 150, 210), compute=(28, 31)),
        _machine_case("slow model", load=(10, 16), compute=(350, 400, 500)),
        _machine_case("a model that is done at once", load=(90, 120), compute=(2, 3)),
        _machine_case("tiny items: receiving costs more than loading", load=(1, 2), compute=(3, 4), receive=6.0),
        _machine_case("a device that serves few at a time", load=(64, 80, 96), compute=(9, 11), channels=3),
        _machine_case("every eighth batch is slow", load=(10, 12), compute=(34,), slow=16.0, most=10),
        _machine_case("as slow to load as to compute", load=(50, 60), compute=(70, 80)),
        _machine_case(
            "slow batches, little memory", load=(30, 36), compute=(28, 30), slow=6.0, batch=100, memory=(800,), most=5
        ),
        _machine_case("little memory", load=(210, 320), compute=(28, 31), batch=100, memory=(500, 600)),
    ),
    probe=Probe("through", {"driver": "loading:tuned"}),
    misconceptions=(
        Misconception(
            id="as-many-as-there-are",
            specimen=_as_many_as_there_are,
            says="You take all workers there are. Each costs memory and a start, and once the model is the slower "
            "part, more of them change nothing.",
            next="Let the benchmark say from which number on nothing improves.",
        ),
        Misconception(
            id="rule-of-thumb",
            specimen=_rule_of_thumb,
            says="Four workers and a prefetch of two is a rule of thumb. It knows neither this device nor this model.",
            next="Call `bench`.",
        ),
        Misconception(
            id="tries-everything",
            specimen=_tries_everything,
            says="The settings are right and cost too many runs: each of them would take minutes on a real machine.",
            next="Deeper prefetch is never slower: for each number of workers, which one run tells most?",
        ),
        Misconception(
            id="forgets-memory",
            specimen=_forgets_memory,
            says="Your setting holds more bytes in flight than there is memory; on a real machine the kernel ends a "
            "worker.",
            next="Leave out what does not fit before you measure.",
        ),
        Misconception(
            id="takes-the-fastest",
            specimen=_the_fastest,
            says="You take the fastest run. Several are as fast but for a few per cent, and some of them need fewer "
            "workers.",
            next="First the best time, then the cheapest setting near it.",
        ),
        Misconception(
            id="never-without-workers",
            specimen=_never_without_workers,
            says="You never ask what happens without workers. Where items are tiny, sending them costs more than "
            "loading them.",
            next="`bench(0, None)` is a setting too.",
        ),
        Misconception(
            id="prefetch-stays-two",
            specimen=_prefetch_stays_two,
            says="You leave prefetch at two. A device with slow moments needs more batches in store; a steady one is "
            "served by one.",
            next="Vary both settings.",
        ),
        Misconception(
            id="stops-at-the-first-hill",
            specimen=_stops_at_the_first_hill,
            says="You stop when one worker more does not help, and never look at prefetch. The next worker may help "
            "again.",
            next="Measure all numbers of workers; they are few.",
        ),
        Misconception(
            id="as-deep-as-fits",
            specimen=_prefetch_as_deep_as_fits,
            says="Workers are right, prefetch is as deep as memory allows. All of it is memory that does nothing.",
            next="With the workers fixed, how little prefetch is enough?",
        ),
    ),
    hints=(
        "One run for each number of workers, with the most prefetch that fits, gives the best time there is.",
        "Then the fewest workers within 5 % of it, then the least prefetch at that number, with at most three more "
        "runs.",
    ),
    core=False,
    level=4,
    minutes=10,
    source=_OPTIONS,
)
