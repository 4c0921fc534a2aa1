"""Lesson 13: arrays in chunks. What a read decodes, in HDF5 and in Zarr, and which layout reads less.

References and specimens are shown, renamed and run as text, so each stands alone with `setup` before it.
"""

from labsupport.exercises._chunks_files_append import APPEND_HDF5
from labsupport.exercises._chunks_files_codec import CHOOSE_CODEC
from labsupport.exercises._chunks_files_convert import CONVERT
from labsupport.exercises._chunks_files_sharded import ZARR_SHARDED
from labsupport.exercises._chunks_handles import CACHE, WRITE_BACK
from labsupport.exercises._chunks_predictions import FILL_VALUE, INDEXING
from labsupport.exercises._chunks_shapes import CHOOSE_SHAPE
from labsupport.exercises._chunks_touched import PREDICT_READS, TOUCHED

__all__ = ["EXERCISES"]

EXERCISES = (
    PREDICT_READS,
    TOUCHED,
    CHOOSE_SHAPE,
    WRITE_BACK,
    CACHE,
    APPEND_HDF5,
    FILL_VALUE,
    ZARR_SHARDED,
    CHOOSE_CODEC,
    INDEXING,
    CONVERT,
)
