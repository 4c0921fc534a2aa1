"""Random shapes, chunks and selections for the tests of chunklab."""

from hypothesis import strategies as st

__all__ = ["arrays", "block", "reads"]


@st.composite
def arrays(draw, dims=3, longest=18, sharded=False):
    """A (shape, chunks, shards or None) whose last chunks are often partial."""
    count = draw(st.integers(1, dims))
    shape = tuple(draw(st.integers(1, longest)) for _ in range(count))
    chunks = tuple(draw(st.integers(1, min(7, length))) for length in shape)
    shards = tuple(chunk * draw(st.integers(1, 3)) for chunk in chunks) if sharded else None
    return shape, chunks, shards


@st.composite
def index(draw, length, steps=(1, 1, 2, 5), lists=True):
    """One entry of a selection: an int of either sign, a slice, or an ascending list."""
    kind = draw(st.sampled_from(["int", "slice", "slice", "list"] if lists else ["int", "slice", "slice"]))
    if kind == "int":
        return draw(st.integers(-length, length - 1))
    if kind == "list":
        return sorted(draw(st.sets(st.integers(0, length - 1), min_size=1, max_size=4)))
    end = st.none() | st.integers(-length - 1, length + 1)
    return slice(draw(end), draw(end), draw(st.sampled_from(steps)))


@st.composite
def block(draw, shape, steps=(1, 1, 2, 5), lists=1):
    """A selection of a block: at most `lists` lists, fewer entries than axes, or an ellipsis, now and then."""
    items = []
    for length in shape:
        item = draw(index(length, steps, lists > 0))
        lists -= isinstance(item, list)
        items.append(item)
    way = draw(st.sampled_from(["all", "all", "short", "dots"]))
    if way == "short":
        items = items[: draw(st.integers(0, len(items)))]
    if way == "dots":
        start, stop = sorted((draw(st.integers(0, len(items))), draw(st.integers(0, len(items)))))
        items[start:stop] = [...]
    return tuple(items)


@st.composite
def reads(draw, sharded=False, lists=1):
    """A (shape, chunks, shards, selection)."""
    shape, chunks, shards = draw(arrays(sharded=sharded))
    return shape, chunks, shards, draw(block(shape, lists=lists))
