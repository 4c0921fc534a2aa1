"""Before any learner's code is run: is what must be out of reach really out of reach, for code in a learner's place?

The code below is sent to a child like an answer. It looks for the references, the course, the environment, files and
processes of the host and its network, and returns what it could reach, which must be nothing.
"""

import contextlib
import os
import secrets
import socket
import tempfile
from pathlib import Path

from labsupport import places

__all__ = ["reachable"]

_LOOK = """
def look(modules, files, folders, names, pids, port):
    import importlib, os, socket, sys
    found = []

    def reached(what, action):
        try:
            answer = action()
        except BaseException:
            return
        if answer not in (None, "", [], ()):
            found.append(what)

    for name in modules:
        reached("module " + name, lambda: importlib.import_module(name) or name)
        if name in sys.modules:
            found.append("loaded module " + name)
    for path in files:
        reached("file " + path, lambda: open(path, "rb").read(1) and path)
    for folder, unseen in folders:
        reached("folder " + folder, lambda: sorted(set(os.listdir(folder)) & set(unseen)))
        reached("writing in " + folder, lambda: open(folder + "/lab-probe", "x").close() or folder)
    known = set(os.environ)
    try:
        started_with = open("/proc/self/environ", "rb").read().decode(errors="replace").split("\\0")
        known |= {entry.partition("=")[0] for entry in started_with}
    except OSError:
        pass
    found += ["environment " + name for name in names if name in known]
    for pid in pids:
        for part in ("environ", "cmdline", "maps", "root/etc/hostname", "cwd/."):
            reached("process %d: %s" % (pid, part), lambda: open("/proc/%d/%s" % (pid, part), "rb").read(1))
    # The processes of a cage are all forks of the same one: another command line belongs to the host.
    line = "/proc/%s/cmdline"
    reached("processes", lambda: [
        name for name in os.listdir("/proc")
        if name.isdecimal() and open(line % name, "rb").read() != open(line % "self", "rb").read()
    ])
    def connect():
        with socket.create_connection(("127.0.0.1", port), 0.2):
            return "connected"
    reached("the host's network", connect)
    reached("a terminal", lambda: os.open("/dev/tty", os.O_RDWR))
    for path in sys.path:
        inner = os.path.join(path, "labsupport")
        reached(inner + "/exercises", lambda: os.listdir(inner + "/exercises"))
    return found
"""
_MODULES = tuple(f"labsupport.{name}" for name in ("exercises", "catalog", "answering", "observing", "live"))


def reachable(child, readable, own_names, inside):
    """Return what a learner's code in this child could reach, as a list of texts; the empty list is the right answer.

    Args:
        readable: the paths it may read.
        own_names: the environment variables it is meant to have.
        inside: it counts processes in a namespace of its own, where the host's numbers mean nothing.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-canary-")))
        folder.chmod(0o755)  # by its mode everybody may read it: what keeps it unread must be the cage
        canary = folder / "canary"
        canary.write_text(secrets.token_hex(16), encoding="ascii")
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        names = [name for name in os.environ if name not in own_names]
        pids = [] if inside else [os.getpid(), os.getppid(), 1]
        files, folders = _files(canary), _folders(canary, readable)
        return _ask(child, (list(_MODULES), files, folders, names, pids, server.getsockname()[1]))


def _files(canary):
    package = places.ROOT / "labsupport"
    wanted = [package / name for name in ("catalog.py", "answering.py", "observing.py")]
    wanted += [canary, *(package / "exercises").glob("*.py"), *places.NOTEBOOKS.glob("*.ipynb")]
    return [str(path) for path in [*wanted, *Path.home().glob(".*rc")]]


def _folders(canary, readable):
    """Return [(folder, names that must not be seen in it)]: all but the way to what may be read."""
    wanted = [canary.parent, places.ROOT, places.ROOT / "labsupport", places.NOTEBOOKS, places.SOURCE, Path.home()]
    found = []
    for folder in wanted:
        ways = {path.relative_to(folder).parts[:1] for path in readable if path.is_relative_to(folder)}
        with contextlib.suppress(OSError):
            found.append((str(folder), [path.name for path in folder.iterdir() if (path.name,) not in ways]))
    return found


def _ask(child, inputs):
    load = {"op": "load", "setup": "", "helpers": [], "source": _LOOK, "names": ["look"]}
    reply = child.ask(load)
    if reply.get("raised") or reply.get("missing"):
        return [f"the self-test does not run: {reply.get('raised')}"]
    probe = {"name": "call", "options": {}}
    question = {"op": "observe", "probe": probe, "names": ["look"], "inputs": inputs, "limits": {"call_s": 5.0}}
    reply = child.ask(question)
    if reply.get("raised") or reply.get("over") or not isinstance(reply.get("value"), list):
        return [f"the self-test does not run: {reply.get('raised') or reply.get('over')}"]
    return reply["value"]
