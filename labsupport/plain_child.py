"""A plain child process for the clean check, where no cage can be built (macOS, Windows).

It runs the learner's code beside the references: good enough to tell somebody about their own answer, never a grade.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from dataclasses import asdict

from labsupport import answering, catalog
from labsupport.course import Answer, Outcome, Verdict
from labsupport.grading.finding import Taken
from labsupport.rank_answers import verdict_on_cell

__all__ = ["run_in_child"]

_START_S = 60  # a hang guard for starting Python and importing, not a measure of speed
_EXTRA_S = 30


# -- the parent's side -------------------------------------------------------------------------------------------


def run_in_child(taken):
    """Yield a verdict per `Taken`; a hang or a death costs only the exercise that caused it."""
    waiting = list(taken)
    while waiting:
        for verdict in _one_child(tuple(waiting)):
            waiting.pop(0)
            yield verdict


def _one_child(taken):
    """Yield verdicts until the child has answered all or has to be replaced; always at least one."""
    child = subprocess.Popen(
        [sys.executable, "-m", "labsupport.plain_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MPLBACKEND": "agg"},
        text=True,
        encoding="utf-8",
    )
    lines = queue.Queue()
    reader = threading.Thread(target=_forward, args=(child.stdout, lines), daemon=True)
    reader.start()
    try:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps([asdict(t) for t in taken]) + "\n")
            child.stdin.flush()
        if lines.get(timeout=_START_S) is None:
            yield _died(taken[0], child)
            return
        for one in taken:
            verdict = _next_verdict(one, lines, child)
            yield verdict
            if verdict.outcome is Outcome.OVER_LIMIT or child.poll() is not None:
                return
    finally:
        child.kill()
        child.wait()
        reader.join()
        child.stdin.close()
        child.stdout.close()


def _forward(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def _next_verdict(taken, lines, child):
    exercise = catalog.find_exercise(taken.exercise)
    seconds = exercise.limits.call_s * len(exercise.cases) + _EXTRA_S
    try:
        line = lines.get(timeout=seconds)
    except queue.Empty:
        why = f"It did not end within {seconds:g} s and was stopped."
        return Verdict(
            exercise=taken.exercise, outcome=Outcome.OVER_LIMIT, why=why, next="Look for a loop or a wait without end."
        )
    if line is None:
        return _died(taken, child)
    fields = json.loads(line)
    return Verdict(**{**fields, "outcome": Outcome(fields["outcome"])})


def _died(taken, child):
    code = child.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    why = f"The process that ran this answer ended ({how})."
    return Verdict(
        exercise=taken.exercise,
        outcome=Outcome.CRASHED,
        why=why,
        next="Look for a call that ends Python, or for memory read out of bounds.",
    )


# -- the child's side --------------------------------------------------------------------------------------------


def _child():
    """Answer each `Taken` on standard input by one verdict line; whatever the answers print goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    taken = [Taken(t["exercise"], t["source"], tuple(t["helpers"]), t["how"]) for t in json.loads(sys.stdin.readline())]
    out.write("ready\n")
    for one in taken:
        out.write(json.dumps(asdict(_judge_taken(one))) + "\n")
    out.flush()
    os._exit(0)  # threads an answer may have left behind must not keep the process


def _judge_taken(taken):
    from labsupport.observing import verdict_on
    from labsupport.probing import Subject

    exercise = catalog.find_exercise(taken.exercise)
    if exercise.on_ranks:
        return verdict_on_cell(exercise, taken.source, reveal=False)
    namespace = {"__name__": "__answer__"}
    _run_quietly([exercise.setup, *taken.helpers], namespace)
    try:
        answering.load(Answer(taken.source, exercise.names), namespace)
    except NotImplementedError:
        return verdict_on(exercise, None, untouched=True)
    except BaseException as error:
        where = f" (line {error.lineno} of the cell)" if isinstance(error, SyntaxError) else ""
        why = f"The cell does not run: {type(error).__name__}: {error}{where}"
        return Verdict(
            exercise=exercise.id,
            outcome=Outcome.CRASHED,
            why=why,
            next="Restart the kernel and run the notebook from the top.",
        )
    missing = [name for name in exercise.names if name not in namespace]
    if missing:
        why = f"The cell does not define `{missing[0]}`."
        return Verdict(exercise=exercise.id, outcome=Outcome.NOT_YET, why=why, next=f"Name your answer `{missing[0]}`.")
    source = None if exercise.kind == "prediction" else answering.definition_in(taken.source, exercise.names[0])
    stub = answering.definition_in(catalog.stubs(exercise.slug).get(exercise.id, ""), exercise.names[0])
    untouched = source is not None and stub is not None and answering.same_program(source, stub)
    return verdict_on(exercise, Subject(exercise.names, namespace, source), untouched=untouched, reveal=False)


def _run_quietly(sources, namespace):
    """Run helper statements; one that fails is passed over, the answer will say what it misses."""
    for source in sources:
        with contextlib.suppress(BaseException):
            exec(compile(source, "<earlier cell>", "exec"), namespace)


if __name__ == "__main__":
    _child()
