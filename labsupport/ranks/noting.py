"""Every call of `torch.distributed` written into a ledger: what the program called, from which line, with whom.

The functions are wrapped where they are defined and where they are exported, so a program sees what it always sees.
What torch calls from C++ (DDP's reducer, functional collectives) does not pass here; the flight recorder has it.
"""

import functools
import inspect
import linecache
import os
import sys
import threading
import time
import weakref

from labsupport.ranks.ledger import RAISED, RETURNED, Ledger

__all__ = ["current", "install"]

# What a call's arguments are called: the tensor whose shape is told, and the rank it is for or from.
_COLLECTIVES = {
    "all_reduce": "tensor", "all_reduce_coalesced": "tensors", "broadcast": "tensor", "reduce": "tensor",
    "all_gather": "tensor", "all_gather_into_tensor": "input_tensor", "all_gather_single": "input_tensor",
    "all_gather_coalesced": "input_tensor_list", "reduce_scatter": "input_list", "reduce_scatter_tensor": "input",
    "reduce_scatter_single": "input", "gather": "tensor", "scatter": "tensor", "all_to_all": "input_tensor_list",
    "all_to_all_single": "input", "barrier": None, "monitored_barrier": None, "all_gather_object": None,
    "gather_object": None, "broadcast_object_list": None, "scatter_object_list": None,
}  # fmt: skip
_SENDS, _RECEIVES = ("send", "isend"), ("recv", "irecv")
_OUTER = ("send_object_list", "recv_object_list")  # made of sends and receives, which are noted under this name
_SETUP = ("init_process_group", "new_group")
_DEFAULT_MS = 1_800_000  # of gloo
_TENSORS = 16  # of one call that are told: a slot has room for so many

_noting = None


def current():
    """Return this process's noting, or None: one that came along in a fork is the parent's."""
    return _noting if _noting is not None and _noting.ledger.pid == os.getpid() else None


def install(path):
    """Wrap torch.distributed in this process (once) and write its calls into a new ledger at `path`."""
    global _noting
    wrapped = _noting is not None  # also when that was before a fork: the wrappers came along
    _noting = _Noting(Ledger(path))
    if not wrapped:
        _wrap()
    return _noting


class _Noting:
    """What one process knows of its own calls."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.local = threading.local()
        self.works = weakref.WeakKeyDictionary()  # Work -> index of its call
        self.groups = {}  # name -> its timeout, once its members are written down
        self.epoch = 0  # how often a default group was made
        self.peers = {}  # (group, way, peer, tag) -> calls so far
        self.sent = {}  # group -> sends and receives so far: they count in the group's sequence as collectives do
        self.timeouts = {}  # group -> ms, when one was asked for
        self.threads = threading.active_count()

    def begin(self, op, **said):
        filename, lineno, line = _place()
        said = {"op": op, "lineno": lineno, "line": line, "file": filename, "epoch": self.epoch, **said}
        if (others := threading.active_count() - self.threads) > 0:
            said["threads"] = others  # another thread may call what this one waits for
        return self.ledger.begin(said, time.time_ns(), threading.get_ident())

    def end(self, index, state):
        self.ledger.end(index, state, time.time_ns())

    def has_open_receives(self):
        """Whether an `irecv` came back that nobody has waited for: such a one can keep a group from being left."""
        if not any(way == "src" for _, way, _, _ in self.peers):
            return False
        return any(
            note.state == RETURNED and note.work != 2 and note.said.get("way") == "src" and note.said.get("async")
            for note in self.ledger.notes()
        )


def _wrap():
    from torch.distributed import Work
    from torch.distributed import distributed_c10d as c10d

    for name in (*_COLLECTIVES, *_SENDS, *_RECEIVES, *_OUTER, *_SETUP):
        if (function := getattr(c10d, name, None)) is not None:
            _replace(c10d, name, _wrapper(name, function))
    Work.wait = _waiting(Work.wait)


def _replace(c10d, name, wrapper):
    import torch.distributed as dist

    setattr(c10d, name, wrapper)
    if hasattr(dist, name):
        setattr(dist, name, wrapper)


def _wrapper(name, function):
    signature = inspect.signature(function)
    describe = _collective if name in _COLLECTIVES else _pair
    if name in _SETUP:
        return _setup(name, function, signature)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if _compiling() or (noting := current()) is None:  # in this order: a compiler follows the first only
            return function(*args, **kwargs)
        return _called(noting, name, function, describe, signature, args, kwargs)

    return call


def _compiling():
    import torch

    return torch.compiler.is_compiling()


def _called(noting, name, function, describe, signature, args, kwargs):
    """Call a function of torch.distributed between two lines in the ledger; of nested ones only the outermost."""
    local = noting.local
    outer = getattr(local, "outer", None)
    if (outer and name in _COLLECTIVES) or outer == "quiet":
        return function(*args, **kwargs)
    if name in _OUTER:
        return _under(local, name, function, args, kwargs)
    said = _described(noting, outer or name, name, describe, signature, args, kwargs)
    if said is None:  # the call itself will say what is wrong with its arguments
        return function(*args, **kwargs)
    index, state = noting.begin(**said), RAISED
    try:
        result = _under(local, "quiet", function, args, kwargs)
        state = RETURNED
        if hasattr(result, "wait"):
            noting.works[result] = index
        return result
    finally:
        noting.end(index, state)


def _under(local, outer, function, args, kwargs):
    before, local.outer = getattr(local, "outer", None), outer
    try:
        return function(*args, **kwargs)
    finally:
        local.outer = before


def _described(noting, op, name, describe, signature, args, kwargs):
    try:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return describe(noting, op, name, bound.arguments)
    except Exception:  # an account must never cost the program its own error, nor its call
        return None


def _collective(noting, op, name, arguments):
    import torch.distributed as dist

    group, ranks = _group(noting, arguments.get("group"))
    said = {"op": op, "group": group.group_name, "at": _position(noting, group), **_members(noting, group, ranks)}
    said |= _tensors(arguments[_COLLECTIVES[name]]) if _COLLECTIVES[name] else {}
    said["async"] = bool(arguments.get("async_op"))
    for way in ("src", "dst"):
        if way in arguments:
            own = arguments.get(f"group_{way}")
            root = ranks[own] if own is not None else arguments[way]
            said["root"] = ranks[0] if root is None else root
    if isinstance(arguments.get("op"), dist.ReduceOp | dist.ReduceOp.RedOpType):
        said["how"] = str(arguments["op"]).rpartition(".")[2]
    if (timeout := arguments.get("timeout")) is not None:
        said["timeout"] = int(timeout.total_seconds() * 1000)
    return said


def _pair(noting, op, name, arguments):
    group, ranks = _group(noting, arguments.get("group"))
    way = "dst" if name in _SENDS else "src"
    own, peer = arguments.get(f"group_{way}"), arguments.get(way)
    peer = ranks[own] if own is not None else peer
    key = (group.group_name, way, peer, arguments.get("tag", 0))
    noting.peers[key] = noting.peers.get(key, 0) + 1
    said = {"op": op, "group": group.group_name, "at": _position(noting, group), "way": way, "peer": peer}
    noting.sent[said["group"]] = noting.sent.get(said["group"], 0) + 1
    said |= {"nth": noting.peers[key], "tag": key[3], "async": name.startswith("i")}
    return said | _tensors(arguments["tensor"]) | _members(noting, group, ranks)


def _group(noting, group):
    import torch.distributed as dist

    group = dist.group.WORLD if group is None else group
    return group, dist.get_process_group_ranks(group)


def _position(noting, group):
    """Return which collective of its group a call is, from 1; what torch's own C++ calls has been counted along."""
    try:
        return group._get_sequence_number_for_group() + 1 - noting.sent.get(group.group_name, 0)
    except Exception:  # a backend without numbers
        return None


