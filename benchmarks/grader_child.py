"""A caged child beside a fresh Python process: seconds until it is ready, CPU, memory of many alive, time to end it."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from labsupport.grading.allowance import JOB
from labsupport.grading.errors import GradingImpossible, OverLimit
from labsupport.grading.runner import Runner

ROUNDS = 40
ALIVE = 50
MB = 1 << 20
FRESH = "import sys, numpy; print('ready', flush=True); sys.stdin.read()"
LOOP = {"op": "load", "setup": "", "helpers": [], "source": "import ctypes, signal\ndef f():\n    {}\n", "names": ["f"]}
CALL = {"op": "observe", "probe": {"name": "call", "options": {}}, "names": ["f"], "inputs": ()}


def descendants(pid):
    from labsupport.processes.reaping import descendants_of

    return descendants_of(pid)


def memory_bytes(pids):
    """Return the memory of processes; what they share with each other is counted once."""
    total = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        total += int(text.partition("\nPss:")[2].split()[0]) * 1024
    return total


def fresh_process():
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", FRESH], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process, time.perf_counter() - started


def end_fresh(process):
    process.stdin.close()
    process.stdout.close()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def row(name, seconds, cpu_s):
    ms = sorted(1e3 * s for s in seconds)
    middle, slow, cpu = statistics.median(ms), ms[-len(ms) // 10], 1e3 * statistics.median(cpu_s)
    print(f"  {name:<22} ready {middle:6.1f} ms (slowest tenth {slow:6.1f})   CPU {cpu:6.1f} ms")


def readiness(runner, name):
    seconds, cpu_s, ends = [], [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        child = runner.child()
        seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        cpu_s.append(child.close()["cpu_s"])
        ends.append(time.perf_counter() - started)
    row(name, seconds, cpu_s)
    return ends


def many_alive(runner):
    children = [runner.child() for _ in range(ALIVE)]
    pids = [runner._zygote.pid, *descendants(runner._zygote.pid)]
    caged = memory_bytes(pids)
    for child in children:
        child.close()
    fresh = [fresh_process()[0] for _ in range(5)]
    beside = memory_bytes([process.pid for process in fresh]) / 5 * ALIVE
    for process in fresh:
        end_fresh(process)
    print(f"{ALIVE} alive ({len(pids)} processes): {caged / MB:.0f} MB; as fresh processes {beside / MB:.0f} MB")


def endless(runner):
    for name, body in (
        ("a Python loop", "while True: pass"),
        ("ignoring signals", "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    while True: pass"),
        ("inside C", "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    ctypes.CDLL(None).pause()"),
    ):
        with runner.child() as child:
            child.ask({**LOOP, "source": LOOP["source"].format(body)})
            started = time.perf_counter()
            try:
                child.ask({**CALL, "limits": {"call_s": 1.0}})
            except OverLimit:
                pass
            print(f"  endless, {name:<18} over its limit of 1 s after {time.perf_counter() - started:5.2f} s")


def bomb(runner):
    if not runner.counts_together:
        return
    child = runner.child(JOB)
    child.ask({**LOOP, "source": "import os\ndef f():\n    while True:\n        os.fork()\n"})
    try:
        child.ask({**CALL, "limits": {"call_s": 0.5}})
    except Exception:
        pass
    alive = len(descendants(runner._zygote.pid))
    started = time.perf_counter()
    child.close()
    left = len(descendants(runner._zygote.pid))
    print(f"  a fork bomb: {alive} processes, {left} left {time.perf_counter() - started:.2f} s after the word to end")


def main():
    try:
        runner = Runner("A").__enter__()
    except GradingImpossible as error:
        return print(error)
    try:
        by = runner.report.notes["namespaces by"]
        print(f"{runner.report}, namespaces by {by}; {ROUNDS} rounds, {os.cpu_count()} cores")
        ends = readiness(runner, "caged child, NumPy")
        fresh = [fresh_process() for _ in range(10)]
        row("fresh Python, NumPy", [seconds for _, seconds in fresh], [end_fresh(process) for process, _ in fresh])
        print(f"  ending a caged child   {1e3 * statistics.median(ends):6.1f} ms")
        many_alive(runner)
        endless(runner)
        bomb(runner)
    finally:
        runner.close()
    if "--torch" in sys.argv:
        with Runner("A", preload=("torch",)) as with_torch:
            readiness(with_torch, "caged child, torch")


if __name__ == "__main__":
    main()
