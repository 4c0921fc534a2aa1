"""Right answers to lesson 06, written differently from the references."""

import numpy as np


def shape_from_the_end(*shapes):
    from itertools import zip_longest

    result = []
    for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        stretched = [size for size in sizes if size != 1]
        if any(size != stretched[0] for size in stretched):
            raise ValueError(f"sizes {sizes} do not fit")
        result.insert(0, stretched[0] if stretched else 1)
    return tuple(result)


def shape_two_at_a_time(*shapes):
    so_far = ()
    for shape in shapes:
        longer, shorter = sorted((so_far, tuple(shape)), key=len, reverse=True)
        shorter = (1,) * (len(longer) - len(shorter)) + shorter
        if any(a != b and a != 1 and b != 1 for a, b in zip(longer, shorter)):
            raise ValueError(f"{so_far} against {shape}")
        so_far = tuple(b if a == 1 else a for a, b in zip(longer, shorter))
    return so_far


def shape_by_recursion(*shapes):
    if not any(shapes):
        return ()
    sizes = {shape[-1] if shape else 1 for shape in shapes}
    if len(sizes - {1}) > 1:
        raise ValueError(sizes)
    last = next(iter(sizes - {1}), 1)
    return (*shape_by_recursion(*(shape[:-1] for shape in shapes)), last)


def rows_by_new_axis(x):
    return x - np.mean(x, axis=-1)[:, None]


def rows_by_transposing(x):
    return (x.T - x.T.mean(axis=0)).T


def rows_one_by_one(x):
    return np.array([row - row.mean() for row in x])


def standardize_with_a_mask(x):
    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    return (x - x.mean(axis=0)) / spread


def standardize_by_dividing_where(x):
    centred = x - x.mean(axis=0, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=0, keepdims=True))
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread != 0)


def standardize_and_repair(x):
    return np.nan_to_num((x - x.mean(0)) / x.std(0))


def mse_by_reshaping(predictions, targets):
    if len(predictions) != len(targets):
        raise ValueError("different numbers of samples")
    difference = np.reshape(predictions, -1) - np.reshape(targets, -1)
    return np.mean(np.square(difference))


def mse_in_the_targets_shape(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError((predictions.shape, targets.shape))
    difference = predictions.reshape(targets.shape) - targets
    return float((difference * difference).sum() / difference.size)


def distance_in_blocks(a, b):
    result = np.empty((len(a), len(b)))
    for start in range(0, len(a), 10):
        block = a[start : start + 10, None, :] - b
        result[start : start + 10] = np.sqrt((block**2).sum(axis=-1))
    return result


def distance_with_einsum(a, b):
    result = np.einsum("ik,ik->i", a, a)[:, None] - 2 * a @ b.T + np.einsum("jk,jk->j", b, b)[None, :]
    return np.sqrt(result.clip(min=0))


def distance_feature_by_feature(a, b):
    total = np.zeros((len(a), len(b)))
    for k in range(a.shape[1]):
        total += (a[:, k, None] - b[:, k]) ** 2
    return np.sqrt(total)


def matvec_with_einsum(matrices, vectors):
    return np.einsum("krc,kc->kr", matrices, vectors)


def matvec_by_multiplying(matrices, vectors):
    return (matrices * vectors[:, None, :]).sum(axis=2)


def matvec_by_name(matrices, vectors):
    return np.matvec(matrices, vectors)


def matvec_squeezing_one(matrices, vectors):
    return np.squeeze(np.matmul(matrices, np.expand_dims(vectors, -1)), axis=-1)


def features_by_compress(x, keep):
    return np.compress(keep, x, axis=1)


def features_by_position(x, keep):
    return x[:, np.flatnonzero(keep)]


def features_through_the_transpose(x, keep):
    return x.T[keep].T


def one_hot_by_rows_of_eye(labels, n_classes):
    return np.eye(n_classes, dtype=np.float32)[labels]


def one_hot_by_writing(labels, n_classes):
    result = np.zeros((labels.size, n_classes), dtype="float32")
    result[np.arange(labels.size), labels] = 1
    return result


def one_hot_by_equal(labels, n_classes):
    return np.equal(labels.reshape(-1, 1), np.arange(n_classes)).astype("f4")


def normalize_channels_last(images, channel_axis):
    pixels = np.moveaxis(images, channel_axis, -1).astype(float)
    flat = pixels.reshape(-1, pixels.shape[-1])
    scaled = (pixels - flat.mean(axis=0)) / flat.std(axis=0)
    return np.moveaxis(scaled, -1, channel_axis).astype(np.float32)


def normalize_with_a_shape(images, channel_axis):
    axes = list(range(4))
    axes.remove(axes[channel_axis])
    shape = [1, 1, 1, 1]
    shape[channel_axis] = -1
    mean, spread = images.mean(tuple(axes)).reshape(shape), images.std(tuple(axes)).reshape(shape)
    return np.float32((images - mean) / spread)


def normalize_in_float32(images, channel_axis):
    pixels = images.astype(np.float32)
    axes = (0, 2, 3) if channel_axis == 1 else (0, 1, 2)
    return (pixels - pixels.mean(axis=axes, keepdims=True)) / pixels.std(axis=axes, keepdims=True)


ANSWERS = {
    "broadcasting/result-shape": [shape_from_the_end, shape_two_at_a_time, shape_by_recursion],
    "broadcasting/center-rows": [rows_by_new_axis, rows_by_transposing, rows_one_by_one],
    "broadcasting/standardize": [standardize_with_a_mask, standardize_by_dividing_where, standardize_and_repair],
    "broadcasting/silent-mse": [mse_by_reshaping, mse_in_the_targets_shape],
    "broadcasting/pairwise-distance": [distance_in_blocks, distance_with_einsum, distance_feature_by_feature],
    "broadcasting/batched-matvec": [matvec_with_einsum, matvec_by_multiplying, matvec_by_name, matvec_squeezing_one],
    "broadcasting/keep-features": [features_by_compress, features_by_position, features_through_the_transpose],
    "broadcasting/one-hot": [one_hot_by_rows_of_eye, one_hot_by_writing, one_hot_by_equal],
    "broadcasting/image-normalize": [normalize_channels_last, normalize_with_a_shape, normalize_in_float32],
}

EQUIVALENT_MUTANTS = {
    ("broadcasting/standardize", "Constant: 1"): "a constant feature is 0 after centring, whatever it is divided by",
}
