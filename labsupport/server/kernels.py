"""The kernels of the course's server: what their processes print goes to a file, not over the learner's terminal.

That is ipykernel's own log (a note on transport at each start, a traceback when a running cell is ended with the
server) and the last words of a crash. What a cell prints is not affected: it reaches the notebook another way.
"""

from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager

__all__ = ["LOG", "KernelManager"]

LOG = "kernels.log"  # in the runtime folder
_opened = {}


class KernelManager(ServerKernelManager):
    """Jupyter Server's manager of one kernel, with the output of the process in the file `LOG`."""

    async def start_kernel(self, *args, **kwargs):
        """Start the kernel; arguments as in the base class, which keeps them for a restart."""
        log = _log()
        return await super().start_kernel(*args, **{"stdout": log, "stderr": log} | kwargs)


def _log():
    """Return the log, opened for appending; one file for all kernels, open as long as the server lives."""
    path = Path(jupyter_runtime_dir()) / LOG
    if path not in _opened:
        path.parent.mkdir(parents=True, exist_ok=True)
        _opened[path] = path.open("ab", buffering=0)
    return _opened[path]
