"""Films for the browser's tests: every kind the player plays, from made-up records that never change."""

import numpy as np

from labsupport.figures import buckets, collective, graph, timeline
from labsupport.figures.collective_model import PLANS
from labsupport.figures.moves import Moves

__all__ = ["CALLS", "ENGINE", "RUNS", "SEEN", "films"]

# an engine as lesson 09 has it, as source, so that a notebook can have it too
ENGINE = """\
class Value:
    def __init__(self, data, parents=(), slopes=(), op=""):
        self.data, self.grad = data, 0.0
        self.parents, self.slopes, self.op = parents, slopes, op
    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (1.0, 1.0), "+")
    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), (other.data, self.data), "*")
    def push(self):
        for parent, slope in zip(self.parents, self.slopes):
            parent.grad += slope * self.grad
a, b = Value(2.0), Value(3.0)
product = a * b
root = (product + a) * product
"""


def _call(op, number, ms, **more):
    way = {"send": "dst", "recv": "src"}.get(op, "")
    return {"op": op, "number": number, "shapes": [[4, 8]], "dtypes": ["float32"], "began_ns": 10**18 + ms * 10**6,
            "line": f"dist.{op}(x)", "lineno": number + 4, "way": way, "group": "0"} | more  # fmt: skip


CALLS = [
    [_call("all_reduce", 1, 0), _call("send", 1, 3, peer=1), _call("reduce_scatter", 2, 9, done=False)],
    [_call("all_reduce", 1, 7), _call("recv", 1, 4, peer=0)],
    [_call("all_reduce", 1, 2), _call("all_gather", 2, 5, done=False)],
]
_READY = [{"name": f"layers.{5 - k}.weight", "bytes": 4000 * (k + 1), "at": 0.002 * (k + 1)} for k in range(6)]
SEEN = {
    "kind": "buckets", "rank": 0, "world": 2, "machine": "Linux x86_64, 2 cores", "date": "2026-11-30 12:00",
    "began": 5.0, "ended": 0.0205, "ready": _READY,
    "buckets": [
        {"index": k, "bytes": 4000 * (4 * k + 3), "start": 0.004 * (k + 1) + 1e-5, "end": 0.007 * (k + 1),
         "parameters": [g["name"] for g in _READY[2 * k : 2 * k + 2]]}
        for k in range(3)
    ],
}  # fmt: skip


def _run(workers, batches=30):
    """Return a recorded run as plain data; waits get shorter as it goes on."""
    events = [("main", "start", 0.0, 0.02, None)]
    events += [(f"worker {w}", "start", 0.0, 0.03, None) for w in range(workers)]
    queue, at, spent = [], 0.03, 0.0
    for k in range(batches):
        wait, lane = 0.03 / (k + 1), f"worker {k % workers}" if workers else "main"
        events.append((lane, "fetch", at + wait - 0.025, at + wait - 0.001, k) if workers else
                      (lane, "fetch", at, at + 0.02, k))  # fmt: skip
        at += wait if workers else 0.021
        events.append((lane, "collate", at - 0.001, at, k))
        events += [("main", "wait", at - wait, at, k)] if workers else []
        queue += [(at, 1 + k % 3), (at + 1e-4, k % 3)] if workers else []
        spent += wait if workers else 0.021
        events.append(("main", "compute", at, at + 0.015, k))
        at += 0.015
    kinds = {kind: sum(e[3] - e[2] for e in events if e[1] == kind) for kind in
             ("start", "fetch", "collate", "wait", "transfer", "compute")}  # fmt: skip
    return {
        "format": "loaderbench run 1", "settings": {"dataset": "Crops", "num_workers": workers, "batch_size": 8},
        "events": [dict(zip(("lane", "kind", "start_s", "end_s", "batch"), event)) for event in events],
        "queue": queue, "totals": kinds | {"next": spent}, "counts": {"batches": batches, "items": 8 * batches},
        "epochs": [{"start_s": 0.0, "first_batch_s": 0.05, "end_s": at, "batches": batches, "pids": []}],
        "workers": [], "notes": [], "versions": {"python": "3.11", "torch": "2.13.0"},
    }  # fmt: skip


RUNS = [_run(0), _run(2)]


def _graphs():
    import torch

    names = {}
    exec(ENGINE, names)  # a class of its own for these films
    w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    x = torch.tensor([0.3, 0.2, 0.9])
    weight = torch.tensor(2.0, requires_grad=True)
    made = weight.exp()
    broken = made * 3
    made.add_(1)
    deep = torch.tensor(0.5, requires_grad=True)
    layers = deep
    for _ in range(25):
        layers = (layers * deep).tanh()
    return {
        "graph": graph.draw(names["root"], names={"a": names["a"], "b": names["b"]}),
        "torch graph": graph.draw(((w * x).sum().sigmoid() * w.sum()).log(), names={"w": w, "x": x}),
        "in place": graph.draw(broken + made, names={"w": weight}),
        "deep graph": graph.draw(layers, names={"w": deep}),
    }


def _timelines():
    from labsupport.loaderbench.runs import Run

    one, two = map(Run.from_data, RUNS)
    return {
        "timeline": timeline.draw(two),
        "short timeline": timeline.draw(Run.from_data(_run(2, 6))),
        "loader alone": timeline.draw(one),
        "two timelines": timeline.draw(one, two),
    }


def films():
    """Return {name: figure} of everything the player plays."""
    moves = Moves(ranks=4).send(0, 1, 0).send(1, 0, 2).step().send(1, 3, 0)
    made = {f"{way} {name} {n}": collective.draw(name, algorithm=way, ranks=n) for name, way in PLANS for n in (2, 4)}
    rng = np.random.default_rng(3)
    own = [rng.normal(size=10).astype("f4") for _ in range(3)]
    return (
        made
        | _graphs()
        | _timelines()
        | {
            "ring of eight": collective.draw("ring_all_reduce", ranks=8),
            "own values": collective.draw("ring_all_reduce", own),
            "a gigabyte": collective.draw("tree_all_reduce", ranks=5, buffer_bytes=10**9),
            "moves": collective.draw(moves),
            "calls": collective.draw(CALLS),
            "buckets": buckets.draw(SEEN),
            "two ranks": buckets.draw([SEEN, {**SEEN, "rank": 1, "began": 5.002}]),
            "sizes": buckets.draw(SEEN, sizes_mb=[0.005, 0.02, 25]),
        }
    )
