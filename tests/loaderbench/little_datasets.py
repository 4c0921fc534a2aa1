"""Datasets that tests measure, importable by spawned workers: good ones, and one for each way to fail."""

import json
import os
import signal
import sys
import threading

import torch
from torch.utils.data import Dataset, IterableDataset


class Numbers(Dataset):
    """`count` tensors of `width` float32 numbers."""

    def __init__(self, count=64, width=4):
        self.count, self.width = count, width

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((self.width,), float(index))


class Gathered(Numbers):
    """Numbers that can be fetched a batch at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Raising(Numbers):
    def __getitem__(self, index):
        if index == 5:
            raise ValueError("bad header in file 5")
        return super().__getitem__(index)


class TooLong(Numbers):
    def __getitem__(self, index):
        return list(range(4))[index]


class WithNone(Numbers):
    def __getitem__(self, index):
        return None if index == 3 else super().__getitem__(index)


class NotJson(Numbers):
    def __getitem__(self, index):
        return json.loads("{")


class Hanging(Numbers):
    def __getitem__(self, index):
        if index == 5:
            threading.Event().wait()
        return super().__getitem__(index)


class HangingInWorkers(Hanging):
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is None:
            return Numbers.__getitem__(self, index)
        return super().__getitem__(index)


class Deaf(Numbers):
    """Hangs and does not listen to SIGTERM, nor to Ctrl-C."""

    def __getitem__(self, index):
        if index == 5:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            threading.Event().wait()
        return super().__getitem__(index)


class Ragged(Numbers):
    def __getitem__(self, index):
        return torch.zeros(3 + index % 2)


class Odd(Numbers):
    """Items that collate knows nothing about."""

    def __getitem__(self, index):
        return object()


class Killed(Numbers):
    """Dies as the kernel lets a process die: by `how`, in a worker only."""

    how = getattr(signal, "SIGKILL", None)

    def __getitem__(self, index):
        if index == 5 and torch.utils.data.get_worker_info() is not None:
            os.kill(os.getpid(), self.how)
        return super().__getitem__(index)


class BusError(Killed):
    how = getattr(signal, "SIGBUS", None)


class Leaving(Numbers):
    def __getitem__(self, index):
        if index == 5:
            os._exit(3)
        return super().__getitem__(index)


class Exiting(Numbers):
    def __getitem__(self, index):
        if index == 5:
            sys.exit("no more")
        return super().__getitem__(index)


class Locked(Numbers):
    """Holds what does not pickle."""

    def __init__(self, count=64):
        super().__init__(count)
        self.handle = {"lock": threading.Lock()}


class Transformed(Numbers):
    def __init__(self, transform):
        super().__init__()
        self.transform = transform

    def __getitem__(self, index):
        return self.transform(super().__getitem__(index))


class Stream(IterableDataset):
    """Numbers without a length, shared out over the workers."""

    def __init__(self, count=40):
        self.count = count

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, self.count, step):
            yield torch.full((4,), float(index))


class Broken(Stream):
    def __iter__(self):
        yield torch.zeros(4)
        raise OSError("connection lost")


def list_of(items):
    """A collate function that keeps the items apart."""
    return list(items)


def no_room(items):
    raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1_2_0>: No space left on device (28)")


def mark(worker):
    """A worker_init_fn that changes the worker's own dataset, as many do."""
    torch.utils.data.get_worker_info().dataset.width = 2


def refuse(worker):
    raise RuntimeError("no licence in this process")
