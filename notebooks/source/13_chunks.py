# %% [markdown]
# # Read a little without decoding a lot
# Count what a read of HDF5 or Zarr really costs, and choose the layout that makes your reads cheap.
#
# **60 minutes (core), any laptop.** You will be able to say which chunks a read touches, choose a chunk shape for the
# reads you have, and write and read stored arrays without losing changes or decoding anything twice. You need: slicing,
# and views and copies ([strides](05_strides.ipynb)). Not here: several writers, and training loops on top of a store
# (the next lesson).

# %%
import h5py
import numpy as np
import zarr

from labsupport import datasets, lesson, scratch

lab = lesson("chunks")
folder = scratch.folder("chunks")  # what this lesson writes, a path; removed when the kernel ends

# %% [markdown]
# ## The obvious way
# Here are 1,024 pictures of 128 x 128 pixels, cut out of one photograph. Pictures will be read, so each is stored as a
# piece of its own. Then somebody asks for one pixel in all pictures. `CountingStore` counts what a Zarr store hands out.

# %%
from labsupport.chunklab import CountingStore

pictures = datasets.crops()  # (picture, row, column), uint8
store = CountingStore(zarr.storage.LocalStore(folder / "pictures.zarr"))
stored = zarr.create_array(store, data=pictures, chunks=(1, 128, 128))
store.reset()
series = stored[:, 64, 64]  # (picture,)
decoded = store.counts["get_chunk_n"] * 128 * 128
print(f"{series.nbytes:,} bytes wanted, {store.counts['get_chunk_n']:,} files read, {decoded:,} bytes decoded")

# %% [markdown]
# Sixteen megabytes were decoded for one kilobyte. The pieces are called *chunks*, and a chunk comes out of the file and
# its decoder as a whole.
#
# ## Predict: four reads (core)
# `x` is a float32 array of shape (1000, 1000), in the last line of shape (10,); nothing is compressed.

# %%
# exercise: chunks/predict-reads
row_of_tall_chunks = ...  # x[7], chunks of (1000, 1): how many chunks are read?
row_bytes_of_square_chunks = ...  # x[7], chunks of (100, 100): how many bytes come out of the decoder?
window_across_a_corner = ...  # x[95:105, 95:105], chunks of (100, 100): how many chunks?
bytes_of_ten_in_fours = ...  # x[:] of shape (10,), chunks of (4,): how many bytes?

# %%
lab.check("predict-reads")

# %% [markdown]
# ## See why
# Move the selection with the arrow keys or drag it, and watch the chunks light up. Layout A is the store above, layout B
# has long, thin chunks. One picture is cheap in A, one pixel in B.

# %%
lab.show("chunks", stored, select=np.s_[:, 64, 64], plane=(0, 2), other=(1024, 8, 8), image=False, name="stored")

# %% [markdown]
# ## The idea
# A chunked array is a grid of boxes of equal shape. Each box is encoded on its own: a reader finds it by its number,
# decodes all of it, and copies out the part that was asked for. So the price of a read is the number of chunks it lies
# in, times the size of a chunk. How much you want has no say in it.
#
# Along one axis, element i lies in chunk `i // chunk`. A window therefore reaches from the chunk of its first element to
# that of its last, and where it starts matters as much as how long it is.

# %%
from labsupport.chunklab import touched  # arithmetic: nothing is opened

for start in (0, 95):
    first, last = start // 100, (start + 10 - 1) // 100  # chunk numbers along one axis
    read = touched((1000, 1000), (100, 100), np.s_[start : start + 10, start : start + 10], itemsize=4)
    print(f"start {start}: chunks {first} to {last} along each axis;", read)

# %% [markdown]
# ### Your turn: `touched_chunks` (core)
# - **in**: `shape` and `chunks`, tuples; `selection`, one entry per axis: an int, or a slice with a step of at least 1
# - **out**: the chunks it lies in, each once, as a list of tuples of chunk numbers, one number per axis; in any order
# - **done when** negative numbers, slices past the end, long steps and empty slices are right as well


# %%
# exercise: chunks/touched
def touched_chunks(shape, chunks, selection):
    """Return the chunks that hold the selection, as tuples of chunk numbers, each once."""
    raise NotImplementedError


# %%
lab.check("touched")

# %%
lab.drill("predict-reads", ...)  # a fresh question each time it is answered: replace the dots

