"""The words of every figure: "1 chunk" and "2 chunks", "1,024 bytes" and never "1024 bytes"."""

import re
from itertools import pairwise

import numpy as np
import pytest

from labsupport.figures import broadcasting, buckets, chunks, collective, graph, strides, timeline
from labsupport.figures.words import byte_text, count, number, short_bytes
from labsupport.loaderbench.runs import Run

NOUNS = (
    "addresses axes bars batches boxes buckets bytes calls chunks columns elements events gradients hits items misses "
    "nodes others pieces pixels places ranks reads requests rows shards steps tensors times workers"
)
ONE = re.compile(rf"(?<![\d.,])1 ({NOUNS.replace(' ', '|')})\b")
VERB = re.compile(r"\b1 (byte of what is decoded lie|read of the history visit|gradient are) ")
MANY = re.compile(r"(?<![\w.,=(\[:])(?<!, )(?<!: )\d{4,}(?=\s[a-z×])")


class Value:
    def __init__(self, data, parents=(), op=""):
        self.data, self.grad, self.parents, self.op = data, 0.0, parents, op

    def push(self):
        for parent in self.parents:
            parent.grad += self.grad


def run(batches, workers=1):
    """Return a recorded run; each batch takes 2 seconds."""
    events = [("main", "start", 0.0, 0.5, None)]
    for k in range(batches):
        events += [("worker 0" if workers else "main", "fetch", 2.0 * k, 2.0 * k + 1, k)]
        events += [("main", "wait", 2.0 * k, 2.0 * k + 1, k)] if workers else []
        events += [("main", "compute", 2.0 * k + 1, 2.0 * k + 2, k)]
    return Run.from_data({
        "format": "loaderbench run 1", "settings": {"dataset": "Crops", "num_workers": workers, "batch_size": 1},
        "events": [dict(zip(("lane", "kind", "start_s", "end_s", "batch"), event)) for event in events],
        "queue": [(1.0, 1), (1.5, 0)] if workers else [], "totals": {"next": 1.0 * batches},
        "counts": {"batches": batches, "items": batches, "bytes": batches}, "notes": [], "workers": [],
        "epochs": [{"start_s": 0.0, "first_batch_s": 1.0, "end_s": 2.0 * batches, "batches": batches, "pids": []}],
        "versions": {"python": "3.11", "torch": "2.13.0"},
    })  # fmt: skip


def backward(n, scale=1.0):
    """Return a recorded backward pass of `n` gradients in one bucket."""
    ready = [{"name": f"w{k}", "bytes": 1 if n == 1 else 4000, "at": scale * (k + 1)} for k in range(n)]
    bucket = {"index": 0, "bytes": sum(g["bytes"] for g in ready), "start": scale * n, "end": scale * (n + 1),
              "parameters": [g["name"] for g in ready]}  # fmt: skip
    return {"rank": 0, "world": 2, "machine": "Linux", "date": "2026-11-30", "began": 0.0, "ended": scale * (n + 1),
            "ready": ready, "buckets": [bucket]}  # fmt: skip


def many_parents():
    one = Value(1.0)
    return graph.draw(Value(1200.0, (one,) * 1200, "sum"))


