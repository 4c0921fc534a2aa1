"""The child: takes questions about an answer, runs the answer, says what was observed. It never sees a reference.

Every question is a dict with an "op":

load        execute "setup", then "helpers" (failures are passed over), then "source" in a fresh namespace.
            -> raised, over, missing (of "names"), printed, printed_bytes
observe     drive the answer by a probe: "probe" {name, options}, "names", "inputs", "limits" {call_s}.
            -> value, raised, over, facts, notes
program     load, then observe every case ("cases": names, inputs, probe, beside); for the course's own programs.
            -> loaded, seen (a list of observations, up to the first that is over a limit)
call_shared call it with "inputs" whose arrays lie in the judge's memory (see `shared`; the descriptor comes beside the
            question); keep the result.
            -> value, raised, over, notes
reread      -> value: the kept result, looked at again.
"""

import ast
import contextlib
import errno
import hashlib
import inspect
import io
import linecache
import os
import socket
import sys
import types
from dataclasses import asdict

import numpy as np

from labsupport.course import Limits, Probe, Raised
from labsupport.grading.wire import MAX_QUESTION, Channel, Closed, TooLarge
from labsupport.probing import Subject, observe, running
from labsupport.probing.call import headers_of, inputs_changed
from labsupport.probing.plain import plain
from labsupport.probing.running import attempt

__all__ = ["serve"]

_LONGEST_NAME = 200


def serve(sock, told, plan):
    """Say hello with the report of the layers, then answer questions until the judge is gone.

    Args:
        sock: a connected socket, or its descriptor.
        told: {layer: "ok" or what happened}.
        plan: "path" (where packages lie now), "cell_s", "answer_bytes", "output_bytes", "processes" (whether others
            may be started), "network".
    """
    _move_to(plan["path"])
    sock = socket.socket(fileno=sock) if isinstance(sock, int) else sock
    channel = Channel(sock, asks=False)
    answers = _Answers(plan)
    _explain_refusals(plan)
    channel.send({"layers": told, "environment": list(os.environ), "pid": os.getpid()})
    with contextlib.suppress(Closed):
        while True:
            question = channel.recv(None, MAX_QUESTION, max_fds=1)
            reply = answers.to(question, channel.fds)
            channel.fds = ()
            try:
                channel.send(reply, max_bytes=plan["answer_bytes"])
            except TooLarge as error:
                channel.send({"too_large": str(error)})


def _move_to(path):
    """Look for modules where they lie inside the cage, and know every one of those folders as a library's."""
    # A probe counts the lines of the answer, not those of libraries, and shows the answer's line of a traceback.
    running.LIBRARIES = tuple({*running.LIBRARIES, *filter(None, sys.path), *path})
    before, now = sys.path[0], path[0]
    sys.path[: len(path)] = path
    for name in [name for name in sys.modules if name.partition(".")[0] == "labsupport"]:
        module = sys.modules[name]
        if hasattr(module, "__path__"):
            module.__path__ = [folder.replace(before, now, 1) for folder in module.__path__]