# %% [markdown]
# ## Part 2. A shape for the reads you will do
# Four ways to read the pictures, five ways to cut them. Each entry is bytes decoded for each byte wanted. Which row
# would you not want, and is there one without a large number?

# %%
reads = {"one": np.s_[7], "batch at 0": np.s_[:32], "batch at 16": np.s_[16:48], "pixel": np.s_[:, 64, 64]}
shapes = [(1, 128, 128), (32, 128, 128), (128, 32, 32), (1024, 8, 8), (1024, 128, 128)]
print(f"{'chunks':>18}{'number':>8}" + "".join(f"{name:>14}" for name in reads))
for chunks in shapes:
    each = [touched(pictures.shape, chunks, where) for where in reads.values()]
    print(f"{chunks!s:>18}{each[0].total:>8,}" + "".join(f"{one.amplification:>13,.0f}x" for one in each))

# %% [markdown]
# No shape is good for everything: what one read gains, the other pays. A batch of 32 in chunks of 32 costs twice as much
# when it starts at 16, since it lies in two chunks. And tiny chunks are no way out: every chunk is a file or an entry in
# an index, with a price of its own.
#
# So a shape is chosen for *the reads there will be*, within a number of chunks one can live with.
#
# ### Your turn: `chunk_shape` (core)
# - **in**: `shape` and `itemsize`; `reads`, a list of (box, most_bytes): a read of a box of that shape, wherever it
#   lies, may decode at most that many bytes; `most_chunks`, how many chunks the array may have
# - **out**: a chunk shape, one number per axis. Many are right
# - **done when** each read, at its worst place, and the number of chunks are within bounds


# %%
# exercise: chunks/choose-shape
def chunk_shape(shape, itemsize, reads, most_chunks):
    """Return a chunk shape that keeps every read within its bytes and the array within `most_chunks`."""
    raise NotImplementedError


# %%
lab.check("choose-shape")

# %% [markdown]
# `advise` does such a search for you. It weighs the reads, puts a price on every chunk, and writes its choice to prove
# the numbers. Its compromise is far from either ideal; the last lines show what each ideal costs the other read.

# %%
from labsupport.chunklab import advise

advise(pictures.shape, "uint8", {"one picture": (1, ":", ":"), "pixel": (":", 1, 1)})

# %% [markdown]
# *A good place to rest. When you come back, run the first two code cells at the top; nothing else is needed.*
#
# ## Part 3. HDF5 from the inside
# One HDF5 file is a tree: groups are its folders, datasets its arrays, and each of them has attributes. Here is a year
# of weather, 8 measurements every hour. Before you run the cell: `plain` is given a shape and a type only; what will it
# be like otherwise?

# %%
weather = lab.data("weather")  # (hour, measurement), float32
with h5py.File(folder / "station.h5", "w") as file:
    station = file.create_group("greensboro")
    hourly = station.create_dataset("hourly", data=weather, chunks=(730, 8), compression="gzip")
    hourly.attrs["columns"] = list(datasets.WEATHER)
    hourly.attrs["units"] = list(datasets.WEATHER.values())
    plain = station.create_dataset("plain", weather.shape, "f4")
    print(plain.name, plain.dtype, "chunks", plain.chunks, "maxshape", plain.maxshape, "filter", plain.compression)

# %% [markdown]
# No chunks, no *filter* (HDF5's word for an encoding step such as gzip), and a size fixed for good. Without chunks the
# data lie in one piece, *contiguous*, as in a `.npy` file: nothing has to be decoded, and a short run of bytes can be read
# alone. Chunks are what filters and growth need.
#
# The map of heights makes the comparison fair: one row and one column, contiguous and in chunks.

# %%
from labsupport.chunklab import count

heights = lab.data("altitude")  # (row, column), int16
with h5py.File(folder / "heights.h5", "w") as file:
    file["contiguous"] = heights
    file.create_dataset("chunked", data=heights, chunks=(216, 432), compression="gzip")
for name in ("contiguous", "chunked"):
    for where in (np.s_[1000], np.s_[:, 1000]):
        seen = count(folder / "heights.h5", where, name)
        print(f"{seen.selection:20} {seen.touched.wanted_bytes:>6,} bytes wanted", end=": ")
        print(f"{seen.driver_reads:>4,} reads of {seen.driver_bytes:>10,} bytes")

