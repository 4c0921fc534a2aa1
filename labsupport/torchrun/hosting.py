"""A process that runs jobs beside the kernel where nothing is forked: a fresh interpreter that lives on its input.

The kernel writes JSON lines to its standard input and reads JSON lines from its standard output. When the input ends,
because the kernel closed it or is gone, the process ends everything it started, removes what it was told to, and goes.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

from labsupport.processes import removing
from labsupport.torchrun import scratch
from labsupport.torchrun.tagging import TAG, end_tagged

__all__ = ["Ended", "Host", "Line", "adopt", "die_with_parent_command", "end_below", "environment", "interpreter"]

SCRATCH = "LAB_TORCHRUN_SCRATCH"
ROOT = Path(__file__).resolve().parents[2]
_LAST_WORDS_S = 10.0  # after which what cannot be removed is left
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from labsupport.torchrun import {module}; {module}.main()"


class Ended:
    """How a job ended."""

    def __init__(self, code):
        self.code = code


def interpreter(module, python=None):
    """Return the command that runs `main()` of a module of this package in a fresh interpreter.

    `-P`: the folder it starts in is the user's, whose files must not take the place of ours.
    """
    return [python or sys.executable, "-P", "-c", _RUN.format(module=module), str(ROOT)]


def environment(token):
    """Return the kernel's environment with a token in it, and what to remove when the kernel is gone."""
    return dict(os.environ) | {TAG: token, SCRATCH: str(scratch.root()), "PYTHONUTF8": "1"}


# -- in the kernel ------------------------------------------------------------------------------------------------


class Host:
    """The kernel's side. Each line that comes back is given to `hear`; `ended` is set when the process is gone.

    Args:
        command: how to start it.
        env: its environment, with the token.
        token: what everything it starts carries.
        hear: called with each line's data, in a thread.
        log: a file for what it writes to its error output.
    """

    def __init__(self, command, env, token, hear, log=subprocess.DEVNULL):
        own_group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP} if os.name == "nt" else {}
        self.token, self._hear = token, hear
        self.ended = threading.Event()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=env,
            start_new_session=True,  # an interrupt is the kernel's to handle
            **own_group,
        )
        threading.Thread(target=self._listen, name="torchrun host", daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self._hear(json.loads(line))
        self.process.wait()
        end_tagged(self.token)  # nothing, unless it was killed and could not do it itself
        self.ended.set()

    def say(self, **data):
        """Write a line; one that nobody reads any more is lost."""
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(data).encode() + b"\n")
            self.process.stdin.flush()

    def close(self, patience_s=0.5):
        """End it and everything it started; returns when they are gone."""
        self.say(close=True)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if not self.ended.wait(patience_s):
            self.process.kill()
            self.ended.wait(5)


# -- in the process -----------------------------------------------------------------------------------------------


class Line:
    """The other side: a queue of what the kernel says, and `tell` to answer.

    Args:
        on_word: called at once, in the reading thread, with each message; where it returns true that was all.
    """

    def __init__(self, on_word=None):
        self.messages = queue.Queue()
        self._on_word, self._closed = on_word, False
        self._ending, self._parent = threading.Lock(), os.getppid()
        self._scratch = os.environ.get(SCRATCH)  # now: a job brings an environment of its own
        self._input, self._output = os.dup(0), os.dup(1)
        # What is started from here must neither read the kernel's words nor answer in our place.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(null, fd)
        os.close(null)
        self._lock = threading.Lock()
        threading.Thread(target=self._read, name="kernel", daemon=True).start()
        if hasattr(os, "getppid") and os.name != "nt":
            threading.Thread(target=self._watch, args=(os.getppid(),), name="parent", daemon=True).start()

    def _read(self):
        with os.fdopen(self._input, "rb") as file:
            for line in file:
                message = json.loads(line)
                self._closed |= "close" in message
                if self._on_word is None or not self._on_word(message):
                    self.messages.put(message)
        self._end()

    def _watch(self, parent):
        # A process that the kernel forked holds the other end too, so its closing is not all we look for.
        while os.getppid() == parent:
            time.sleep(0.2)
        self._end()

    def leave(self):
        """End this process, with all that is to be done when the kernel has ended meanwhile."""
        if os.getppid() != self._parent:
            self._end()
        self._ending.acquire()  # whoever tidies up holds it and ends the process
        os._exit(0)

    def _end(self):
        self._ending.acquire()  # for good: of two threads one must not leave while the other tidies
        end_below()
        if not self._closed and self._scratch:  # the kernel was killed, so nobody else will
            _remove_while_written_to(self._scratch)
        os._exit(0)

    def tell(self, **data):
        with self._lock, contextlib.suppress(OSError):
            os.write(self._output, json.dumps(data).encode() + b"\n")


def _remove_while_written_to(folder):
    """Remove a folder in which this process's other threads may still write a last word."""
    ends = time.monotonic() + _LAST_WORDS_S
    removing.remove_tree(folder)
    while Path(folder).exists() and time.monotonic() < ends:
        time.sleep(0.01)
        removing.remove_tree(folder)


def end_below():
    """End everything this process has started."""
    if sys.platform == "linux":
        from labsupport.processes import reaping

        with contextlib.suppress(ChildProcessError):
            reaping.end_others()
        return
    import psutil

    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            one.kill()


def adopt():
    """Become the parent of whatever is left without one below, where the system can do that."""
    if sys.platform == "linux":
        from labsupport.processes import kernel

        kernel.subreaper()


def die_with_parent_command(words):
    """Return a command that runs `python -m words` and ends when the process that started it ends."""
    if sys.platform != "linux":
        return [sys.executable, "-m", *words]
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import signal; from labsupport.processes import kernel;"
        "kernel.parent_death_signal(signal.SIGKILL); sys.path.pop(0);"
        "import runpy; sys.argv.pop(0); runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-P", "-c", code, str(ROOT), *words]
