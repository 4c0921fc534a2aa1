"""The child: takes questions about an answer, runs the answer, says what was observed. It never sees a reference.

Every question is a dict with an "op":

load        execute "setup", then "helpers" (failures are passed over), then "source" in a fresh namespace.
            -> raised, over, missing (of "names"), printed, printed_bytes
observe     drive the answer by a probe: "probe" {name, options}, "names", "inputs", "limits" {call_s}.
            -> value, raised, over, facts, notes
cases       load, then call case by case: "inputs" (the frame of a tuple of inputs per case), "asked" (names per case),
            "probe", "beside" (options of a second call), "shared" (for calls in the judge's memory: the inputs of all
            cases together, and which are whose), "look_again" (keep the results of those).
            -> replies, one after the other: to loading; then per case as observe or call_shared give, and as observe
            gives for the second call, with "same" when the value is that of the first; they end with one over a limit
reread_all  -> value: a list, the results in the judge's memory of the cases "which", looked at again.
programs    as cases, but of several "programs", and in one reply; for the course's own.
            -> seen: per program loaded, seen (a list of observations, up to the first that is over a limit)
call_shared call it with "inputs" whose arrays lie in the judge's memory (see `shared`; the descriptor comes beside the
            question); keep the result.
            -> value, raised, over, notes
inspect     look at files that an answer wrote in another child: "written", "options", "inputs" (`probing.inspecting`);
            or, where "options" name what weighs it, at what it chose there: "written" is that, then.
            -> as observe
ranks       have several ranks run "setup" + "source" and call names[0] with "inputs" (see `probing.ranks`), "options".
            -> as observe; or busy_s: the machine had no time for them; or not_made: there are none
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
import tempfile
import types
from dataclasses import asdict

import numpy as np

from labsupport.course import Limits, Probe, Raised
from labsupport.grading.wire import MAX_QUESTION, Channel, Closed, TooLarge, decode
from labsupport.probing import Subject, observe, running
from labsupport.probing.call import headers_of, inputs_changed
from labsupport.probing.plain import identical, plain
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
    tempfile.tempdir = None  # what a library asked for while it was loaded beforehand, outside, is no place to write
    sock = socket.socket(fileno=sock) if isinstance(sock, int) else sock
    channel = Channel(sock, asks=False)
    answers = _Answers(plan)
    _explain_refusals(plan)
    channel.send({"layers": told, "environment": list(os.environ), "pid": os.getpid()})
    with contextlib.suppress(Closed):
        while True:
            question = channel.recv(None, MAX_QUESTION, max_fds=1)
            fds, channel.fds = channel.fds, ()
            for reply in answers.to(question, fds):
                try:
                    channel.send(reply, max_bytes=plan["answer_bytes"])
                except TooLarge as error:
                    channel.send({"too_large": str(error)})
                    break


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
        self.results = {}  # of the cases that were called in the judge's memory
        self.output = _Kept(plan["output_bytes"])
        sys.stdout = sys.stderr = self.output

    def to(self, question, fds):
        """Yield the replies to one question; whatever an answer raises is part of them."""
        try:
            replies = getattr(self, "_" + question["op"])(question, *fds)
            yield from (replies if inspect.isgenerator(replies) else (replies,))
        except GeneratorExit:
            raise
        except BaseException as error:
            yield _failed(error)

    def _load(self, question):
        module = types.ModuleType("__answer__")  # a module of its own: dataclasses and pickles look theirs up by name
        sys.modules["__answer__"] = module
        self.namespace, self.kept, self.inputs, self.results = module.__dict__, None, None, {}
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

    def _cases(self, question, *fds):
        shared = _opened(question["shared"], *fds)  # before the answer is there
        loaded = self._load(question)
        yield loaded
        if loaded["over"] or loaded["missing"]:
            return
        own = {"name": question["probe"]["name"], "options": question["beside"]}
        for index, case in enumerate(_each(question)):
            inside = shared.get(index)
            keep = index if question["look_again"] else None
            seen = _seen(self._observe, case) if inside is None else _seen(self._watched, case, inside, keep)
            yield _short(seen)
            if seen["over"]:
                return
            if seen["raised"] or (inside is None and not question["beside"]):
                continue
            again = _seen(self._observe, {**case, "probe": own})
            if not again["raised"] and identical(again["value"], seen["value"]):
                again |= {"value": None, "same": True}
            yield _short(again)
            if again["over"]:
                return

    def _programs(self, question):
        cases = list(_each(question))
        return {"seen": [self._program({**question, **one}, cases) for one in question["programs"]]}

    def _program(self, question, cases):
        loaded, seen = self._load(question), []
        if not (loaded["over"] or loaded["missing"]):
            for case in cases:
                seen.append(self._twice({**question, **case}))
                if seen[-1]["over"]:
                    break
        return {"loaded": loaded, "seen": [_short(one) for one in seen]}

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

        inputs = open_inputs(question["inputs"], fd)
        os.close(fd)
        return self._watched(question, inputs)

    def _watched(self, question, inputs, index=None):
        """Call the answer on inputs in the judge's memory, and keep the result."""
        self.inputs = inputs
        function = self.namespace[question["names"][0]]
        seconds = question["limits"]["call_s"]
        before, headers = plain(self.inputs), headers_of(self.inputs)
        self.kept, raised, over, printed = _attempt(function, self.inputs, seconds)
        notes = {"printed": printed} if printed else {}
        facts = {}
        if not (raised or over):
            facts["inputs changed"] = inputs_changed(self.inputs, before, headers)
            facts["writeable"] = self.kept.flags.writeable if type(self.kept) is np.ndarray else None
            if index is not None:
                self.results[index] = self.kept
        return {"value": plain(self.kept), "raised": _as_dict(raised), "over": over, "facts": facts, "notes": notes}

    def _ranks(self, question):
        """Have ranks run an answer on one case; nothing of it runs in this process."""
        from labsupport.probing import fair, ranks, ranks_host
        from labsupport.probing.ranks_start import NotMade

        ranks.HERE = ranks.HERE or ranks_host.Host(".", owns=True)
        subject = Subject(tuple(question["names"]), {}, question["source"], question["setup"], question["own"])
        try:
            seen = ranks.run(subject, tuple(question["inputs"]), question["options"], Limits(**question["limits"]))
        except fair.TooBusy as error:
            return {"busy_s": error.seconds}
        except NotMade as error:
            return {"not_made": str(error)[:_LONGEST_NAME]}
        facts, notes = dict(seen.facts), dict(seen.notes)
        return {"value": seen.value, "raised": _as_dict(seen.raised), "over": seen.over, "facts": facts, "notes": notes}

    def _inspect(self, question):
        """Look at files; what they are is said by the course's own code, and nothing of an answer runs."""
        from labsupport.probing import inspecting

        inputs = tuple(question["inputs"])
        look = inspecting.weigh if "weigh" in question["options"] else inspecting.inspect
        return inspecting.as_reply(look(question["written"], inputs, question["options"], question["seconds"]))

    def _reread(self, question):
        return {"value": plain(self.kept), "raised": None, "over": None, "facts": {}, "notes": {}}

    def _reread_all(self, question):
        return {"value": [plain(self.results[index]) for index in question["which"]]}


def _opened(shared, fd=None):
    """Return {case: its inputs in the judge's memory}."""
    if fd is None:
        return {}
    from labsupport.grading.shared import open_inputs

    inputs = open_inputs(shared["described"], fd)
    os.close(fd)
    return {index: inputs[start:end] for index, start, end in shared["cases"]}


def _each(question):
    """Yield a question per case of one that asks for many."""
    given = decode(question["inputs"], max_bytes=MAX_QUESTION, layouts_allowed=True)
    for names, inputs in zip(question["asked"], given, strict=True):
        yield {"names": names, "inputs": inputs, "probe": question["probe"], "limits": question["limits"]}


def _seen(look, *args):
    """Return a reply, whatever an earlier answer has done to what observes: each case gets one, so nobody waits."""
    try:
        return look(*args)
    except BaseException as error:
        return _failed(error)


def _failed(error):
    return {"value": None, "raised": _as_dict(_raised(error)), "over": None, "facts": {}, "notes": {}}


def _short(reply):
    """Return an observation without what it has nothing of."""
    return {key: value for key, value in reply.items() if value is not None and not (key in _MAY_LACK and not value)}


_MAY_LACK = ("facts", "notes")


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
