"""The volume itself as small grey pictures that lie faintly under the chunks: a few planes, sampled, as PNG."""

import base64
import struct
import zlib
from math import prod

__all__ = ["samples"]

SLICES = 4  # planes sampled along the axis that is not drawn
FLAT_PX, DEEP_PX = 160, 44  # the longer side, for two axes and for more
LEVELS = 32  # of opacity: a faint picture needs no more, and is half the size
GREY = 104  # seen on white and on black
MOST_BYTES = 64_000_000  # decoded for all pictures together


def samples(data, shape, cost):
    """Return [{"plane", "at", "href"}]: for each pair of axes, planes sampled along the first other axis.

    Args:
        data: what can be indexed by a tuple of slices and ints: an ndarray, an h5py.Dataset, a zarr.Array.
        shape: of `data`; fewer than two axes give no picture.
        cost: `cost(box)` returns the bytes that reading a box of [start, stop, step] decodes; planes that would
            take the sum over 64 MB are left out.
    """
    import numpy as np

    taken, spent = [], 0
    for plane, at, box in _planes(shape):
        spent += cost(box)
        if spent > MOST_BYTES:
            break
        taken.append((plane, at, _values(np, data, box, plane)))
    taken = [(plane, at, values) for plane, at, values in taken if values is not None]
    finite = [values[np.isfinite(values)] for _, _, values in taken]
    if not finite or not sum(part.size for part in finite):
        return []
    low, high = np.percentile(np.concatenate([part.ravel() for part in finite]), [1, 99])
    return [{"plane": plane, "at": at, "href": _png(np, values, low, high)} for plane, at, values in taken]


def _planes(shape):
    """Yield (axes, index along the first other axis, box), the planes of the last two axes first."""
    last = len(shape) - 1
    if last < 1:
        return
    pairs = [(last - 1, last)] if last != 2 else [(1, 2), (0, 2), (0, 1)]
    for plane in pairs:
        others = [k for k in range(len(shape)) if k not in plane]
        long = shape[others[0]] if others else 1
        for at in sorted({(2 * k + 1) * long // (2 * SLICES) for k in range(SLICES)}):
            box = [[0, n, 1] if k in plane else [0, 1, 1] for k, n in enumerate(shape)]
            if others:
                box[others[0]] = [at, at + 1, 1]
            yield list(plane), at, box


def _values(np, data, box, plane):
    """Return the plane as a small float array, or None when its values are no numbers."""
    values = np.asarray(data[tuple(slice(*axis) for axis in box)])
    if values.dtype.kind not in "buifc" or not prod(values.shape):
        return None
    values = values.reshape([values.shape[k] for k in plane])
    most = FLAT_PX if len(box) == 2 else DEEP_PX
    step = max(1, -(-max(values.shape) // most))
    values = values[:: min(step, values.shape[0]), :: min(step, values.shape[1])]
    return np.abs(values) if values.dtype.kind == "c" else values.astype(float)


def _png(np, values, low, high):
    """Return a PNG address: one grey, more opaque for higher values: it suits a light and a dark page."""
    scale = (values - low) / (high - low) if high > low else np.zeros_like(values)
    levels = np.round(np.clip(np.nan_to_num(scale), 0, 1) * (LEVELS - 1)).astype("u1")
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(levels))
    header = struct.pack(">IIBBBBB", levels.shape[1], levels.shape[0], 8, 3, 0, 0, 0)
    opacity = bytes(round(level * 255 / (LEVELS - 1)) for level in range(LEVELS))
    parts = ((b"IHDR", header), (b"PLTE", bytes([GREY] * 3 * LEVELS)), (b"tRNS", opacity),
             (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))  # fmt: skip
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()
