"""The chunk map: which chunks a selection touches in one layout or two, and what that costs."""

from math import prod

from labsupport.errors import LabError
from labsupport.figures.chunk_image import samples
from labsupport.figures.chunk_model import FORMATS, chunk_model
from labsupport.figures.chunk_scene import chunk_scene
from labsupport.figures.chunk_source import ACCEPTS, describe, opened
from labsupport.figures.chunk_words import chunk_code, chunk_reason, chunk_table, chunk_words
from labsupport.figures.figure import Figure, flag, told, whole, whole_number
from labsupport.figures.tensors import is_tensor, numpy_of, with_memory
from labsupport.figures.words import count, number, repr_label, tuple_text

__all__ = ["ChunkFigure", "draw"]

MOST_AXES = 5
MOST_SIZE = 1_000_000_000
MOST_BYTES = 2**40  # padding and a long history on top, and the browser's numbers are still whole
MOST_SLOTS = 1_000_000
MOST_READS = 200
TARGET_BYTES = 1_048_576  # of a chunk, where none is given


@told(ACCEPTS)
def draw(data, *, chunks=None, shards=None, format=None, other=None, select=None, plane=None, reads=(),
         cache_bytes=None, cache_slots=None, dataset=None, image=None, name=None):  # fmt: skip
    """Return the chunk map of `data`: its chunks, a selection, what reading it touches and decodes.

    Args:
        data: an array, an h5py.Dataset, a zarr.Array, a (shape, dtype, chunks) tuple, or a file, folder, group or Zarr
            store that holds one; its own layout and chunk cache are read from it. The values are read only for the
            faint picture, and only when that decodes at most 64 MB.
        chunks: shape of a chunk in elements; the data's own when None, else about 1 MiB.
        shards: shape of a shard in elements, a multiple of `chunks`; makes the format "sharded".
        format: "hdf5" (compressed), "raw" (HDF5 without a filter), "contiguous", "zarr" or "sharded".
        other: a second layout to compare: chunks, a format, {"format", "chunks", "shards"}, or a dataset.
        select: what to read, as in brackets: np.s_[7, :, 0:32]; steps above 1 allowed.
        plane: the two axes drawn; the last two when None.
        reads: selections already read, in order: the history that the chunk cache is played with.
        cache_bytes: rdcc_nbytes of HDF5's chunk cache, 0 for none.
        cache_slots: rdcc_nslots, its places.
        dataset: which array of a file or group.
        image: False draws no picture under the chunks and reads no values; True reads them also behind a file object or
            a wrapped store, where None does not; an array is sampled instead of `data`.
        name: what the array is called in the sentences and the code; its name in the file, or "x", when None.

    Raises:
        LabError: no array, no axes or more than 5, a size of 0, or shapes that do not fit together.
    """
    if name is not None and not (isinstance(name, str) and name.isprintable()):
        raise LabError(f"name must be a word, got {repr_label(name, 40)}", next_step='pass a text such as name="x"')
    array, close = opened(data, dataset)
    try:
        known = describe(array)
        name = _name_of(array) if name is None else name
        _check_shape(known)
        own = _own_layout(known, chunks, shards, format)
        source = {key: known[key] for key in ("shape", "dtype", "itemsize", "stored")} | {"name": name, "images": []}
        seen = array if image is True or (image is None and known["near"]) else image
        if hasattr(seen, "shape"):
            source["images"] = _images(seen, source, own)
    finally:
        if close:
            close()
    shape, kept = source["shape"], known["cache"]
    plane = list(range(len(shape)))[-2:] if plane is None else plane
    state = _box(shape, select if select is not None else _telling(shape, plane)) | {
        "plane": plane, "layouts": [own, _second(own, other, source)], "compare": other is not None,
        "cache": cache_bytes is None or cache_bytes != 0,
        "cache_bytes": kept[0] if not cache_bytes else cache_bytes, "cache_slots": cache_slots or kept[1],
        "history": [_listed(_box(shape, read)) for read in reads],
        "code": False, "table": False, "predict": False, "revealed": False, "asked": 0, "right": 0,
    }  # fmt: skip
    return ChunkFigure(source, state)


