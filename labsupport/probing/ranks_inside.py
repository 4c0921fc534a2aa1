"""What a rank keeps an eye on while an answer runs in it: files it writes, and the item at which it is to be killed."""

import contextlib
import errno
import os
import signal
import sys
import time
from pathlib import Path

__all__ = ["Batches", "Writes", "seed_all"]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEVICES = ("/dev/", "/proc/")
TORCH_WRITES = "lab.torch_writes"  # audit event: torch's own writer opens files from C++, which Python does not see


class Writes:
    """Notes which files are opened for writing, and refuses those outside of the case's folder.

    This protects nothing: it tells who wrote what, and keeps an accident from spreading.
    """

    def __init__(self):
        self.work = self.root = self.log = None
        _announce_torch_writes()
        sys.addaudithook(self._hear)

    def begin(self, work, log):
        """Note from now on what is written below `work`, in the file `log`; it survives the end of this process."""
        self.end()
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.work, self.root = os.path.realpath(work), os.path.realpath(Path(work).parent)

    def end(self):
        """Note and refuse nothing any more."""
        log, self.log, self.root = self.log, None, None
        if log is not None:
            with contextlib.suppress(OSError):
                os.close(log)

    def _hear(self, event, args):
        if self.root is None:
            return
        if event == "open" and type(args[0]) is not int and (args[2] or 0) & _WRITING:
            self._note(args[0])
        elif event == TORCH_WRITES:
            self._note(args[0])
        elif event == "os.rename":
            self._note(args[1])

    def _note(self, path):
        with contextlib.suppress(TypeError, ValueError):
            name = os.path.realpath(os.fsdecode(path))
            if name.startswith(_DEVICES):
                return
            if not name.startswith(self.root + os.sep):
                raise PermissionError(errno.EACCES, "an answer writes in its working folder only", os.fsdecode(path))
            if name.startswith(self.work + os.sep):
                with contextlib.suppress(OSError):  # whoever closes every descriptor closes this one
                    os.write(self.log, os.fsencode(name[len(self.work) + 1 :]).replace(b"\n", b"?") + b"\n")


def _announce_torch_writes():
    with contextlib.suppress(Exception):
        from torch import serialization

        writer = serialization._open_zipfile_writer_file
        if not hasattr(writer, "_lab_inner"):
            writer._lab_inner = writer.__init__

            def announced(self, name, *args, **options):
                sys.audit(TORCH_WRITES, name)
                return writer._lab_inner(self, name, *args, **options)

            writer.__init__ = announced


class Batches(list):
    """A list in which reading one item ends the process by SIGKILL, as a machine that fails would."""

    def __init__(self, items, deadly):
        super().__init__(items)
        self._deadly = deadly

    def __getitem__(self, index):
        places = range(len(self))[index]
        if self._deadly in (places if isinstance(places, range) else (places,)):
            _die()
        return super().__getitem__(index)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __reversed__(self):
        return (self[i] for i in reversed(range(len(self))))


def _die():
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    time.sleep(60)  # a signal may take a moment; nothing of the answer runs in it


def seed_all(number):
    """Set the random state of Python, NumPy and torch."""
    import random

    import numpy
    import torch

    random.seed(number)
    numpy.random.seed(number % (1 << 32))
    torch.default_generator.manual_seed(number)  # `torch.manual_seed` looks for devices besides, for milliseconds
