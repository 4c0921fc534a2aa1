"""Looking at files an answer wrote: in a folder of their own, in a process that never ran the answer.

`inspect` does it in this process: a grader's child does. A kernel asks a program that it starts once (`Inspector`) by
frames on its standard input and output.
"""

import atexit
import os
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path, PurePosixPath

from labsupport.course import Observation, Raised
from labsupport.probing.driven import Driven, Unusable, find, unusable
from labsupport.probing.files import FOLDERS
from labsupport.probing.plain import fresh, plain
from labsupport.probing.running import attempt

__all__ = ["Inspector", "as_reply", "away", "inspect", "merged", "weigh"]

_START_S = 60.0  # a guard against hanging: importing on a cold disk
_MOST_BYTES = 64 << 20  # of a frame
_CANNOT_BE_READ = "cannot be read"


def inspect(written, inputs, options, seconds):
    """Return the observation of what lies in a folder.

    Args:
        written: what `files.run` gives: {"files": {relative path: bytes}, "folders": [relative path]}.
        inputs: the case's inputs.
        options: the probe's; "inspect" names the function in `labsupport.probing.inspectors`.
        seconds: how long it may take.
    """
    function = find("inspectors", options["inspect"])
    with tempfile.TemporaryDirectory(prefix="lab-inspect-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if not (problem := _put(written, folder)):
            result, raised, over, _ = attempt(_looking(function), (folder, *inputs), seconds)
            if not (raised or over or isinstance(result, Unusable)):
                return Observation(value=plain(result.value), facts=result.facts, notes=result.notes)
            problem = result
    if isinstance(problem, Unusable):
        return unusable(f"The file `{options['file']}` {problem}.".replace("..", "."))
    if over:
        return unusable(f"The file `{options['file']}` takes more than {seconds:g} s to be read.")
    # What a library says of a damaged file is about the file: the inspectors know the usual ones by name.
    return unusable(f"The file `{options['file']}` {_CANNOT_BE_READ}: {raised.type}: {raised.message}")


def weigh(chosen, inputs, options, seconds):
    """Return the observation of what an answer chose, said by the function that "weigh" names (see `through`)."""
    function = find("drivers", options["weigh"])
    result, raised, over, _ = attempt(_looking(function), (chosen, *fresh(inputs)), seconds)
    if raised or over:
        return Observation(raised=raised, over=over)
    if isinstance(result, Unusable):
        return unusable(result)
    return Observation(value=plain(result.value), facts=result.facts, notes=result.notes)


def _looking(function):
    def look(*args):
        try:
            result = function(*args)
        except Unusable as error:
            return error
        return result if isinstance(result, Driven) else Driven(value=result)

    return look


def _put(written, folder):
    """Write the files into a folder and return None, or the `Unusable` that says why they cannot be there."""
    try:
        for name in [*written[FOLDERS], *(PurePosixPath(name).parent for name in written["files"])]:
            _inside(folder, name).mkdir(parents=True, exist_ok=True)
        for name, raw in written["files"].items():
            _inside(folder, name).write_bytes(raw)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Unusable(f"{_CANNOT_BE_READ}: {type(error).__name__}: {error}")
    return None


def _inside(folder, name):
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name} leads out of the folder")
    return folder / path


def merged(made, seen):
    """Return what an inspection saw, with what was counted and printed while the answer ran."""
    notes = {**made.notes, **seen.notes}
    return Observation(
        value=seen.value, raised=seen.raised, over=seen.over, facts={**made.facts, **seen.facts}, notes=notes
    )


# -- a program that inspects for a kernel ------------------------------------------------------------------------

_lock = threading.Lock()
_inspectors = {}  # process id -> its inspector: what a fork inherits is another process's


def away(written, inputs, options, seconds):
    """Return what `inspect` returns, seen by this process's inspector, which is started when first needed."""
    with _lock:
        inspector = _inspectors.get(os.getpid())
        if inspector is None or not inspector.alive():
            _inspectors.clear()
            inspector = _inspectors[os.getpid()] = Inspector()
        return inspector.inspect(written, inputs, options, seconds)


def close():
    """End this process's inspector, if there is one."""
    with _lock:
        inspector = _inspectors.pop(os.getpid(), None)
    if inspector is not None:
        inspector.close()


atexit.register(close)


class Inspector:
    """A program that inspects one folder after the other; it ends when its standard input does."""

    def __init__(self):
        root = Path(__file__).resolve().parents[2]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        }
        self._program = subprocess.Popen(
            [sys.executable, "-m", "labsupport.probing.inspecting"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,  # Ctrl-C is the kernel's to handle
        )
        self._replies = queue.Queue()
        self._reader = threading.Thread(target=self._read, name="inspector", daemon=True)
        self._reader.start()
        self._is_new = True

    def alive(self):
        return self._program.poll() is None

    def inspect(self, written, inputs, options, seconds):
        """Return what `inspecting.inspect` returns there; a program that dies or hangs over it is ended."""
        from labsupport.grading.codec import encode

        question = {"written": written, "inputs": inputs, "options": dict(options), "seconds": seconds}
        frame = encode(question, max_bytes=_MOST_BYTES, keep_layout=True)
        try:
            _send(self._program.stdin, frame)
            reply = self._replies.get(timeout=seconds + (_START_S if self._is_new else 5.0))
        except (OSError, queue.Empty):
            reply = None
        except BaseException:  # an interrupt: a later question must not get this one's reply
            self.close()
            raise
        self._is_new = False
        if reply is None:
            self.close()
            return unusable(f"The file `{options['file']}` ended the process that looked at it")
        return _observation(reply)

    def _read(self):
        from labsupport.grading.wire import decode

        try:
            while (frame := _receive(self._program.stdout)) is not None:
                self._replies.put(decode(frame, max_bytes=_MOST_BYTES))
        except (OSError, ValueError):  # it was closed meanwhile
            pass
        self._replies.put(None)

    def close(self):
        """End the program."""
        self._program.kill()
        self._program.wait()
        self._program.stdin.close()
        self._reader.join()
        self._program.stdout.close()


def _observation(reply):
    raised = Raised(**reply["raised"]) if reply["raised"] else None
    return Observation(
        value=reply["value"], raised=raised, over=reply["over"], facts=reply["facts"], notes=reply["notes"]
    )


def as_reply(seen):
    """Return an observation as plain data for the wire."""
    raised = None if seen.raised is None else {"type": seen.raised.type, "message": seen.raised.message}
    return {
        "value": seen.value,
        "raised": raised,
        "over": seen.over,
        "facts": dict(seen.facts),
        "notes": dict(seen.notes),
    }


def _send(stream, frame):
    stream.write(len(frame).to_bytes(8, "little") + frame)
    stream.flush()


def _receive(stream):
    """Return the next frame, or None at the end of the stream."""
    size = stream.read(8)
    if len(size) < 8:
        return None
    frame = stream.read(int.from_bytes(size, "little"))
    return frame


def _serve():
    """Answer questions from standard input until it ends; whatever a library prints goes nowhere."""
    from labsupport.grading.codec import encode
    from labsupport.grading.wire import decode

    replies = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    while (frame := _receive(sys.stdin.buffer)) is not None:
        asked = decode(frame, max_bytes=_MOST_BYTES, layouts_allowed=True)
        seen = inspect(asked["written"], tuple(asked["inputs"]), asked["options"], asked["seconds"])
        _send(replies, encode(as_reply(seen), max_bytes=_MOST_BYTES))
    os._exit(0)  # threads of a library must not keep the process


if __name__ == "__main__":
    _serve()
