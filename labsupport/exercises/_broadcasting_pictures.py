"""Lesson 06, pictures: statistics per channel."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception

SETUP = "import numpy as np"


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
