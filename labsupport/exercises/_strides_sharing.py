"""Lesson 05, predictions about shared memory: view or copy, writes, overlap."""

import numpy as np

from labsupport.course import Exercise, Misconception, Probe
from labsupport.exercises._strides_asking import instead, questions

__all__ = ["VIEW_OR_COPY", "PREDICT_FANCY_WRITE", "PREDICT_OVERLAP"]

_COPIES_DOC = "https://numpy.org/doc/stable/user/basics.copies.html, read 2026-11"
_INDEXING_DOC = "https://numpy.org/doc/stable/user/basics.indexing.html, read 2026-11"
_OVERLAP_DOC = "https://numpy.org/doc/stable/release/1.13.0-notes.html, on overlapping inputs, read 2026-11"


# -- view-or-copy

_RESULTS = {
    "a[1:3]": lambda a: a[1:3],
    "a[[1, 2]]": lambda a: a[[1, 2]],
    "a[a > 2]": lambda a: a[a > 2],
    "a.T": lambda a: a.T,
    "a.T.reshape(-1)": lambda a: a.T.reshape(-1),
    'a.T.ravel(order="K")': lambda a: a.T.ravel(order="K"),
}


def _view_or_copy(question):
    a = np.arange(12.0).reshape(3, 4)
    return "view" if np.shares_memory(_RESULTS[question](a), a) else "copy"


VIEW_OR_COPY = Exercise(
    id="strides/view-or-copy",
    kind="prediction",
    task='Say of six expressions whether the result is a "view" of a (3, 4) array or a "copy".',
    names=("by_slice", "by_list", "by_mask", "by_transpose", "by_reshape", "by_ravel"),
    setup="import numpy as np",
    reference=_view_or_copy,
    cases=questions(*_RESULTS),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="slices-copy",
            specimen=instead(_view_or_copy, {"a[1:3]": "copy"}),
            says="That is how Python lists behave. An array's slice is a new recipe over the same bytes: writing to it "
            "writes to `a`.",
            next="Which start, shape and strides describe rows 1 and 2?",
        ),
        Misconception(
            id="lists-of-indices-view",
            specimen=instead(_view_or_copy, {"a[[1, 2]]": "view"}),
            says="Rows 1 and 2 happen to lie at a regular distance, but a list of indices need not, so NumPy does not"
            " look: it always copies.",
            next="Could strides describe `a[[0, 1, 2, 0]]`?",
        ),
        Misconception(
            id="masks-view",
            specimen=instead(_view_or_copy, {"a[a > 2]": "view"}),
            says="A mask picks elements at irregular distances, which no strides can describe.",
            next="What would the one stride of the result have to be?",
        ),
        Misconception(
            id="transposing-moves-data",
            specimen=instead(_view_or_copy, {"a.T": "copy"}),
            says="A transpose moves nothing: it swaps two numbers in shape and two in strides.",
            next="Compare `a.strides` and `a.T.strides`.",
        ),
        Misconception(
            id="reshape-never-copies",
            specimen=instead(_view_or_copy, {"a.T.reshape(-1)": "view"}),
            says="reshape gives a view when strides can describe the result. Read row by row, this transpose visits "
            "the bytes of `a` with changing jumps.",
            next="Write down the first five addresses it visits: is their distance constant?",
        ),
        Misconception(
            id="ravel-always-copies",
            specimen=instead(_view_or_copy, {'a.T.ravel(order="K")': "copy"}),
            says='order="K" asks for the elements in the order they have in memory, and those lie one after another.',
            next="What is the order of the elements in memory, and what one stride reads it?",
        ),
    ),
    hints=(
        "Ask of each result: is there one start and one jump per axis that finds exactly these elements, in this "
        "order?",
        "Only slices, integers, None and ... make views by indexing. Lists, index arrays and masks copy.",
    ),
    core=True,
    level=2,
    minutes=5,
    source=_COPIES_DOC,
)


# -- predict-fancy-write

_WRITES = (
    "b = a[1:4]; b[0] = 99",
    "b = a[[1, 2, 3]]; b[0] = 99",
    "a[[1, 2, 3]] = 99",
    "b = a[1:4]; b = b * 0",
    "b = a[1:4]; b *= 0",
)


def _second_element_after(question):
    a = np.arange(6)
    if question == _WRITES[2]:
        a[[1, 2, 3]] = 99
        return a[1]
    b = a[[1, 2, 3]] if question == _WRITES[1] else a[1:4]
    if question == _WRITES[3]:
        b = b * 0
    elif question == _WRITES[4]:
        b *= 0
    else:
        b[0] = 99
    return a[1]


