"""No hang and no process left: a deadline for the main process, and an end for every worker that a run started."""

import contextlib
import multiprocessing
import signal
import sys
import threading

__all__ = ["Overdue", "deadline", "end_loader", "exits", "held_back", "no_process_left", "rings"]


class Overdue(BaseException):
    """What ran in the main process was not back by its deadline. No `except Exception` of a user's code keeps it."""


@contextlib.contextmanager
def deadline(seconds):
    """Raise `Overdue` in the code inside once `seconds` are over, also out of a call that sleeps or waits.

    Where signals cannot do it (Windows, or a thread other than the main one), code that returns to Python now and
    then is stopped all the same; a wait inside one C call is not. None sets no deadline.
    """
    if seconds is None:
        yield
    elif rings():
        with _alarm(seconds):
            yield
    else:
        with _raised_from_afar(seconds):
            yield


def rings():
    """Return whether a deadline here can end every wait: there are signals, and this is the main thread."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _alarm(seconds):
    def ring(signum, frame):
        raise Overdue

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again each second: one may ring where exceptions are lost
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _raised_from_afar(seconds):
    import ctypes

    target, lock, over = threading.get_ident(), threading.Lock(), False

    def ring():
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(Overdue))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over = True
        timer.cancel()


@contextlib.contextmanager
def held_back():
    """Keep Ctrl-C and requests to end until the code inside is through, then let them do what they do.

    While a process is forked, hooks run whose exceptions Python prints and forgets: a Ctrl-C in one of them is lost.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    asked, before = [], {}
    if threading.current_thread() is threading.main_thread():
        numbers = [number for number in numbers if callable(signal.getsignal(number))]
        before = {number: signal.signal(number, lambda *called: asked.append(called)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in asked[:1]:
            before[number](number, frame)


@contextlib.contextmanager
def no_process_left():
    """End at once, at any way out, the child processes that were started inside."""
    before = set(multiprocessing.active_children())
    try:
        yield
    finally:
        end([child for child in multiprocessing.active_children() if child not in before])


def exits(iterator):
    """Return the exit codes of a loader's workers that have ended; -9 is one that signal 9 ended."""
    workers = [worker for worker in getattr(iterator, "_workers", ()) if worker.pid is not None]
    return [code for worker in workers if (code := worker.exitcode) is not None]


def end_loader(iterator, at_once):
    """End the workers of a loader's iterator; `at_once` does not wait for what they are at.

    The loader forgets workers that were killed in the same breath: otherwise its signal handler would raise, at some
    later line of somebody else's, that they were.
    """
    if (leave := getattr(iterator, "_shutdown_workers", None)) is None:
        return
    if not at_once:
        leave()
        return
    workers = [worker for worker in getattr(iterator, "_workers", ()) if worker.pid is not None]
    with _unwatched(), contextlib.suppress(Overdue), deadline(15):
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join(10)
        leave()


def end(children):
    """Kill child processes and wait for them. The loader's own signal handler would call that a failure: it is off."""
    with _unwatched():
        for child in children:
            child.kill()
        for child in children:
            child.join(10)


@contextlib.contextmanager
def _unwatched():
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before if before is not None else signal.SIG_DFL)
