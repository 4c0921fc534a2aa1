"""Libraries that take seconds to load, loaded once in the process that forks those who need them."""

import importlib

__all__ = ["MODULES", "warm"]

# `torch._dynamo` comes with the first checkpoint or optimizer, and takes longer than torch itself.
MODULES = (
    "torch", "torch.autograd", "torch.autograd.gradcheck", "torch.nn.functional", "torch.utils.checkpoint",
    "torch.utils.data", "torch.optim", "torch._dynamo", "h5py", "zarr", "zarr.codecs", "zarr.storage",
    "labsupport.probing.artifact", "labsupport.probing.through", "labsupport.probing.drivers.tensors",
)  # fmt: skip


def warm():
    """Import them; none of them starts a thread before it is used, which a process that forks must not have."""
    for name in MODULES:
        importlib.import_module(name)
