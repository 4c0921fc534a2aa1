"""Chunk maps of every kind, for the tests of the model, of the page and of the pair."""

import numpy as np

from labsupport.figures import chunks
from labsupport.figures.chunk_model import FORMATS

__all__ = ["chunk_cases", "random_map"]

STACK = ((1024, 128, 128), "uint8", (32, 128, 128))


def random_map(rng, most=24):
    """Return a chunk map of a random shape, two random layouts, a random selection and a random history."""
    shape = [int(n) for n in rng.integers(1, most, int(rng.integers(1, 5)))]
    figure = chunks.draw((shape, str(rng.choice(["uint8", "int16", "float32"])), None), image=False)
    layouts = [_layout(rng, shape) for _ in range(2)]
    plane = sorted(int(k) for k in rng.choice(len(shape), min(2, len(shape)), replace=False))
    item = figure.source["itemsize"]
    chunk = int(np.prod(layouts[0]["chunks"])) * item
    return figure.set(
        **dict(zip(("start", "stop", "by"), zip(*_box(rng, shape)))),
        layouts=layouts, plane=plane, compare=bool(rng.integers(2)),
        history=[_box(rng, shape) for _ in range(rng.integers(7))],
        cache=bool(rng.random() < 0.8), cache_bytes=int(chunk * rng.integers(1, 9)),
        cache_slots=int(rng.choice([1, 3, 7, 97])),
        predict=bool(rng.random() < 0.2), revealed=bool(rng.integers(2)), table=bool(rng.integers(2)),
    )  # fmt: skip


def _layout(rng, shape):
    sizes = [int(rng.integers(1, n + 1)) for n in shape]
    return {"format": str(rng.choice(list(FORMATS))), "chunks": sizes, "per": [int(rng.integers(1, 4)) for _ in shape]}


def _box(rng, shape):
    box = []
    for n in shape:
        start = int(rng.integers(n))
        stop = int(rng.integers(start + 1, n + 1))
        box.append([start, stop, int(rng.integers(1, 6)) if rng.random() < 0.3 else 1])
    return box


def chunk_cases(count=60):
    """Yield chunk maps: random ones, and those that the lessons and the limits of the drawing ask for."""
    rng = np.random.default_rng(13)
    for _ in range(count):
        yield random_map(rng)
    yield chunks.draw(
        STACK, other={"chunks": (1, 32, 32), "shards": (256, 128, 128)}, select=np.s_[7], reads=[np.s_[7]] * 3
    )
    yield chunks.draw(STACK, other="zarr", select=np.s_[:, 5, 9], plane=(0, 2))
    yield chunks.draw(((2160, 4320), "int16", (1, 1)), other=(7, 4320))
    yield chunks.draw(((10**9,), "float32", (1000,)), select=np.s_[10**6 : 2 * 10**8], other=(1,))
    yield chunks.draw(((4000, 4000), "float32"), format="contiguous", select=np.s_[:, 5], other=(400, 400))
    yield chunks.draw(((4000, 4000), "float32"), format="contiguous", select=np.s_[3990:, 3990:])
    yield chunks.draw(((1000, 1000), "float32", (100, 100)), select=np.s_[95:105, 95:105], cache_bytes=0)
    yield chunks.draw(((1000, 1000), "float32", (300, 300)), format="raw", cache_bytes=1000, reads=[np.s_[3], np.s_[4]])
    yield chunks.draw(((1000, 1000), "f4", (1, 1)), shards=(100, 100), other=(1, 1000), select=np.s_[::10, 400:900:100])
    yield chunks.draw(((10**9, 4, 3), "u1", (1000, 2, 3)), plane=(0, 1), select=np.s_[10**6 : 10**8 : 10**5])
    volume = np.arange(30 * 40 * 50, dtype="int16").reshape(30, 40, 50)
    yield chunks.draw(volume, chunks=(16, 16, 16), other="sharded", select=np.s_[28, 3:30, ::7])
    yield chunks.draw(volume, chunks=(16, 16, 16), plane=(1, 0), select=np.s_[3:20, :, 40])
    yield chunks.draw(np.ones((3, 2, 20, 30)), chunks=(1, 1, 16, 16))
