"""`--trace`: what every rank of a job did, and when: profiled on the ranks, laid on one clock, shown as one chart.

On a rank, `begin` starts torch's profiler before the script and `finish` writes two files into the rank's folder:
`trace.json`, as the profiler exports it, and `spans.json`, the few numbers that the chart needs. In the kernel, `read`
returns the `Timeline` of an attempt and `merge` the profiler's own events of all ranks as one Chrome trace.

The clock is the machine's: profiles of ranks on one machine need no alignment.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

from labsupport.errors import LabError
from labsupport.torchrun.timeline import Spans, Timeline, minus, union

__all__ = ["begin", "finish", "merge", "read", "spans_of"]

_TRACE, _SPANS = "trace.json", "spans.json"
_BACKENDS = ("gloo:", "nccl:", "mpi:", "ucc:")
_CALLS = ("c10d::", "_c10d_functional::", "c10d_functional::")  # ask for communication, or wait in it
_MOST_BYTES = 400_000_000  # of a profile that is still looked at: reading it takes about ten times that memory

_profile = None


# -- on a rank ----------------------------------------------------------------------------------------------------


def begin(place):
    """Start to profile this rank; `place` is its `bootstrap.Place`."""
    global _profile
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells of every start and stop on the error output
    import torch
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(ProfilerActivity.CUDA)
    _profile = profile(activities=kinds)
    _profile.__enter__()


def finish(place):
    """Stop to profile and write both files into the rank's folder."""
    global _profile
    profiler, _profile = _profile, None
    if profiler is None:
        return
    try:
        _export(profiler, place.folder)
    except Exception as error:  # the cell is not at fault, and what it returns is worth more than its profile
        print(f"--trace: no profile of this rank ({type(error).__name__}: {error})", file=sys.stderr)


def _export(profiler, folder):
    profiler.__exit__(None, None, None)
    unfinished = folder / "trace.part"
    profiler.export_chrome_trace(str(unfinished))
    if unfinished.stat().st_size <= _MOST_BYTES:
        spans = spans_of(json.loads(unfinished.read_text(encoding="utf-8")))
        (folder / _SPANS).write_text(json.dumps(spans), encoding="utf-8")
    unfinished.replace(folder / _TRACE)


def spans_of(trace):
    """Return what the chart needs of a rank's trace, as JSON data.

    Args:
        trace: a Chrome trace as torch's profiler exports it.

    Returns:
        `computing`: [begin, end] pairs that do not overlap: operators that are neither communication nor wait for it;
        kernels where there is a GPU. `communicating`: [name, begin, end] of each transfer, as the backend's thread (or
        the GPU) did it, in the order of their beginning. Times in microseconds since `base_ns` of the machine's clock:
        since its beginning they would need more digits than a float has.
    """
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and "dur" in event]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    if kernels:
        sent = [event for event in kernels if event["name"].startswith("nccl")]
        computing = union([_span(event) for event in kernels if not event["name"].startswith("nccl")])
    else:
        sent = [event for event in events if event["name"].startswith(_BACKENDS)]
        computing = _computing(events)
    named = sorted([[_op(event["name"]), *_span(event)] for event in sent], key=lambda one: one[1:])
    return {"base_ns": int(trace.get("baseTimeNanoseconds", 0)), "computing": computing, "communicating": named}


def _computing(events):
    """Return when operators ran, without the time in which their thread was communicating or waiting for that."""
    work, other = {}, {}
    for event in events:
        if event["name"].startswith((*_BACKENDS, *_CALLS)):
            other.setdefault(event["tid"], []).append(_span(event))
        elif event.get("cat") == "cpu_op":
            work.setdefault(event["tid"], []).append(_span(event))
    return union([span for tid, spans in work.items() for span in minus(union(spans), union(other.get(tid, [])))])


def _span(event):
    begin = float(event["ts"])
    return [begin, begin + float(event["dur"])]


def _op(name):
    """Return "all_reduce" for "gloo:all_reduce" and for "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"."""
    if name.startswith("nccl") and ":" not in name.partition("(")[0]:
        word = name.partition("(")[0].split("_")[1:2] or ["transfer"]
        return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(word[0]))
    return name.partition(":")[2]


# -- in the kernel ------------------------------------------------------------------------------------------------


def read(attempt):
    """Return the `Timeline` of an attempt's ranks.

    Args:
        attempt: folder with one folder for each rank ("rank-0", ...).

    Raises:
        LabError: no rank wrote a profile that can be read.
    """
    found, large, base_ns = {}, [], None
    for folder in sorted(Path(attempt).glob("rank-*")):
        rank = int(folder.name.partition("-")[2])
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads((folder / _SPANS).read_text(encoding="utf-8"))
            base_ns = known["base_ns"] if base_ns is None else base_ns
            found[rank] = _shifted(known, (known["base_ns"] - base_ns) / 1000)
            continue
        if (folder / _TRACE).exists():
            large.append(rank)
    if not found:
        why = "the profiles are too large for it" if large else "no rank came to the end of its cell"
        raise LabError("there is nothing to draw", why=why, next_step="trace fewer steps" if large else None)
    return Timeline(dict(sorted(found.items())))


def _shifted(known, shift):
    computing = [[begin + shift, end + shift] for begin, end in known["computing"]]
    return Spans(computing, [(str(name), begin + shift, end + shift) for name, begin, end in known["communicating"]])


def merge(attempt, target):
    """Write the traces of all ranks as one Chrome trace to `target` and return its path.

    Each rank becomes a process named "rank 0", "rank 1", ...; nothing of its events is changed but that number, the
    ids of its flow arrows, which would meet those of other ranks, and the origin of its clock.

    Raises:
        LabError: there are no traces, or the file cannot be written.
    """
    merged, base_ns = None, 0
    for folder in sorted(Path(attempt).glob("rank-*"), key=lambda folder: int(folder.name.partition("-")[2])):
        if not (folder / _TRACE).exists():
            continue
        trace = json.loads((folder / _TRACE).read_text(encoding="utf-8"))
        if merged is None:
            merged = {**trace, "traceEvents": []}
            base_ns = trace.get("baseTimeNanoseconds", 0)
        shift = (trace.get("baseTimeNanoseconds", 0) - base_ns) / 1000
        merged["traceEvents"] += _of_rank(trace["traceEvents"], int(folder.name.partition("-")[2]), shift)
    if merged is None:
        raise LabError("there are no traces to keep", why="no rank came to the end of its cell")
    target = Path(target)
    try:
        target.write_text(json.dumps(merged), encoding="utf-8")
    except OSError as error:
        raise LabError(f"{target} cannot be written", why=error.strerror) from None
    return target


def _of_rank(events, rank, shift):
    named = {"ph": "M", "pid": rank, "tid": 0}
    names = [
        named | {"name": "process_name", "args": {"name": f"rank {rank}"}},
        named | {"name": "process_sort_index", "args": {"sort_index": rank}},
    ]
    kept = [_of_event(event, rank, shift) for event in events if not _names_a_process(event)]
    return names + kept


def _names_a_process(event):
    return event.get("ph") == "M" and str(event.get("name", "")).startswith("process_")


def _of_event(event, rank, shift):
    event = dict(event)
    event["pid"] = rank if isinstance(event.get("pid"), int) else f"rank {rank}: {event.get('pid')}"
    if shift and "ts" in event:
        event["ts"] = float(event["ts"]) + shift
    if event.get("ph") in ("s", "t", "f") and "id" in event:
        event["id"] = f"{rank}-{event['id']}"
    return event