class _Answers:
    def __init__(self, plan):
        self.plan = plan
        self.namespace, self.source, self.setup = {}, None, ""
        self.inputs = self.kept = None
        self.output = _Kept(plan["output_bytes"])
        sys.stdout = sys.stderr = self.output

    def to(self, question, fds):
        """Return the reply to one question; whatever an answer raises is part of it."""
        try:
            return getattr(self, "_" + question["op"])(question, *fds)
        except BaseException as error:
            return {"value": None, "raised": _as_dict(_raised(error)), "over": None, "facts": {}, "notes": {}}

    def _load(self, question):
        module = types.ModuleType("__answer__")  # a module of its own: dataclasses and pickles look theirs up by name
        sys.modules["__answer__"] = module
        self.namespace, self.kept, self.inputs = module.__dict__, None, None
        self.source, self.setup = question.get("definition") or question["source"], question["setup"]
        seconds = question.get("cell_s", self.plan["cell_s"])
        _, raised, over, _ = _attempt(self._run, (self.setup, "setup"), seconds)
        for helper in question["helpers"]:
            _attempt(self._run, (helper, "earlier cell"), seconds)
        if not (raised or over):
            _, raised, over, _ = _attempt(self._run, (question["source"], "answer"), seconds)
        missing = [name for name in question["names"] if name not in self.namespace]
        printed, size = self.output.take()
        return {"raised": _as_dict(raised), "over": over, "missing": missing, "printed": printed, "printed_bytes": size}

    def _run(self, source, what):
        filename = f"<{what} {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        with contextlib.redirect_stdout(self.output), contextlib.redirect_stderr(self.output):
            code = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waits = eval(code, self.namespace)
            if code.co_flags & inspect.CO_COROUTINE:  # `await` stands alone in notebook cells
                import asyncio

                asyncio.run(waits)

    def _observe(self, question):
        probe = Probe(question["probe"]["name"], question["probe"]["options"])
        subject = Subject(tuple(question["names"]), self.namespace, self.source, self.setup)
        seen = observe(probe, subject, tuple(question["inputs"]), Limits(**question["limits"]))
        facts, notes = dict(seen.facts), dict(seen.notes)
        return {"value": seen.value, "raised": _as_dict(seen.raised), "over": seen.over, "facts": facts, "notes": notes}

    def _program(self, question):
        loaded, seen = self._load(question), []
        if not (loaded["over"] or loaded["missing"]):
            for case in question["cases"]:
                seen.append(self._twice({**question, **case}))
                if seen[-1]["over"]:
                    break
        return {"loaded": loaded, "seen": seen}

    def _twice(self, question):
        """Observe a case in the two steps the judge takes with an answer, so that one with a memory behaves alike."""
        first = self._observe(question)
        if not question["beside"] or first["raised"] or first["over"]:
            return first
        probe = {"name": question["probe"]["name"], "options": question["beside"]}
        again = self._observe({**question, "probe": probe})
        if again["raised"] or again["over"]:
            return again
        return {**first, "facts": again["facts"] | first["facts"], "notes": first["notes"] | again["notes"]}

    def _call_shared(self, question, fd):
        from labsupport.grading.shared import open_inputs  # memory files are Linux's

        self.inputs = open_inputs(question["inputs"], fd)
        os.close(fd)
        function = self.namespace[question["names"][0]]
        seconds = question["limits"]["call_s"]
        before, headers = plain(self.inputs), headers_of(self.inputs)
        self.kept, raised, over, printed = _attempt(function, self.inputs, seconds)
        notes = {"printed": printed} if printed else {}
        facts = {}
        if not (raised or over):
            facts["inputs changed"] = inputs_changed(self.inputs, before, headers)
            facts["writeable"] = self.kept.flags.writeable if type(self.kept) is np.ndarray else None
        return {"value": plain(self.kept), "raised": _as_dict(raised), "over": over, "facts": facts, "notes": notes}

    def _reread(self, question):
        return {"value": plain(self.kept), "raised": None, "over": None, "facts": {}, "notes": {}}


def _attempt(function, args, seconds):
    """Do what `attempt` does; a `KeyboardInterrupt` is the answer's own here, nobody sits at a keyboard."""
    try:
        return attempt(function, args, seconds)
    except KeyboardInterrupt as error:
        return None, _raised(error), None, ""


def _raised(error):
    try:
        message = str(error)
    except BaseException:
        message = "(its text cannot be shown)"
    return Raised(type=type(error).__name__, message=message[:500])


def _as_dict(raised):
    return None if raised is None else {**asdict(raised), "type": raised.type[:_LONGEST_NAME]}


class _Kept(io.TextIOBase):
    """A stream that keeps the beginning of what is printed and counts the rest."""

    def __init__(self, most):
        self.most, self.parts, self.kept, self.size = most, [], 0, 0

    def writable(self):
        return True

    def write(self, text):
        self.size += len(text)
        if room := self.most - self.kept:
            self.parts.append(text[:room])
            self.kept += min(room, len(text))
        return len(text)

    def take(self):
        """Return (text kept, characters printed) since the last call."""
        text, size = "".join(self.parts), self.size
        self.parts, self.kept, self.size = [], 0, 0
        return text, size


_PROCESSES = (
    "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen",
)  # fmt: skip


def _explain_refusals(plan):
    """Say in words what the kernel would refuse as "Operation not permitted". This protects nothing, it explains.

    In an open process (tier C) nothing is refused by the kernel; there it keeps an accident from spreading.
    """
    no_processes, no_network, is_open = not plan["processes"], not plan["network"], plan.get("open")

    def hook(event, args):
        if no_processes and event in _PROCESSES:
            raise PermissionError(errno.EPERM, "answers run without other processes")
        if no_network and event == "socket.__new__" and args[1] in (socket.AF_INET, socket.AF_INET6):
            raise PermissionError(errno.EPERM, "answers run without a network")
        if is_open and event in ("os.kill", "os.killpg") and args[0] != os.getpid():
            raise PermissionError(errno.EPERM, "answers run without signals to others")

    sys.addaudithook(hook)
