"""Course code that drives an answer: `function(answer, *inputs)`, named "module:function" by `Probe("through")`.

It runs beside the answer, knows no expected value, and never imports `labsupport.exercises`.
"""

from labsupport.probing.driven import Driven, Unusable

__all__ = ["Driven", "Unusable"]
