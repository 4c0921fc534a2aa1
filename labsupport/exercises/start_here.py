"""Lesson 00: three small exercises about batches, one of each kind a newcomer meets first."""

import numpy as np

from labsupport.course import Case, Drill, Exercise, Misconception, Probe

__all__ = ["EXERCISES"]


def _images(*shape):
    """Return a `make` for whole-numbered uint8 samples of this shape."""
    return lambda rng: rng.integers(0, 17, shape).astype(np.uint8)


# -- predict-batches -------------------------------------------------------------------------------------------


def count_batches(n_rows, batch_rows):
    samples = np.zeros((n_rows, 8, 8), dtype=np.uint8)
    return len([samples[start : start + batch_rows] for start in range(0, n_rows, batch_rows)])


def full_batches_only(n_rows, batch_rows):
    return n_rows // batch_rows


def plain_quotient(n_rows, batch_rows):
    return n_rows / batch_rows


def _fresh_batches(rng):
    batch_rows = int(rng.choice([4, 8, 10, 16, 32, 50, 100]))
    rest = int(rng.choice([0, 1, batch_rows // 2, batch_rows - 1]))
    return batch_rows * int(rng.integers(2, 30)) + rest, batch_rows


def _ask_batches(n_rows, batch_rows):
    return (
        f"{n_rows} samples are cut, in order, into batches of {batch_rows}. "
        "How many batches are there when every sample is in one?"
    )


PREDICT_BATCHES = Exercise(
    id="start-here/predict-batches",
    kind="prediction",
    task="Predict how many batches of 64 hold all 1797 images.",
    names=("n_batches",),
    probe=Probe("literal"),
    reference=count_batches,
    cases=(Case("1797 images, batches of 64", lambda rng: (1797, 64)),),
    misconceptions=(
        Misconception(
            id="counts-full-batches-only",
            specimen=full_batches_only,
            says="You counted the full batches; some images are left over and are in none of them.",
            next="How many images do your batches hold together? Where do the others go?",
        ),
        Misconception(
            id="counts-a-fraction-of-a-batch",
            specimen=plain_quotient,
            says="That is the exact quotient, but a batch is a thing you can count: there is no fraction of one.",
            next="The last batch is shorter than the others. It still counts as one.",
        ),
    ),
    hints=("Divide, then look at the rest. A slice that runs past the end is no error: it returns what is there.",),
    core=True,
    level=1,
    minutes=1,
    source="https://docs.python.org/3/library/stdtypes.html, Common Sequence Operations, on s[i:j] (read 2026-11)",
    setup="import numpy as np",
    drill=Drill(_fresh_batches, _ask_batches),
)


# -- return-shape ----------------------------------------------------------------------------------------------


# Sizes differ from seed to seed: were they always the same, a table of shapes would pass.


def _square_images(rng):
    side = int(rng.integers(6, 10))
    return _images(int(rng.integers(10, 15)), side, side)(rng), int(rng.integers(3, 6))


def _readings(rng):
    return _images(int(rng.integers(7, 12)))(rng), int(rng.integers(2, 6))


def _colour_pictures(rng):
    height, width = int(rng.integers(4, 6)), int(rng.integers(6, 9))
    return _images(int(rng.integers(6, 10)), height, width, 3)(rng), int(rng.integers(2, 5))


def _all_in_one_batch(rng):
    n_rows = int(rng.integers(5, 9))
    return _images(n_rows, int(rng.integers(2, 5)))(rng), n_rows


def batch_shape(samples, batch_rows):
    return (batch_rows, *samples.shape[1:])


def prints_the_shape(samples, batch_rows):
    print((batch_rows, *samples.shape[1:]))


def list_of_sizes(samples, batch_rows):
    return [batch_rows, *samples.shape[1:]]


def shape_of_everything(samples, batch_rows):
    return samples.shape


def rows_only(samples, batch_rows):
    return (batch_rows,)


def shape_of_one_sample(samples, batch_rows):
    return samples[0].shape


def returns_the_batch(samples, batch_rows):
    return samples[:batch_rows]


def puts_a_tuple_in_a_tuple(samples, batch_rows):
    return (batch_rows, samples.shape[1:])


RETURN_SHAPE = Exercise(
    id="start-here/return-shape",
    kind="function",
    task="Return the shape of one batch of samples, as a tuple.",
    names=("batch_shape",),
    reference=batch_shape,
    cases=(
        Case("square images, several batches", _square_images),
        Case("readings on one axis", _readings),
        Case("colour pictures, wider than high", _colour_pictures),
        Case("rows that all fit in one batch", _all_in_one_batch),
    ),
    misconceptions=(
        Misconception(
            id="prints-instead-of-returning",
            specimen=prints_the_shape,
            says="Your function shows the shape and hands back None, so the code that called it has nothing to use.",
            next="Write `return` in front of the value instead of `print` around it.",
        ),
        Misconception(
            id="returns-a-list",
            specimen=list_of_sizes,
            says="The numbers are right, but in a list. A shape is a tuple: `[4, 8, 8] == (4, 8, 8)` is False.",
            next="Round brackets make a tuple; `tuple(...)` turns a list into one.",
        ),
        Misconception(
            id="returns-the-whole-shape",
            specimen=shape_of_everything,
            says="That is the shape of all samples together; a batch holds only `batch_rows` of them.",
            next="Which of its numbers changes when you take fewer samples?",
        ),
        Misconception(
            id="forgets-the-sample-axes",
            specimen=rows_only,
            says="You return how many samples a batch has, but not the shape of each sample.",
            next="Look at the shape of an actual batch: `samples[:batch_rows]` keeps every axis.",
        ),
        Misconception(
            id="returns-one-samples-shape",
            specimen=shape_of_one_sample,
            says="An index drops its axis: `samples[0]` is one sample, and your shape has lost the batch axis.",
            next="A slice keeps the axis. Compare `samples[0]` with `samples[:1]`.",
        ),
        Misconception(
            id="returns-the-batch-itself",
            specimen=returns_the_batch,
            says="You return the samples of the batch; the exercise asks for their shape.",
            next="An array knows its own shape: ask it.",
        ),
        Misconception(
            id="puts-a-tuple-in-a-tuple",
            specimen=puts_a_tuple_in_a_tuple,
            says="Your result is a number and, as one second element, a whole tuple: `(4, (8, 8))`, say, where "
            "`(4, 8, 8)` is asked for.",
            next="`(4, *sizes)` spreads a tuple out, and `(4,) + sizes` joins two of them.",
        ),
    ),
    hints=(
        "A batch is a slice of `samples` along the first axis. What does slicing do to the other axes?",
        "Every array has a `.shape`, which is already a tuple. A slice of an array is an array too.",
    ),
    core=True,
    level=1,
    minutes=2,
    source="https://numpy.org/doc/stable/reference/generated/numpy.ndarray.shape.html (docstring, read 2026-11)",
    setup="import numpy as np",
)


# -- mend-batches ----------------------------------------------------------------------------------------------


def batches(samples, batch_rows):
    return [samples[start : start + batch_rows] for start in range(0, len(samples), batch_rows)]


def full_ones_only(samples, batch_rows):
    last_start = len(samples) - batch_rows
    return [samples[start : start + batch_rows] for start in range(0, last_start + 1, batch_rows)]


def always_one_more(samples, batch_rows):
    n_batches = len(samples) // batch_rows + 1
    return [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]


def padded_with_zeros(samples, batch_rows):
    result = []
    for start in range(0, len(samples), batch_rows):
        batch = np.zeros((batch_rows, *samples.shape[1:]), dtype=samples.dtype)
        rows = samples[start : start + batch_rows]
        batch[: len(rows)] = rows
        result.append(batch)
    return result


def last_rows_again(samples, batch_rows):
    n_batches = len(samples) // batch_rows
    result = [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]
    if n_batches * batch_rows < len(samples):
        result.append(samples[-batch_rows:])
    return result


def evened_out(samples, batch_rows):
    return np.array_split(samples, -(-len(samples) // batch_rows))


def stops_one_row_early(samples, batch_rows):
    return [samples[start : start + batch_rows] for start in range(0, len(samples) - 1, batch_rows)]


def rounds_to_nearest(samples, batch_rows):
    n_batches = round(len(samples) / batch_rows)
    return [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]


def makes_the_last_longer(samples, batch_rows):
    n_batches = len(samples) // batch_rows
    result = [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]
    if result:
        result[-1] = samples[(n_batches - 1) * batch_rows :]
    return result


def starts_at_minus_nothing(samples, batch_rows):
    n_batches = len(samples) // batch_rows
    result = [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]
    result.append(samples[-(len(samples) % batch_rows) :])
    return result


def one_empty_batch_of_nothing(samples, batch_rows):
    return np.array_split(samples, range(batch_rows, len(samples), batch_rows))


def tuple_of_batches(samples, batch_rows):
    return tuple(samples[start : start + batch_rows] for start in range(0, len(samples), batch_rows))


MEND_BATCHES = Exercise(
    id="start-here/mend-batches",
    kind="debug",
    task="Mend a function that loses the samples left over after the last full batch.",
    names=("batches",),
    reference=batches,
    cases=(
        Case("12 rows, batches of 5: two are left over", lambda rng: (_images(12, 3)(rng), 5)),
        Case("9 rows, batches of 4: one is left over", lambda rng: (_images(9, 3)(rng), 4)),
        Case("8 rows, batches of 4: nothing is left over", lambda rng: (_images(8, 3)(rng), 4)),
        Case("3 rows, batches of 5: not even one full batch", lambda rng: (_images(3, 2, 2)(rng), 5)),
        Case("no rows at all", lambda rng: (_images(0, 3)(rng), 4)),
    ),
    misconceptions=(
        Misconception(
            id="drops-the-rest",
            specimen=full_ones_only,
            says="Every batch you return is full, and the samples after the last full one are still lost.",
            next="Let the last batch start wherever samples are left, even if it cannot be filled.",
        ),
        Misconception(
            id="adds-an-empty-batch",
            specimen=always_one_more,
            says="You always add one batch to the full ones. When nothing is left over, your last batch is empty.",
            next="A batch starts at 0 and every `batch_rows` samples after it, as long as there are samples.",
        ),
        Misconception(
            id="pads-the-last-batch",
            specimen=padded_with_zeros,
            says="Your last batch is filled up with rows of zeros: samples that nobody collected.",
            next="A shorter last batch is allowed. A slice that runs past the end returns what is there.",
        ),
        Misconception(
            id="repeats-rows",
            specimen=last_rows_again,
            says="Your last batch reaches back into the one before it, so some samples are used twice.",
            next="Start the last batch where the one before it ended.",
        ),
        Misconception(
            id="evens-out-the-sizes",
            specimen=evened_out,
            says="The right number of batches, but evened out: the full ones must have exactly `batch_rows` samples.",
            next="Cut at multiples of `batch_rows`; then only the last one can be short.",
        ),
        Misconception(
            id="stops-one-row-early",
            specimen=stops_one_row_early,
            says="When a single sample is left over, it is lost: your starts end one sample too early.",
            next="The last sample has the index `len(samples) - 1`, and a batch may start there.",
        ),
        Misconception(
            id="rounds-to-the-nearest-number",
            specimen=rounds_to_nearest,
            says="Your number of batches is rounded to the nearest one, so a rest of less than half a batch is lost.",
            next="Any rest, however small, needs a batch: round up.",
        ),
        Misconception(
            id="makes-the-last-longer",
            specimen=makes_the_last_longer,
            says="You give the samples left over to the last full batch, which is then longer than `batch_rows`.",
            next="Let them be a batch of their own. What should come out when there is no full batch to add them to?",
        ),
        Misconception(
            id="starts-at-minus-nothing",
            specimen=starts_at_minus_nothing,
            says="When nothing is left over, your last slice starts at `-0`. That is 0, so it holds every sample "
            "again.",
            next="Count the start of the last batch from the front, and add a batch only if samples are left.",
        ),
        Misconception(
            id="cuts-nothing-into-one",
            specimen=one_empty_batch_of_nothing,
            says="Without any samples you return one batch, and it is empty. No samples need no batch.",
            next="What should the list hold when `len(samples)` is 0?",
        ),
        Misconception(
            id="returns-a-tuple",
            specimen=tuple_of_batches,
            says="The batches are right, but in a tuple. The contract asks for a list.",
            next="`[... for ...]` makes a list; `list(...)` turns anything you can loop over into one.",
        ),
    ),
    hints=(
        "`len(samples) // batch_rows` rounds down. Which batches does it not count?",
        "`range(0, len(samples), batch_rows)` gives the start of every batch, the short one included.",
    ),
    core=True,
    level=1,
    minutes=3,
    source="https://docs.pytorch.org/docs/stable/data.html, drop_last of DataLoader (docstring, 2.13.0, read 2026-11)",
    setup="import numpy as np",
)


EXERCISES = (PREDICT_BATCHES, RETURN_SHAPE, MEND_BATCHES)
