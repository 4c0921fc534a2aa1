"""Lesson 13, predictions: what was never written, and which brackets mean what."""

import numpy as np

from labsupport.course import Exercise, Misconception, Probe
from labsupport.exercises._chunks_asking import ERROR, in_hdf5, in_zarr, instead, questions, value_or_error

__all__ = ["FILL_VALUE", "INDEXING"]


# -- fill-value

_UNWRITTEN = "z[0, 0], nothing written"
_FILLED = "chunks stored after z[:] = -1"
_HALF = "chunks stored after z[:2] = 0"
_BACK = "chunks stored after z[:] = 5, then z[:] = -1"
_HDF5 = "chunks stored after d[:] = 0 in HDF5"


def _fill_is(question):
    if question == _HDF5:
        return in_hdf5(_chunks_of_zeros)
    steps = {_UNWRITTEN: (), _FILLED: ((4, -1),), _HALF: ((2, 0),), _BACK: ((4, 5), (4, -1))}

    def work(z):
        for rows, value in steps[question]:
            z[:rows] = value
        return float(z[0, 0]) if question == _UNWRITTEN else z.nchunks_initialized

    return in_zarr(work, shape=(4, 4), chunks=(2, 2), dtype="f4", fill_value=-1)


def _chunks_of_zeros(file):
    d = file.create_dataset("d", (4, 4), "f4", chunks=(2, 2))
    d[:] = 0
    return d.id.get_num_chunks()


FILL_VALUE = Exercise(
    id="chunks/fill-value",
    kind="prediction",
    task="Predict what a read of unwritten chunks gives, and how many chunks are stored after some writes.",
    names=("unwritten", "after_fill", "after_half", "after_there_and_back", "after_zeros_in_hdf5"),
    reference=_fill_is,
    cases=questions(_UNWRITTEN, _FILLED, _HALF, _BACK, _HDF5),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="unwritten-is-an-error",
            specimen=instead(_fill_is, {_UNWRITTEN: ERROR}),
            says="Reading what was never written raises nothing. A chunk that is not there stands for one full of the "
            "fill value, so missing data look like data.",
            next="Which value was the array created with?",
        ),
        Misconception(
            id="unwritten-is-zero",
            specimen=instead(_fill_is, {_UNWRITTEN: 0}),
            says="0 is the fill value where none is given. This array was given one.",
            next="Look at the arguments of `create_array`.",
        ),
        Misconception(
            id="every-write-is-stored",
            specimen=instead(_fill_is, {_FILLED: 4, _BACK: 4}),
            says="Four chunks were written, and none of them is stored: a chunk that holds nothing but the fill value "
            "is left out, and removed where it was.",
            next="What would a reader see in a chunk that is not there?",
        ),
        Misconception(
            id="zero-is-not-stored",
            specimen=instead(_fill_is, {_HALF: 0, _HDF5: 0}),
            says="Zeros are not special. Zarr leaves out chunks full of *its fill value*; HDF5 stores every chunk that "
            "was written to.",
            next="What is the fill value here, and which of the two libraries is asked about?",
        ),
        Misconception(
            id="half-is-everything",
            specimen=instead(_fill_is, {_HALF: 4}),
            says="Only the upper half was written to. The chunks of the lower half were never touched.",
            next="Which of the four chunks of 2 x 2 do the rows 0 and 1 lie in?",
        ),
    ),
    hints=(
        "Zarr does not store a chunk whose elements all equal the fill value, unless it is told to.",
        "HDF5 makes room for a chunk when it is first written to, whatever is written.",
    ),
    core=False,
    level=2,
    minutes=4,
    source="https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#fill-value, read 2026-11",
)


# -- indexing

_H_ORDER, _Z_ORDER = "d[[2, 0]] in h5py", "z[[2, 0]] in Zarr"
_H_PAIRS, _Z_PAIRS = "d[[0, 1], [0, 1]] in h5py", "z[[0, 1], [0, 1]] in Zarr"
_Z_BLOCK = "z.oindex[[0, 1], [0, 1]] in Zarr"
_BACKWARDS = "z[::-1] in Zarr"


def _index_gives(question):
    x = np.arange(9).reshape(3, 3)
    code = question.split(" in ")[0]
    if question.endswith("h5py"):
        return in_hdf5(lambda file: value_or_error(lambda: eval(code, {"d": file.create_dataset("d", data=x)})))
    return in_zarr(lambda z: value_or_error(lambda: eval(code, {"z": z})), data=x, chunks=(2, 2))


INDEXING = Exercise(
    id="chunks/indexing",
    kind="prediction",
    task='Predict what six indexing expressions give for the 3 x 3 array 0 to 8, as nested lists, or "error".',
    names=("h5py_order", "zarr_order", "h5py_pairs", "zarr_pairs", "zarr_block", "zarr_backwards"),
    reference=_index_gives,
    cases=questions(_H_ORDER, _Z_ORDER, _H_PAIRS, _Z_PAIRS, _Z_BLOCK, _BACKWARDS),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="h5py-is-like-numpy",
            specimen=instead(_index_gives, {_H_ORDER: [[6, 7, 8], [0, 1, 2]], _H_PAIRS: [0, 4]}),
            says="NumPy would give that. h5py takes one list per expression, and its indices must increase.",
            next="Which of the two rules does this expression break, and what happens then?",
        ),
        Misconception(
            id="h5py-sorts",
            specimen=instead(_index_gives, {_H_ORDER: [[0, 1, 2], [6, 7, 8]]}),
            says="h5py does not sort the list for you: it refuses one that does not increase.",
            next="What does a library do with an index it does not support?",
        ),
        Misconception(
            id="lists-select-a-block",
            specimen=instead(_index_gives, {_H_PAIRS: [[0, 1], [3, 4]], _Z_PAIRS: [[0, 1], [3, 4]]}),
            says="Two lists in plain brackets are no block of rows and columns, in neither library.",
            next="NumPy pairs two lists element by element. Zarr follows it; h5py takes only one list.",
        ),
        Misconception(
            id="orthogonal-is-pointwise",
            specimen=instead(_index_gives, {_Z_BLOCK: [0, 4]}),
            says="The `o` stands for orthogonal: each list selects along its own axis, independently of the other.",
            next="Two rows and two columns: how many elements?",
        ),
        Misconception(
            id="zarr-is-like-h5py",
            specimen=instead(_index_gives, {_Z_ORDER: ERROR, _Z_PAIRS: ERROR}),
            says="h5py refuses this. Zarr takes lists in any order, and several at once.",
            next="What would NumPy give?",
        ),
        Misconception(
            id="slices-run-backwards",
            specimen=instead(_index_gives, {_BACKWARDS: [[6, 7, 8], [3, 4, 5], [0, 1, 2]]}),
            says="Neither library reads backwards: a slice needs a step of at least 1.",
            next="Read forwards, and reverse the array you get. What does this expression do instead?",
        ),
    ),
    hints=(
        "Three of the six raise an error. h5py has two rules about lists; neither library reads backwards.",
        "In Zarr, plain brackets with lists follow NumPy; `oindex` makes a block, `vindex` takes points.",
    ),
    core=False,
    level=3,
    minutes=5,
    source="https://docs.h5py.org/en/stable/high/dataset.html#fancy-indexing, read 2026-11",
)
