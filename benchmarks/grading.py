"""A class graded by `lab grade` beside the same notebooks executed by `pytest --nbmake`, wall and CPU, in one run.

    python benchmarks/grading.py [--n 100] [--sample 6] [--all] [--bare]
    python benchmarks/grading.py --flat [2000]

Each submission is lesson 05 with ten of its exercises answered, two of them wrongly. With --bare it is only the setup,
the answers and their checks, the least that nbmake could be given. nbmake executes a sample of the notebooks (with
--all every one); the rest is extrapolated from the sample's mean without pytest's own start, which is measured apart.
The grader grades them all, with a secret, so that everybody has inputs of their own. With --flat only the grader runs:
what a submission costs among 100 and among many.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labsupport import answering, building, catalog
from labsupport.places import NOTEBOOKS
from labsupport.reading import load

LESSON, COUNT, WRONG = "strides", 10, 2
CHILDREN = 50


def class_of(n, folder, bare):
    """Write `n` notebooks, one per learner, and return their paths."""
    exercises = [e for e in catalog.exercises(LESSON) if e.kind != "prediction"][:COUNT]
    exercises += [e for e in catalog.exercises(LESSON) if e.kind == "prediction"][: COUNT - len(exercises)]
    lesson = load(NOTEBOOKS / catalog.find_lesson(LESSON).notebook)
    known = {e.id for e in exercises}
    cells = [c for c in lesson["cells"] if not bare or _kept(c, known)]
    paths = []
    for number in range(n):
        sources = {}
        for place, exercise in enumerate(exercises):
            answer = answering.reference_answer(exercise)
            if (place + number) % COUNT < WRONG:
                mistake = exercise.misconceptions[number % len(exercise.misconceptions)]
                answer = answering.specimen_answer(exercise, mistake)
            sources[exercise.id] = f"{answer.source}\n# by learner {number}"
        path = folder / f"learner-{number:05}" / catalog.find_lesson(LESSON).notebook
        path.parent.mkdir(parents=True)
        path.write_text(building.dump(building.graft(lesson | {"cells": cells}, sources)), encoding="utf-8")
        paths.append(path)
    return paths


def _kept(cell, known):
    if cell["cell_type"] != "code":
        return False
    checked = [f"{LESSON}/{name}" for name in building.checks_in(cell["source"])]
    return "lesson(" in cell["source"] or catalog.marker_of(cell["source"]) in known or bool(known & set(checked))


def measured(command, env=None):
    """Return (wall seconds, CPU seconds) of a command and of all it started, in a workspace that is nobody's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as work:  # the notebooks' checks write into a journal
        began = time.perf_counter()
        done = subprocess.run(
            command, env={**os.environ, **(env or {}), "LAB_WORK": work}, capture_output=True, text=True
        )
        wall = time.perf_counter() - began
    _reap()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        sys.exit(f"{' '.join(map(str, command[:6]))} ... ended with {done.returncode}\n{said}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _adopt():
    """Processes whose parent ends become ours, so that their CPU time is counted too (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _reap():
    while True:
        try:
            if os.waitpid(-1, 0)[0] == 0:
                return
        except ChildProcessError:
            return


def nbmake(paths, n, workers):
    """Return [wall, CPU] of `pytest --nbmake` for `n` notebooks, measured on those at `paths`."""
    words = [sys.executable, "-m", "pytest", "--nbmake", "-q", "-p", "no:cacheprovider"]
    words += ["-n", str(workers)] if workers > 1 else ["-p", "no:xdist"]
    start = measured([*words, "--collect-only", paths[0]])
    all_ = measured([*words, *paths])
    return [whole + (n - len(paths)) * (whole - begin) / len(paths) for whole, begin in zip(all_, start)]


def grade(folder, jobs):
    """Return (wall, CPU) of `lab grade` on a folder, from nothing."""
    with tempfile.TemporaryDirectory() as out:
        words = [sys.executable, "-m", "labsupport", "grade", str(folder), "--out", out, "--jobs", str(jobs)]
        return measured(words, {"LAB_SECRET": "a secret of the benchmark only"})


def children():
    """Print how soon a child is ready, and what many at once hold of memory."""
    import psutil

    from labsupport.grading.runner import Runner

    with Runner() as runner:
        alive = [runner.child() for _ in range(CHILDREN)]
        ready = [child.ready_s * 1000 for child in alive]
        tree = psutil.Process().children(recursive=True)
        held = sum(one.memory_full_info().pss for one in tree)
        for child in alive:
            child.close()
    print(f"child ready         median {statistics.median(ready):6.1f} ms   longest {max(ready):6.1f} ms   limit 60 ms")
    print(f"{CHILDREN} children alive   {held / 1e6:6.0f} MB in all (PSS of the whole tree)   limit 1,000 MB")


def flat(n, bare):
    """Print what a submission costs among 100 and among `n`; return 1 when it grows by more than a tenth."""
    costs = []
    for count in (100, n):
        with tempfile.TemporaryDirectory() as folder:
            class_of(count, Path(folder, "room"), bare)
            wall, cpu = grade(Path(folder, "room"), 2)
        costs.append(cpu / count)
        each = f"{1000 * wall / count:6.0f} ms wall {1000 * cpu / count:6.0f} ms CPU"
        print(f"lab grade --jobs 2   {count:>6,} submissions   each {each}", flush=True)
    return int(costs[1] > 1.1 * costs[0])


def main():
    """Print costs and ratios; return 1 when a ratio is below what the course promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--n", type=int, default=100, help="submissions (default 100); with 2000 both costs are printed"
    )
    parser.add_argument("--sample", type=int, default=6, help="notebooks that nbmake executes (default 6)")
    parser.add_argument("--bare", action="store_true", help="notebooks of answers and checks only")
    parser.add_argument("--all", action="store_true", help="let nbmake execute every notebook")
    parser.add_argument(
        "--flat", type=int, nargs="?", const=2000, metavar="N", help="only costs among 100 and among N (2000)"
    )
    args = parser.parse_args()
    if sys.platform != "linux":
        print("grading in a cage needs Linux")
        return 0
    _adopt()
    if args.flat:
        return flat(args.flat, args.bare)
    children()
    with tempfile.TemporaryDirectory() as folder:
        room, hundred = Path(folder, "room"), Path(folder, "hundred")
        paths = class_of(args.n, room, args.bare)
        sample = paths if args.all else paths[: args.sample]
        rows = _rows(args.n, room, sample)
        if args.n > 100:
            class_of(100, hundred, args.bare)
            rows["lab grade --jobs 2, 100"] = [x * args.n / 100 for x in grade(hundred, 2)]
    return _told(args.n, len(sample), rows)


