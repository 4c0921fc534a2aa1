"""A longer hunt for frames that break the decoder: `python -m tests.grading.fuzz_wire --minutes 10 --seed 1`.

A frame must either be refused by a `WireError` or decode to plain data that goes over the wire again unchanged, and
decoding may never hold more memory than the caps allow. The short run is `test_wire_fuzz.py`.
"""

import argparse
import importlib
import itertools
import json
import math
import random
import sys
import time
import tracemalloc

import numpy as np

from labsupport.grading.codec import DTYPES, MAGIC, PREFIX, TENSOR_BYTES
from labsupport.grading.wire import WireError, decode, encode
from labsupport.probing.plain import Opaque

MEMORY = 50_000_000  # bytes a judge may hold for one frame
TYPES = frozenset("0 b i I f c s y l t d a n v T o".split())


def frame(tokens, buffers=b""):
    """Return a frame with this header (a list, or its text) and these buffers, lengths right."""
    header = tokens if isinstance(tokens, bytes) else json.dumps(tokens, separators=(",", ":")).encode()
    return PREFIX.pack(MAGIC, len(header), len(buffers)) + header + buffers


def same(a, b):
    """Return whether two decoded values are the same to the bit; opaque ones by the type they name."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Opaque):
        return a.type_name == b.type_name
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)
    if type(a).__name__ == "Tensor":
        return a.dtype == b.dtype and a.shape == b.shape and encode(a) == encode(b)
    return a == b


def survives(raw, **options):
    """Decode a frame, check what must hold, and return whether it was accepted."""
    try:
        value = decode(raw, **options)
    except WireError:
        return False
    again = decode(encode(value, keep_layout=bool(options.get("layouts_allowed"))), **options)
    assert same(value, again), (raw[:200], value, again)
    return True


def random_value(rng, depth=0):
    kinds = ["plain"] * 6 + ["array", "array", "scalar"] + (["list", "tuple", "dict"] * 2 if depth < 5 else [])
    kind = rng.choice(kinds)
    if kind == "plain":
        size = rng.choice((0, 1, 7, 40))
        text = "".join(map(chr, (rng.choice((65, 10, 34, 92, 233, 0x1F600)) for _ in range(size))))
        return rng.choice(
            (
                None,
                True,
                rng.getrandbits(70) - 2**69,
                rng.gauss(0, 1e9),
                math.inf,
                1j,
                text,
                rng.randbytes(size),
                Opaque("x"),
            )
        )
    if kind in ("array", "scalar"):
        dtype = rng.choice([*DTYPES.values(), np.dtype("<U3"), np.dtype("S2")])
        shape = () if kind == "scalar" else tuple(rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(4)))
        array = np.zeros(shape, dtype)
        return array[()] if kind == "scalar" else array
    items = [random_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind == "dict":
        return {rng.choice((str(n), n)): item for n, item in enumerate(items)}
    return items if kind == "list" else tuple(items)


def random_tokens(rng):
    """Return (tokens, buffers) written by the grammar of headers, with a slip here and there."""
    maker = _Slips(rng)
    maker.value(0)
    return maker.tokens, bytes(maker.buffers)


class _Slips:
    """Writes values as the decoder reads them; about one token in thirty is another one of the same or of any kind."""

    def __init__(self, rng):
        self.rng, self.tokens, self.buffers = rng, [], bytearray()

    def put(self, token):
        if self.rng.random() < 0.03:
            anything = ["C", "nan", "0x1p0", "", "|V8", "|O", "<M8[s]", "<U0", "<U99999999", *TYPES, *DTYPES]
            number = self.rng.choice((0, 1, 2, 8, 33, -1, 2**31, 2**63, 10**18))
            token = self.rng.choice(anything) if self.rng.random() < 0.5 else number
        self.tokens.append(token)

    def bytes_of(self, size):
        self.buffers += self.rng.choice((bytes, self.rng.randbytes))(min(size, 4096))

    def shape(self):
        shape = [self.rng.choice((0, 1, 2, 3, 2**20)) for _ in range(self.rng.randrange(4))]
        self.put(len(shape))
        for side in shape:
            self.put(side)
        return shape

    def dtype(self):
        name = self.rng.choice([*DTYPES, "<U2", ">U1", "|S3"])
        self.put(name)
        return np.dtype(name).itemsize

    def value(self, depth):
        tag = self.rng.choice("0bifcsoan" if depth > 4 else "bIfcsylltddanvTo")
        self.put(tag)
        getattr(self, f"tag_{tag}", lambda depth: None)(depth)

    def tag_b(self, depth):
        self.put(self.rng.randrange(2))

    def tag_i(self, depth):
        self.put(self.rng.getrandbits(40))

    def tag_f(self, depth):
        self.put(self.rng.choice((1.5, math.nan, -math.inf, 5e-324)).hex())

    def tag_c(self, depth):
        self.tag_f(depth)
        self.tag_f(depth)

    def tag_s(self, depth):
        size = self.rng.choice((0, 1, 5, 12))
        self.put(size)
        self.bytes_of(size)

    tag_y = tag_o = tag_I = tag_s

    def tag_l(self, depth):
        self.put(count := self.rng.randrange(4))
        for _ in range(count):
            self.value(depth + 1)

    tag_t = tag_l

    def tag_d(self, depth):
        self.put(count := self.rng.randrange(3))
        for n in range(count):
            self.put("i")
            self.put(self.rng.choice((n, 0)))
            self.value(depth + 1)

    def tag_n(self, depth):
        self.bytes_of(self.dtype())

    def tag_a(self, depth):
        size = self.dtype()
        self.bytes_of(size * math.prod(self.shape()))

    def tag_T(self, depth):
        name = self.rng.choice([*TENSOR_BYTES])
        self.put(name)
        self.put(self.rng.randrange(2))
        self.bytes_of(TENSOR_BYTES[name] * math.prod(self.shape()))

    def tag_v(self, depth):
        number = self.rng.choice((0, 0, 0, 1, 2))
        self.put(number)
        if self.rng.random() < 0.7:
            self.tag_a(depth)
            for axis in range(self.rng.randrange(3)):
                self.put(axis)
        self.put(how := self.rng.choice("rp"))
        if how == "p":
            self.dtype()
            self.put(self.rng.randrange(2))
            self.put(self.rng.choice((0, 0, 1, 8)))
            for _ in self.shape():
                self.put(self.rng.choice((8, 4, 1, 0, -8, 2**20)))


def mutated(rng, raw):
    raw = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(raw) + 1)
        how = rng.randrange(4)
        if how == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            raw[at:at] = rng.choice((b"[", b",", b'"', b"0", b"-", b"\xff", b"{", b"NaN", b"\x00" * 9))
        elif how == 2:
            del raw[at : at + rng.choice((1, 4, 16))]
        elif len(raw) > PREFIX.size:
            body = rng.randrange(PREFIX.size, len(raw))
            raw[body : body + 4] = rng.randbytes(4)
    return bytes(raw)


def relabelled(rng, raw):
    """Return a frame whose lengths fit again after a change, so that the change is what is looked at."""
    if len(raw) < PREFIX.size:
        return raw
    body = raw[PREFIX.size :]
    header = body.rfind(b"]") + 1
    return PREFIX.pack(MAGIC, header, len(body) - header) + body


def one(rng):
    """Make one frame and judge it; return (how it was made, whether it was accepted)."""
    how = rng.choice(("value", "mutated", "mutated", "relabelled", "relabelled", "tokens", "noise"))
    layouts = rng.random() < 0.5
    if how == "noise":
        raw = rng.choice((b"", MAGIC, PREFIX.pack(MAGIC, 2, 0))) + rng.randbytes(rng.randrange(64))
    elif how == "tokens":
        raw = frame(*random_tokens(rng))
    else:
        raw = encode(random_value(rng), keep_layout=layouts)
        raw = mutated(rng, raw) if how != "value" else raw
        raw = relabelled(rng, raw) if how == "relabelled" else raw
    accepted = survives(raw, layouts_allowed=layouts)
    assert accepted or how != "value", raw
    return how, accepted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="number of the frame to begin with")
    parser.add_argument("--torch", action="store_true", help="decode tensors too: a judge of lessons about torch does")
    options = parser.parse_args()
    if options.torch:
        importlib.import_module("torch")
    ends, counts, peak = time.monotonic() + 60 * options.minutes, {}, 0
    tracemalloc.start()
    for number in itertools.count(options.first):
        if time.monotonic() > ends:
            break
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            key = one(random.Random(f"{options.seed}:{number}"))
        except Exception:
            print(f"again: --seed {options.seed} --first {number}", file=sys.stderr)
            raise
        peak = max(peak, tracemalloc.get_traced_memory()[1] - before)
        counts[key] = counts.get(key, 0) + 1
    for (how, accepted), count in sorted(counts.items()):
        print(f"{how:12} {'accepted' if accepted else 'refused':9} {count:>10,}")
    print(f"seed {options.seed}, {sum(counts.values()):,} frames, most memory for one: {peak:,} bytes")
    return 0 if peak < MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
