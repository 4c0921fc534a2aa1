"""A process with one thread that forks the ranks in the agent's place, and says how they ended (Linux).

The agent keeps torch's store, and the store's thread asks glibc for the name of whoever connects. A rank forked in such
a moment inherits the lock of glibc's resolver as taken, with nobody to let go of it, and waits for ever when it
connects itself: a correct cell that hangs, once in some thousands.
"""

import errno
import os
import signal
from multiprocessing import Pipe

__all__ = ["Forker"]


class Forker:
    """Forks as often as asked; made while its maker has one thread, and ends with it, as do those it forked.

    Args:
        become: called in each new process with what `fork` was given; must not return.
    """

    def __init__(self, become):
        self._asked = 0
        self._ours, theirs = Pipe()
        maker = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            _serve(theirs, maker, become)
        theirs.close()

    def fork(self, given):
        """Return the pid of a new process, which has this process's environment variables as of now.

        Raises:
            OSError: the fork was refused, or the process that forks is gone.
        """
        pid = self._ask("fork", given, dict(os.environ))
        if pid < 0:
            raise OSError(-pid, f"a rank could not be forked: {os.strerror(-pid)}")
        return pid

    def ending(self, pid):
        """Return (wait status, CPU seconds) of a process forked here that has ended; None while it runs."""
        return self._ask("ending", pid)

    def _ask(self, *request):
        self._asked += 1
        try:
            self._ours.send((self._asked, *request))
            while True:  # a signal's handler may have left an earlier reply unread
                number, reply = self._ours.recv()
                if number == self._asked:
                    return reply
        except (EOFError, ConnectionError):
            raise OSError(errno.ECHILD, "the process that forks ranks is gone") from None


def _serve(link, maker, become):
    """In the new process: answer requests until the maker is gone. Never returns."""
    from labsupport.processes import kernel

    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # it ends with its maker, not before
        kernel.parent_death_signal(signal.SIGKILL)
        ended = {}
        while os.getppid() == maker:
            number, what, *words = link.recv()
            reply = _ending(ended, *words) if what == "ending" else _fork(link, become, *words)
            if what == "fork":
                ended.pop(reply, None)  # its number was another's before
            link.send((number, reply))
    except (EOFError, ConnectionError):
        pass  # the maker is gone
    finally:
        os._exit(0)


def _ending(ended, pid):
    """Return what `Forker.ending` does; `ended` remembers it, since the system tells only once."""
    if pid not in ended:
        gone, status, used = os.wait4(pid, os.WNOHANG)
        if not gone:
            return None
        ended[pid] = status, used.ru_utime + used.ru_stime
    return ended[pid]


def _fork(link, become, given, environ):
    """Return the pid of a new child, or minus the number of the error that refused it."""
    try:
        pid = os.fork()
    except OSError as error:
        return -error.errno
    if pid == 0:
        link.close()
        os.environ.clear()
        os.environ.update(environ)
        become(given)
    return pid
