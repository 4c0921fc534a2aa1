"""Real ranks in a notebook: torchrun's own agent, started warm.

    from labsupport.torchrun import Request, launch

    with launch(Request(source=text, flags=("--nproc-per-node", "4"))) as job:
        record = job.wait()

`job.folder` has what each rank wrote; `records()` what is kept of every job of this kernel.
"""

_HOME = {
    "Job": "job", "launch": "job", "records": "recording",
    "RankNow": "nouns", "RankRecord": "nouns", "Record": "nouns", "Request": "nouns", "Snapshot": "nouns",
}  # fmt: skip
__all__ = ["Job", "RankNow", "RankRecord", "Record", "Request", "Snapshot", "launch", "records"]


def __getattr__(name):
    """Import what is asked for when it is: to load the extension must cost a notebook next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def load_ipython_extension(shell):
    """`%load_ext labsupport.torchrun`: give a notebook its `%%torchrun`, and start the helper in the background."""
    from labsupport.torchrun import magic

    magic.register(shell)