class ChunkFigure(Figure):
    """A chunk map. Its state: start, stop, by (the selection), plane, layouts, compare, cache, history."""

    kind = "chunks"

    def _checked(self, state):
        shape = self.source["shape"]
        state = {**state, **_checked_box(shape, state)}
        plane = whole(state["plane"], "plane")
        if (
            len(plane) != min(2, len(shape))
            or len(set(plane)) != len(plane)
            or not set(plane) <= set(range(len(shape)))
        ):
            raise LabError(
                f"plane {tuple_text(plane)} cannot be drawn", next_step="name two different axes: plane=(0, 1)"
            )
        layouts = [_layout(shape, self.source["itemsize"], layout) for layout in state["layouts"]]
        if len(layouts) != 2:
            raise LabError(
                "a chunk map has two layouts", next_step="pass both: layouts=[figure.state['layouts'][0], …]"
            )
        reads = [_listed(_checked_box(shape, dict(zip(_PARTS, zip(*read))))) for read in state["history"]]
        if len(reads) > MOST_READS:
            raise LabError(f"a history of {len(reads)} reads", why=f"up to {MOST_READS} are played")
        return {**state, "plane": plane, "layouts": layouts, "history": reads,
                "compare": flag(state["compare"], "compare"), "cache": flag(state["cache"], "cache"),
                "cache_bytes": _from(state, "cache_bytes", 1, MOST_BYTES),
                "cache_slots": _from(state, "cache_slots", 1, MOST_SLOTS)}  # fmt: skip

    def select(self, selection):
        """Select what `selection` writes as in brackets, np.s_[7, :, 0:32], and return the figure."""
        return self.set(**_box(self.source["shape"], selection))

    def read(self, selection=None):
        """Add a read of `selection` (what is selected when None) to the history and return the figure."""
        if selection is not None:
            self.select(selection)
        state = self.state
        return self.set(history=[*state["history"], _listed(state)])

    def model(self):
        """Return the numbers behind the drawing; see `chunk_model`."""
        return chunk_model(self.source, self.state)

    def words(self):
        return chunk_words(self.source, self.state, self.model())

    def table(self):
        """Return the numbers as rows of texts, a heading first; see `chunk_table`."""
        return chunk_table(self.source, self.state, self.model())

    def scene(self, width=760):
        return chunk_scene(self.source, self.state, self.model(), width)

    def code(self):
        """Return code that makes the layouts shown and reads the selection."""
        return chunk_code(self.source, self.state, self.model())

    def reason(self, answer):
        """Return what is wrong with `answer` as the number of chunks A touches, or ""."""
        return chunk_reason(self.source, self.state, self.model(), answer)


def _name_of(array):
    """Return the name a dataset has in its file where code can use it, else "x"."""
    last = str(getattr(array, "name", None) or "").rpartition("/")[2]
    return last if last.isidentifier() else "x"


_PARTS = ("start", "stop", "by")


def _listed(state):
    return [list(axis) for axis in zip(state["start"], state["stop"], state["by"])]


def _from(state, part, low, high):
    value = whole_number(state[part], part)
    if not low <= value <= high:
        raise LabError(f"{part} must be from {number(low)} to {number(high)}, got {number(value)}")
    return value


def _check_shape(known):
    shape = known["shape"]
    if not 1 <= len(shape) <= MOST_AXES or not all(1 <= n <= MOST_SIZE for n in shape):
        raise LabError(
            f"shape {tuple_text(shape)} cannot be drawn as chunks",
            why=f"1 to {MOST_AXES} axes are drawn, sizes from 1 up",
        )
    if prod(shape) * known["itemsize"] > MOST_BYTES:
        raise LabError(f"shape {tuple_text(shape)} is more than {MOST_BYTES:,} bytes", next_step="pass a part of it")


def _checked_box(shape, state):
    """Return start, stop and step as lists that fit `shape`."""
    start, stop, step = (whole(state[part], part) for part in _PARTS)
    if not len(start) == len(stop) == len(step) == len(shape):
        raise LabError(f"a selection of {len(start)} axes", why=f"the array has {count(len(shape), 'axis', 'axes')}")
    for axis, (n, first, end, by) in enumerate(zip(shape, start, stop, step)):
        if not (0 <= first < end <= n and by >= 1):
            raise LabError(
                f"axis {axis} cannot be read as {first}:{end}:{by}", why=f"it has {count(n, 'element')}",
                next_step="select at least one element, with a step from 1 up",
            )  # fmt: skip
    return {"start": start, "stop": stop, "by": step}


def _box(shape, selection):
    """Return a selection written as in brackets as start, stop and step."""
    from labsupport.chunklab.selecting import normal

    wanted = normal(tuple(shape), selection)
    if not all(isinstance(axis, range) for axis in wanted):
        raise LabError(
            "the chunk map selects a box", why="lists and masks are not drawn", next_step="pass slices and ints"
        )
    forward = [axis if axis.step > 0 else axis[::-1] for axis in wanted]
    parts = [(r.start, r[-1] + 1, r.step if len(r) > 1 else 1) if len(r) else (r.start, r.start, 1) for r in forward]
    return _checked_box(shape, dict(zip(_PARTS, zip(*parts))))


