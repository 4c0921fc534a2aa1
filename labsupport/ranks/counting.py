"""How many collectives a rank has called, and how many bytes it has sent: by gloo's algorithms, and as TCP counts."""

import contextlib
import os
import socket
import struct
from collections import Counter
from math import prod
from pathlib import Path

__all__ = ["counted", "sent_bytes", "sent_now"]

_ITEM = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1,
    "uint8": 1, "bool": 1,
}  # fmt: skip
# Where Linux's tcp_info has tcpi_bytes_sent (since 4.19), and how long it is by then.
_BYTES_SENT_AT = 200


def counted(calls, *, pairs=True):
    """Return {operation: calls} of a rank, as the program called them; what torch called by itself, as torch names it.

    Args:
        calls: `recorder.Call`s.
        pairs: count sends and receives too.
    """
    names = [call.op for call in calls if not call.setup and (pairs or not call.pair)]
    return dict(sorted(Counter(names).items()))


def sent_bytes(calls, rank=None, n_ranks=None):
    """Return the bytes of payload a rank hands over in these calls by the algorithms of gloo, rounded.

    Sends count with what they carry. A reduction goes round a ring in two passes, also where only a part of its result
    is asked for; a broadcast goes down a binomial tree. Barriers carry nothing; object collectives are counted by
    `sent_now` only. Agrees with `sent_now` to within the headers, a few hundred bytes per message.

    Args:
        calls: `recorder.Call`s of one rank.
        rank: that rank, in the whole job; None: this process's.
        n_ranks: ranks of the job: the size of a group whose members are not known; None: of this process's job.
    """
    if rank is None:
        import torch.distributed as dist

        rank, n_ranks = dist.get_rank(), dist.get_world_size()
    return round(sum(_sent(call, rank, n_ranks) for call in calls))


def _sent(call, rank, n_ranks):
    size = sum(prod(shape) * _ITEM.get(dtype, 4) for shape, dtype in zip(call.shapes, call.dtypes))
    if call.pair:
        return size if call.way == "dst" else 0
    members = list(call.members or range(n_ranks))
    if rank not in members:
        return 0
    n, own = len(members), members.index(rank)
    root = members.index(call.root) if call.root in members else 0
    return _OF.get(call.op, _nothing)(size, n, own, root)


def _nothing(size, n, own, root):
    return 0


def _ring(size, n, own, root):
    return 2 * (n - 1) / n * size


def _to_all(size, n, own, root):
    return (n - 1) * size


def _tree(size, n, own, root):
    place = (own - root) % n  # counted from the root; in round i, place p < 2**i sends to p + 2**i
    rounds = range((n - 1).bit_length())
    return size * sum(place < 1 << i and place + (1 << i) < n for i in rounds)


def _down(size, n, own, root):
    return (n - 1) * size if own == root else 0


def _up(size, n, own, root):
    return 0 if own == root else size


def _parts(size, n, own, root):
    return (n - 1) / n * size


_OF = {
    "all_reduce": _ring, "all_reduce_coalesced": _ring, "reduce_scatter": _ring, "reduce_scatter_tensor": _ring,
    "reduce_scatter_single": _ring, "all_gather": _to_all, "all_gather_into_tensor": _to_all,
    "all_gather_single": _to_all, "all_gather_coalesced": _to_all, "broadcast": _tree, "scatter": _down,
    "gather": _up, "all_to_all": _parts, "all_to_all_single": _parts, "reduce": lambda *of: _parts(*of) + _up_part(*of),
}  # fmt: skip


def _up_part(size, n, own, root):
    """After the ring's first pass each rank holds one reduced part and hands it to the root."""
    return 0 if own == root else size / n


def sent_now():
    """Return the bytes this process has sent so far on the TCP connections it has open, headers of gloo included.

    Take it before and after, while every rank is still there: a connection that was closed no longer counts. None where
    the system does not say (anything but Linux).
    """
    folder = Path("/proc/self/fd")
    if not folder.is_dir() or not hasattr(socket, "TCP_INFO"):
        return None
    total = 0
    for entry in folder.iterdir():
        with contextlib.suppress(OSError, struct.error):
            if str(entry.readlink()).startswith("socket:"):
                total += _sent_on(int(entry.name))
    return total


def _sent_on(fd):
    with socket.socket(fileno=os.dup(fd)) as link:
        if link.type != socket.SOCK_STREAM or link.family not in (socket.AF_INET, socket.AF_INET6):
            return 0
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        sent, again = struct.unpack_from("<QQ", info, _BYTES_SENT_AT)
        return sent - again  # a busy machine acknowledges late, and TCP then sends the same bytes once more
