"""Exercises of lesson 06: shapes aligned from the right, stretched without copies. One file per part of the lesson."""

from labsupport.exercises._broadcasting_axes import CENTER_ROWS, SILENT_MSE, STANDARDIZE
from labsupport.exercises._broadcasting_data import KEEP_FEATURES, ONE_HOT
from labsupport.exercises._broadcasting_pictures import IMAGE_NORMALIZE
from labsupport.exercises._broadcasting_predictions import (
    JOIN_AXES,
    PREDICT_EDGES,
    PREDICT_OUTER,
    PREDICT_VIRTUAL_BYTES,
)
from labsupport.exercises._broadcasting_products import BATCHED_MATVEC, PAIRWISE_DISTANCE
from labsupport.exercises._broadcasting_shapes import PREDICT_RESULT_SHAPE, RESULT_SHAPE

__all__ = ["EXERCISES"]

EXERCISES = (
    PREDICT_VIRTUAL_BYTES,
    PREDICT_RESULT_SHAPE,
    RESULT_SHAPE,
    PREDICT_OUTER,
    CENTER_ROWS,
    STANDARDIZE,
    SILENT_MSE,
    PAIRWISE_DISTANCE,
    BATCHED_MATVEC,
    KEEP_FEATURES,
    ONE_HOT,
    JOIN_AXES,
    IMAGE_NORMALIZE,
    PREDICT_EDGES,
)