def _members(noting, group, ranks):
    if group.group_name in noting.groups:
        return {}
    noting.groups[group.group_name] = True
    return {"members": list(ranks), "group_timeout": noting.timeouts.get(group.group_name, _DEFAULT_MS)}


def _tensors(given):
    tensors = list(given) if isinstance(given, list | tuple) else [given]
    shapes = [list(tensor.shape) for tensor in tensors[:_TENSORS]]
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors[:_TENSORS]]
    return {"shapes": shapes, "dtypes": dtypes[:1] if len(set(dtypes)) == 1 else dtypes}


def _setup(name, function, signature):
    @functools.wraps(function)
    def call(*args, **kwargs):
        noting = current()
        if noting is None or getattr(noting.local, "outer", None):
            return function(*args, **kwargs)
        if name == "init_process_group":
            noting.epoch += 1
            noting.groups, noting.peers, noting.sent, noting.timeouts = {}, {}, {}, {}
        index, state = noting.begin(name, group=""), RAISED
        try:
            made = _under(noting.local, "quiet", function, args, kwargs)
            _remember(noting, made, signature.bind(*args, **kwargs).arguments)
            state = RETURNED
            return made
        finally:
            noting.end(index, state)

    return call


def _remember(noting, made, arguments):
    """Note the timeout a group was made with; its members are written down with its first call."""
    import torch.distributed as dist

    try:
        name = (made if made is not None else dist.group.WORLD).group_name
        if (timeout := arguments.get("timeout")) is not None:
            noting.timeouts[name] = int(timeout.total_seconds() * 1000)
    except AttributeError:  # not a member: what came back is no group
        return


def _waiting(wait):
    @functools.wraps(wait)
    def call(self, *args, **kwargs):
        noting = None if _compiling() else current()
        index = noting.works.get(self) if noting is not None else None
        if index is None or args or kwargs:  # a wait with a time of its own comes back by itself
            return wait(self, *args, **kwargs)
        noting.ledger.work(index, 1)
        done = 0
        try:
            result = wait(self)
            done = 2
            return result
        finally:
            noting.ledger.work(index, done)

    return call


_lines = {}


def _place():
    """Return (file, number, text) of the innermost line that belongs to neither torch nor this package."""
    frame = sys._getframe(3)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] not in ("torch", "contextlib") and module != __name__:
            filename, lineno = frame.f_code.co_filename, frame.f_lineno
            if (filename, lineno) not in _lines:
                _lines[filename, lineno] = linecache.getline(filename, lineno).strip()[:100]
            return filename, lineno, _lines[filename, lineno]
        frame = frame.f_back
    return "", None, ""
