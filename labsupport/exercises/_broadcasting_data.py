"""Lesson 06, tables and pictures: masks, classes, channels."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

RULES = "https://numpy.org/doc/stable/user/basics.broadcasting.html (read 2026-11)"
SETUP = "import numpy as np"


# -- keep-features ---------------------------------------------------------------------------------------------


def keep_features(x, keep):
    return x[:, keep]


def still_selects_rows(x, keep):
    return x[keep, :]


def multiplies_by_the_mask(x, keep):
    return x * keep


def mask_of_every_element(x, keep):
    return x[np.broadcast_to(keep, x.shape)]


def indexes_with_a_tuple(x, keep):
    return x[:, np.where(keep)]


def table_and_mask(rows, keep):
    """Return a case's `make`: a table with one column per entry of `keep`."""
    return lambda rng: (rng.normal(0, 1, (rows, len(keep))), np.array(keep, dtype=bool))


KEEP_FEATURES = Exercise(
    id="broadcasting/keep-features",
    kind="debug",
    task="Repair a selection of features by a mask that selects samples instead.",
    names=("keep_features",),
    setup=SETUP,
    reference=keep_features,
    cases=(
        Case("four samples, four features: the trap", table_and_mask(4, (1, 0, 1, 0))),
        Case("three samples, four features", table_and_mask(3, (0, 1, 1, 1))),
        Case("nothing kept", table_and_mask(2, (0, 0, 0))),
    ),
    misconceptions=(
        Misconception(
            id="still-selects-rows",
            specimen=still_selects_rows,
            says="The mask still picks along the first axis: samples. With as many samples as features "
            "NumPy does not object.",
            next="A mask is not broadcast: put it in the position of the axis it describes.",
        ),
        Misconception(
            id="multiplies-by-the-mask",
            specimen=multiplies_by_the_mask,
            says="Multiplying does broadcast the mask, but sets features to zero instead of removing them.",
            next="Index with the mask, so that the unwanted columns are gone.",
        ),
        Misconception(
            id="mask-of-every-element",
            specimen=mask_of_every_element,
            says="A mask with one entry per element returns a flat list: NumPy cannot know that the rest "
            "forms a table.",
            next="Use the mask of length (features,) as it is, on the last axis only.",
        ),
        Misconception(
            id="indexes-with-a-tuple",
            specimen=indexes_with_a_tuple,
            says="np.where returns a tuple with one array in it, and that tuple as an index adds an axis to "
            "your result.",
            next="The mask is an index already.",
        ),
    ),
    hints=("x[mask] means x[mask, :]. Where does a colon have to go so that the mask meets the columns?",),
    core=False,
    level=1,
    minutes=3,
    source="https://numpy.org/doc/stable/user/basics.indexing.html#boolean-array-indexing (read 2026-11)",
)


# -- one-hot ---------------------------------------------------------------------------------------------------


def one_hot(labels, n_classes):
    return (labels[:, np.newaxis] == np.arange(n_classes)).astype(np.float32)


def fills_in_a_loop(labels, n_classes):
    result = np.zeros((len(labels), n_classes), dtype=np.float32)
    for i, label in enumerate(labels):
        result[i, label] = 1
    return result


def classes_down_the_rows(labels, n_classes):
    return (labels == np.arange(n_classes)[:, np.newaxis]).astype(np.float32)


def counts_classes_itself(labels, n_classes):
    return (labels[:, np.newaxis] == np.arange(labels.max() + 1)).astype(np.float32)


def writes_whole_columns(labels, n_classes):
    result = np.zeros((len(labels), n_classes), dtype=np.float32)
    result[:, labels] = 1
    return result


def stacks_the_rows(labels, n_classes):
    return np.array([np.eye(n_classes, dtype=np.float32)[label] for label in labels])


def float64_by_default(labels, n_classes):
    return np.eye(n_classes)[labels]


