"""Access patterns: windows of a given size that are read at any place, and what a layout makes them cost on average."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from labsupport.chunklab.grid import grid_of
from labsupport.errors import UsageError

__all__ = ["Cost", "Pattern", "chunks_along", "checked_patterns", "cost_of", "parse_pattern"]


@dataclass(frozen=True)
class Pattern:
    """Reads of one size: `extents` elements along each axis, from any position; `weight` is how often, relatively."""

    name: str
    extents: tuple
    weight: float = 1.0

    @property
    def wanted(self):
        """Elements of one read."""
        return prod(self.extents)


@dataclass(frozen=True)
class Cost:
    """What one read costs in one layout: means over every position where the window fits, and the worst position."""

    chunks: float
    worst_chunks: int
    decoded_bytes: float
    objects: float  # files or keys
    index_reads: float  # at most: shards that are wanted whole need no index
    index_bytes: float  # at most, of these indexes: 16 for each inner chunk of the shard, and a checksum of 4
    wanted_bytes: int

    @cached_property
    def amplification(self):
        """Bytes decoded for each byte wanted."""
        return self.decoded_bytes / self.wanted_bytes


def checked_patterns(shape, patterns, weights=None):
    """Return {name: extents} as a tuple of `Pattern`s; an extent of None or ":" is the whole axis.

    Raises:
        UsageError: no patterns, windows that do not fit the shape, weights that are negative, unknown or all zero.
    """
    if not patterns:
        raise UsageError("there are no access patterns", next_step='name one: {"one image": (1, ":", ":")}')
    if not isinstance(patterns, dict):
        raise UsageError(f"patterns are {patterns!r}", why="they are a dict: name and size of a read")
    unknown = sorted(set(weights or {}) - set(patterns))
    if unknown:
        raise UsageError(f"there is no pattern {unknown[0]!r} to weigh")
    found = tuple(
        Pattern(str(name), _extents(name, shape, extents), _weight(name, (weights or {}).get(name, 1)))
        for name, extents in patterns.items()
    )
    if not any(pattern.weight for pattern in found):
        raise UsageError("every pattern has weight 0", why="nothing is left to lay out for")
    return found


def _extents(name, shape, extents):
    extents = tuple(extents) if isinstance(extents, (tuple, list)) else (extents,)
    if len(extents) != len(shape):
        raise UsageError(
            f"{name!r} gives {len(extents)} of the {len(shape)} sizes it needs", why=f"the array has shape {shape}"
        )
    found = []
    for axis, (extent, length) in enumerate(zip(extents, shape)):
        extent = length if extent is None or extent == ":" else extent
        if isinstance(extent, bool) or not isinstance(extent, int) or not 1 <= extent <= length:
            raise UsageError(
                f"{name!r} reads {extent!r} elements along axis {axis}",
                why=f"a whole number from 1 to {length} is possible, or ':' for all",
            )
        found.append(extent)
    return tuple(found)


def _weight(name, weight):
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
        raise UsageError(f"the weight of {name!r} is {weight!r}", why="it is a number of at least 0")
    return float(weight)


def parse_pattern(text):
    """Return (name, extents, weight) of "one image=1,:,:" or "series=:,1,1@5". Raises UsageError."""
    name, equals, rest = text.partition("=")
    sizes, _, weight = rest.partition("@")
    try:
        extents = tuple(":" if part.strip() == ":" else int(part) for part in sizes.split(","))
        if not equals or not name.strip():
            raise ValueError
        return name.strip(), extents, float(weight or 1)
    except ValueError:
        raise UsageError(
            f"{text!r} is not an access pattern", next_step="write NAME=SIZES or NAME=SIZES@WEIGHT: 'image=1,:,:@5'"
        ) from None


def chunks_along(length, chunk, window):
    """Return (mean, most) chunks that a window touches on one axis, over every position where it fits."""
    places = length - window + 1
    last = _floors(places + window - 1, chunk) - _floors(window - 1, chunk)
    mean = (last - _floors(places, chunk)) / places + 1
    most = (min(chunk - 1, length - window) + window - 1) // chunk + 1
    return mean, most


def _floors(count, chunk):
    """Return the sum of k // chunk for k = 0 .. count - 1."""
    whole, rest = divmod(count, chunk)
    return chunk * whole * (whole - 1) // 2 + whole * rest


def cost_of(pattern, shape, chunks, itemsize, shards=None):
    """Return the `Cost` of a pattern in a layout. Exact: a mean over positions, not an estimate."""
    along = [chunks_along(*sizes) for sizes in zip(shape, chunks, pattern.extents)]
    mean = prod(each for each, _ in along)
    outer = mean
    if shards is not None:
        outer = prod(chunks_along(*sizes)[0] for sizes in zip(shape, shards, pattern.extents))
    return Cost(
        mean,
        prod(most for _, most in along),
        mean * prod(chunks) * itemsize,
        outer,
        outer if shards is not None else 0.0,
        outer * (16 * prod(grid_of(shards, chunks)) + 4) if shards is not None else 0.0,
        pattern.wanted * itemsize,
    )


def objects_of(shape, chunks, shards=None):
    """Return the objects a whole array is stored in: chunks, or shards."""
    return prod(grid_of(shape, shards or chunks))
