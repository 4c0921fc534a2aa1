"""What a worker knows: who it is, which epoch it thinks it is, what it draws."""

import os

import numpy as np

__all__ = ["CountingSampler", "EpochSampler", "Jitter", "NoisyInit", "Who"]


class Who:
    """Item i is a dict that says which process made it: pid, worker's number (-1 for main), threads of torch there."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch

        info = torch.utils.data.get_worker_info()
        return {"pid": os.getpid(), "worker": info.id if info else -1, "threads": torch.get_num_threads()}


class Jitter:
    """`count` zeros with noise. How the noise is drawn is the question.

    Args:
        count: how many.
        seed: of the run.
        how: "kept": by one generator made with the dataset; "epoch": from [seed, self.epoch, index]; "request": an item
            is asked for as (epoch, index), and drawn from [seed, epoch, index].
    """

    def __init__(self, count, seed=0, how="epoch"):
        self.count, self.seed, self.how, self.epoch = count, seed, how, 0
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return self.count

    def __getitem__(self, request):
        if self.how == "kept":
            return self.generator.normal()
        epoch, index = request if self.how == "request" else (self.epoch, request)
        return np.random.default_rng([self.seed, epoch, index]).normal()


class EpochSampler:
    """A sampler whose requests carry the epoch: (epoch, index), in order. It lives in main, so `set_epoch` works."""

    def __init__(self, count):
        self.count, self.epoch = count, 0

    def __len__(self):
        return self.count

    def set_epoch(self, epoch):
        """Have the next pass ask for samples of this epoch."""
        self.epoch = epoch

    def __iter__(self):
        return iter([(self.epoch, index) for index in range(self.count)])


class CountingSampler:
    """A sampler of 0 to `count` - 1 in order; `asked` says how many numbers were drawn from it. It lives in main."""

    def __init__(self, count):
        self.count, self.asked = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        for index in range(self.count):
            self.asked += 1
            yield index


class NoisyInit:
    """A `worker_init_fn` that gives each worker's copy of a `Jitter` a generator of its own."""

    def __call__(self, worker):
        import torch

        info = torch.utils.data.get_worker_info()
        info.dataset.generator = np.random.default_rng(info.seed)
