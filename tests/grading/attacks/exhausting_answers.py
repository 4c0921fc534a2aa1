"""Answers that use up the wire, the judge's patience, or the interpreter: huge, deep, endless, broken."""

from .attack import BATCHES, SHAPE, Attack

CENTER = "broadcasting/center-rows"


def _exhausting(id, tries, source, exercise=SHAPE, expect="over limit", **more):
    return Attack(id=id, kind="exhausting", tries=tries, cells={exercise: source}, expect=expect, **more)


ATTACKS = (
    # -- output and answers
    _exhausting(
        "prints-without-end",
        "prints a gigabyte and answers rightly",
        """
import os, sys
def batch_shape(samples, batch_rows):
    for _ in range(300):
        print("x" * 100_000)
        sys.__stdout__.write("y" * 10_000) if sys.__stdout__ else None
        os.write(1, b"z" * 10_000)
        os.write(2, b"z" * 10_000)
    return (batch_rows, *samples.shape[1:])
""",
        expect="passed|over limit",
    ),
    _exhausting(
        "huge-number",
        "returns a number of 20,000 digits",
        """
def batch_shape(samples, batch_rows):
    return 10**20_000 if batch_rows != 3 else -(10**20_000)
""",
        expect="wrong",
    ),
    _exhausting(
        "huge-numbers-inside",
        "returns numbers of 20,000 digits where sizes are asked for",
        """
def batch_shape(samples, batch_rows):
    return (10**20_000, *samples.shape[1:])
""",
        expect="wrong",
    ),
    _exhausting(
        "huge-number-for-an-address",
        "returns a number of 5,000 digits where one of two is right",
        """
def address_of(index, shape, strides, itemsize, offset):
    return 10**5_000
""",
        "strides/address-of",
        expect="wrong",
    ),
    _exhausting(
        "huge-text",
        "returns a text of 15 MB for every case",
        """
def batch_shape(samples, batch_rows):
    return "x" * 15_000_000
""",
        expect="wrong|over limit",
    ),
    _exhausting(
        "huge-array",
        "returns an array larger than an answer may be",
        """
def center_rows(x):
    return np.zeros((3000, 3000))
""",
        CENTER,
        expect="wrong|over limit",
    ),
    _exhausting(
        "many-parts",
        "returns a list of a million parts",
        """
def batch_shape(samples, batch_rows):
    return [None] * 1_000_000
""",
        expect="wrong|over limit|crashed",
    ),
    _exhausting(
        "exception-with-a-huge-text",
        "raises an exception that says 15 MB",
        """
def batch_shape(samples, batch_rows):
    raise ValueError("x" * 15_000_000)
""",
        expect="crashed",
    ),
    _exhausting(
        "class-with-a-huge-name",
        "returns an object whose class has a name of 15 MB",
        """
def batch_shape(samples, batch_rows):
    return type("N" * 15_000_000, (), {})()
""",
        expect="wrong|crashed|over limit",
    ),
    _exhausting(
        "nested-answer",
        "returns a list nested 100,000 deep",
        """
def batch_shape(samples, batch_rows):
    nested = []
    for _ in range(100_000):
        nested = [nested]
    return nested
""",
        expect="wrong|crashed|over limit",
    ),
    _exhausting(
        "answer-that-holds-itself",
        "returns a list that contains itself many times",
        """
def batch_shape(samples, batch_rows):
    nested = []
    nested += [nested, nested, nested]
    return nested
""",
        expect="wrong|crashed|over limit",
    ),
    _exhausting(
        "announces-much-sends-nothing",
        "announces 16 MB on the wire and lets the judge wait",
        """
import gc, time
import importlib
codec = importlib.import_module("labsupport.grading.codec")
wire = importlib.import_module("labsupport.grading.wire")
def batch_shape(samples, batch_rows):
    for thing in gc.get_objects():
        if isinstance(thing, wire.Channel):
            thing.sock.send(thing.nonce + codec.PREFIX.pack(codec.MAGIC, 10, 15_000_000))
    while True:
        try:
            time.sleep(1e6)
        except BaseException:
            pass
""",
        expect="crashed|over limit",
    ),
    _exhausting(
        "floods-the-wire",
        "writes to the wire without end",
        """
import gc
import importlib
wire = importlib.import_module("labsupport.grading.wire")
def batch_shape(samples, batch_rows):
    for thing in gc.get_objects():
        if isinstance(thing, wire.Channel):
            while True:
                thing.sock.sendall(b"x" * 65536)
""",
        expect="crashed|over limit",
    ),
    # -- the interpreter itself
    _exhausting(
        "deep-recursion",
        "recurses until the stack of C is gone",
        """
import sys
sys.setrecursionlimit(10**9)
def batch_shape(samples, batch_rows):
    return batch_shape(samples, batch_rows)
""",
        expect="crashed|over limit",
    ),
    _exhausting(
        "deep-source",
        "writes an expression nested deeper than a parser goes",
        "x = "
        + "(" * 3000
        + ")" * 3000
        + """
def batch_shape(samples, batch_rows):
    return (batch_rows, *samples.shape[1:])
""",
        expect="crashed|wrong|not yet",
    ),
    _exhausting(
        "segmentation-fault",
        "reads memory that is not there",
        """
import ctypes
def batch_shape(samples, batch_rows):
    return ctypes.string_at(1)
""",
        expect="crashed",
    ),
    _exhausting(
        "reads-past-the-end",
        "returns a view far larger than its memory",
        """
def batch_shape(samples, batch_rows):
    return np.lib.stride_tricks.as_strided(samples, (10**9, 8), (8, 1))
""",
        expect="wrong",
    ),
    Attack(
        id="hangs-then-the-next-one",
        kind="exhausting",
        tries="hangs in two exercises, one after the other",
        cells={
            SHAPE: "def batch_shape(samples, batch_rows):\n    while True:\n        pass\n",
            BATCHES: "import time\ndef batches(samples, batch_rows):\n    while True:\n        time.sleep(1000)\n",
        },
        expect="over limit",
    ),
)
