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


def windows_turned_over(x, width):
    (step,) = x.strides
    return np.lib.stride_tricks.as_strided(x, (width, len(x) - width + 1), (step, step), writeable=False).T


def windows_sealed_by_broadcasting(x, width):
    """Like sliding_window_view, by hand."""
    windows = np.lib.stride_tricks.as_strided(x, (len(x) - width + 1, width), x.strides * 2)
    return np.broadcast_to(windows, windows.shape)


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


def tiles_by_einsum(m, rows, cols):
    return np.einsum("iajb->ijab", m.reshape(-1, rows, m.shape[1] // cols, cols))


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


def diagonal_or_nothing(m, k=0):
    rows, cols = m.shape
    if k >= cols or -k >= rows:
        return np.empty(0, dtype=m.dtype)
    start = m[:, k:] if k >= 0 else m[-k:]
    return np.lib.stride_tricks.as_strided(start, (min(start.shape),), (sum(m.strides),))


def diagonal_by_turning(m, k=0):
    if k < 0:
        return diagonal_view(m.T, -k)  # noqa: F821 - its own name, once it is an answer
    n = max(min(m.shape[0], m.shape[1] - k), 0)
    return np.lib.stride_tricks.as_strided(m[:n, k : k + n], (n,), (sum(m.strides),))


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


def clip_element_by_element(heights, limit):
    with np.nditer(heights, op_flags=["readwrite"]) as elements:
        for element in elements:
            if element > limit:
                element[...] = limit
    return heights


def clip_along_the_flat_iterator(heights, limit):
    for i, height in enumerate(heights.flat):
        if height > limit:
            heights.flat[i] = limit
    return heights


def clip_row_by_row(heights, limit):
    for row in np.atleast_2d(heights):
        row[row > limit] = limit
    return heights[:]


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


class TailsAsBytes:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        tail = block[-self.n :]
        self.kept.append((tail.tobytes(), tail.dtype, tail.shape))

    def tails(self):
        return [np.frombuffer(raw, dtype).reshape(shape) for raw, dtype, shape in self.kept]


class TailsInRoomOfTheirOwn:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        tail = block[-self.n :]
        own = np.empty_like(tail)
        own[...] = tail
        self.kept.append(own)

    def tails(self):
        return [tail.copy() for tail in self.kept]


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


def smooth_by_list(x, out):
    values = x.tolist()
    last = len(values) - 1
    for i, value in enumerate(values):
        out[i] = value if i in (0, last) else (values[i - 1] + value + values[i + 1]) / 3
    return out


def smooth_by_joining(x, out):
    out[...] = np.concatenate([x[:1], (x[:-2] + x[1:-1] + x[2:]) / 3, x[-1:]])
    return out


def smooth_by_middle_first(x, out):
    middle = (x[:-2] + x[1:-1] + x[2:]) / 3
    out[:] = x
    out[1:-1] = middle
    return out


ANSWERS = {
    "strides/address-of": [address_by_loop, address_by_dot],
    "strides/sliding-windows": [
        windows_sealed_afterwards,
        windows_by_interface,
        windows_turned_over,
        windows_sealed_by_broadcasting,
    ],
    "strides/block-view": [tiles_by_four_strides, tiles_by_windows, tiles_by_moving_axes, tiles_by_einsum],
    "strides/diagonal-view": [
        diagonal_made_writeable,
        diagonal_by_einsum,
        diagonal_by_length,
        diagonal_or_nothing,
        diagonal_by_turning,
    ],
    "strides/write-through": [
        clip_by_minimum,
        clip_by_where,
        clip_by_putmask,
        clip_by_indices,
        clip_element_by_element,
        clip_along_the_flat_iterator,
        clip_row_by_row,
    ],
    "strides/keep-alive": [TailsInDeque, TailsByFancyIndex, TailsAsBytes, TailsInRoomOfTheirOwn],
    "strides/in-place-safe": [
        smooth_by_parts,
        smooth_if_shared,
        smooth_by_list,
        smooth_by_joining,
        smooth_by_middle_first,
    ],
}

# A survivor of the mutant test is named here with the reason why it is no mistake.
EQUIVALENT_MUTANTS = {
    (
        "strides/write-through",
        "Compare: heights > limit",
    ): "setting values equal to the limit to the limit changes nothing",
}
