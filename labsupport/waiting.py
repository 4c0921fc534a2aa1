"""A word in the notebook while something takes long: shown after a moment, renewed, and ended by how long it took."""

import contextlib
import contextvars
import sys
import threading
from time import monotonic

__all__ = ["told_while"]

_QUIET_S = 2.0  # what takes less needs no word: Lab itself shows that a cell runs
_RENEW_S = 1.0


def told_while(what, *, quiet_s=_QUIET_S):
    """Return a context in which a kernel says how long `what` has taken so far; outside a kernel it says nothing.

    Args:
        what: a clause for what is done, "checking strides/address-of".
        quiet_s: seconds before the first word.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return _told(what, quiet_s) if getattr(shell, "kernel", None) is not None else contextlib.nullcontext()


@contextlib.contextmanager
def _told(what, quiet_s):
    done, since = threading.Event(), monotonic()
    # Where an output goes is kept in a context variable, which a new thread would not have.
    run = contextvars.copy_context().run
    teller = threading.Thread(target=run, args=(_tell, what, since, quiet_s, done), daemon=True, name="lab-waiting")
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()  # its last word comes before whatever the cell shows next


def _tell(what, since, quiet_s, done):
    from IPython.display import display

    def put(text, handle=None):
        bundle = {"text/plain": text}
        return handle.update(bundle, raw=True) if handle else display(bundle, raw=True, display_id=True)

    if done.wait(quiet_s):
        return
    handle = put(f"{what}: {monotonic() - since:.0f} s so far")
    while not done.wait(_RENEW_S):
        put(f"{what}: {monotonic() - since:.0f} s so far", handle)
    put(f"{what} took {monotonic() - since:.1f} s", handle)
