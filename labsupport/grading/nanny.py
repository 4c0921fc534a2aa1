"""The nanny: one process per child that builds the cage, starts the child in it, watches, ends and accounts.

It never runs a learner's code. In a cage it is the first process of the pid namespace: it cannot be signalled from
inside, and nothing in there outlives it.
"""

import contextlib
import math
import os
import resource
import select
import signal
import socket
import time
from pathlib import Path

from labsupport.grading import cage, child
from labsupport.processes import kernel, messages, reaping

__all__ = ["run"]

_LOOK_EVERY_S = 0.05
_LOOK_AT_DISK_EVERY_S = 0.25
_LONGEST_PATH = 2000
_PAGE = resource.getpagesize()


def run(question_fd, report_fd, *doors, plan):
    """Be the nanny of one child until it has ended or the judge lets go.

    Args:
        question_fd: the child's end of the wire.
        report_fd: this process's end of a socket on which it tells the judge what happened.
        doors: of the control groups the child is to join.
        plan: see `runner`.
    """
    os.umask(0o022)
    report = socket.socket(fileno=report_fd)
    try:
        uid, told = _prepare(plan)
    except OSError as error:
        return messages.send(report, {"refused": str(error.strerror or error), "errno": error.errno})
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            if plan["ranks"]:
                kernel.subreaper()  # what ranks leave behind comes to the process that made them, which ends it
            told = cage.enter(plan, uid, [question_fd], doors, told)
            child.serve(question_fd, told, plan)
        os._exit(0)
    for fd in (question_fd, *doors):
        os.close(fd)
    with report, contextlib.suppress(OSError):  # a judge that is gone wants no report
        pidfd = os.pidfd_open(pid)
        messages.send(report, {"started": pid}, [pidfd])
        messages.send(report, _watch(pid, pidfd, report, plan))


def _prepare(plan):
    """Return (uid of the learner's process, layers told so far)."""
    uid = cage.learner_uid(plan)
    if plan["tier"] == "A":
        return uid, cage.isolate(plan, uid)
    kernel.subreaper()
    if plan["change_user"]:
        os.chown(plan["work"], uid, uid)
    return uid, {}


def _watch(pid, pidfd, report, plan):
    """Wait until the child ends, the judge lets go or a watched limit is passed; end all, return the account."""
    looks = _Looks(pid, plan)
    over = None
    while not over:
        ready, *_ = select.select([pidfd, report], [], [], looks.every_s)
        if ready:
            break
        over = looks.over()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status, _ = os.wait4(pid, 0)
    reaping.end_others()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Whether the judge let go first or the child ended by itself: only then the exit code says something.
    by_itself = pidfd in ready and not over
    return {
        "code": os.waitstatus_to_exitcode(status) if by_itself else None,
        "over": over,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
    }


class _Looks:
    """What nobody else limits is looked at: memory without a control group, processes of root, a folder's size."""

    def __init__(self, pid, plan):
        self.pid, self.watch, self.work = pid, plan["watch"], plan["work"]
        self.every_s = _LOOK_EVERY_S if self.watch else None
        self.next_at_disk = 0.0

    def over(self):
        """Return which limit is passed, or None."""
        if (most := self.watch.get("memory_bytes")) and self._resident_bytes() > most:
            return "memory"
        if (most := self.watch.get("processes")) and self._processes() > most:
            return "processes"
        if (most := self.watch.get("work_bytes")) and time.monotonic() > self.next_at_disk:
            self.next_at_disk = time.monotonic() + _LOOK_AT_DISK_EVERY_S
            return "disk" if _size_of(self.work) > most else None
        return None

    def _resident_bytes(self):
        with contextlib.suppress(OSError, ValueError):
            return int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
        return 0

    def _processes(self):
        with contextlib.suppress(OSError):
            threads = list(Path(f"/proc/{self.pid}/task").iterdir())
            return len(threads) + len(reaping.descendants_of(self.pid))
        return 0


def _size_of(folder):
    """Return the bytes a folder takes on disk, entries included (each is counted as a block).

    A path too long to look into counts as without measure: what lies below it could not be seen.
    """
    total, waiting = 0, [folder]
    while waiting:
        if len(waiting[-1]) > _LONGEST_PATH:
            return math.inf
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                with contextlib.suppress(OSError):
                    total += max(4096, entry.stat(follow_symlinks=False).st_blocks * 512)
    return total
