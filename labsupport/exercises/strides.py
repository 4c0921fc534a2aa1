"""Lesson 05: one buffer, many readings. Memory layout, views and copies.

References and specimens are shown, renamed and run as text, so each stands alone with `setup` before it.
"""

from labsupport.exercises._strides_layouts import PREDICT_BITS, PREDICT_STRIDES, PREDICT_WINDOW_BYTES
from labsupport.exercises._strides_overlap import IN_PLACE_SAFE
from labsupport.exercises._strides_sharing import PREDICT_FANCY_WRITE, PREDICT_OVERLAP, VIEW_OR_COPY
from labsupport.exercises._strides_tails import KEEP_ALIVE
from labsupport.exercises._strides_tiles import BLOCK_VIEW, DIAGONAL_VIEW
from labsupport.exercises._strides_windows import ADDRESS_OF, SLIDING_WINDOWS
from labsupport.exercises._strides_writes import WRITE_THROUGH

__all__ = ["EXERCISES"]

EXERCISES = (
    PREDICT_WINDOW_BYTES,
    PREDICT_STRIDES,
    ADDRESS_OF,
    SLIDING_WINDOWS,
    BLOCK_VIEW,
    DIAGONAL_VIEW,
    VIEW_OR_COPY,
    PREDICT_FANCY_WRITE,
    WRITE_THROUGH,
    KEEP_ALIVE,
    PREDICT_OVERLAP,
    IN_PLACE_SAFE,
    PREDICT_BITS,
)