PREDICT_FANCY_WRITE = Exercise(
    id="strides/predict-fancy-write",
    kind="prediction",
    task="Predict a[1] after each of five writes, each starting from a = np.arange(6).",
    names=("after_slice", "after_list", "after_assignment", "after_rebinding", "after_in_place"),
    setup="import numpy as np",
    reference=_second_element_after,
    cases=questions(*_WRITES),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="slices-are-separate",
            specimen=instead(_second_element_after, {_WRITES[0]: 1}),
            says="With a list you would be right. `b` is a view here, so its first element *is* `a[1]`.",
            next="Which bytes does `b[0] = 99` write to?",
        ),
        Misconception(
            id="lists-of-indices-view",
            specimen=instead(_second_element_after, {_WRITES[1]: 99}),
            says="A list of indices copies when it is *read*: `b` has bytes of its own, and 99 went there.",
            next="Is there still any connection between `b` and `a` after the first statement?",
        ),
        Misconception(
            id="assignment-writes-a-copy",
            specimen=instead(_second_element_after, {_WRITES[2]: 1}),
            says="On the left of `=` nothing is read, so nothing is copied: Python hands `a`, the list and 99 to "
            "`a.__setitem__`, which writes into `a`.",
            next="Compare the one call made here with the two in the question before.",
        ),
        Misconception(
            id="rebinding-writes-through",
            specimen=instead(_second_element_after, {_WRITES[3]: 0}),
            says="`b * 0` makes a new array, and `b = ...` moves the name to it. Nobody wrote to the old bytes.",
            next="Which statement, if any, stores into an existing array?",
        ),
        Misconception(
            id="in-place-makes-a-new-array",
            specimen=instead(_second_element_after, {_WRITES[4]: 1}),
            says="`*=` on an array stores the result in the array on the left, and that is a view of `a`.",
            next="Compare with the question before: which of the two stores into existing bytes?",
        ),
    ),
    hints=(
        "Two questions decide each line: does `b` share bytes with `a`, and does anything write into existing bytes?",
        "`b = ...` changes what the name means; `b[...] = ...` and `b *= ...` change bytes.",
    ),
    core=False,
    level=2,
    minutes=4,
    source=_INDEXING_DOC,
)


# -- predict-overlap

_OVERLAPS = (
    "a[1:] += a[:-1]",
    "for i in range(1, 5): a[i] += a[i - 1]",
    "a[:] = a[::-1]",
)


def _after_overlap(question):
    a = np.arange(5)
    if question == _OVERLAPS[0]:
        a[1:] += a[:-1]
    elif question == _OVERLAPS[1]:
        for i in range(1, 5):
            a[i] += a[i - 1]
    else:
        a[:] = a[::-1]
    return a.tolist()


PREDICT_OVERLAP = Exercise(
    id="strides/predict-overlap",
    kind="prediction",
    task="Predict a.tolist() after three statements that read and write the same bytes, each from a = np.arange(5).",
    names=("shifted", "looped", "mirrored"),
    setup="import numpy as np",
    reference=_after_overlap,
    cases=questions(*_OVERLAPS),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="reads-what-was-just-written",
            specimen=instead(_after_overlap, {_OVERLAPS[0]: [0, 1, 3, 6, 10]}),
            says="That is a running sum: it would come out if each addition saw the one before. NumPy notices the "
            "overlap and reads all inputs as they were before the statement.",
            next="Add the two slices of the *old* array element by element.",
        ),
        Misconception(
            id="loops-read-old-values",
            specimen=instead(_after_overlap, {_OVERLAPS[1]: [0, 1, 3, 5, 7]}),
            says="That is what one NumPy statement gives. The Python loop is four statements, and each reads what the"
            " one before has written.",
            next="Carry the new value of `a[1]` into the step for `a[2]`.",
        ),
        Misconception(
            id="mirror-half-overwritten",
            specimen=instead(_after_overlap, {_OVERLAPS[2]: [4, 3, 2, 3, 4]}),
            says="You let the first half be overwritten before it was read. NumPy compares the memory of both sides "
            "first and copies the right one when they overlap.",
            next="Which result would the statement have if the right side were a copy?",
        ),
    ),
    hints=("One NumPy statement behaves as if its inputs had been copied before anything is written.",),
    core=False,
    level=2,
    minutes=3,
    source=_OVERLAP_DOC,
)
