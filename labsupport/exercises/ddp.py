"""Lesson 16: one model on several processes. What is averaged, who sees which sample, what survives a crash.

References and specimens are shown, renamed and run as text, so each stands alone with `setup` before it.
"""

from labsupport.exercises._ddp_data import PREDICT_PADDING, SET_EPOCH
from labsupport.exercises._ddp_diagnosing import DIAGNOSE
from labsupport.exercises._ddp_elastic import ELASTIC_RESUME
from labsupport.exercises._ddp_evaluation import EXACT_EVAL, VALIDATE_ONCE
from labsupport.exercises._ddp_losses import PREDICT_GRADIENT, WEIGHTED_LOSS
from labsupport.exercises._ddp_saving import SAVE_LOAD
from labsupport.exercises._ddp_statistics import BATCH_STATISTICS
from labsupport.exercises._ddp_steps import ACCUMULATE, INNER_MODULE
from labsupport.exercises._ddp_training import TRAIN_EQUALS_SINGLE
from labsupport.exercises._ddp_uneven import SCALE_RATE, UNEVEN

__all__ = ["EXERCISES"]

EXERCISES = (
    PREDICT_GRADIENT,
    TRAIN_EQUALS_SINGLE,
    WEIGHTED_LOSS,
    INNER_MODULE,
    SET_EPOCH,
    PREDICT_PADDING,
    EXACT_EVAL,
    ACCUMULATE,
    UNEVEN,
    SAVE_LOAD,
    ELASTIC_RESUME,
    BATCH_STATISTICS,
    VALIDATE_ONCE,
    SCALE_RATE,
    DIAGNOSE,
)
