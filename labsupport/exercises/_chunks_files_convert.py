"""Lesson 13: from HDF5 to Zarr, chunk by chunk.

The functions below are run as text, with h5py and zarr imported before them; nothing calls them here.
"""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # both are loaded where the answer runs
    import h5py
    import zarr

__all__ = ["CONVERT"]


def convert(path, source, name, chunks):
    """Copy the dataset `name` of the HDF5 file `source` to a Zarr array at `path`, one target chunk at a time."""
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue, attributes=attributes
        )
        starts = itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks)))
        for corner in starts:
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]  # both cut off what lies behind the edge


def _all_at_once(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue, attributes=attributes
        )
        array[...] = field[...]


def _without_attributes(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        array = zarr.create_array(path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue)
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]


def _attributes_of_the_file(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue,
            attributes=dict(file.attrs),
        )  # fmt: skip
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]


def _attributes_as_text(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue,
            attributes={key: str(value) for key, value in field.attrs.items()},
        )  # fmt: skip
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]


def _attributes_as_they_are(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue,
            attributes=dict(field.attrs),
        )  # fmt: skip
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]


def _whole_chunks_only(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue, attributes=attributes
        )
        for corner in itertools.product(*(range(n // side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(i * side, (i + 1) * side) for i, side in zip(corner, chunks))
            array[block] = field[block]


def _chunks_of_the_source(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=field.chunks, fill_value=field.fillvalue,
            attributes=attributes,
        )  # fmt: skip
        for block in field.iter_chunks():
            array[block] = field[block]


def _fill_value_forgotten(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(path, shape=field.shape, dtype=field.dtype, chunks=chunks, attributes=attributes)
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block]


def _as_float64(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype="float64", chunks=chunks, fill_value=field.fillvalue, attributes=attributes
        )
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            array[block] = field[block].astype("float64")


def _missing_made_nan(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue, attributes=attributes
        )
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            values = field[block]
            if values.dtype.kind == "f":
                values[values == field.fillvalue] = np.nan
            array[block] = values


def _zeros_left_out(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        attributes = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in field.attrs.items()}
        array = zarr.create_array(
            path, shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue, attributes=attributes
        )
        for corner in itertools.product(*(range(0, n, side) for n, side in zip(field.shape, chunks))):
            block = tuple(slice(start, start + side) for start, side in zip(corner, chunks))
            values = field[block]
            if values.any():
                array[block] = values


def _field(label, shape, dtype, source_chunks, chunks, fill, attributes):
    """A case: a smooth field, one corner of it never measured, a quarter of it 0."""

    def make(rng):
        down, across = (np.linspace(0, np.pi, n) for n in shape)
        values = np.add.outer(np.sin(down + rng.uniform(0, 3)), np.cos(across + rng.uniform(0, 3)))
        values = np.rint(values * 100).astype(dtype)
        values[: shape[0] // 5, : shape[1] // 5] = fill
        values[shape[0] // 2 :, shape[1] // 2 :] = 0
        return values, {"chunks": list(source_chunks), "fill": fill}, dict(attributes), chunks

    return Case(label, make)


_PLAIN = {"units": "degC", "long_name": "air temperature"}
_RICH = {"units": "m", "scale": np.float32(0.25), "valid_range": np.array([-300, 300], dtype="int16")}

CONVERT = Exercise(
    id="chunks/convert",
    kind="artifact",
    task="Copy the dataset `name` of the HDF5 file `source` to a Zarr array at `path` with the chunks asked for: same "
    "data type, every bit, the fill value, and the dataset's attributes as numbers, lists and text. At no time may "
    "more than 1.2 MB be allocated; the largest dataset has 2.4 MB.",
    names=("convert",),
    setup="import itertools\n\nimport h5py\nimport numpy as np\nimport zarr",
    probe=Probe(
        "artifact",
        {
            "file": "copy.zarr",
            "prepare": "chunks:write_source",
            "inspect": "chunks:describe_copy",
            "max_allocated": 1_200_000,
        },
    ),
    reference=convert,
    cases=(
        _field("60 x 80, chunks that fit", (60, 80), "float32", (20, 20), (30, 40), -9999.0, _PLAIN),
        _field("61 x 83, chunks that do not fit", (61, 83), "float32", (20, 20), (25, 30), np.nan, _PLAIN),
        _field("big-endian int16, numbers among the attributes", (50, 50), ">i2", (10, 50), (25, 25), -32768, _RICH),
        _field("30 x 20,000, rows to columns", (30, 20_000), "float32", (2, 20_000), (30, 1250), -9999.0, _PLAIN),
    ),
    misconceptions=(
        Misconception(
            id="all-at-once",
            specimen=_all_at_once,
            says="Most of the dataset was in memory at one time: read at once, or in blocks that lie in every chunk of "
            "the copy, which Zarr then opens all together. Neither works on what is larger than memory.",
            next="Read a block, write it, and let it go. Which blocks spare you from writing a chunk twice?",
        ),
        Misconception(
            id="drops-the-attributes",
            specimen=_without_attributes,
            says="The numbers arrived and what they mean did not: units and names are attributes, and nobody copied "
            "them.",
            next="An HDF5 dataset and a Zarr array both have `attrs`.",
        ),
        Misconception(
            id="attributes-of-the-file",
            specimen=_attributes_of_the_file,
            says="Those are the attributes of the file. The dataset has its own, and they are what describes the "
            "values.",
            next="Ask the dataset, and not the file, for `attrs`.",
        ),
        Misconception(
            id="attributes-as-text",
            specimen=_attributes_as_text,
            says="You made text of every attribute: `'0.25'` and `'[-300 300]'` must be parsed by whoever needs the "
            "numbers.",
            next="JSON knows numbers and lists. NumPy values have a method that makes such from them.",
        ),
        Misconception(
            id="attributes-as-they-are",
            specimen=_attributes_as_they_are,
            says="Zarr keeps attributes as JSON, which knows no NumPy numbers or arrays; HDF5 gives you just those.",
            next="Turn them into Python numbers and lists first.",
        ),
        Misconception(
            id="whole-chunks-only",
            specimen=_whole_chunks_only,
            says="Where the chunks do not fit, the last rows and columns were not copied, and read as the fill value "
            "without a word.",
            next="Count the chunks along each axis rounded up.",
        ),
        Misconception(
            id="chunks-of-the-source",
            specimen=_chunks_of_the_source,
            says="Your store has the chunks of the source. The other shape is the reason for this copy.",
            next="Make the array with `chunks`, and go through it block by block in that shape.",
        ),
        Misconception(
            id="forgets-the-fill-value",
            specimen=_fill_value_forgotten,
            says="The values are there, but the array does not know its fill value any more: a chunk written later "
            "or never would read as 0 where the source says: not measured.",
            next="`dataset.fillvalue` knows it; say it when you make the array.",
        ),
        Misconception(
            id="widens-the-type",
            specimen=_as_float64,
            says="You changed the data type on the way: twice the bytes or more, and nothing gained.",
            next="The array can be made with the dtype of the dataset.",
        ),
        Misconception(
            id="missing-made-nan",
            specimen=_missing_made_nan,
            says="You replaced the fill value by NaN. It may be a good idea, but it is another data set: a copy "
            "keeps every bit.",
            next="Copy first; such a change deserves a step, and a name, of its own.",
        ),
        Misconception(
            id="leaves-zeros-out",
            specimen=_zeros_left_out,
            says="You left blocks of zeros out, as if a missing chunk read as 0. It reads as the fill value, which "
            "here says: not measured.",
            next="Write every block; Zarr itself leaves out those that hold nothing but the fill value.",
        ),
    ),
    hints=(
        "`itertools.product` of one `range(0, n, side)` per axis gives the corner of every target chunk.",
        "Slices may reach over the edge: h5py and Zarr cut them off as NumPy does.",
        "`value.tolist()` turns a NumPy scalar into a number and an array into a list.",
    ),
    core=False,
    level=3,
    minutes=15,
    points=2,
    source="https://zarr.readthedocs.io/en/stable/user-guide/arrays/ and "
    "https://docs.h5py.org/en/stable/high/attr.html, read 2026-11",
)
