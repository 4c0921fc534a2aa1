"""What helps against errors of distributed programs, and the lesson that explains each. The texts are torch 2.13's."""

import re
from dataclasses import dataclass

__all__ = ["Hint", "for_kind", "for_text", "lesson_in_words"]


@dataclass(frozen=True)
class Hint:
    """Advice in one or two sentences, and the slug of a lesson ("" for none)."""

    advice: str
    slug: str = ""


# Looked for in "Type: message", the source line and what the rank said last, in this order: the first that fits holds.
_BY_TEXT = (
    # -- starting
    (r"initialize the default process group twice", "collectives",
     "`init_process_group` belongs into a script once; a second group is made with `dist.new_group(ranks)`."),
    (r"Default process group has not been initialized", "collectives",
     "Call `dist.init_process_group()` before anything else of `torch.distributed`, and nothing of it after "
     "`destroy_process_group()`."),
    (r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected", "collectives",
     "torchrun sets these variables for its ranks: run the cell with `%%torchrun`, or keep what the script changes in "
     "`os.environ` away from them."),
    (r"EADDRINUSE|address already in use|Errno 98", "ddp",
     "Another program listens on that port. Leave `MASTER_PORT` and `--master-port` alone: `%%torchrun` takes a free "
     "one."),
    (r"Unable to find address for|getaddrinfo|Name or service not known|nodename nor servname|resolve (host|address)",
     "ddp",
     "A host or network interface has no address under this name. On one machine leave `GLOO_SOCKET_IFNAME` and "
     "`MASTER_ADDR` as they are (loopback)."),
    (r"client socket has timed out .* connect to|waiting for clients", "ddp",
     "Some ranks did not come to `init_process_group`: see that every rank calls it, with the same address and "
     "`world_size`."),
    (r"use_libuv|libuv", "ddp", "This torch was built without libuv: set `USE_LIBUV=0` (`--env USE_LIBUV=0`)."),
    (r"have NCCL built in|ProcessGroupNCCL is only supported with GPUs", "collectives",
     "NCCL needs GPUs: use `backend=\"gloo\"`, or name no backend and torch chooses by device."),
    (r"Duplicate GPU detected", "ddp",
     "Two ranks use one device: `torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))` before any other CUDA call."),
    (r"invalid device ordinal", "ddp",
     "There are more ranks than GPUs here: ask for fewer (`--nproc`), and choose the device by `LOCAL_RANK`, not by "
     "`RANK`."),
    (r"CUDA out of memory|CUDA error: out of memory", "ddp",
     "If every rank took its memory on GPU 0, choose the device by `LOCAL_RANK` before the first CUDA call, and load "
     "checkpoints with `map_location`."),
    (r"re-initialize CUDA in forked subprocess", "ddp",
     "Something touched the GPU before the ranks were forked: run the cell with `--cold`, where every rank is a fresh "
     "Python."),
    (r"not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver", "tensors",
     "There is no GPU here: ask for the device (`\"cuda\" if torch.cuda.is_available() else \"cpu\"`) instead of "
     "naming one."),
    (r"device_ids and output_device arguments only work", "ddp",
     "On a CPU leave `device_ids` out: `DistributedDataParallel(model)`."),
    # -- what gloo does not have
    (r"Invalid scalar type", "collectives",
     "gloo cannot carry this dtype (int16 and float8 among others): send it as int32, float16 or a `view` as uint8."),
    (r"PREMUL_SUM", "collectives", "gloo has no PREMUL_SUM: multiply first, then `ReduceOp.SUM`."),
    (r"SyncBatchNorm", "ddp",
     "SyncBatchNorm runs on GPUs only. On a CPU keep BatchNorm (each rank its own statistics) or take GroupNorm."),
    (r"No device associated with the default pg", "collectives",
     "`split_group` needs a group bound to devices; with gloo use `dist.new_group(ranks)` on every rank."),
    (r"BF16 all reduce communication hook", "ddp", "The bf16 hook needs NCCL; on gloo use `fp16_compress_hook`."),
    (r"cpu backend doesn't support events", "ddp",
     "DDP's own mixed precision needs a GPU; on a CPU use `torch.autocast(\"cpu\", dtype=torch.bfloat16)`."),
    (r"Cannot access accelerator device when none", "sharding",
     "CPU offload moves parameters between a GPU and the CPU: without a GPU leave `offload_policy` out."),
    (r"does not have a sharding strategy registered", "sharding",
     "This operator has no rule for DTensors on a CPU: gather its input first (`full_tensor()`), or run it unsharded."),
    # -- DDP
    (r"Expected to have finished reduction", "ddp",
     "Some parameters took no part in the loss. Use them, freeze them (`requires_grad_(False)`), or give "
     "`find_unused_parameters=True`."),
    (r"mark a variable ready only once", "ddp",
     "A parameter got its gradient twice in one backward: with checkpointed or shared layers give "
     "`static_graph=True`."),
    (r"modified by an inplace operation", "ddp",
     "DDP copies buffers (such as BatchNorm's) before each forward: with two forwards before one backward give "
     "`broadcast_buffers=False`."),
    (r"KeyError: 'bucket'", "ddp",
     "DDP calls a communication hook by name: its second argument must be called `bucket`."),
    (r"must return a torch\.futures\.Future|hook'?s? .*Future", "ddp",
     "A communication hook returns a Future of the bucket's tensor, such as "
     "`dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(...)`."),
    (r"doesn't have any parameter that requires a gradient", "ddp",
     "There is nothing to keep equal: wrap only modules that are trained, and freeze after wrapping, not before."),
    (r"DDP expects same model across all ranks|verify model across ranks|params, while rank", "ddp",
     "Every rank has to build the same model: same layers, same order, same shapes; nothing of it may depend on the "
     "rank."),
    (r"exhausted all inputs|at least one rank that exhausted inputs", "ddp",
     "The ranks have different numbers of batches, and `Join` was asked to stop then. Without "
     "`throw_on_early_termination` the others finish."),
    (r"'?DistributedDataParallel'? object has no attribute", "ddp",
     "DDP wraps the model: its own attributes and methods are those of `ddp.module`."),
    # -- checkpoints
    (r"[\"'\s]module\.", "ddp",
     "The names differ by DDP's prefix `module.`: save `ddp.module.state_dict()`, and load into the model that is not "
     "wrapped."),
    (r"Missing key in checkpoint state_dict|CheckpointException|Size mismatch between saved", "checkpoints",
     "The checkpoint holds other names or shapes than were asked for: compare `state_dict()` keys with what was "
     "saved."),
    (r"CPU backend must be enabled for async", "checkpoints",
     "Async saving talks over the CPU: make the group with `backend=\"cpu:gloo,cuda:nccl\"`."),
    (r"PytorchStreamReader|failed finding central directory|EOFError: Ran out of input", "checkpoints",
     "The file was read while it was written, or written by several ranks at once. Let one rank write it, then "
     "`dist.barrier()`, then read."),
    (r"FileExistsError", "checkpoints",
     "Several ranks make the same file or folder: `exist_ok=True`, or let rank 0 do it before a barrier."),
    (r"Weights only load failed|UnpicklingError", "checkpoints",
     "`torch.load` takes tensors and plain Python values by default: keep those in the file, and rebuild your own "
     "objects from them."),
    # -- values and ranks
    (r"[Cc]an'?t (get|pickle)|cannot pickle", "collectives",
     "Object collectives pickle what they send: hand over tensors and plain data, and functions that are defined at "
     "the top of the cell."),
    (r"[Ii]nvalid (destination|source) rank|invalid root rank|not part of group", "collectives",
     "Ranks in `src` and `dst` are those of the whole job, below `world_size` and inside the group; a rank cannot "
     "send to itself."),
    (r"Mesh should not be bigger than|[Mm]esh .*world size", "sharding",
     "The mesh needs as many ranks as its sides multiplied: change its shape, or `--nproc`."),
    (r"invalid output tensor list|expected length \d+, got", "collectives",
     "`all_gather` and `gather` fill one tensor per rank: make the list with `dist.get_world_size()` tensors."),
    (r"Connect timeout|failed to pass monitoredBarrier", "collectives",
     "`monitored_barrier` names ranks that did not come in time: look at what they do instead of calling it."),
    (r"NotImplementedError", "", "This part is not written yet."),
    (r"ModuleNotFoundError", "", "Ranks use the kernel's Python: install the package there, then restart the kernel."),
)  # fmt: skip

