"""Lesson 12: four recorded runs, and what each lost its time to."""

from labsupport.course import Case, Exercise, Misconception, Probe
from labsupport.loading.tracing import TRACES, cause, trace

__all__ = ["FIND_BOTTLENECK"]

_LOADER = "https://docs.pytorch.org/docs/2.13/data.html#multi-process-data-loading, read 2026-11"


def _cause(name):
    """Read the recorded run: its waits, its queue, its starts."""
    return cause(trace(name))


def _instead(wrong):
    """Return a specimen: the word in `wrong` for the causes it names, else the right one."""

    def answer(name):
        right = _cause(name)
        return wrong.get(right, right)

    return answer


FIND_BOTTLENECK = Exercise(
    id="loading/find-bottleneck",
    kind="prediction",
    task="Look at four recorded runs with two workers and name what each lost its time to: `loading` (the workers are "
    "busy all the time and still too slow), `model` (the step itself), `start` (workers that are started), `order` "
    "(one slow batch that holds up finished ones) or `transfer` (moving batches to the device).",
    names=tuple(f"trace_{name}" for name in TRACES),
    reference=_cause,
    cases=tuple(Case(f"trace {name}", lambda rng, name=name: (name,)) for name in TRACES),
    probe=Probe("literal", {"one_of": ("loading", "model", "start", "order", "transfer")}),
    misconceptions=(
        Misconception(
            id="waiting-is-loading",
            specimen=_instead({"order": "loading", "start": "loading"}),
            says="Main waits, so loading is slow: true of more than one of these runs, and here the workers are not "
            "busy all the time.",
            next="While main waits, what do both workers do? Is a batch finished already?",
        ),
        Misconception(
            id="idle-workers-are-the-fault",
            specimen=_instead({"model": "loading"}),
            says="The workers stand idle, because their batches are finished and nobody takes them. Main hardly waits.",
            next="Look at main's lane: what fills it?",
        ),
        Misconception(
            id="slow-worker-is-slow-loading",
            specimen=_instead({"loading": "order"}),
            says="No finished batch lies about while main waits: whatever is done is taken at once.",
            next="Are the two workers ever idle?",
        ),
        Misconception(
            id="blames-the-model",
            specimen=_instead({"loading": "model", "order": "model", "start": "model"}),
            says="The model computes for a small part of this run only; the rest of main's lane is waiting.",
            next="Add up main's two colours with your eyes.",
        ),
        Misconception(
            id="blames-the-transfer",
            specimen=_instead(dict.fromkeys(("loading", "order", "start", "model"), "transfer")),
            says="Nothing is moved to a device in this run: main's lane has no such bar.",
            next="Name the longest bars first, then say whose they are.",
        ),
    ),
    hints=(
        "Main's lane first: does it wait, and when? At the beginning of an epoch, now and then, or for every batch?",
        "Then the workers' lanes while main waits: starting, loading, or finished and idle?",
    ),
    core=True,
    level=2,
    minutes=6,
    source=_LOADER,
)
