"""Arrays that must not be read: asked before the first element is touched, since reading could end the process."""

import numpy as np
from numpy.lib.array_utils import byte_bounds

__all__ = ["unreadable"]

_LARGEST = 256_000_000  # bytes of a result that is still copied for comparison
_MOST_BASES = 40


def unreadable(array):
    """Return what is wrong with reading the whole of `array`, as words that follow "Returns", or None.

    `as_strided` makes views that reach outside the memory they were made from, and views of any size. The memory
    is that of the last array in the chain of bases; where the chain ends in something else, nothing is known.
    """
    if not array.size:
        return None
    if array.base is None and array.nbytes <= _LARGEST:
        return None  # it owns what it shows
    owner = _last_array(array)
    low, high = byte_bounds(array)
    owner_low, owner_high = byte_bounds(owner)
    if high > owner_high:
        return f"a view that reads {high - owner_high:,} bytes past the end of the memory it was made from"
    if low < owner_low:
        return f"a view that reads {owner_low - low:,} bytes before the start of the memory it was made from"
    if array.nbytes > _LARGEST:
        return f"an array of shape {array.shape}, which would fill {array.nbytes:,} bytes"
    return None


def _last_array(array):
    last = link = array
    for _ in range(_MOST_BASES):
        link = getattr(link, "base", None)
        if link is None:
            break
        if isinstance(link, np.ndarray):
            last = link
    return last