def _rows(n, room, sample):
    rows = {"lab grade --jobs 1": grade(room, 1), "lab grade --jobs 2": grade(room, 2)}
    rows["pytest --nbmake"] = nbmake(sample, n, 1)
    rows["pytest --nbmake -n 2"] = nbmake(sample, n, 2)
    return rows


def _told(n, sampled, rows):
    how = "all executed" if sampled == n else f"{sampled} executed, the rest extrapolated"
    print(f"{n} submissions x {COUNT} exercises; nbmake: {how}; wall and CPU seconds, then ms per submission")
    for name, (wall, cpu) in rows.items():
        each = f"{1000 * wall / n:7.0f} {1000 * cpu / n:7.0f}"
        print(f"  {name:<24} {wall:8.1f} {cpu:8.1f}   {each}")
    (wall, cpu), (wall_2, cpu_2) = rows["lab grade --jobs 1"], rows["lab grade --jobs 2"]
    plain, double = rows["pytest --nbmake"], rows["pytest --nbmake -n 2"]
    for name, ours, theirs in (("one process", (wall, cpu), plain), ("two processes", (wall_2, cpu_2), double)):
        print(f"{name:<14} {theirs[0] / ours[0]:5.1f} times less wall, {theirs[1] / ours[1]:5.1f} times less CPU")
    best = plain[0] / min(wall, wall_2)
    print(f"promised       20 times less wall ({best:.1f}), 15 times less CPU ({plain[1] / cpu:.1f}) than plain nbmake")
    return int(best < 20 or plain[1] / cpu < 15)


if __name__ == "__main__":
    sys.exit(main())
