"""Lesson 09: gradients. An engine for single numbers, then the rules of torch's, and what they cost in memory.

References and specimens are shown, renamed and run as text, so each stands alone with `setup` before it.
"""

from labsupport.exercises._autograd_arrays import LOGSUMEXP_BACKWARD, UNBROADCAST
from labsupport.exercises._autograd_backward import TOPOLOGICAL_BACKWARD
from labsupport.exercises._autograd_functions import CHECKPOINT_BUDGET, STRAIGHT_THROUGH
from labsupport.exercises._autograd_mending import DETACHED, SAFE_SQRT, SGD_STEP
from labsupport.exercises._autograd_rules import WHO_HAS_GRAD
from labsupport.exercises._autograd_scalars import VALUE_ADD_MUL

__all__ = ["EXERCISES"]

EXERCISES = (
    VALUE_ADD_MUL,
    TOPOLOGICAL_BACKWARD,
    UNBROADCAST,
    WHO_HAS_GRAD,
    SGD_STEP,
    DETACHED,
    SAFE_SQRT,
    STRAIGHT_THROUGH,
    LOGSUMEXP_BACKWARD,
    CHECKPOINT_BUDGET,
)