# %% [markdown]
# In one piece, a row is a single read, and a column is a catastrophe: for every short run, HDF5's file driver fetches
# 65,536 bytes. In chunks, both directions cost about the same, here ten compressed chunks and a look at the index.
#
# Filters work chunk by chunk, so the shape of a chunk decides what they see. Same data, same filter, without and with a
# shuffle: it puts the first bytes of all numbers side by side, then the second ones, and so on, before gzip gets them.

# %%
with h5py.File(folder / "filters.h5", "w") as file:
    for chunks in ((1, 8), (730, 8), (8760, 1)):
        for shuffle in (False, True):
            name = f"{chunks} {'shuffled' if shuffle else ''}"
            d = file.create_dataset(name, data=weather, chunks=chunks, compression="gzip", shuffle=shuffle)
            print(f"{name:19}{d.id.get_num_chunks():>6,} chunks {d.id.get_storage_size():>8,} of {d.nbytes:,} bytes")

# %% [markdown]
# One hour per chunk comes out larger than no compression at all. One measurement per chunk is smallest, and makes an
# hour expensive to read. And the shuffle, often recommended for floats, hurt three times: these readings have one
# decimal at most, so the same 4 bytes come again and again, and the shuffle tears them apart.
#
# ### A slice is a copy
# In lesson 05 a slice was a view, and writing to it wrote to its owner. A stored array has no memory to share.

# %%
with h5py.File(folder / "station.h5", "r+") as file:
    d = file["greensboro/hourly"]
    hour = d[0]  # reads into a new array
    hour[3] = 99
    print("in the array:", hour[3], " in the file:", d[0, 3])
    d[0, 3] += 0.5  # one pair of brackets: Python reads d[0, 3], adds, and assigns d[0, 3]
    print("in the file after d[0, 3] += 0.5:", d[0, 3])

# %% [markdown]
# ### Mend: `cap_peaks` (core)
# It was written for an array in memory, and worked there. Now it gets an HDF5 dataset or a Zarr array.
#
# - **in**: `stored`, open for writing, (image, row, column); `limit`
# - **done when** every value above the limit is lowered to it *in the file*, and all others are as they were
# - `stored.shape[0]` works on both; `len` need not


# %%
# exercise: chunks/write-back
def cap_peaks(stored, limit):
    """Lower every value of the stored array above `limit` to `limit`."""
    for i in range(stored.shape[0]):
        image = stored[i]
        image[image > limit] = limit


# %%
lab.check("write-back")

# %% [markdown]
# ### The chunk cache
# Reading 20 neighbouring rows that lie in the same four chunks of 1 MiB each: does HDF5 decode 4 chunks or 80? It keeps
# decoded chunks in a cache, of `rdcc_nbytes` bytes for each open dataset. The default changed from 1 MiB to 8 MiB with
# HDF5 2.0, so we always say what we want.

# %%
from labsupport.chunklab import count_loop

with h5py.File(folder / "table.h5", "w") as file:
    table = pictures.reshape(1024, 16384)  # (row, column): the pixels of one picture lie side by side
    file.create_dataset("table", data=table, chunks=(256, 4096), compression="gzip", compression_opts=1)
for mebibytes in (1, 8):
    for keep in (True, False):
        loop = count_loop(folder / "table.h5", range(20), "table", cache_bytes=mebibytes * 2**20, keep=keep)
        how = "handle kept" if keep else "a handle for each row"
        print(f"cache of {mebibytes} MiB, {how:>21}: {loop.touched} chunks touched, {loop.decoded:>2} decoded")
print("HDF5", h5py.version.hdf5_version)

# %% [markdown]
# Two ways to lose, one to win. A cache smaller than the chunks of one row is emptied before it is of use. And a cache
# belongs to the open dataset: `file["table"]` in a loop opens it anew, and with the last handle the cache is gone.
#
# ### Mend: `read_rows` (core)
# Its rows are right, and it commits both mistakes.
#
# - **in**: `file`, a path or a file object; `rows`, a list of row numbers, in any order, perhaps with repeats
# - **out**: those rows of the dataset "readings", in the order of the list
# - **done when** every chunk that holds one of them is read once, and no other. No chunk is larger than 65,536 bytes,
#   decoded, and no list needs more than 16 chunks


# %%
# exercise: chunks/cache
def read_rows(file, rows):
    """Return the rows of the dataset "readings" in the order asked for, reading no chunk twice."""
    with h5py.File(file, "r", rdcc_nbytes=2**15) as opened:
        return np.stack([opened["readings"][row] for row in rows])


