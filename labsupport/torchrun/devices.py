"""Which GPUs the ranks of a job see: one each, or none. Decided by counting them, which opens none.

NCCL takes one rank per device. With fewer devices than ranks the job sees none of them and runs on the CPU with gloo,
and a sentence says so: the other way out, sharing a device, ends in an error of NCCL's or in memory that runs out.
"""

import os

__all__ = ["assign", "present"]

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def present():
    """Return the names of the GPUs this job may use, as `CUDA_VISIBLE_DEVICES` spells them: () when there are none."""
    import torch

    count = torch.cuda.device_count()  # asks the driver's management library, which opens no device
    visible = os.environ.get(_VISIBLE)
    names = [str(i) for i in range(count)] if visible is None else [name for name in visible.split(",") if name.strip()]
    return tuple(name.strip() for name in names[:count])


def assign(names, n_nodes, nproc):
    """Return (what each node's ranks see, by node, or None to leave it as it is; a sentence or None).

    Args:
        names: of the GPUs that are there, from `present`.
        n_nodes, nproc: nodes that this machine plays, and ranks of each.
    """
    ranks = n_nodes * nproc
    if not names:
        return None, None
    if ranks > len(names):
        has = "one GPU is" if len(names) == 1 else f"{len(names)} GPUs are"
        note = f"{ranks} ranks, and {has} here: NCCL takes one rank per GPU, so these ranks run on the CPU with gloo"
        return ("",) * n_nodes, note
    own = [names[node * nproc : (node + 1) * nproc] for node in range(n_nodes)]
    return tuple(",".join(part) for part in own), None
