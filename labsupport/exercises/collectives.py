"""Lesson 15: ranks that talk to each other. Collectives, messages, order, and what they cost.

References and specimens are shown, renamed and run as text on every rank, so each stands alone with `setup` before it.
"""

from labsupport.exercises._collectives_blocks import ROWS_TO_COLUMNS
from labsupport.exercises._collectives_buffers import COLUMN_VIEW, ONE_BUFFER
from labsupport.exercises._collectives_costs import PREDICT_COST, RING_COST
from labsupport.exercises._collectives_hangs import WHO_HANGS
from labsupport.exercises._collectives_metrics import GATHER_UNEVEN, MEAN_METRIC
from labsupport.exercises._collectives_orders import ORDER
from labsupport.exercises._collectives_predictions import FLOAT_ORDER, PREDICT_FIRST
from labsupport.exercises._collectives_ring import RING_ALL_REDUCE
from labsupport.exercises._collectives_stopping import STOP_TOGETHER

__all__ = ["EXERCISES"]

EXERCISES = (
    PREDICT_FIRST,
    MEAN_METRIC,
    ONE_BUFFER,
    GATHER_UNEVEN,
    COLUMN_VIEW,
    ORDER,
    WHO_HANGS,
    STOP_TOGETHER,
    RING_ALL_REDUCE,
    PREDICT_COST,
    RING_COST,
    FLOAT_ORDER,
    ROWS_TO_COLUMNS,
)