# %%
lab.check("cache")

# %% [markdown]
# ### Your turn: `append_hours` (more)
# A station reports a day at a time, and its file must still be good after ten years. What cannot be changed afterwards
# has to be said at creation: the limit of each axis, the chunks, the filter.
#
# - **in**: `path`; `values`, (hours, stations), float32, perhaps of no hours; `units`, text for the dataset's attribute
#   "units"
# - **out**: the values stand at the end of the dataset "temperature" of the file at `path`; file and dataset are made if
#   they are missing
# - **done when** the dataset can grow without end, its chunks have 10 KiB to 1 MiB, it is compressed without loss, the
#   rest of the file stays, and appending does not read the past


# %%
# exercise: chunks/append-hdf5
def append_hours(path, values, units):
    """Append `values`, (hours, stations) float32, to the dataset "temperature" of the HDF5 file at `path`."""
    raise NotImplementedError


# %%
lab.check("append-hdf5")

# %% [markdown]
# *Another place to rest, with the same two cells to run afterwards. The core goes on in part 4.*
#
# ## Part 4. Zarr from the inside
# A Zarr array is a folder, or anything else that maps names to bytes: one text file of metadata, and a file per chunk.
# The two versions of the format name them differently, and tools for one may not see the other. All that a reader needs
# stands in `zarr.json`. And how many of our 1,024 pictures have a file?

# %%
import json

for version in (2, 3):
    small = zarr.create_array(folder / f"v{version}.zarr", data=pictures[:2], chunks=(1, 128, 128), zarr_format=version)
    inside = [path for path in (folder / f"v{version}.zarr").rglob("*") if path.is_file()]
    print(f"version {version}:", *sorted(path.relative_to(folder).as_posix() for path in inside))
about = json.loads(folder.joinpath("v3.zarr/zarr.json").read_text(encoding="utf-8"))
for key in ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value"):
    print(f"  {key}: {about[key]}")
chunk_files = [path for path in (folder / "pictures.zarr" / "c").rglob("*") if path.is_file()]
blank = int((~pictures.any(axis=(1, 2))).sum())
print(f"pictures.zarr: {len(chunk_files):,} chunk files; {blank} pictures of nothing but 0, the fill value")

# %% [markdown]
# Fifteen chunks are missing, and `stored[:, 64, 64]` read as if they were there. (The figure counts them as touched.)
#
# ### Predict: the fill value (more)
# `z = zarr.create_array(store, shape=(4, 4), chunks=(2, 2), dtype="f4", fill_value=-1)`, and for the last line
# `d = file.create_dataset("d", (4, 4), "f4", chunks=(2, 2))` in HDF5. Each line starts afresh.

# %%
# exercise: chunks/fill-value
unwritten = ...  # z[0, 0], nothing written: a number, or "error"?
after_fill = ...  # z[:] = -1: how many chunks are stored?
after_half = ...  # z[:2] = 0: how many chunks?
after_there_and_back = ...  # z[:] = 5, then z[:] = -1: how many chunks?
after_zeros_in_hdf5 = ...  # d[:] = 0: how many chunks?

# %%
lab.check("fill-value")

# %% [markdown]
# A missing chunk and a chunk of fill values are the same thing to a reader. Choose a fill value that no measurement has,
# or a job that died half-way leaves an array that looks complete.
#
# ### Shards: many chunks in one file
# Small chunks make reads cheap and file systems slow. A *shard* is one file that holds many chunks and an index of where
# each lies. We count files, what reading one picture fetches, and what writing one picture costs.

# %%
for shard in (None, 64, 256):
    shards = shard and (shard, 128, 128)
    counted = CountingStore(zarr.storage.LocalStore(folder / f"shards-{shard}.zarr"))
    z = zarr.create_array(counted, data=pictures[:256], chunks=(1, 128, 128), shards=shards)
    files = sum(path.is_file() for path in (folder / f"shards-{shard}.zarr").rglob("*"))
    counted.reset()
    z[100]
    got = counted.counts["get_chunk_bytes"]
    counted.reset()
    z[100] = pictures[100]
    print(f"shards of {shard}: {files:>3} files, read {got:>6,} bytes,", end=" ")
    print(f"write {counted.counts['set_chunk_bytes']:>9,} bytes after reading {counted.counts['get_chunk_bytes']:,}")

