"""What a rank has called so far, from inside and from outside: torch's flight recorder joined with the rank's ledger.

The recorder has every collective, also those torch calls from C++; the ledger has the program's own calls with their
lines, sends and receives too. Either alone is enough for an answer.
"""

import contextlib
import json
import os
import socket
from pathlib import Path

from labsupport.ranks import ledger, noting
from labsupport.ranks.calls import Call, from_dicts, to_dicts
from labsupport.ranks.joining import calls_of

__all__ = ["Call", "ask", "close", "from_dicts", "here", "ledger_path", "read", "serve", "to_dicts"]

_LONGEST_PATH = 100  # of a unix socket, in bytes: 107 on Linux, 103 on macOS
_since_ns = 0
_server = None  # kept: when it is collected, it stops and says so on the error output


# -- inside the rank ----------------------------------------------------------------------------------------------


def serve(path, since_ns=0):
    """Keep this process's calls and answer for them on a unix socket at `path`; call it before any group is made.

    The ledger lies beside the socket (`ledger_path`). Where the socket cannot be had (a path that is too long, a torch
    without the server) the ledger alone remains, which lacks only what torch calls by itself.

    Args:
        path: where; nobody serves there yet.
        since_ns: leave out calls that began before this (`time.time_ns()`), also when others ask: torch's recorder
            cannot be emptied, so a process that has been a rank before would tell of that too.

    Returns:
        Whether the socket answers.
    """
    global _server, _since_ns
    _since_ns = since_ns
    if since_ns:
        Path(f"{path}.since").write_text(str(since_ns), encoding="ascii")
    with contextlib.suppress(OSError):  # the disk is full: a script runs without an account of its calls, too
        noting.install(ledger_path(path))
    if len(os.fsencode(path)) > _LONGEST_PATH:
        return False
    try:
        from torch._C._distributed_c10d import _WorkerServer

        with _quiet():  # it announces itself on the error output
            _server = _WorkerServer(str(path))
    except (ImportError, RuntimeError):
        return False
    return True


def close():
    """Stop answering, without the three lines the server would write; a rank that leaves by `os._exit` needs none."""
    global _server
    if _server is not None:
        with _quiet():
            _server.shutdown()
            _server = None


@contextlib.contextmanager
def _quiet():
    """Send what C++ writes to descriptor 2 nowhere, for a moment in which nobody else writes."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def here(since_ns=0):
    """Return this process's calls, oldest first.

    Args:
        since_ns: leave out calls that began before this (`time.time_ns()`).
    """
    from torch._C import _distributed_c10d as c10d

    own = noting.current()
    entries = json.loads(c10d._dump_fr_trace_json(True, False)).get("entries", ())
    return join(entries, own.ledger.notes() if own else (), max(since_ns, _since_ns))


# -- outside ------------------------------------------------------------------------------------------------------


def ledger_path(path):
    """Return where the ledger of a rank lies that serves at `path`."""
    return Path(f"{path}.calls")


def ask(path, timeout_s=1.0, since_ns=0):
    """Return the calls of the rank that serves at `path`, also of a blocked or a dead one; None when there are none."""
    entries = _entries(path, timeout_s)  # first: an entry without its note would look like a call of torch's own
    notes = ledger.read(ledger_path(path))
    if entries is None and not notes:
        return None
    return join(entries or (), notes, max(since_ns, _told_since(path)))


def _told_since(path):
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"{path}.since").read_text(encoding="ascii"))
    return 0


def read(path, since_ns=0):
    """Return what the ledger alone knows, without asking the rank: () when there is none."""
    return join((), ledger.read(ledger_path(path)), since_ns)


def _entries(path, timeout_s):
    """Return the flight recorder's entries, or None when nobody answers in time."""
    if not hasattr(socket, "AF_UNIX") or not Path(path).exists():
        return None
    with contextlib.suppress(OSError, ValueError, KeyError), socket.socket(socket.AF_UNIX) as link:
        link.settimeout(timeout_s)
        link.connect(str(path))
        link.sendall(b"POST /handler/fr_trace_json HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        answer = b""
        while piece := link.recv(1 << 16):
            answer += piece
        return json.loads(answer.partition(b"\r\n\r\n")[2]).get("entries", ())
    return None


# -- joining ------------------------------------------------------------------------------------------------------


def join(entries, notes, since_ns=0):
    """Return one list of calls from the recorder's entries and the ledger's notes.

    An entry made between a note's begin and end, by its thread, is how that call went over the wire; any other is a
    call of torch's own.
    """
    entries = [entry for entry in entries if entry["time_created_ns"] >= since_ns]  # a process may have run for long
    return tuple(call for call in calls_of(entries, notes) if call.began_ns >= since_ns)
