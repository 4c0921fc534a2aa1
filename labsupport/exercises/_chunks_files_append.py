"""Lesson 13: a log in HDF5 that grows by a few hours at a time.

The functions below are run as text, with h5py imported before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # h5py is loaded where the answer runs
    import h5py
    import numpy as np

__all__ = ["APPEND_HDF5"]


def append_hours(path, values, units):
    """Append `values`, (hours, stations) float32, to the dataset "temperature" of the HDF5 file at `path`.

    The file and the dataset are made when they are not there; the attribute "units" belongs to the dataset.
    """
    with h5py.File(path, "a") as file:
        if "temperature" not in file:
            stations = values.shape[1]
            made = file.create_dataset(
                "temperature",
                shape=(0, stations),
                maxshape=(None, stations),
                dtype=values.dtype,
                chunks=(65536 // (4 * values.shape[1]), stations),
                compression="gzip",
            )
            made.attrs["units"] = units
        log = file["temperature"]
        hours = len(log)
        log.resize(hours + len(values), axis=0)
        log[hours:] = values


def _fixed_size(path, values, units):
    with h5py.File(path, "a") as file:
        if "temperature" not in file:
            chunks = (65536 // (4 * values.shape[1]), values.shape[1])
            shape = (max(len(values), chunks[0]), values.shape[1])
            log = file.create_dataset("temperature", shape, values.dtype, chunks=chunks, compression="gzip")
            log.resize(len(values), axis=0)
            log[:] = values
            log.attrs["units"] = units
        else:
            log = file["temperature"]
            log.resize(len(log) + len(values), axis=0)
            log[len(log) - len(values) :] = values


def _never_resizable(path, values, units):
    with h5py.File(path, "a") as file:
        if "temperature" not in file:
            rows = min(len(values), 65536 // (4 * values.shape[1]))
            chunks = (rows, values.shape[1])
            log = file.create_dataset("temperature", data=values, chunks=chunks, compression="gzip")
            log.attrs["units"] = units
        else:
            log = file["temperature"]
            log.resize(len(log) + len(values), axis=0)
            log[len(log) - len(values) :] = values


def _chunk_of_a_day(path, values, units):
    with h5py.File(path, "a") as file:
        if "temperature" not in file:
            file.create_dataset(
                "temperature", data=values, maxshape=(None, values.shape[1]), chunks=values.shape, compression="gzip"
            )
            file["temperature"].attrs["units"] = units
        else:
            log = file["temperature"]
            log.resize(len(log) + len(values), axis=0)
            log[len(log) - len(values) :] = values


def _chunk_of_a_row(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            file.create_dataset(
                "temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=(1, stations),
                compression="gzip",
            )  # fmt: skip
            file["temperature"].attrs["units"] = units
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[len(log) - len(values) :] = values


def _rows_by_number(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations),
                                chunks=(1000, stations), compression="gzip").attrs["units"] = units  # fmt: skip
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[len(log) - len(values) :] = values


def _starts_the_file_over(path, values, units):
    with h5py.File(path, "w") as file:
        chunks = (65536 // (4 * values.shape[1]), values.shape[1])
        maxshape = (None, values.shape[1])
        log = file.create_dataset("temperature", values.shape, values.dtype, maxshape=maxshape, chunks=chunks,
                                  compression="gzip")  # fmt: skip
        log[:] = values
        log.attrs["units"] = units


def _rewrites_everything(path, values, units):
    with h5py.File(path, "a") as file:
        attributes, old = {}, values[:0]
        if "temperature" in file:
            old, attributes = file["temperature"][:], dict(file["temperature"].attrs)
            del file["temperature"]
        everything = np.concatenate([old, values])
        stations = values.shape[1]
        log = file.create_dataset("temperature", everything.shape, values.dtype, maxshape=(None, stations),
                                  chunks=(16384 // stations, stations), compression="gzip")  # fmt: skip
        log[:] = everything
        log.attrs.update(attributes)
        log.attrs["units"] = units


def _reads_everything(path, values, units):
    with h5py.File(path, "a") as file:
        if "temperature" not in file:
            stations = values.shape[1]
            chunks = (65536 // (4 * values.shape[1]), stations)
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=chunks,
                                compression="gzip").attrs["units"] = units  # fmt: skip
        log = file["temperature"]
        everything = np.concatenate([log[:], values])
        log.resize(len(everything), axis=0)
        log[:] = everything


def _units_on_the_file(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            chunks = (65536 // (4 * values.shape[1]), stations)
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=chunks,
                                compression="gzip")  # fmt: skip
            file.attrs["units"] = units
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[len(log) - len(values) :] = values


def _not_compressed(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            chunks = (65536 // (4 * values.shape[1]), stations)
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=chunks)
            file["temperature"].attrs["units"] = units
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[len(log) - len(values) :] = values


def _writes_at_the_front(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            chunks = (65536 // (4 * values.shape[1]), stations)
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=chunks,
                                compression="gzip").attrs["units"] = units  # fmt: skip
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[: len(values)] = values


def _counts_from_the_end(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            chunks = (65536 // (4 * values.shape[1]), stations)
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=chunks,
                                compression="gzip").attrs["units"] = units  # fmt: skip
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[-len(values) :] = values


def _rounded_to_save(path, values, units):
    with h5py.File(path, "a") as file:
        stations = values.shape[1]
        if "temperature" not in file:
            chunks = (65536 // (4 * values.shape[1]), stations)
            file.create_dataset("temperature", (0, stations), values.dtype, maxshape=(None, stations), chunks=chunks,
                                scaleoffset=1, compression="gzip").attrs["units"] = units  # fmt: skip
        log = file["temperature"]
        log.resize(len(log) + len(values), axis=0)
        log[len(log) - len(values) :] = values


def _hours(label, before, hours, stations):
    """A case: rows the log holds (None: no file, -1: a file without the dataset), and the shape of what comes."""

    def degrees(rng, rows):
        return rng.normal(8, 6, size=(rows, stations)).astype("float32")

    def make(rng):
        given = None
        if before is not None:
            given = {"rows": degrees(rng, before) if before >= 0 else None}
            given["humidity"] = rng.integers(30, 100, size=200).astype("uint8")
        return given, degrees(rng, hours), "degC"

    return Case(label, make)


APPEND_HDF5 = Exercise(
    id="chunks/append-hdf5",
    kind="artifact",
    task="Append `values`, (hours, stations) float32, to the dataset `temperature` of the HDF5 file at `path`. Make "
    "the file or the dataset if they are missing: room for any number of hours, chunks of 10 KiB to 1 MiB, lossless "
    "compression, and the attribute `units` on the dataset. What is in the file already stays where it is, and is not "
    "read again.",
    names=("append_hours",),
    setup="import math\n\nimport h5py\nimport numpy as np",
    probe=Probe(
        "artifact",
        {
            "file": "log.h5",
            "prepare": "chunks:write_log",
            "inspect": "chunks:describe_log",
            "max_allocated": 400_000,
        },
    ),
    reference=append_hours,
    cases=(
        _hours("no file yet, 6 stations", None, 24, 6),
        _hours("no file yet, 700 stations", None, 24, 700),
        _hours("a log of 50 days", 1200, 24, 6),
        _hours("a file with humidity only", -1, 24, 6),
        _hours("a log of almost three years", 25_000, 24, 6),
        _hours("no new hours", 1200, 0, 6),
    ),
    misconceptions=(
        Misconception(
            id="never-resizable",
            specimen=_never_resizable,
            says="Your dataset has room for the first day and no more: without `maxshape`, HDF5 fixes the shape it was "
            "made with.",
            next="Say at creation which axis has no limit; it cannot be changed later.",
        ),
        Misconception(
            id="fixed-size",
            specimen=_fixed_size,
            says="Your dataset can be resized, but only up to the size it was made with: without `maxshape` that is "
            "the limit, for good.",
            next="In `maxshape`, None means no limit.",
        ),
        Misconception(
            id="a-chunk-per-day",
            specimen=_chunk_of_a_day,
            says="Your chunks are as small as what arrives at once, which is also what h5py guesses from the first "
            "day. A year is then hundreds of tiny chunks, each with its own place in the index.",
            next="Choose the rows of a chunk from a number of bytes, not from the size of a day.",
        ),
        Misconception(
            id="a-chunk-per-row",
            specimen=_chunk_of_a_row,
            says="A chunk per row: each hour is compressed alone and looked up alone, and 24 bytes of it cost more in "
            "bookkeeping than they hold.",
            next="How many rows make 10 KiB or more? A chunk may be larger than what is appended at once.",
        ),
        Misconception(
            id="rows-by-number",
            specimen=_rows_by_number,
            says="Your chunks have the same number of rows however wide a row is. For 6 stations that is fine, for 700 "
            "a chunk has more than a mebibyte, and whoever wants one hour decodes all of it.",
            next="Aim at a number of bytes, and divide it by the bytes of one row.",
        ),
        Misconception(
            id="starts-the-file-over",
            specimen=_starts_the_file_over,
            says="Mode `w` empties the file first: the hours before, and every other dataset in it, are gone.",
            next="Look up the modes of `h5py.File`: one opens what is there, and makes it when it is not.",
        ),
        Misconception(
            id="rewrites-the-log",
            specimen=_rewrites_everything,
            says="You delete the dataset and write all of it again. That costs as much as the log is long, every day, "
            "and the old chunks leave holes in the file.",
            next="A dataset with room to grow needs only its new rows written.",
        ),
        Misconception(
            id="reads-the-log",
            specimen=_reads_everything,
            says="You read the whole log to add a day to it. After three years that is more memory than the day itself "
            "by a factor of a thousand.",
            next="Make room at the end, then assign to those rows only.",
        ),
        Misconception(
            id="units-on-the-file",
            specimen=_units_on_the_file,
            says="The units stand at the file, where they would be true of every dataset in it. The file also holds "
            "humidity.",
            next="Files, groups and datasets each have `attrs` of their own.",
        ),
        Misconception(
            id="not-compressed",
            specimen=_not_compressed,
            says="Chunks alone do not compress: your dataset has no filter, so it takes its full size on disk.",
            next="Name a filter when you make the dataset; it cannot be added afterwards.",
        ),
        Misconception(
            id="rounds-to-compress",
            specimen=_rounded_to_save,
            says="`scaleoffset` on floats keeps a fixed number of decimals and throws the rest away before anything "
            "is compressed.",
            next="The values must come back as they were. Which filters keep every bit?",
        ),
        Misconception(
            id="writes-at-the-front",
            specimen=_writes_at_the_front,
            says="You made room at the end and wrote at the front: the oldest hours are overwritten, the newest are "
            "zeros.",
            next="Remember how long the log was before you resized it.",
        ),
        Misconception(
            id="counts-from-the-end",
            specimen=_counts_from_the_end,
            says="With nothing to append, `-len(values)` is 0, and the slice means the whole log instead of none "
            "of it.",
            next="Slice from the old length on; it is right for zero rows, too.",
        ),
    ),
    hints=(
        "Three things can only be said at creation: `maxshape`, `chunks` and `compression`.",
        "`dataset.resize(size, axis=0)` makes room in place; then one assignment to the new rows.",
        "Rows of a chunk: a number of bytes you aim at, divided by the bytes of one row.",
    ),
    core=False,
    level=2,
    minutes=12,
    points=2,
    source="https://docs.h5py.org/en/stable/high/dataset.html, sections on chunked storage and resizable datasets, "
    "read 2026-11",
)
