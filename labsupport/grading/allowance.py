"""What a child may use, and which limit lies behind an exception."""

from dataclasses import dataclass

__all__ = ["JOB", "LIBRARIES", "RANKS", "Allowance", "limit_behind"]

_MB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The limits of one submission's process tree; the defaults fit an exercise that computes.

    Args:
        call_s, cell_s, submission_s: seconds for one case, for executing one cell, and for all that is asked of it
            together. Time in which it was ready to go on and had no processor does not count.
        cpu_s: CPU seconds of one process, all its threads.
        memory_bytes: memory beyond what is loaded beforehand.
        work_bytes: the work folder.
        output_bytes: how much of what it prints is kept.
        answer_bytes: one answer on the wire.
        processes: processes and threads together.
        fork, exec: starting processes, and programs.
        loopback: sockets, in a network of its own that has only a loopback.
        loaded: which libraries are loaded beforehand, a key of `runner.PRELOADS`.
        ranks: this process forks ranks.
    """

    call_s: float = 5.0
    cell_s: float = 10.0
    submission_s: float = 120.0
    cpu_s: int = 30
    memory_bytes: int = 1000 * _MB
    work_bytes: int = 64 * _MB
    output_bytes: int = 64 * 1024
    answer_bytes: int = 16 * _MB
    processes: int = 64
    fork: bool = False
    exec: bool = False
    loopback: bool = False
    loaded: str = ""
    ranks: bool = False

    @property
    def needs_cage(self):
        """Whether only a cage of its own (tier A) can hold such a tree."""
        return self.fork or self.exec or self.loopback


# Several ranks that start as programs and talk by TCP, as `torchrun` does.
JOB = Allowance(
    call_s=60.0, cell_s=60.0, cpu_s=60, memory_bytes=8000 * _MB, processes=200, fork=True, exec=True, loopback=True
)

# A process that forks the ranks of one answer after another; they run no other programs.
RANKS = Allowance(
    call_s=60.0, cpu_s=60, memory_bytes=4000 * _MB, processes=200, fork=True, loopback=True, loaded="ranks", ranks=True
)

# What computes with torch, or reads and writes with zarr or h5py.
LIBRARIES = Allowance(loaded="libraries")

_SIGNS = (
    (
        "memory",
        (
            "DefaultCPUAllocator: can't allocate memory",
            "DefaultCPUAllocator: not enough memory",
            "Cannot allocate memory",
        ),
    ),
    ("disk", ("No space left on device", "File too large", "Disk quota exceeded")),
    (
        "processes",
        ("can't start new thread", "Resource temporarily unavailable", "answers run without other processes"),
    ),
    ("open files", ("Too many open files",)),
)


def limit_behind(type_name, message):
    """Return which limit an exception reports ("memory", "disk", "processes", "open files"), or None.

    It is the child that says which exception it was: a claim that explains an outcome, not one that earns points.
    """
    if type_name.rpartition(".")[2].endswith("MemoryError"):  # NumPy's own and torch's "OutOfMemoryError" too
        return "memory"
    for which, signs in _SIGNS:
        if any(sign in message for sign in signs):
            return which
    return None
