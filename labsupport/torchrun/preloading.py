"""What the helper has loaded before the first cell: torch, and what its classes import when first made.

`everything` runs in the helper only. Nothing it loads may start a thread or look for a device: a fork would copy
neither well.
"""

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path

from labsupport.probing.ranks_preload import MODULES

__all__ = ["PATH_VARIABLE", "everything", "search_path"]

PATH_VARIABLE = "LAB_TORCHRUN_PATH"

# The first constructor of DDP, of FSDP or of an optimizer imports `torch._dynamo`: as long again as torch itself.
_NEEDED = ("torch", "torch.distributed.run", "torch.distributed.elastic.agent.server.local_elastic_agent")
_USEFUL = (
    "numpy",
    *MODULES,
    "torch.profiler",
    "torch.utils.checkpoint",
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.device_mesh",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.distributed._functional_collectives",
    "torch.multiprocessing",
    "labsupport.ranks.leaving",
    "labsupport.ranks.scripts",
    "labsupport.ranks.recorder",
    "labsupport.torchrun.agent",
    "labsupport.torchrun.extras",
    "labsupport.torchrun.killing",
    "labsupport.torchrun.meeting",
    "labsupport.torchrun.nodes",
    "labsupport.torchrun.values",
)


def search_path():
    """Return the kernel's `sys.path` as of now, as ranks need it: text, and no entry that means "wherever I am"."""
    return [str(Path.cwd()) if str(entry) == "" else str(entry) for entry in sys.path]


def everything():
    """Import all of it; what this torch does not have is left out, torch itself must be there."""
    _find_packages_as_the_kernel_does()
    for name in _NEEDED:
        importlib.import_module(name)
    for name in _USEFUL:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if sys.modules["torch"].cuda.is_initialized():
        raise RuntimeError("a GPU was opened while torch was loaded: what is forked from here could not use one")


def _find_packages_as_the_kernel_does():
    """Take over the kernel's `sys.path`, and what its `.pth` files do besides: editable installs are hooks."""
    given = os.environ.pop(PATH_VARIABLE, None)
    if given is None:
        return
    known = json.loads(given)
    sys.path[:] = known
    with contextlib.suppress(Exception):
        import site

        site.main()
        sys.path[:] = known
