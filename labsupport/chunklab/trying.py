"""Advice put to the test: a store with the advised layout is written and read, and what it took is counted.

The store has the array's full shape. Only the chunks that the sample reads touch are really written, with bytes that
are nobody's fill value, so that a large array can be tried in little memory.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from labsupport.chunklab.counting import count, selection_text
from labsupport.chunklab.grid import touched
from labsupport.chunklab.sources import Source, open_source

__all__ = ["Trial", "trials_of"]


@dataclass(frozen=True)
class Trial:
    """One read of a sample store: chunks, decoded bytes, objects and index reads, as predicted and as counted."""

    pattern: str
    selection: str
    part: bool  # the read was cut down to fit the sample
    predicted: tuple
    counted: tuple

    @property
    def as_predicted(self):
        """Whether both agree."""
        return self.predicted == self.counted


def trials_of(shape, dtype, patterns, choice, format, sample_bytes):
    """Return the `Trial`s of each pattern at the first position, and at one that cuts through chunks."""
    reads = []
    share = sample_bytes // (2 * len(patterns))
    for pattern in patterns:
        for offset in ([0] * len(shape), [size - 1 for size in choice.chunks]):
            reads.append((pattern.name, *_window(shape, choice.chunks, pattern.extents, offset, dtype.itemsize, share)))
    unique = {(name, selection_text(window)): (name, window, part) for name, window, part in reads}
    run = _zarr_trials if format == "zarr" else _hdf5_trials
    return tuple(run(shape, dtype, choice, list(unique.values())))


def _window(shape, chunks, extents, offset, itemsize, share):
    """Return (the selection, whether it had to be cut): a window at `offset` or as near as it fits."""
    asked, extents = tuple(extents), list(extents)
    while True:
        starts = [min(at, length - extent) for at, length, extent in zip(offset, shape, extents)]
        window = tuple(slice(start, start + extent) for start, extent in zip(starts, extents))
        seen = touched(shape, chunks, window, itemsize=itemsize)
        longest = max(range(len(shape)), key=lambda axis: extents[axis] / chunks[axis])
        if (seen.decoded_bytes <= share and seen.count <= 2048) or extents[longest] <= chunks[longest]:
            return window, tuple(extents) != asked
        extents[longest] = max(chunks[longest], extents[longest] // 2)


def _zarr_trials(shape, dtype, choice, reads):
    import zarr

    from labsupport.chunklab.stores import CountingStore

    store = CountingStore(zarr.storage.MemoryStore())
    array = zarr.create_array(store, shape=shape, dtype=dtype, chunks=choice.chunks, shards=choice.shards)
    for _, window, _ in reads:
        _fill(array, choice.chunks, window)
    source = Source("Zarr", "sample", "", zarr.open_array(store, mode="r"), store)
    for name, window, part in reads:
        yield _trial(source, name, window, part)


def _hdf5_trials(shape, dtype, choice, reads):
    import h5py

    with tempfile.TemporaryDirectory(prefix="chunklab-") as folder:
        path = Path(folder, "sample.h5")
        with h5py.File(path, "w") as file:
            array = file.create_dataset("sample", shape=shape, dtype=dtype, chunks=choice.chunks, compression="gzip")
            for _, window, _ in reads:
                _fill(array, choice.chunks, window)
        for name, window, part in reads:
            with open_source(path, "sample") as source:  # a new handle, so that its cache is empty
                yield _trial(source, name, window, part)


def _trial(source, name, window, part):
    found = count(source, window)
    seen = found.touched
    return Trial(
        name,
        found.selection.partition("[")[2].rstrip("]"),
        part,
        (seen.count, seen.decoded_bytes, 1 if source.kind == "HDF5" else seen.files, seen.index_reads),
        (
            found.decoded,
            found.decoded * found.layout.chunk_bytes,
            found.files,
            0 if source.kind == "HDF5" else found.index_reads,
        ),
    )


def _fill(array, chunks, window):
    """Write every chunk that a window touches, with bytes other than zero."""
    import numpy as np

    block = tuple(
        slice(s.start // chunk * chunk, min(-(-s.stop // chunk) * chunk, length))
        for s, chunk, length in zip(window, chunks, array.shape)
    )
    shape = tuple(s.stop - s.start for s in block)
    pattern = np.arange(int(np.prod(shape)) * array.dtype.itemsize, dtype=np.uint32) % 251 + 1
    data = pattern.astype(np.uint8).view(array.dtype) if array.dtype.kind != "b" else np.ones(shape, bool)
    array[block] = data.reshape(shape)
