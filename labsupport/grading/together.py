"""All cases of an answer asked by one question: the child replies call by call, and the judge waits for each in turn.

What the calls in the judge's memory returned is looked at again once the last case has been called. Whatever does not
give a clear view or a clear copy then, and every case before one that ended the child, has to be asked alone.
"""

import secrets

from labsupport.course import Observation
from labsupport.grading import outside, shared
from labsupport.grading.codec import MAX_QUESTION, encode
from labsupport.probing.plain import Opaque, fresh

__all__ = ["Together", "frame_of"]


def frame_of(inputs):
    """Return the inputs of all cases as one frame that keeps their layout."""
    return encode(tuple(inputs), max_bytes=MAX_QUESTION, keep_layout=True)


class Together:
    """One question about an answer, and what came back so far. Use it with `with`: it holds memory.

    Args:
        exercise: the exercise; its names, probe and limits are sent along.
        inputs: a tuple of inputs per case.
        frame: `frame_of(inputs)`, when that is at hand.
        words: the `vocabulary` of the answer.
    """

    def __init__(self, exercise, inputs, frame=None, words=None):
        self.exercise, self.inputs, self.frame, self.words = exercise, list(inputs), frame, words
        self.first, self.beside = outside.two_steps(exercise)
        self.spans, self.child, self.memory = {}, None, None
        copies = []
        for index, one in enumerate(self.inputs):
            if outside.is_shared(exercise, one):
                self.spans[index] = (len(copies), len(copies) + len(one))
                copies += fresh(one)
        if copies:
            self.memory = shared.Memory(tuple(copies), copied=tuple)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.memory is not None:
            self.memory.close()

    @property
    def looks_again(self):
        """Whether results are looked at a second time: the exercise asks whether they are views."""
        return bool(self.spans) and self.first.get("view_of") is not None

    def begin(self, child, loading, seconds):
        """Send the question, and return what the child replies to loading the answer within so many seconds.

        Raises:
            Died, OverLimit, WireError: what became of the child; as the methods below.
        """
        self.child = child
        described = self.memory.described if self.memory else ()
        names = self.exercise.names
        each = [[name] for name in names] if self.exercise.kind == "prediction" else [list(names)] * len(self.inputs)
        question = loading | {
            "op": "cases",
            "asked": each,
            "probe": {"name": self.exercise.probe.name, "options": self.first},
            "beside": self.beside,
            "limits": {"call_s": self.exercise.limits.call_s},
            "inputs": self.frame if self.frame is not None else frame_of(self.inputs),
            "shared": {"described": described, "cases": [(i, *span) for i, span in self.spans.items()]},
            "look_again": self.looks_again,
        }
        child.begin(question, seconds, fds=(self.memory.fd,) if self.memory else ())
        return child.more(seconds)

    def cases(self):
        """Yield the observation of each case, in order; what only a second look tells is missing still."""
        for index in range(len(self.inputs)):
            yield self._case(index)

    def _case(self, index):
        seen, inside = outside.observation_of(self._more(1)), index in self.spans
        if inside and not (seen.raised or seen.over):
            seen = outside.watched(seen, outside.changed_inputs(seen, self.inputs[index]), self.first)
        # After a call in shared memory one in memory of the child's own: it may behave where it knows it is watched.
        if (self.beside or inside) and not (seen.raised or seen.over):
            reply = self._more(outside.calls_of(self.beside))
            seen = outside.agreed(self.exercise, self.inputs[index], seen, reply)
        return outside.with_words(seen, self.words)

    def _more(self, calls):
        return self.child.more(outside.seconds_for(self.exercise, calls))

    def second_look(self, seen):
        """Return the observations of the first cases with what the judge's memory shows, or None when it is unclear.

        Args:
            seen: the observations; the child has replied to all that was asked.
        """
        seen = self.memory_looked_at(seen)
        if not self.looks_again:
            return seen
        which = [i for i in self.spans if i < len(seen) and _has_elements(seen[i].value)]
        layouts = self._layouts(which, seen) if which else {}
        if None in layouts.values():
            return None
        return [_with_layout(one, layouts.get(i)) if i in self.spans else one for i, one in enumerate(seen)]

    def memory_looked_at(self, seen):
        """Return the observations with the changes of inputs that the memory shows."""
        now = self.memory.changed_inputs() if self.memory else ()
        return [_with_changes(one, now, self.spans[i]) if i in self.spans else one for i, one in enumerate(seen)]

    def _layouts(self, which, seen):
        """Return {case: "view", "copy", or None when it is neither} for the results the child still holds."""
        mask = 1 + secrets.randbelow(255)  # not known beforehand: nothing prepared can have followed
        self.memory.rewrite(mask)
        reply = self.child.ask({"op": "reread_all", "which": which}, outside.seconds_for(self.exercise, 1))
        found = reply.get("value")
        found = found if type(found) is list and len(found) == len(which) else [None] * len(which)
        layouts = {i: outside.layout_of(seen[i].value, after, mask) for i, after in zip(which, found, strict=True)}
        return {i: layout if layout in ("view", "copy") else None for i, layout in layouts.items()}


def _has_elements(value):
    return outside.is_array(value) and value.size > 0


def _with_layout(seen, layout):
    if seen.raised or seen.over or isinstance(seen.value, Opaque):
        return seen
    return Observation(value=seen.value, facts=dict(seen.facts) | {"layout": layout}, notes=seen.notes)


def _with_changes(seen, changed, span):
    start, end = span
    own = {i - start for i in changed if start <= i < end}
    if not own or seen.raised or seen.over:
        return seen
    told = seen.facts.get("inputs changed", ())
    return Observation(
        value=seen.value, facts=dict(seen.facts) | {"inputs changed": tuple(sorted({*told, *own}))}, notes=seen.notes
    )
