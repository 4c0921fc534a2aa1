"""`--return NAMES`: variables of the ranks, back in the notebook; data only, never a pickle.

    --return losses,weights     rank 0's values
    --return loss@all           a list with every rank's value, by rank
    --return shard@3            rank 3's value

Each rank writes what it was asked for into `returned/` of its folder once its cell has ended without an error; the
kernel reads it with `collect`. What does not cross is refused by name, with the way out, and the others still arrive.
"""

import difflib
import keyword
from dataclasses import dataclass, field
from pathlib import Path

from labsupport.errors import LabError, UsageError

__all__ = ["Returned", "Wanted", "collect", "give", "parse_returns"]

_FOLDER = "returned"


@dataclass(frozen=True)
class Wanted:
    """A variable to be returned: its name and whose value: a rank's number, or "all"."""

    name: str
    ranks: int | str = 0

    def is_asked_of(self, rank):
        return self.ranks in ("all", rank)

    def __str__(self):
        return self.name if self.ranks == 0 else f"{self.name}@{self.ranks}"


@dataclass
class Returned:
    """What arrived. `values`: {name: value}; `notes`: sentences; `problems`: a LabError for each name that did not."""

    values: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    problems: list = field(default_factory=list)

    def pictures(self):
        """Return (name, Picture) for each figure among the values, to be displayed."""
        from labsupport.torchrun.pictures import Picture

        for name, value in self.values.items():
            several = type(value) is list and value and all(type(part) is Picture for part in value)
            for rank, part in enumerate(value if several else [value]):
                if type(part) is Picture:
                    yield (f"{name} of rank {rank}" if several else name), part

    def error(self):
        """Return one LabError that tells of every name that did not arrive, or None."""
        if len(self.problems) < 2:
            return self.problems[0] if self.problems else None
        told = "; ".join(problem.what for problem in self.problems)
        steps = dict.fromkeys(problem.next_step for problem in self.problems if problem.next_step)
        return LabError(f"{len(self.problems)} values did not come back", why=told, next_step="; ".join(steps) or None)


def parse_returns(words):
    """Return the tuple of `Wanted` that texts such as ("loss,weights", "shard@all") ask for, each name once.

    Raises:
        UsageError: a word is no name, or names no rank.
    """
    found = {}
    for word in ",".join(words).split(","):
        name, at, ranks = (part.strip() for part in word.partition("@"))
        if not name and not at:
            continue
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(
                f"--return takes names of variables, got {word.strip()!r}",
                why="an expression would have to be run once more on the ranks",
                next_step="give the value a name in the cell, and return that name",
            )
        if at and ranks != "all" and not (ranks.isascii() and ranks.isdigit()):
            step = f"write --return {name}@all or --return {name}@2"
            raise UsageError(f"--return {word.strip()} names no rank", next_step=step)
        found[name] = Wanted(name, "all" if ranks == "all" else int(ranks or 0))
    return tuple(found.values())


# -- on a rank ----------------------------------------------------------------------------------------------------


def give(wanted, namespace, folder, *, rank, world, failed=False):
    """Write what this rank was asked for into `folder`/returned, each value as one whole file.

    Called on every rank at the end of its cell, also by a rank that failed: the others wait for its word when they
    hold a DTensor, because to gather one takes all of them.

    Args:
        wanted: tuple of `Wanted`, the same on every rank.
        namespace: the cell's names.
        folder: this rank's folder; those of the other ranks lie beside it ("rank-0", "rank-1", ...).
        rank, world: this rank and their number.
        failed: this rank's cell ended with an error; it has no values, and says so.
    """
    if not wanted:
        return
    target = Path(folder) / _FOLDER
    target.mkdir(exist_ok=True)
    from labsupport.torchrun import gathering

    values = {} if failed else {w.name: namespace[w.name] for w in wanted if w.name in namespace}
    gathered = gathering.gather(values, Path(folder), rank=rank, world=world, failed=failed, keep=_kept(wanted, rank))
    for number, one in enumerate(wanted):
        if one.is_asked_of(rank) and not failed:
            _write(target / f"{number}.value", _packed(one.name, values, gathered, namespace))


def _kept(wanted, rank):
    return {one.name for one in wanted if one.is_asked_of(rank)}


def _packed(name, values, gathered, namespace):
    """Return a value's bytes, or those of the sentence that says why there are none."""
    from labsupport.grading import codec
    from labsupport.torchrun import carrying

    try:
        if name not in values:
            raise _unknown(name, namespace)
        if name in gathered.refusals:
            raise gathered.refusals[name]
        return carrying.pack(values[name], name, gathered.tensors)
    except LabError as error:
        refusal = error
    except Exception as error:  # an object of any kind may answer any question by raising
        said = (str(error).splitlines() or [""])[0][:200]
        refusal = LabError(f"`{name}` could not be read", why=f"{type(error).__name__}: {said}")
    return codec.encode(["refused", refusal.what, refusal.why, refusal.next_step])


def _unknown(name, namespace):
    known = [n for n in namespace if not n.startswith("_")]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    why = f"near names are {' and '.join(f'`{n}`' for n in near)}" if near else None
    step = f"write --return {near[0]}" if near else f"assign `{name}` at the top level of the cell, outside functions"
    return LabError(f"the cell defines no `{name}`", why=why, next_step=step)


def _write(path, data):
    """Put a file there whole or not at all: the reader may come at any moment."""
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(data)
    unfinished.replace(path)


# -- in the kernel ------------------------------------------------------------------------------------------------


def collect(wanted, attempt, *, world, namespace=None):
    """Return the `Returned` of a job that has ended without an error.

    Args:
        wanted: tuple of `Wanted` that the ranks were given.
        attempt: folder of the last attempt, with one folder for each rank.
        world: number of ranks of that attempt.
        namespace: the notebook's names, among which classes of dataclasses are looked up.
    """
    returned = Returned()
    for number, one in enumerate(wanted):
        ranks = range(world) if one.ranks == "all" else (one.ranks,)
        if ranks[0] >= world:
            step = f"write --return {one.name}@{world - 1} or --return {one.name}@all"
            returned.problems.append(LabError(f"there is no rank {one.ranks} in a group of {world}", next_step=step))
            continue
        try:
            parts = [_read(Path(attempt), rank, number, one, returned, namespace) for rank in ranks]
        except LabError as problem:
            returned.problems.append(problem)
        else:
            returned.values[one.name] = parts if one.ranks == "all" else parts[0]
    returned.notes = list(dict.fromkeys(returned.notes))
    return returned


def _read(attempt, rank, number, one, returned, namespace):
    from labsupport.grading import codec, decoding
    from labsupport.torchrun import carrying

    try:
        raw = (attempt / f"rank-{rank}" / _FOLDER / f"{number}.value").read_bytes()
    except FileNotFoundError:
        raise LabError(f"rank {rank} ended before it returned `{one.name}`") from None
    try:
        frame = decoding.decode(raw, max_bytes=carrying.MAX_BYTES)
    except codec.WireError as error:
        raise carrying.BadValue(f"`{one.name}` of rank {rank} cannot be read", why=str(error)) from None
    if type(frame) is list and len(frame) == 4 and frame[0] == "refused":
        what, why, step = (part if type(part) is str else None for part in frame[1:])
        where = f"on rank {rank}, " if rank or one.ranks == "all" else ""
        raise LabError(f"{where}{what}", why=why, next_step=step)
    try:
        value, notes = carrying.unpack_frame(frame, namespace)
    except carrying.BadValue as error:
        raise carrying.BadValue(f"`{one.name}` of rank {rank} cannot be read", why=error.why) from None
    returned.notes += notes
    return value
