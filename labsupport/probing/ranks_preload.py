"""What rank processes load late by themselves, loaded once in the process that forks them."""

import importlib

__all__ = ["MODULES", "warm"]

MODULES = (
    "torch", "torch.distributed", "torch.nn.parallel", "torch.optim",
    "torch.utils.data", "torch.utils.data.distributed",
    "torch._dynamo", "torch.distributed.algorithms.join", "torch.distributed.optim",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
)  # fmt: skip


def warm():
    """Import torch and what DDP, optimizers and checkpoints import when they are first used."""
    for name in MODULES:
        importlib.import_module(name)
