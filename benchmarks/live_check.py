"""How long a live check takes, in ms: over all function exercises, first and later checks, right and wrong answers."""

import statistics
import time

from labsupport import answering, catalog
from labsupport.observing import verdict_on
from labsupport.probing import Subject


def once(exercise, source):
    subject = Subject(exercise.names, answering.load(answering.Answer(source, exercise.names)), source)
    start = time.perf_counter()
    verdict_on(exercise, subject)
    return (time.perf_counter() - start) * 1e3


def main():
    functions = [e for e in catalog.exercises() if e.kind == "function"]
    rows = {"right, first": [], "right, later": [], "wrong, first": [], "wrong, later": []}
    for exercise in functions:
        right = answering.reference_answer(exercise).source
        wrong = answering.specimen_answer(exercise, exercise.misconceptions[-1]).source
        for name, source in (("right", right), ("wrong", wrong)):
            rows[f"{name}, first"].append(once(exercise, source))
            rows[f"{name}, later"].append(statistics.median(once(exercise, source) for _ in range(5)))
    print(f"live check of {len(functions)} function exercises, ms")
    for name, times in rows.items():
        print(f"  {name:<13} median {statistics.median(times):6.1f}   longest {max(times):6.1f}")


if __name__ == "__main__":
    main()
