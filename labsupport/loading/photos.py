"""Crops of the retina photograph: stored as PNG and decoded item by item, or decoded once."""

import functools
import io
import time

import numpy as np

__all__ = ["DecodedPhotos", "Photos"]


@functools.lru_cache(maxsize=4)  # once per process; a worker gets them with the dataset
def _encoded(count, side):
    """Return (all PNG files end to end, where each ends)."""
    from PIL import Image

    from labsupport.datasets import crops

    files = []
    for crop in crops(count, side):
        file = io.BytesIO()
        Image.fromarray(crop).save(file, "png")
        files.append(file.getvalue())
    return b"".join(files), np.cumsum([0, *map(len, files)])


class Photos:
    """`count` crops of `side` x `side` pixels, kept as PNG; an item is decoded whenever it is asked for.

    Args:
        count, side: how many, and of how many pixels.
        read_ms: declared latency: what a disk would take to find each item. It is slept, so it uses no processor.
        floats: whether an item is (1, side, side) float32 from 0 to 1, or (side, side) uint8.
    """

    def __init__(self, count=256, side=128, read_ms=0.0, floats=True):
        self.count, self.side, self.read_ms, self.floats = count, side, read_ms, floats
        self.files, self.ends = _encoded(count, side)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(f"photo {index} of {self.count}")
        if self.read_ms:
            time.sleep(self.read_ms / 1000)
        photo = self._decode(index)
        return (photo.astype(np.float32) / 255)[np.newaxis] if self.floats else photo

    def _decode(self, index):
        from PIL import Image

        with Image.open(io.BytesIO(self.files[self.ends[index] : self.ends[index + 1]])) as picture:
            return np.array(picture)  # (row, column), uint8; asarray would be read-only


class DecodedPhotos:
    """The crops of `Photos`, decoded once: (count, side, side) uint8 in one array; items are views of it."""

    def __init__(self, count=256, side=128):
        from labsupport.datasets import crops

        self.photos = crops(count, side)

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        return self.photos[index]
