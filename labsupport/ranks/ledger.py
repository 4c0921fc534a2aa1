"""The account of one rank's calls, in a file that outlives the rank. Needs no torch.

A ring of fixed slots in a mapped file: a call takes a few microseconds, and what was written is there for others at
once, also when the rank is blocked, holds the interpreter's lock, or was killed by a signal.
"""

import contextlib
import json
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OPEN", "RAISED", "RETURNED", "Ledger", "Note", "read"]

OPEN, RETURNED, RAISED = 1, 2, 3

_MAGIC = b"labcall1"
_HEADER = struct.Struct("<8sIIQ")  # magic, slots, bytes per slot, notes written so far
_SLOT = struct.Struct("<QBBQQQH")  # index + 1, state, work, began, ended, thread, length of the JSON
_START = 64  # the first slot; the header has room to grow
SLOTS, SLOT_BYTES = 2048, 512


@dataclass(frozen=True)
class Note:
    """One call as written down.

    `state` is OPEN, RETURNED or RAISED; `work` 0, 1 while the rank stands in `wait()` of what the call returned, 2 when
    that came back; times are nanoseconds on the system's clock, 0 for not yet; `said` is what the caller said.
    """

    index: int
    state: int
    work: int
    began_ns: int
    ended_ns: int
    thread: int
    said: dict


class Ledger:
    """The writing side; one per process. A ledger inherited through a fork is not this process's: open another.

    Args:
        path: the file, replaced when it exists.

    Raises:
        OSError: there is no room for it. Later would be too late: a mapped page that cannot be had ends the process.
    """

    def __init__(self, path, slots=SLOTS):
        self.path, self.pid, self.slots, self.written = Path(path), os.getpid(), slots, 0
        size = _START + slots * SLOT_BYTES
        self.path.unlink(missing_ok=True)
        with os.fdopen(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "r+b"
        ) as file:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            self._map = mmap.mmap(file.fileno(), size)
        _HEADER.pack_into(self._map, 0, _MAGIC, slots, SLOT_BYTES, 0)

    def begin(self, said, began_ns, thread):
        """Write a call down and return its index, to be handed to `end` and `work`."""
        index, self.written = self.written, self.written + 1
        text = _fitting(said)
        at = self._at(index)
        struct.pack_into("<Q", self._map, at, 0)  # nobody reads the slot while it changes
        self._map[at + _SLOT.size : at + _SLOT.size + len(text)] = text
        _SLOT.pack_into(self._map, at, 0, OPEN, 0, began_ns, 0, thread, len(text))
        struct.pack_into("<Q", self._map, at, index + 1)
        struct.pack_into("<Q", self._map, _HEADER.size - 8, self.written)
        return index

    def end(self, index, state, ended_ns):
        """Write down how a call ended: RETURNED or RAISED."""
        if index >= self.written - self.slots:
            at = self._at(index)
            struct.pack_into("<B", self._map, at + 8, state)
            struct.pack_into("<Q", self._map, at + 18, ended_ns)

    def work(self, index, work):
        """Write down that the rank stands in `wait()` of what a call returned (1), or that this came back (2)."""
        if index >= self.written - self.slots:
            struct.pack_into("<B", self._map, self._at(index) + 9, work)

    def notes(self):
        """Return what is written, oldest first."""
        return _notes(bytes(self._map))

    def _at(self, index):
        return _START + index % self.slots * SLOT_BYTES


def read(path):
    """Return the notes in a ledger's file, oldest first; () when there is none."""
    with contextlib.suppress(OSError, ValueError, struct.error):
        with Path(path).open("rb") as file:
            magic, slots, size, written = _HEADER.unpack_from(file.read(_START))
            if magic != _MAGIC:
                return ()
            file.seek(0)
            return _notes(file.read(_START + min(written, slots) * size))
    return ()


def _fitting(said):
    """Return a note's JSON within its slot: the text of the line gives way first, then shapes."""
    for shorter in ({}, {"line": said.get("line", "")[:60]}, {"line": "", "shapes": [], "dtypes": [], "members": None}):
        text = json.dumps({**said, **shorter}, separators=(",", ":")).encode()
        if len(text) <= SLOT_BYTES - _SLOT.size:
            return text
    return json.dumps({"op": said["op"][:99], "group": said["group"][:99]}).encode()


def _notes(raw):
    _, slots, size, written = _HEADER.unpack_from(raw)
    found = []
    for index in range(max(0, written - slots), written):
        at = _START + index % slots * size
        if at + size > len(raw):  # written since the header was read
            break
        marked, state, work, began, ended, thread, length = _SLOT.unpack_from(raw, at)
        if marked != index + 1:  # being written, or overwritten since
            continue
        with contextlib.suppress(ValueError):
            said = json.loads(raw[at + _SLOT.size : at + _SLOT.size + length])
            found.append(Note(index, state, work, began, ended, thread, said))
    return tuple(found)