# %% [markdown]
# Reads stay small: the index, then the chunk. Writes do not: to change one chunk, its whole shard is read and written
# again. The chunk is the unit of reading, the shard is the unit of writing.
#
# ### Your turn: `store_sharded` (core)
# - **in**: `path`; `volume`, an array; `read`, the shape of a block; blocks are read at multiples of `read`; `most_files`
# - **out**: a Zarr array at `path` that holds the volume
# - **done when** a block fetches at most 1.5 bytes per byte it holds, and the store has at most `most_files` files,
#   `zarr.json` included


# %%
# exercise: chunks/zarr-sharded
def store_sharded(path, volume, read, most_files):
    """Store `volume` at `path` in few files, so that a block of shape `read` is cheap to read."""
    raise NotImplementedError


# %%
lab.check("zarr-sharded")

# %% [markdown]
# *That was the core. The rest is worth a second sitting.*
#
# ## Part 5. Codecs, metadata, brackets (more)
# A codec, which HDF5 calls a filter, can only take out what is regular. The same pictures as bytes, as float32, and with
# noise in the third decimal: bytes of the array for each byte stored.

# %%
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

few = pictures[:128]
noise = np.random.default_rng(0).normal(scale=1e-3, size=few.shape)
kinds = {"uint8": few, "float32": (few / 255).astype("f4"), "float32 and noise": (few / 255 + noise).astype("f4")}
codecs = {"none": None, "gzip 4": GzipCodec(level=4), "zstd": ZstdCodec()}
codecs["zstd, bits sorted"] = BloscCodec(cname="zstd", shuffle="bitshuffle")
print(" " * 18 + "".join(f"{name:>18}" for name in codecs))
for kind, values in kinds.items():
    memory = [zarr.create_array({}, data=values, chunks=(32, 128, 128), compressors=c) for c in codecs.values()]
    print(f"{kind:18}" + "".join(f"{z.nbytes / z.nbytes_stored():>18.2f}" for z in memory))

# %% [markdown]
# The data decide more than the codec: noise cannot be compressed away, and with it in the third decimal no codec saves a
# third. Sorting bits helps floats and hurts these bytes. Where nothing helps, a memory-mapped `.npy` is the baseline: no
# chunks and no decoder. The system then reads pages, on most machines of 4,096 bytes. How many, for one picture and for
# one pixel in all?