ONE_HOT = Exercise(
    id="broadcasting/one-hot",
    kind="function",
    task="Return one row per label, float32, 1 at the label and 0 elsewhere, without a Python loop.",
    names=("one_hot",),
    setup=SETUP,
    reference=one_hot,
    cases=(
        Case("four labels, three classes", lambda rng: (rng.permutation([0, 2, 1, 2]), 3)),
        Case("the highest class does not occur", lambda rng: (rng.permutation([0, 1, 1]), 5)),
        Case("no labels", lambda rng: (np.zeros(0, dtype=np.int64), 4)),
        Case("100 labels stored as uint8", lambda rng: (rng.permutation(100).astype(np.uint8) % np.uint8(10), 10)),
    ),
    probe=Probe("call", {"max_steps": 30}),
    misconceptions=(
        Misconception(
            id="fills-in-a-loop",
            specimen=fills_in_a_loop,
            says="Python writes the ones one by one: 100 labels, 100 turns of a loop.",
            next="Compare a column of labels with a row of classes; one comparison does all pairs.",
        ),
        Misconception(
            id="classes-down-the-rows",
            specimen=classes_down_the_rows,
            says="Your table has one row per class. The samples must run down, the classes across.",
            next="Give the new axis to the labels, not to the classes.",
        ),
        Misconception(
            id="counts-classes-itself",
            specimen=counts_classes_itself,
            says="You take the number of classes from the largest label seen. A batch without the last "
            "class gets too few columns.",
            next="Use n_classes: the number of columns must not depend on the batch.",
        ),
        Misconception(
            id="writes-whole-columns",
            specimen=writes_whole_columns,
            says="result[:, labels] writes every row of those columns. A colon means all rows, not the row that "
            "belongs to the label.",
            next="Compare instead of writing, or name the row of each label too.",
        ),
        Misconception(
            id="stacks-the-rows",
            specimen=stacks_the_rows,
            says="You collect rows in a list, one turn each. Without labels the list is empty, and its "
            "array has one axis, (0,).",
            next="Let broadcasting make the table: zero labels then give (0, n_classes).",
        ),
        Misconception(
            id="float64-by-default",
            specimen=float64_by_default,
            says="Your ones are float64, the default of np.eye, np.zeros and np.ones: twice the bytes the "
            "contract asks for.",
            next="Name the dtype when you create or convert the result.",
        ),
    ),
    hints=(
        "A comparison broadcasts like a sum. Which two arrays give a (samples, classes) table of True and False?",
        "labels[:, np.newaxis] has shape (samples, 1); np.arange(n_classes) has shape (classes,).",
    ),
    core=False,
    level=2,
    minutes=5,
    source=RULES,
)


# -- image-normalize -------------------------------------------------------------------------------------------


