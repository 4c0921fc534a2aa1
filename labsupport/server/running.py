"""The servers of a workspace: the one that is running, and what a killed one has left behind."""

import contextlib
import json
import platform
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["Running", "find", "sweep"]

_ANSWERS_S = 5  # a server that runs answers in milliseconds, or a second while it starts a kernel
_MACHINE = "machine"  # names the computer that the process numbers in the runtime folder belong to


@dataclass(frozen=True)
class Running:
    """A server that has just answered: its `port`, and `base`, its address with a slash at the end, and `token`."""

    port: int
    base: str
    token: str

    def address_of(self, page):
        """Return the address that opens a file of the workspace, given as a path relative to it."""
        return f"{self.base}lab/tree/{Path(page).as_posix()}" + (f"?token={self.token}" if self.token else "")


def find(workspace):
    """Return the `Running` server of a workspace, the one started last when there are several, or None."""
    for told in sorted(_infos(workspace), key=_changed, reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            info = json.loads(told.read_text(encoding="utf-8"))
            one = Running(info["port"], f"http://127.0.0.1:{info['port']}{info['base_url']}", info["token"])
            same = Path(info["root_dir"]).resolve() == Path(workspace).resolve()
            if same and psutil.pid_exists(info["pid"]) and _answers(one):
                return one
    return None


def _answers(one):
    """Does it answer to its token? Another program may have its port by now."""
    request = urllib.request.Request(f"{one.base}api/status", headers={"Authorization": f"token {one.token}"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot know this machine's ports
    with direct.open(request, timeout=_ANSWERS_S) as answer:
        return "kernels" in json.load(answer)


def sweep(workspace):
    """Remove what servers that were killed have left in the runtime folder; files of living ones stay.

    Nothing is removed while a server of another computer is noted there (a home folder can be shared): whether that
    one lives cannot be seen from here.
    """
    runtime = _runtime(workspace)
    runtime.mkdir(parents=True, exist_ok=True)
    machine = runtime / _MACHINE
    if _infos(workspace) and machine.is_file() and machine.read_text(encoding="utf-8") != platform.node():
        return
    for path in runtime.glob("jpserver-*"):
        pid = path.stem.split("-")[1]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            _remove(path)
    if not _infos(workspace):
        for path in [*runtime.glob("kernel-*.json"), *runtime.glob("kernels.log")]:
            _remove(path)
    with contextlib.suppress(OSError):
        machine.write_text(platform.node(), encoding="utf-8")


def _infos(workspace):
    return list(_runtime(workspace).glob("jpserver-*.json"))


def _changed(path):
    try:
        return path.stat().st_mtime
    except OSError:  # that server has just ended
        return 0.0


def _runtime(workspace):
    return Path(workspace) / ".lab" / "jupyter" / "runtime"


def _remove(path):
    with contextlib.suppress(OSError):
        path.unlink()
