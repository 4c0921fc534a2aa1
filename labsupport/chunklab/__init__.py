"""Chunked arrays, counted: which chunks a read touches, what it costs, and which layout would cost less.

    from labsupport.chunklab import touched
    touched((1024, 128, 128), (32, 128, 128), (7, ...))

Nothing is loaded until it is asked for: `touched` is arithmetic, only the counting itself needs zarr or h5py.
"""

_HOME = {
    "advising": ("Advice", "advise"),
    "cache": ("ChunkCache",),
    "counting": ("Count", "count"),
    "files": ("CountingFile",),
    "grid": ("Touched", "touched"),
    "inspecting": ("Inspection", "inspect"),
    "kernel": ("KernelCount", "kernel_count"),
    "layouts": ("Layout", "layout_of"),
    "looping": ("LoopCount", "count_loop"),
    "opening": ("open_array",),
    "rechunking": ("Rechunked", "rechunk"),
    "selecting": ("parse",),
    "sources": ("Source", "open_source"),
    "stores": ("CountingStore",),
}
__all__ = [name for names in _HOME.values() for name in names]


def __getattr__(name):
    home = next((home for home, names in _HOME.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
