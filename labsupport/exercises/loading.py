"""Lesson 12: keep the device fed. Exercises in the order of the lesson."""

from labsupport.exercises._loading_epochs import STALE_EPOCH
from labsupport.exercises._loading_fetch import BATCHED_FETCH
from labsupport.exercises._loading_flight import BYTES_IN_FLIGHT
from labsupport.exercises._loading_memory import COPY_ON_WRITE
from labsupport.exercises._loading_model import PREDICT_STEP_TIME, STEP_TIME
from labsupport.exercises._loading_spawn import SPAWN_READY
from labsupport.exercises._loading_traces import FIND_BOTTLENECK
from labsupport.exercises._loading_tuning import TUNE
from labsupport.exercises._loading_wire import THIN_WIRE

__all__ = ["EXERCISES"]

EXERCISES = (
    PREDICT_STEP_TIME,
    STEP_TIME,
    FIND_BOTTLENECK,
    BYTES_IN_FLIGHT,
    BATCHED_FETCH,
    THIN_WIRE,
    SPAWN_READY,
    STALE_EPOCH,
    COPY_ON_WRITE,
    TUNE,
)
