"""An interpreter that has loaded torch and waits: it becomes the rank it is told to be, and afterwards waits again."""

import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

from labsupport.torchrun import hosting

__all__ = ["main"]

_ENDING_S = 1.0  # what threads may take that are about to end when the script has


def main():
    """Load what a rank may need, then be one rank after the other. Ends with whoever started it.

    A rank that fails ends the process, as ranks do; so does one that leaves threads or processes, or that changed what
    cannot be changed back.
    """
    line = hosting.Line(on_word=_hear)
    from labsupport.torchrun import preloading

    preloading.everything()
    threads = set(threading.enumerate())
    while True:
        told = line.messages.get()
        code = _play(told)
        if code:
            os._exit(code)
        again = not (told["options"]["kills"] or told["options"]["trace"]) and _is_clean(threads)
        _tidy(told["path"])
        line.tell(done=code, again=again)
        if not again:
            hosting.end_below()
            os._exit(0)


def _play(told):
    from labsupport.ranks import bootstrap
    from labsupport.torchrun import extras

    known = dict(told)
    os.environ.clear()
    os.environ.update(known.pop("environ"))
    sys.path[:] = known.pop("path")
    os.chdir(known.pop("cwd"))
    place = bootstrap.Place(
        job=Path(known.pop("job")),
        folder=Path(known.pop("folder")),
        environ=known.pop("rank_environ"),
        **extras.hooks(),
        **known,
    )
    try:
        return bootstrap.play(place)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 71


def _hear(message):
    if message.get("stack"):
        from labsupport.ranks import bootstrap

        bootstrap.dump_stack()
        return True
    return False


def _is_clean(threads):
    """Return whether the script has left nothing that runs."""
    import torch.distributed as dist

    ends = time.monotonic() + _ENDING_S
    for thread in set(threading.enumerate()) - threads:
        thread.join(max(0.0, ends - time.monotonic()))
    left = set(threading.enumerate()) - threads or multiprocessing.active_children() or dist.is_initialized()
    return not left


def _tidy(path):
    """Undo what scripts commonly set for the whole process, and forget the user's own modules: they may be edited."""
    import torch

    from labsupport.ranks import bootstrap, recorder

    recorder.close()
    bootstrap.let_go_of_files()
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    os.chdir(Path(sys.executable).parent)  # not in a folder that somebody wants to remove
    packages = tuple(str(Path(entry).resolve()) for entry in (sys.prefix, sys.base_prefix, hosting.ROOT))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and not str(Path(file).resolve()).startswith(packages):
            del sys.modules[name]