def normalize_images(images, channel_axis):
    others = tuple(axis for axis in range(images.ndim) if axis != channel_axis % images.ndim)
    mean = images.mean(axis=others, keepdims=True)
    spread = images.std(axis=others, keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def channels_always_first(images, channel_axis):
    mean = images.mean(axis=(0, 2, 3), keepdims=True)
    spread = images.std(axis=(0, 2, 3), keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def channels_always_last(images, channel_axis):
    mean = images.mean(axis=(0, 1, 2), keepdims=True)
    spread = images.std(axis=(0, 1, 2), keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def every_image_alone(images, channel_axis):
    others = tuple(axis for axis in range(1, images.ndim) if axis != channel_axis % images.ndim)
    mean = images.mean(axis=others, keepdims=True)
    spread = images.std(axis=others, keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def forgets_negative_axes(images, channel_axis):
    others = tuple(axis for axis in range(images.ndim) if axis != channel_axis)
    mean = images.mean(axis=others, keepdims=True)
    spread = images.std(axis=others, keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def averages_the_colours(images, channel_axis):
    mean = images.mean(axis=channel_axis, keepdims=True)
    spread = images.std(axis=channel_axis, keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def one_scale_for_all_channels(images, channel_axis):
    return ((images - images.mean()) / images.std()).astype(np.float32)


def squares_in_eight_bits(images, channel_axis):
    others = tuple(axis for axis in range(images.ndim) if axis != channel_axis % images.ndim)
    mean = images.mean(axis=others, keepdims=True)
    variance = (images**2).mean(axis=others, keepdims=True) - mean**2
    return ((images - mean) / np.sqrt(variance)).astype(np.float32)


def subtracts_in_eight_bits(images, channel_axis):
    others = tuple(axis for axis in range(images.ndim) if axis != channel_axis % images.ndim)
    mean = images.mean(axis=others, keepdims=True).astype(images.dtype)
    spread = images.std(axis=others, keepdims=True)
    return ((images - mean) / spread).astype(np.float32)


def statistics_without_axes(images, channel_axis):
    others = tuple(axis for axis in range(images.ndim) if axis != channel_axis % images.ndim)
    return ((images - images.mean(axis=others)) / images.std(axis=others)).astype(np.float32)


def leaves_float64(images, channel_axis):
    others = tuple(axis for axis in range(images.ndim) if axis != channel_axis % images.ndim)
    mean = images.mean(axis=others, keepdims=True)
    spread = images.std(axis=others, keepdims=True)
    return (images - mean) / spread


def pictures(rng, n, channels, rows, cols):
    """Return (n, channels, rows, cols) uint8; every image and channel has a brightness of its own and varies."""
    level = 40 * np.arange(n)[:, None] + 25 * np.arange(channels)
    noise = rng.permutation(n * channels * rows * cols).reshape(n, channels, rows, cols) % 90
    return (level[:, :, None, None] + noise).astype(np.uint8)


IMAGE_NORMALIZE = Exercise(
    id="broadcasting/image-normalize",
    kind="function",
    task="Scale each channel of a uint8 batch to mean 0 and deviation 1, channels first or last; return float32.",
    names=("normalize_images",),
    setup=SETUP,
    reference=normalize_images,
    cases=(
        Case("channels last: (2, 4, 5, 3)", lambda rng: (np.moveaxis(pictures(rng, 2, 3, 4, 5), 1, -1).copy(), 3)),
        Case("channels first: (2, 3, 4, 5)", lambda rng: (pictures(rng, 2, 3, 4, 5), 1)),
        Case("everything 3: (3, 3, 3, 3), channels first", lambda rng: (pictures(rng, 3, 3, 3, 3), 1)),
        Case("channel axis given as -1", lambda rng: (np.moveaxis(pictures(rng, 2, 3, 4, 2), 1, -1), -1)),
        Case("one picture", lambda rng: (pictures(rng, 1, 3, 6, 4), 1)),
    ),
    misconceptions=(
        Misconception(
            id="channels-always-first",
            specimen=channels_always_first,
            says="You reduce over axes 0, 2 and 3 whatever you are told. With channels last that averages "
            "colours and keeps picture rows apart.",
            next="Build the tuple of axes from channel_axis: all but that one.",
        ),
        Misconception(
            id="channels-always-last",
            specimen=channels_always_last,
            says="You reduce over axes 0, 1 and 2 whatever you are told. With channels first that gives every "
            "picture column its own mean.",
            next="Build the tuple of axes from channel_axis: all but that one.",
        ),
        Misconception(
            id="every-image-alone",
            specimen=every_image_alone,
            says="Each picture gets its own mean, so a dark and a bright picture become equally bright.",
            next="The statistics belong to the channel: reduce over the batch axis too.",
        ),
        Misconception(
            id="forgets-negative-axes",
            specimen=forgets_negative_axes,
            says="With channel_axis = -1 you leave no axis out: none of 0, 1, 2, 3 equals -1, so all colours "
            "share one mean.",
            next="Turn a negative axis into an ordinary one first.",
        ),
        Misconception(
            id="averages-the-colours",
            specimen=averages_the_colours,
            says="You average over the channel axis, so each pixel is compared with its own colours and the "
            "picture turns flat.",
            next="The axis you name is the one that disappears. Name all the others.",
        ),
        Misconception(
            id="one-scale-for-all-channels",
            specimen=one_scale_for_all_channels,
            says="One mean for all channels leaves a colour cast: the bright channel stays bright.",
            next="Keep the channel axis out of the reduction; expect one mean per channel.",
        ),
        Misconception(
            id="squares-in-eight-bits",
            specimen=squares_in_eight_bits,
            says="images**2 is computed in uint8, where 20² = 400 is stored as 144. The variance is noise.",
            next="Convert before you square, or use std, which computes in float64.",
        ),
        Misconception(
            id="subtracts-in-eight-bits",
            specimen=subtracts_in_eight_bits,
            says="You round the mean to uint8, and uint8 minus uint8 stays uint8: 10 - 20 is 246. Dark "
            "pixels turn bright.",
            next="Leave the mean as a float; the difference is then a float as well.",
        ),
        Misconception(
            id="statistics-without-axes",
            specimen=statistics_without_axes,
            says="Your statistics have shape (channels,), which lines up with the last axis. That is right "
            "only when channels come last.",
            next="Keep the reduced axes as ones, and the same line serves both layouts.",
        ),
        Misconception(
            id="leaves-float64",
            specimen=leaves_float64,
            says="You return float64: right in value, and twice the bytes a network is fed with.",
            next="Convert the result to float32 at the end.",
        ),
    ),
    hints=(
        "Which axes may disappear when one number per channel is wanted? Write the answer for (0, 1, 2, 3) "
        "without channel_axis.",
        "keepdims=True turns the means into (1, channels, 1, 1) or (1, 1, 1, channels) by itself.",
        "-1 % 4 is 3: a remainder makes a negative axis ordinary.",
    ),
    core=False,
    level=3,
    minutes=10,
    source="https://numpy.org/doc/stable/reference/generated/numpy.mean.html (read 2026-11)",
)
