"""Course code that looks at files an answer wrote, in a process that never ran it: `function(folder, *inputs)`.

A module here may also write what an answer is given ("prepare" of `Probe("artifact")`). It runs where neither the
exercises nor the rest of the course can be imported.
"""

from labsupport.probing.driven import Driven, Unusable

__all__ = ["Driven", "Unusable"]
