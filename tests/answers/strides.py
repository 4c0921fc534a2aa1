"""Right answers to lesson 05 that are written differently from the course's own."""

import numpy as np

# -- address-of


def address_by_loop(index, shape, strides, itemsize, offset):
    byte = offset
    for axis in range(len(index)):
        byte += index[axis] * strides[axis]
    return byte


def address_by_dot(index, shape, strides, itemsize, offset):
    return np.dot(index, strides) + offset


# -- sliding-windows


def windows_sealed_afterwards(x, width):
    windows = np.lib.stride_tricks.as_strided(x, shape=(x.size + 1 - width, width), strides=x.strides * 2)
    windows.flags.writeable = False
    return windows


def windows_by_interface(x, width):
    class Recipe:
        pass

    recipe = Recipe()
    recipe.base = x
    recipe.__array_interface__ = {
        "version": 3,
        "typestr": x.dtype.str,
        "data": (x.__array_interface__["data"][0], True),
        "shape": (len(x) - width + 1, width),
        "strides": (x.strides[0], x.strides[0]),
    }
    return np.asarray(recipe)


# -- block-view


def tiles_by_four_strides(m, rows, cols):
    down, across = m.strides
    return np.lib.stride_tricks.as_strided(
        m,
        shape=(m.shape[0] // rows, m.shape[1] // cols, rows, cols),
        strides=(down * rows, across * cols, down, across),
    )


def tiles_by_windows(m, rows, cols):
    return np.lib.stride_tricks.sliding_window_view(m, (rows, cols))[::rows, ::cols]


def tiles_by_moving_axes(m, rows, cols):
    return np.moveaxis(m.reshape(-1, rows, m.shape[1] // cols, cols), 1, 2)


# -- diagonal-view


def diagonal_made_writeable(m, k=0):
    diagonal = np.diagonal(m, offset=k)
    diagonal.flags.writeable = True
    return diagonal


def diagonal_by_einsum(m, k=0):
    corner = m[:, k:] if k >= 0 else m[-k:]
    n = min(corner.shape)
    return np.einsum("ii->i", corner[:n, :n])


def diagonal_by_length(m, k=0):
    rows, cols = m.shape
    length = min(rows, cols - k) if k >= 0 else min(rows + k, cols)
    if length <= 0:
        return m[:0, 0]
    start = m[0, k:] if k >= 0 else m[-k:, 0]
    return np.lib.stride_tricks.as_strided(start, (length,), (m.strides[0] + m.strides[1],))


# -- write-through


def clip_by_minimum(heights, limit):
    return np.minimum(heights, limit, out=heights)


def clip_by_where(heights, limit):
    heights[...] = np.where(heights > limit, limit, heights)
    return heights


def clip_by_putmask(heights, limit):
    np.putmask(heights, heights >= limit, limit)
    return heights


def clip_by_indices(heights, limit):
    heights[np.nonzero(heights > limit)] = limit
    return heights


# -- keep-alive


class TailsInDeque:
    def __init__(self, n):
        from collections import deque

        self._n, self._tails = n, deque()

    def push(self, block):
        start = max(len(block) - self._n, 0)
        self._tails.append(np.array(block[start:]))

    def tails(self):
        return [tail for tail in self._tails]


class TailsByFancyIndex:
    def __init__(self, n):
        self.n = n
        self.all = []

    def push(self, block):
        self.all += [block[np.arange(max(0, len(block) - self.n), len(block))]]

    def tails(self):
        return self.all


# -- in-place-safe


def smooth_by_parts(x, out):
    inner = (x[:-2] + x[1:-1] + x[2:]) / 3
    first, last = x[0], x[-1]
    out[1:-1] = inner
    out[0], out[-1] = first, last
    return out


def smooth_if_shared(x, out):
    if np.shares_memory(x, out):
        x = x.copy()
    out[:] = x
    out[1:-1] += x[:-2]
    out[1:-1] += x[2:]
    out[1:-1] /= 3
    return out


ANSWERS = {
    "strides/address-of": [address_by_loop, address_by_dot],
    "strides/sliding-windows": [windows_sealed_afterwards, windows_by_interface],
    "strides/block-view": [tiles_by_four_strides, tiles_by_windows, tiles_by_moving_axes],
    "strides/diagonal-view": [diagonal_made_writeable, diagonal_by_einsum, diagonal_by_length],
    "strides/write-through": [clip_by_minimum, clip_by_where, clip_by_putmask, clip_by_indices],
    "strides/keep-alive": [TailsInDeque, TailsByFancyIndex],
    "strides/in-place-safe": [smooth_by_parts, smooth_if_shared],
}

# A survivor of the mutant test is named here with the reason why it is no mistake.
EQUIVALENT_MUTANTS = {
    (
        "strides/write-through",
        "Compare: heights > limit",
    ): "setting values equal to the limit to the limit changes nothing",
}
