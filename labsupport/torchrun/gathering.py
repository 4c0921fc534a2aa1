"""DTensors that are to be returned: gathered by all ranks together, or by none.

To gather a DTensor is a collective call: if one rank lacks the variable, the others would wait for ever. So every
rank first writes down which DTensors it holds, reads what the others wrote, and gathers only what all of them agree on.
The word goes through files, because a process group may be out of step when a cell ends.
"""

import contextlib
import dataclasses
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["Gathered", "gather"]

_FILE = "gathering.json"
_PAUSE_S = 0.005


@dataclass
class Gathered:
    """`tensors`: {id of a DTensor: the whole tensor}; `refusals`: {name: why it could not be gathered}."""

    tensors: dict = field(default_factory=dict)
    refusals: dict = field(default_factory=dict)


def gather(values, folder, *, rank, world, failed=False, keep=()):
    """Return the `Gathered` of this rank, after all ranks have said what they hold.

    Waits for the others only if this rank holds a DTensor, and not for one whose process is gone: torchrun ends the
    job for a rank that failed, but not for one that left early with exit code 0.

    Args:
        values: {name: value} on this rank; empty when its cell failed.
        folder: this rank's folder, beside those of the others.
        keep: names whose whole tensors this rank wants; of the others it only takes part.
    """
    found = {name: _dtensors(value) for name, value in values.items()}
    found = {name: tensors for name, tensors in found.items() if tensors}
    words = {"failed": failed, "names": sorted(values), "group": _has_group()}
    words["held"] = {name: [_described(t) for t in tensors] for name, tensors in found.items()}
    _say(folder / _FILE, words)
    gathered = Gathered()
    if not found:
        return gathered
    everyone = [words if other == rank else _heard(folder.parent / f"rank-{other}") for other in range(world)]
    for name in sorted(found):
        gathered.refusals |= _gather_one(name, found[name], everyone, gathered.tensors, name in keep)
    return gathered


def _gather_one(name, tensors, everyone, whole, keep):
    """Gather the DTensors of one variable; returns {} or {name: why not}."""
    if (problem := _disagreement(name, everyone)) is not None:
        return {name: problem}
    try:
        for tensor in tensors:
            full = tensor.detach().full_tensor()
            if keep:
                whole[id(tensor)] = full.requires_grad_(tensor.requires_grad and tensor.is_leaf)
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:200]
        step = f"call {name}.full_tensor() on every rank in the cell"
        why = f"{type(error).__name__}: {said}"
        return {name: LabError(f"`{name}` is a DTensor that could not be gathered", why=why, next_step=step)}
    return {}


def _disagreement(name, everyone):
    """Return why the ranks cannot gather `name` together, or None. The same answer on every rank that asks."""
    holders = [rank for rank, words in enumerate(everyone) if name in words["held"]]
    mesh = sorted({rank for holder in holders for one in everyone[holder]["held"][name] for rank in one["ranks"]})
    outside = [rank for rank in mesh if rank >= len(everyone)]
    absent = [rank for rank in mesh if rank not in holders and rank not in outside]
    if absent:
        words = everyone[absent[0]]
        if words.get("gone"):
            return LabError(
                f"rank {absent[0]} ended before it returned `{name}`",
                why=f"`{name}` is a DTensor on {_ranks(holders)}, and gathering it takes every rank of its mesh",
                next_step="let every rank come to the end of the cell: no os._exit, no sys.exit before it",
            )
        held = "failed" if words["failed"] else "holds a plain value" if name in words["names"] else f"has no `{name}`"
        return LabError(
            f"`{name}` is a DTensor on {_ranks(holders)}, but rank {absent[0]} {held}",
            why="gathering it takes every rank of its mesh",
            next_step=f"define `{name}` on every rank, outside `if rank == 0`",
        )
    if outside or not all(everyone[rank]["group"] for rank in mesh):
        return LabError(
            f"`{name}` is a DTensor, and the process group that holds its parts is gone",
            why="the cell called destroy_process_group()",
            next_step=f"leave that call out (the ranks end cleanly), or return {name}.full_tensor()",
        )
    if any(everyone[rank]["held"][name] != everyone[mesh[0]]["held"][name] for rank in mesh):
        return LabError(
            f"`{name}` holds different DTensors on different ranks",
            why="their number, shapes or placements differ, so that they cannot be gathered together",
            next_step="return full_tensor() of each one",
        )
    return None


def _ranks(ranks):
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _dtensors(value):
    """Return the DTensors in a value, in reading order, each once."""
    if "torch.distributed.tensor" not in sys.modules:
        return []
    from labsupport.torchrun.carrying_tensors import is_dtensor

    found, seen, ahead = {}, {}, [value]
    while ahead:
        value = ahead.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept: a number is given again when its object is gone
        if is_dtensor(value):
            found[id(value)] = value
        else:
            ahead += reversed(_parts(value))
    return list(found.values())


def _parts(value):
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = []
        with contextlib.suppress(Exception):  # a field may be a property that raises; `carrying` will say so
            parts = [getattr(value, one.name, None) for one in dataclasses.fields(value)]
    else:
        return []
    return [part for part in parts if type(part) not in (float, int, str, bool, bytes)]


def _described(tensor):
    mesh = tensor.device_mesh
    return {
        "shape": list(map(int, tensor.shape)),
        "dtype": str(tensor.dtype),
        "placements": str(tensor.placements),
        "ranks": sorted(map(int, mesh.mesh.reshape(-1).tolist())),
    }


def _has_group():
    dist = sys.modules.get("torch.distributed")
    return bool(dist is not None and dist.is_available() and dist.is_initialized())


def _say(path, words):
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(words), encoding="utf-8")
    unfinished.replace(path)


def _heard(folder):
    """Return what another rank says of itself; of one that is gone without a word, that it is gone."""
    gone = False
    while True:
        try:
            return json.loads((folder / _FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if gone:
                return {"failed": False, "gone": True, "names": [], "group": False, "held": {}}
        gone = _is_gone(folder)  # then one last look: it may have spoken just before
        time.sleep(0 if gone else _PAUSE_S)


def _is_gone(folder):
    """Whether a rank's process has ended, as far as it ever said which one it is."""
    try:
        pid = json.loads((folder / "state.json").read_text(encoding="utf-8"))["pid"]
    except (OSError, ValueError, KeyError):
        return False
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        return stat.rpartition(")")[2].split()[0] in "ZX"
    import psutil

    return not psutil.pid_exists(pid)