# %%
np.save(folder / "pictures.npy", pictures)
mapped = np.load(folder / "pictures.npy", mmap_mode="r")
places = mapped.offset + np.arange(mapped.size).reshape(mapped.shape)  # the byte at which each pixel lies
for what, where in {"one picture": np.s_[7], "one pixel in all": np.s_[:, 64, 64]}.items():
    pages = np.unique(places[where] // 4096).size
    print(f"{what}: {mapped[where].nbytes:,} bytes wanted, {pages:,} pages, {pages * 4096:,} bytes")

# %% [markdown]
# ### Your turn: `store_packed` (more)
# - **in**: `path`; `values`, an array; `chunks`; `most_bytes`, what the files may take
# - **out**: a Zarr array at `path`, with these chunks, from which every bit comes back
# - **done when** it is small enough, and has no codec where a codec saves less than 5 %


# %%
# exercise: chunks/choose-codec
def store_packed(path, values, chunks, most_bytes):
    """Store `values` without loss as a Zarr array of at most `most_bytes`."""
    raise NotImplementedError


# %%
lab.check("choose-codec")

# %% [markdown]
# ### Metadata in one piece
# A group of 20 arrays has 21 metadata files, and listing it reads each. On an object store each is a request.
# *Consolidated* metadata are one copy of all of them; a copy can be out of date.

# %%
import warnings

counted = CountingStore(zarr.storage.LocalStore(folder / "many.zarr"))
group = zarr.create_group(counted)
for i in range(20):
    group.create_array(f"a{i}", shape=(4,), chunks=(4,), dtype="f4")


def listed(**how):
    counted.reset()
    names = list(zarr.open_group(counted, mode="r", **how).array_keys())
    return f"{len(names)} arrays, {counted.counts['get_meta_n']} metadata files read"


# %%
print("one by one:  ", listed(use_consolidated=False))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    zarr.consolidate_metadata(counted)
print("consolidated:", listed())
group.create_array("late", shape=(4,), chunks=(4,), dtype="f4")
print("one more:    ", listed(), "| without the copy:", listed(use_consolidated=False))
print(told[0].message)

# %% [markdown]
# The late array exists and is not listed until the metadata are consolidated again.
#
# ### Predict: six expressions (more)
# `x = np.arange(9).reshape(3, 3)`, stored as `d` in HDF5 and as `z` in Zarr. Write what comes back as nested lists, or
# `"error"`.

# %%
# exercise: chunks/indexing
h5py_order = ...  # d[[2, 0]] in h5py
zarr_order = ...  # z[[2, 0]] in Zarr
h5py_pairs = ...  # d[[0, 1], [0, 1]] in h5py
zarr_pairs = ...  # z[[0, 1], [0, 1]] in Zarr
zarr_block = ...  # z.oindex[[0, 1], [0, 1]] in Zarr
zarr_backwards = ...  # z[::-1] in Zarr

# %%
lab.check("indexing")

# %% [markdown]
# Five more, answered by the libraries. `o` is the stored array, `x` the one in memory.

# %%
x = np.arange(9).reshape(3, 3)
z = zarr.create_array({}, data=x, chunks=(2, 2))
with h5py.File(folder / "brackets.h5", "w") as file:
    file["x"] = x
    for code in ("o[[0, 0]]", "o[x > 4]", "o[np.array([True, False, True])]", "o[1:99]", "o[None]"):
        for o in (file["x"], z):
            try:
                found = eval(code).tolist()
            except (TypeError, ValueError, IndexError) as error:
                found = type(error).__name__
            print(f"{code:34} {'h5py' if o is not z else 'Zarr'}  {found}")

# %% [markdown]
# ### Your turn: `convert` (more)
# A file that came as HDF5 is to be served as Zarr, in other chunks, and it is larger than memory.
#
# - **in**: `path` of the new store; `source` and `name`, an HDF5 file and its dataset; `chunks` for the copy
# - **out**: a Zarr array with the same type, bits, fill value and attributes (as numbers, lists and text)
# - **done when** at no time more than 1.2 MB are allocated; the largest dataset has 2.4 MB


# %%
# exercise: chunks/convert
def convert(path, source, name, chunks):
    """Copy the dataset `name` of the HDF5 file `source` to a Zarr array at `path`."""
    raise NotImplementedError


# %%
lab.check("convert")

# %% [markdown]
# ## Which one, when
# - **`.npy`, memory-mapped**: one array, one machine, reads along memory order. Nothing to decode, nothing to install.
# - **HDF5**: many arrays and what describes them in one file that can be copied and sent. One writer at a time.
# - **Zarr**: object stores, several writers of separate chunks, arrays that grow. One file per chunk or shard.
#
# In the last two the chunk shape is for the reads. It is chosen when the array is made; another one means a full copy,
# which `labsupport.chunklab.rechunk` makes in little memory.
#
# ## Bring your own
# Put the path of an `.h5` file or a `.zarr` folder of yours into `mine`, the name of its array into `array`, and a read
# you do often into `often`. In a terminal: `./lab chunklab count FILE "1000:1100, 2000:2100"`. A larger file, if pvlib is
# installed, is `datasets.locate("turbidity")`: twelve months of the world's air in one cube.

# %%
from labsupport.chunklab import count

mine = datasets.locate("altitude")
array = "Altitude"  # its name inside the file; None where there is only one
often = np.s_[1000:1100, 2000:2100]
print(count(mine, often, array))
lab.show("chunks", mine, dataset=array, select=often)

# %% [markdown]
# ## Close
# You can count what a read costs before you write the file, and prove it with the store itself afterwards.
#
# What production code does differently:
#
# - zarr-python fetches the chunks of one read concurrently (`async.concurrency`), so that many small requests overlap;
#   the number of requests stays what you counted.
# - HDF5 finds chunks by an index in the file. Its `rdcc_nslots` and `rdcc_w0` decide which chunk leaves the cache first.
# - A chunk of one to a few megabytes is the usual advice for object stores: large enough to be worth a request.
# - Whoever reads rows *and* columns every day keeps two copies.
#
# Sources, read 2026-11: h5py on [datasets](https://docs.h5py.org/en/stable/high/dataset.html) and the
# [chunk cache](https://docs.h5py.org/en/stable/high/file.html#chunk-cache); the
# [Zarr v3 specification](https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html), with
# [sharding](https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html); zarr-python on
# [performance](https://zarr.readthedocs.io/en/stable/user-guide/performance/). The data: `data/README.md`.
#
# Next: several writers, readers that watch, and a store that feeds a training loop.