FIGURES = {
    "one element": lambda: strides.draw(np.zeros(1, "u1")),
    "one byte outside": lambda: strides.draw(np.zeros(4, "u1"), shape=(5,), strides=(1,)),
    "far addresses": lambda: strides.draw(np.arange(3_000_000)[::70_000]).set(at=[5]),
    "a long row": lambda: strides.draw(np.zeros((5000, 5))),
    "one and one": lambda: broadcasting.draw(np.zeros(1, "u1"), np.zeros(1, "u1")),
    "one axis": lambda: broadcasting.draw((2, 1), (3,)),
    "large shapes": lambda: broadcasting.draw((100_000, 1, 128), (100_000, 128)),
    "large shapes that clash": lambda: broadcasting.draw((1024, 2048), (1024, 3)),
    "one chunk": lambda: chunks.draw(((1,), "u1", (1,)), other="sharded", reads=[np.s_[0]]),
    "one byte of padding": lambda: chunks.draw(((1, 1), "u1", (1, 2)), other="contiguous", select=np.s_[0, 0]),
    "a million chunks": lambda: chunks.draw(((1000, 1000), "f4", (1, 1)), other="sharded", reads=[np.s_[:]]),
    "one strip": lambda: chunks.draw(((5000, 2000, 40), "u1", (1, 30, 40)), reads=[np.s_[7]]),
    "one batch": lambda: timeline.draw(run(1)),
    "one batch, no workers": lambda: timeline.draw(run(1, workers=0)),
    "many batches": lambda: timeline.draw(run(3000), run(1500)),
    "one gradient": lambda: buckets.draw(backward(1, 1e-3)),
    "one size": lambda: buckets.draw(backward(1, 1e-3), sizes_mb=[1]),
    "many gradients": lambda: buckets.draw(backward(1500)),
    "one number": lambda: graph.draw(Value(1.0)),
    "one sum": lambda: graph.draw(Value(2.0, (Value(1.0),), "exp")),
    "many inputs": many_parents,
    "two ranks": lambda: collective.draw("ring_all_reduce", [np.zeros(1, "u1")] * 2),
    "a large buffer": lambda: collective.draw("tree_all_reduce", ranks=5, buffer_bytes=400_000),
    "one call": lambda: collective.draw([[{"op": "barrier", "number": 1}]]),
    "one row left out": lambda: collective.draw([[{"op": "barrier", "number": k} for k in range(1, 26)]]),
}  # fmt: skip


def texts(figure):
    """Yield every text of a figure: its sentences, the labels of the drawing, the table."""
    film = figure.source.get("film")
    if film:
        yield from (film["title"], film["note"], film["summary"])
        yield from (words for frame in film["frames"] for words in (frame["title"], frame["words"]))
        yield from (reason for reason in (film["ask"] or {"reasons": []})["reasons"])
        table = film["table"] or {"rows": []}
        yield from (cell for row in table["rows"] for cell in row)
    else:
        yield from figure.words().values()
        yield from (cell for row in getattr(figure, "table", list)() for cell in row)
    for step in range(len(film["frames"])) if film else [0]:
        for mark in (figure.set(step=step) if film else figure).scene()["marks"]:
            yield from mark.get("lines", [mark.get("text", "")])


@pytest.mark.parametrize("name", FIGURES)
def test_one_is_singular_and_thousands_are_separated(name):
    for words in texts(FIGURES[name]()):
        assert not ONE.search(words), words
        assert not VERB.search(words), words
        assert not MANY.search(words), words


def test_numbers_are_written_as_the_prose_writes_them():
    assert [number(n) for n in (0, 999, 1000, -1024, 10**15)] == [
        "0",
        "999",
        "1,000",
        "−1,024",
        "1,000,000,000,000,000",
    ]
    assert [count(n, "byte") for n in (0, 1, 1024)] == ["0 bytes", "1 byte", "1,024 bytes"]
    assert (byte_text(1000), short_bytes(9999)) == ("1,000 bytes", "9,999 B")


@pytest.mark.parametrize("name", ["one batch", "many batches", "one gradient", "many gradients"])
def test_times_on_an_axis_stay_apart(name):
    figure = FIGURES[name]()
    for width in figure.film["widths"]:
        rows = {}
        for mark in figure.scene(width)["marks"]:
            if mark["kind"] == "text" and mark["style"] == "small":
                rows.setdefault(mark["y"], []).append((mark["x"], len(mark["text"]) * 7 / 2))
        axis = sorted(max(rows.values(), key=len))
        assert len(axis) >= 2
        assert all(x + half < next_x - next_half for (x, half), (next_x, next_half) in pairwise(axis)), width
