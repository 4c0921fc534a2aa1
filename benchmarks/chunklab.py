"""Ratios side by side: what two layouts differ by in chunks, bytes and requests, and, shown only, in seconds.

Counts must be as predicted, equal in every repetition, and for HDF5 those of the kernel; on that the exit code depends.
Seconds depend on the machine and its load: they are medians of interleaved reads with a warm page cache, and no limit
is set for them.
"""

import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
import zarr

from labsupport.chunklab import count, count_loop, kernel_count
from labsupport.chunklab.kernel import available

ROUNDS = 5
SHAPE = (256, 128, 128)
IMAGE, SERIES = (7, slice(None), slice(None)), (slice(None), 64, 64)
# what is read, layout A, layout B: (chunks, shards)
PAIRS = (
    ("one image", IMAGE, ((256, 8, 8), None), ((1, 128, 128), None)),
    ("one image", IMAGE, ((32, 128, 128), None), ((1, 128, 128), None)),
    ("pixel series", SERIES, ((1, 128, 128), None), ((256, 8, 8), None)),
    ("pixel series", SERIES, ((1, 128, 128), None), ((64, 32, 32), None)),
    ("one image, shards", IMAGE, ((1, 128, 128), (64, 128, 128)), ((1, 128, 128), None)),
    ("all images", (slice(None),) * 3, ((1, 128, 128), None), ((1, 128, 128), (64, 128, 128))),
)


def images():
    """Return smooth uint8 images with a little noise, never 0: they compress as photographs do."""
    rng = np.random.default_rng(3)
    t, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    smooth = 100 + 60 * np.sin(y / 20 + t / 50) * np.cos(x / 15)
    return (smooth + rng.integers(0, 6, SHAPE)).astype("uint8")


def stored(folder, data, layout):
    """Return the path of a Zarr store in a layout, written on the first call."""
    chunks, shards = layout
    path = Path(folder, f"{chunks}-{shards}.zarr")
    if not path.exists():
        zarr.create_array(path, shape=SHAPE, chunks=chunks, shards=shards, dtype="uint8")[:] = data
    return path


def seconds_of(path, selection):
    """Return the seconds of one plain read."""
    array = zarr.open_array(path, mode="r")
    began = time.perf_counter()
    array[selection]
    return time.perf_counter() - began


def compare_zarr(folder, data):
    """Print one line for each pair of layouts; return whether every count was as predicted, each time."""
    print(
        f"{'Zarr, ' + str(SHAPE):<22} {'A':<34} {'B':<34} {'chunks':>8} {'decoded':>9} {'requests':>9} {'seconds':>8}"
    )
    kept = True
    for what, selection, a, b in PAIRS:
        paths = [stored(folder, data, layout) for layout in (a, b)]
        counts = [[count(path, selection) for path in paths] for _ in range(ROUNDS)]
        kept &= all(one.as_predicted for pair in counts for one in pair)
        kept &= all(len({repr(pair[side]) for pair in counts}) == 1 for side in (0, 1))
        times = [[seconds_of(path, selection) for path in paths] for _ in range(ROUNDS)]
        slow, fast = (statistics.median(each[side] for each in times) for side in (0, 1))
        one, two = counts[0]
        ratios = (
            one.decoded / two.decoded,
            one.decoded_bytes / two.decoded_bytes,
            (one.reads + one.index_reads) / (two.reads + two.index_reads),
            slow / fast,
        )
        names = [f"{chunks}" + (f" in {shards}" if shards else "") for chunks, shards in (a, b)]
        cells = " ".join(f"{ratio:>{width}.2f}" for ratio, width in zip(ratios, (8, 9, 9, 8)))
        print(f"{what:<22} {names[0]:<34} {names[1]:<34} {cells}")
    return kept


def compare_cache(folder, data):
    """Print the loop over rows with caches of several sizes; return whether the model counted as HDF5 did."""
    path = Path(folder, "rows.h5")
    rows = data.reshape(1024, 4096)
    with h5py.File(path, "w") as file:
        file.create_dataset("rows", data=rows, chunks=(256, 1024), compression="gzip", compression_opts=1)
    print("\nHDF5, 64 rows of (1024, 4096) uint8 in chunks (256, 1024), gzip: 4 chunks of 256 KiB for each row")
    kept = True
    for label, cache_bytes, keep in (
        ("no cache", 0, True),
        ("512 KiB", 512 << 10, True),
        ("1 MiB", 1 << 20, True),
        ("8 MiB", 8 << 20, True),
        ("8 MiB, handle not kept", 8 << 20, False),
    ):
        began = time.perf_counter()
        loops = [count_loop(path, range(64), "rows", keep=keep, cache_bytes=cache_bytes) for _ in range(2)]
        took = (time.perf_counter() - began) / 2
        kept &= all(loop.as_predicted for loop in loops) and repr(loops[0]) == repr(loops[1])
        print(f"  {label:<24} {loops[0].decoded:>4} chunks decoded, {loops[0].hits:>4} hits, {took:6.3f} s")
    return kept


def compare_kernel(folder, data):
    """Print reads of HDF5 as counted and as the kernel saw them; return whether they agree."""
    if not available():
        print("\nThis system does not count the reads of a process.")
        return True
    path = Path(folder, "plain.h5")
    with h5py.File(path, "w") as file:
        file["contiguous"] = data.reshape(1024, 4096)
        file.create_dataset("chunked", data=data.reshape(1024, 4096), chunks=(128, 512), compression="gzip")
    print("\nHDF5's default driver: reads and bytes counted here, and by the kernel for a fresh process")
    kept = True
    for name in ("contiguous", "chunked"):
        for label, selection in (
            ("a row", 5),
            ("a column", (slice(None), 7)),
            ("a patch", (slice(9, 99), slice(50, 99))),
        ):
            found, seen = count(path, selection, name), kernel_count(path, selection, name)
            same = (seen.reads, seen.bytes) == (found.driver_reads, found.driver_bytes)
            kept &= same
            numbers = f"{found.driver_reads:>6,} {found.driver_bytes:>11,}   kernel {seen.reads:>6,} {seen.bytes:>11,}"
            print(f"  {name:<11} {label:<9} {numbers}   {'equal' if same else 'DIFFERENT'}")
    return kept


def main():
    """Print the comparisons; return 1 where a count was not as predicted, not repeatable, or not the kernel's."""
    warnings.simplefilter("ignore")
    data = images()
    with tempfile.TemporaryDirectory(prefix="chunklab-") as folder:
        kept = [compare(folder, data) for compare in (compare_zarr, compare_cache, compare_kernel)]
    print("\nall counts as predicted, and the same each time" if all(kept) else "\nA COUNT WAS NOT AS PREDICTED")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
