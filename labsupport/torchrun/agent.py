"""In a process forked from the helper: a whole job, from torchrun's own parser to the end of its agents."""

import os
import sys
import tempfile
from pathlib import Path

from labsupport.torchrun.events import Events
from labsupport.torchrun.node import Node

__all__ = ["lead"]


def lead(folder, begun, flags, arguments, cwd, environ, path, rank_options, starter=None):
    """Run a whole job and return its exit code; what it tells is in the folder.

    Args:
        folder: the job's folder, with `cell.py`.
        begun: `time.monotonic()` when the job was asked for.
        flags: torchrun's own.
        arguments: of the script.
        cwd, environ, path: the kernel's, as of now.
        rank_options: see `bootstrap.Place`: "timeout_s" and "options".
        starter: what makes ranks; None: `forking.Forks`.
    """
    from labsupport.torchrun import extras, nodes, planning

    folder, events = Path(folder), Events(folder, begun)
    kills = rank_options["options"]["kills"]
    try:
        _take_surroundings(folder, cwd, environ, path)
        plan = planning.plan(flags, folder / "cell.py", arguments, kills)
    except planning.Refused as refusal:
        events.write("refused", what=refusal.what, why=refusal.why, next=refusal.next_step)
        return 2
    if plan.max_restarts or plan.min_nodes < plan.max_nodes:  # else new ranks look for the addresses of the old ones
        os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    events.write("parsed", nodes=[plan.min_nodes, plan.max_nodes], nproc=plan.nproc, max_restarts=plan.max_restarts)
    for note in plan.notes:
        events.write("note", text=note)
    common = {"job": folder, "begun": begun, "arguments": tuple(arguments)}
    rank_options = common | extras.hooks() | rank_options
    if plan.max_nodes == 1:
        code = Node(0, plan, events, rank_options, starter).run()
    else:
        code = nodes.supervise(plan, events, rank_options)
    events.write("ended", code=code)
    return code


def _take_surroundings(folder, cwd, environ, path):
    from labsupport.torchrun.planning import Refused
    from labsupport.torchrun.tagging import TAG

    log = os.open(folder / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for fd in (1, 2):
        os.dup2(log, fd)
    os.close(log)
    tag = os.environ.get(TAG, "")
    os.environ.clear()
    os.environ.update(environ | {TAG: tag})
    sys.path[:] = path
    tempfile.tempdir = None  # found under the helper's own TMPDIR
    try:
        os.chdir(cwd)
    except OSError as error:
        raise Refused(f"the kernel's folder {cwd} cannot be entered", why=error.strerror) from None