_BY_KIND = {
    "SIGKILL": Hint("Look at the memory each rank takes: batch size, copies of the data per rank, several loader "
                    "workers per rank.", "ddp"),
    "SIGSEGV": Hint("The crash is in compiled code: run one rank (`--nproc 1`) and see whether it comes back."),
    "detail": Hint("With `TORCH_DISTRIBUTED_DEBUG=DETAIL`, making a DistributedDataParallel ends by SIGSEGV in torch "
                   "2.13. Take INFO: mismatches are found here without it."),
    "at exit": Hint("gloo's threads and Python's end ran into each other after the script was done: let the model go "
                    "out of scope before `destroy_process_group()`, or leave by `os._exit(0)`."),
    "mismatch": Hint("All ranks of a group call the same collectives in the same order, with the same shape and "
                     "dtype: look for an `if` on the rank around one of these lines.", "collectives"),
    "unequal sizes": Hint("The ranks call it with different sizes: pad to one size, or exchange the sizes first.",
                          "collectives"),
    "uneven": Hint("If the ranks had different numbers of batches, the one with more waits for ever: cut to the least "
                   "(`drop_last=True`), or use `Join`.", "ddp"),
    "save": Hint("A sharded `state_dict` is gathered from all ranks: call it on every rank, and let only rank 0 write "
                 "the file.", "sharding"),
    "barrier": Hint("A barrier waits for every rank of its group: take it out of the `if` on the rank.",
                    "collectives"),
    "missing": Hint("Every rank of a group has to make the call: look for an `if`, a `return` or an exception that "
                    "keeps it away from there.", "collectives"),
    "both send": Hint("`send` returns when its receiver is there: let even ranks send first and odd ranks receive "
                      "first, or use `isend` and `irecv`.", "collectives"),
    "both receive": Hint("One of them has to send first.", "collectives"),
    "exit": Hint("The script, or a library, ended the process by itself: look for `sys.exit` and `os._exit`."),
    "timeout": Hint("A collective took longer than the group's limit: a rank is far behind, or never came "
                    "(`--timeout` sets the limit).", "collectives"),
}  # fmt: skip

_COMPILED = tuple((re.compile(pattern), Hint(advice, slug)) for pattern, slug, advice in _BY_TEXT)


def for_text(*texts):
    """Return the `Hint` for the first text that is known, or None.

    Args:
        texts: "Type: message", then the source line, then what the rank said last.
    """
    for text in texts:
        for pattern, hint in _COMPILED:
            if text and pattern.search(text):
                return hint
    return None


def for_kind(kind):
    """Return the `Hint` for a kind of failure, or None."""
    return _BY_KIND.get(kind)


def lesson_in_words(slug):
    """Return "lesson 16 (ddp): data parallel with torchrun cells", or "" for a slug the course does not have."""
    from labsupport.catalog import PLAN

    return next((f"lesson {number} ({name}): {subject}" for number, name, subject in PLAN if name == slug), "")