def _telling(shape, plane):
    """Return a selection that crosses chunk edges on the axes drawn, and takes one index on the others."""
    axes = [k % len(shape) if isinstance(k, int) else k for k in plane]
    return tuple(slice(n // 3, n // 3 + max(1, n // 6)) if k in axes else n // 3 for k, n in enumerate(shape))


def _layout(shape, itemsize, layout):
    """Return a layout in its normal form: format, chunks, per (chunks per shard along each axis)."""
    if not isinstance(layout, dict) or layout.get("format") not in FORMATS:
        raise LabError(f"no layout: {repr_label(layout, 60)}", next_step=f"format is one of {', '.join(FORMATS)}")
    chunks = whole(layout.get("chunks") or shape, "chunks")
    per = whole(layout.get("per") or [1] * len(shape), "per")
    if not len(chunks) == len(per) == len(shape):
        raise LabError(
            f"chunks {tuple_text(chunks)} for {count(len(shape), 'axis', 'axes')}", next_step="one size per axis"
        )
    if any(not 1 <= v <= MOST_SIZE for v in chunks + per):
        raise LabError(f"chunks {tuple_text(chunks)} must be from 1 up")
    if prod(-(-n // c) * c for n, c in zip(shape, chunks)) * itemsize > 32 * MOST_BYTES or prod(per) > MOST_SIZE:
        raise LabError(f"chunks {tuple_text(chunks)} are too large for shape {tuple_text(shape)}")
    return {"format": layout["format"], "chunks": chunks, "per": per}


def _own_layout(known, chunks, shards, format):
    own = known["layout"] or {"format": "hdf5", "chunks": _guessed(known["shape"], known["itemsize"])}
    return _made(own, known, {"format": format, "chunks": chunks, "shards": shards})


def _made(base, known, wanted):
    """Return a layout: what `wanted` says, the rest from `base`."""
    chunks = whole(wanted.get("chunks") or base["chunks"], "chunks")
    shards, format = wanted.get("shards"), wanted.get("format") or base["format"]
    per = base.get("per") if chunks == base["chunks"] else None
    if shards is not None:
        shards, format = whole(shards, "shards"), "sharded"
        if len(shards) != len(chunks) or any(s % c for s, c in zip(shards, chunks)):
            why = f"each size is a multiple of the chunk's, {tuple_text(chunks)}"
            raise LabError(f"shards {tuple_text(shards)} do not hold whole chunks", why=why)
        per = [s // c for s, c in zip(shards, chunks)]
    if format == "sharded" and per is None:
        per = [min(4, -(-n // c)) for n, c in zip(known["shape"], chunks)]
    return _layout(known["shape"], known["itemsize"], {"format": format, "chunks": chunks, "per": per})


def _second(own, other, known):
    """Return the layout to compare with: what was passed, else the other library with the same chunks."""
    if other is None:
        return _made(own, known, {"format": "zarr" if own["format"] in ("hdf5", "raw", "contiguous") else "hdf5"})
    if isinstance(other, str):
        return _made(own, known, {"format": other})
    if isinstance(other, dict):
        return _made(own, known, other)
    if isinstance(other, (tuple, list)):
        return _made(own, known, {"chunks": other})
    found = describe(other)
    if found["shape"] != known["shape"] or found["layout"] is None:
        raise LabError("the other layout is of another shape", next_step="compare layouts of one array")
    return _layout(known["shape"], known["itemsize"], found["layout"])


def _guessed(shape, itemsize):
    """Return chunks of at most 1 MiB: the longest side is halved until they are."""
    chunks = list(shape)
    while prod(chunks) * itemsize > TARGET_BYTES:
        longest = chunks.index(max(chunks))
        chunks[longest] = -(-chunks[longest] // 2)
    return chunks


def _images(data, source, layout):
    """Return the sampled pictures; none where reading them would cost much, or cannot be done."""
    if tuple(data.shape) != tuple(source["shape"]):
        raise LabError(
            "the image has another shape than the array", next_step="pass an array of the same shape, or False"
        )
    data = numpy_of(with_memory(data)) if is_tensor(data) else data
    layout = {**layout, "format": "contiguous"} if type(data).__module__ == "numpy" else layout
    plain = {"layouts": [layout], "compare": False, "cache": False, "cache_bytes": 1, "cache_slots": 1, "history": []}

    def cost(box):
        parts = dict(zip(_PARTS, map(list, zip(*box))))
        return chunk_model(source, plain | parts)["layouts"][0]["decoded"]

    return samples(data, source["shape"], cost)
