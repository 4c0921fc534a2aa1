"""The probe of answers that write: what lies in a fresh folder after the call, as bytes; nobody looks into it here.

Looking is `inspecting`'s, in a process that never ran the answer (see `artifact`).
"""

import contextlib
import tempfile
from pathlib import Path

from labsupport.course import Observation, Raised
from labsupport.errors import LabError
from labsupport.probing.call import measure, second_call
from labsupport.probing.driven import Unusable, find, unusable
from labsupport.probing.gathering import TooMuch, gather, written_alike
from labsupport.probing.plain import fresh, plain
from labsupport.probing.running import ANOTHER_FILE, ANOTHER_RESULT, SecondCall, attempt
from labsupport.processes.removing import remove_tree

__all__ = ["FOLDERS", "run"]

FOLDERS = "folders"  # the key of the value under which the folders stand, since an empty one counts too
_COUNTED = ("max_allocated", "max_steps")


def run(subject, inputs, options, limits):
    """Call the answer as `names[0](path, *inputs)`; the value is {"files": {relative path: bytes}, "folders": [...]}.

    Options:
        file: what the answer is asked to write, a name in a fresh folder; `path` is its `Path`.
        prepare: "module:function" in `labsupport.probing.inspectors`; called before as `function(folder, *inputs)`, it
            writes what the answer is given into the folder and returns the arguments after `path`.
        max_allocated, max_steps: as of `call`.
    """
    function = subject.namespace[subject.names[0]]
    with _Place(options, inputs) as place:
        args = place.arguments()
        result, raised, over, printed = attempt(function, args, limits.call_s)
        notes = {"printed": printed} if printed else {}
        if raised or over:
            return Observation(raised=raised, over=over, notes=notes)
        known = plain(result)
        del result, args
        try:
            value, gone = place.contents()
        except TooMuch as error:
            return Observation(over=str(error), notes=notes)
        except Unusable as error:
            return unusable(error, notes)
    counted = {name: options[name] for name in _COUNTED if name in options}
    try:
        facts, more = _measured(subject, function, inputs, options, counted, limits, known, value)
    except SecondCall as again:
        return second_call(again, notes)
    return Observation(value=value, facts=facts | gone, notes=notes | more)


def _measured(subject, function, inputs, options, counted, limits, known, value):
    """Return (facts, notes) of calls in folders of their own, one after the other.

    Raises:
        SecondCall: one of them did not write what the first call did, so what is measured is not what is judged.
    """
    with _Places(options, inputs) as places:
        facts, notes = measure(subject, places.arguments, function, counted, limits.call_s, known)
        if not all(written_alike(value, again, options["file"]) for again in places.contents()):
            raise SecondCall(Raised(type=ANOTHER_RESULT, message=ANOTHER_FILE), None)
        return facts, notes


class _Place:
    """A fresh folder for one call, removed with everything in it."""

    def __init__(self, options, inputs):
        self.options, self.inputs = options, inputs
        self.folder = self.given = None

    def __enter__(self):
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="lab-answer-"))
        except OSError as error:
            step = "Make room there, or name another folder in the environment variable TMPDIR, then check again."
            raise LabError("there is no room for what the answer writes", why=str(error), next_step=step) from error
        return self

    def __exit__(self, *_):
        remove_tree(self.folder)
        with contextlib.suppress(OSError):  # an answer may have put something else in its place
            self.folder.unlink(missing_ok=True)

    def arguments(self):
        """Return what the answer is called with; given files are in the folder then."""
        inputs = fresh(self.inputs)
        if "prepare" in self.options:
            inputs = find("inspectors", self.options["prepare"])(self.folder, *inputs)
        self.given = gather(self.folder)[0]
        return (self.folder / self.options["file"], *inputs)

    def contents(self):
        """Return (what the answer wrote, facts about given files); given files that changed count as written."""
        files, folders = gather(self.folder)
        own = {name: raw for name, raw in files.items() if self.given.get(name) != raw}
        gone = {"given files that are gone": len(self.given.keys() - files.keys())} if self.given else {}
        return {"files": own, FOLDERS: folders}, gone


class _Places:
    """A place for each call that is measured."""

    def __init__(self, options, inputs):
        self.options, self.inputs, self.open = options, inputs, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for place in self.open:
            place.__exit__()

    def contents(self):
        """Yield what each call wrote; None where that is too much or cannot be read."""
        for place in self.open:
            try:
                yield place.contents()[0]
            except (TooMuch, Unusable):
                yield None

    def arguments(self):
        self.open.append(_Place(self.options, self.inputs).__enter__())
        return self.open[-1].arguments()
