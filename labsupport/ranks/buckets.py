"""When gradients become ready, fill DDP's buckets and are reduced, recorded around one backward pass.

    with record_buckets(ddp_model) as seen:
        loss.backward()

`seen` is then plain data (JSON): `lab.show("buckets", seen)` draws it. It changes no gradient: the communication hook
that takes the times reduces as DDP does without one, bit for bit.
"""

import contextlib
import os
import platform
import threading
import time

from labsupport.errors import LabError

__all__ = ["record_buckets"]

_HOOKS = "_lab_bucket_hook"  # where the hook is kept: a model takes one, once


@contextlib.contextmanager
def record_buckets(model):
    """Record one backward pass of a `DistributedDataParallel` model.

    Yields:
        A dict that is filled when the block ends. Times are seconds since the block began:
        `rank`, `world`, `machine`, `date`; `began`: the machine's clock then, to line ranks up; `ended`;
        `ready`: for every gradient, in order, its parameter's `name`, its `bytes` and `at`, when it was ready;
        `buckets`: for every all_reduce, in order, its `index`, `bytes`, `parameters`, `start` and `end`.

    Raises:
        LabError: not a DDP model, or one that has a communication hook of its own.
    """
    hook = _hook_of(model)
    seen = {}
    recording = _Recording(model)
    handles = recording.watch()
    hook.recording = recording
    try:
        yield seen
    finally:
        hook.recording = None
        for handle in handles:
            handle.remove()
        seen.update(recording.result())


def _hook_of(model):
    """Return the model's hook, made at the first call; it stays, and only reduces while nothing is recorded."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not isinstance(model, DistributedDataParallel):
        kind = type(model).__name__
        raise LabError(f"{kind} has no buckets", next_step="pass the DistributedDataParallel model itself")
    hook = model.__dict__.get(_HOOKS)
    if hook is None:
        hook = _Hook(model.process_group or dist.group.WORLD)
        try:
            model.register_comm_hook(None, hook.reduce)
        except RuntimeError as error:
            why = "its all_reduce can be timed only by a hook, and a model takes one"
            step = "record before you register your own hook, or in a job without it"
            raise LabError("this model has a communication hook already", why=why, next_step=step) from error
        model.__dict__[_HOOKS] = hook
    return hook


class _Hook:
    """Reduces a bucket as DDP does by itself, and notes when."""

    def __init__(self, group):
        import torch.distributed as dist

        self.group, self.recording = group, None
        # DDP multiplies by the reciprocal; dividing would round otherwise
        self.share = 1.0 / dist.get_world_size(group)

    def reduce(self, state, bucket):
        recording, buffer = self.recording, bucket.buffer()
        entry = recording.starts(bucket) if recording else None
        buffer.mul_(self.share)
        # the group itself, as DDP's reducer does: no call of the program's is added to its account
        done = self.group.allreduce([buffer]).get_future()

        def arrived(future):
            if recording:
                recording.ends(entry)
            return future.value()[0]

        return done.then(arrived)


class _Recording:
    """What is seen during one block."""

    def __init__(self, model):
        import torch.distributed as dist

        self.named = [(name, p) for name, p in model.module.named_parameters() if p.requires_grad]
        self.names = {id(p): name for name, p in self.named}
        self.ready, self.buckets, self.lock = [], [], threading.Lock()
        cores = os.cpu_count() or 1
        self.about = {
            "kind": "buckets",
            "rank": dist.get_rank(),
            "world": dist.get_world_size(),
            "machine": f"{platform.system()} {platform.machine()}, {cores} core{'s'[: cores != 1]}",
            "date": time.strftime("%Y-%m-%d %H:%M"),
        }
        self.began = time.perf_counter()

    def watch(self):
        """Return the handles of a hook on every parameter; it runs before DDP counts the gradient as ready."""
        return [p.register_post_accumulate_grad_hook(self._is_ready(name)) for name, p in self.named]

    def _is_ready(self, name):
        def note(parameter):
            at = time.perf_counter() - self.began
            grad = parameter.grad
            self.ready.append({"name": name, "bytes": grad.numel() * grad.element_size(), "at": at})

        return note

    def starts(self, bucket):
        """Note the start of a bucket's all_reduce; returns the entry to be completed."""
        buffer = bucket.buffer()
        entry = {
            "index": bucket.index(),
            "bytes": buffer.numel() * buffer.element_size(),
            "parameters": [self.names.get(id(p), "?") for p in bucket.parameters()],
            "start": time.perf_counter() - self.began,
            "end": None,
        }
        self.buckets.append(entry)
        return entry

    def ends(self, entry):
        with self.lock:
            entry["end"] = time.perf_counter() - self.began

    def result(self):
        ended = time.perf_counter() - self.began
        with self.lock:  # a callback may still be on its way when backward returns
            for entry in self.buckets:
                entry["end"] = ended if entry["end"] is None else entry["end"]
        return {**self.about, "began": self.began, "ended": ended, "ready": self.ready, "buckets": self.buckets}
