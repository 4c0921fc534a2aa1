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


SHAPE_WITH_AN_ERROR_OF_ITS_OWN = """
class ShapeError(ValueError):
    pass


def result_shape(*shapes):
    if not any(shapes):
        return ()
    sizes = {shape[-1] for shape in shapes if shape} - {1}
    if len(sizes) > 1:
        raise ShapeError(sorted(sizes))
    return (*result_shape(*(shape[:-1] for shape in shapes)), sizes.pop() if sizes else 1)
"""


def shape_from_a_table(*shapes):
    n_axes = max(map(len, shapes), default=0)
    table = np.ones((len(shapes), n_axes), dtype=int)
    for row, shape in zip(table, shapes):
        row[n_axes - len(shape) :] = shape
    result = []
    for column in table.T:
        other = np.unique(column[column != 1])
        if other.size > 1:
            raise ValueError(f"sizes {other}")
        result.append(other[0] if other.size else 1)
    return tuple(result)


def rows_by_new_axis(x):
    return x - np.mean(x, axis=-1)[:, None]


def rows_by_transposing(x):
    return (x.T - x.T.mean(axis=0)).T


def rows_one_by_one(x):
    return np.array([row - row.mean() for row in x])


def rows_one_function_at_a_time(x):
    return np.apply_along_axis(lambda row: row - row.mean(), 1, x)


def standardize_with_a_mask(x):
    constant = np.ptp(x, axis=0) == 0
    spread = x.std(axis=0)
    spread[constant] = 1.0
    scaled = (x - x.mean(axis=0)) / spread
    scaled[:, constant] = 0
    return scaled


def standardize_by_dividing_where(x):
    centred = x - x.mean(axis=0, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=0, keepdims=True))
    varies = (x != x[:1]).any(axis=0, keepdims=True)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=varies)


def standardize_column_by_column(x):
    result = np.zeros(x.shape)
    for j, column in enumerate(x.T.astype(float)):
        if column.min() != column.max():
            result[:, j] = (column - column.mean()) / column.std()
    return result


def standardize_relative_to_the_mean(x):
    mean, spread = x.mean(axis=0), x.std(axis=0)
    constant = spread <= 1e-12 * np.abs(mean)
    return np.where(constant, 0.0, (x - mean) / np.where(constant, 1, spread))


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


def mse_one_by_one(predictions, targets):
    total = 0.0
    for predicted, wanted in zip(predictions.flat, targets.flat, strict=True):
        total += (predicted - wanted) ** 2
    return float(total / len(predictions))


def mse_as_a_product(predictions, targets):
    predicted, wanted = (np.asarray(side, dtype=float).reshape(-1) for side in (predictions, targets))
    if len(predicted) != len(wanted):
        raise ValueError("different numbers of samples")
    return float(np.vdot(predicted - wanted, predicted - wanted)) / len(predicted)


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


def distance_from_the_absolute(a, b):
    squares = np.square(a).sum(axis=1, keepdims=True) + np.square(b).sum(axis=1)
    return np.sqrt(np.abs(squares - 2 * (a @ b.T)))


def distance_around_the_middle(a, b):
    middle = b.mean(axis=0)
    a, b = a - middle, b - middle
    squares = (a * a).sum(-1, keepdims=True) - 2 * np.dot(a, b.T) + (b * b).sum(-1)
    squares[squares < 0] = 0
    return squares**0.5


def distance_without_nan(a, b):
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T
    return np.nan_to_num(np.sqrt(squares))


def distance_by_hypotenuses(a, b):
    result = np.zeros((len(a), len(b)))
    for x, y in zip(a.T, b.T):
        result = np.hypot(result, np.subtract.outer(x, y))
    return result


def distance_point_by_point(a, b):
    return np.stack([np.linalg.norm(a - point, axis=1) for point in b], axis=1)


def matvec_with_einsum(matrices, vectors):
    return np.einsum("krc,kc->kr", matrices, vectors)


def matvec_by_multiplying(matrices, vectors):
    return (matrices * vectors[:, None, :]).sum(axis=2)


def matvec_by_name(matrices, vectors):
    return np.matvec(matrices, vectors)


def matvec_squeezing_one(matrices, vectors):
    return np.squeeze(np.matmul(matrices, np.expand_dims(vectors, -1)), axis=-1)


def matvec_as_rows(matrices, vectors):
    return (vectors[:, None] @ matrices.swapaxes(1, 2))[:, 0]


def matvec_in_a_loop(matrices, vectors):
    result = np.empty(matrices.shape[:2], dtype=np.result_type(matrices, vectors))
    for i in range(len(matrices)):
        result[i] = matrices[i] @ vectors[i]
    return result


def features_by_compress(x, keep):
    return np.compress(keep, x, axis=1)


def features_by_position(x, keep):
    return x[:, np.flatnonzero(keep)]


def features_through_the_transpose(x, keep):
    return x.T[keep].T


def features_by_deleting(x, keep):
    return np.delete(x, np.logical_not(keep), axis=1)


def features_one_by_one(x, keep):
    result = np.empty((x.shape[0], int(keep.sum())), x.dtype)
    for column, j in enumerate(j for j, kept in enumerate(keep) if kept):
        result[:, column] = x[:, j]
    return result


def one_hot_by_rows_of_eye(labels, n_classes):
    return np.eye(n_classes, dtype=np.float32)[labels]


def one_hot_by_writing(labels, n_classes):
    result = np.zeros((labels.size, n_classes), dtype="float32")
    result[np.arange(labels.size), labels] = 1
    return result


def one_hot_by_equal(labels, n_classes):
    return np.equal(labels.reshape(-1, 1), np.arange(n_classes)).astype("f4")


def one_hot_class_by_class(labels, n_classes):
    result = np.empty((len(labels), n_classes), np.float32)
    for label in range(n_classes):
        result[:, label] = labels == label
    return result


def one_hot_by_multiplying(labels, n_classes):
    return (np.arange(n_classes) == labels.reshape(-1, 1)) * np.float32(1)


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


def normalize_channel_by_channel(images, channel_axis):
    result = np.empty(images.shape, np.float32)
    for into, channel in zip(np.moveaxis(result, channel_axis, 0), np.moveaxis(images, channel_axis, 0)):
        into[...] = (channel - channel.mean()) / channel.std()
    return result


def normalize_by_moments(images, channel_axis):
    axes = tuple({0, 1, 2, 3} - {channel_axis % images.ndim})
    pixels = images.astype(np.float64)
    mean = pixels.mean(axes, keepdims=True)
    variance = (pixels * pixels).mean(axes, keepdims=True) - mean * mean
    return np.divide(pixels - mean, np.sqrt(variance)).astype(np.float32)


ANSWERS = {
    "broadcasting/result-shape": [
        shape_from_the_end,
        shape_two_at_a_time,
        shape_by_recursion,
        shape_from_a_table,
        SHAPE_WITH_AN_ERROR_OF_ITS_OWN,
    ],
    "broadcasting/center-rows": [rows_by_new_axis, rows_by_transposing, rows_one_by_one, rows_one_function_at_a_time],
    "broadcasting/standardize": [
        standardize_with_a_mask,
        standardize_by_dividing_where,
        standardize_column_by_column,
        standardize_relative_to_the_mean,
    ],
    "broadcasting/silent-mse": [mse_by_reshaping, mse_in_the_targets_shape, mse_one_by_one, mse_as_a_product],
    "broadcasting/pairwise-distance": [
        distance_in_blocks,
        distance_with_einsum,
        distance_feature_by_feature,
        distance_from_the_absolute,
        distance_around_the_middle,
        distance_without_nan,
        distance_by_hypotenuses,
        distance_point_by_point,
    ],
    "broadcasting/batched-matvec": [
        matvec_with_einsum,
        matvec_by_multiplying,
        matvec_by_name,
        matvec_squeezing_one,
        matvec_as_rows,
        matvec_in_a_loop,
    ],
    "broadcasting/keep-features": [
        features_by_compress,
        features_by_position,
        features_through_the_transpose,
        features_by_deleting,
        features_one_by_one,
    ],
    "broadcasting/one-hot": [
        one_hot_by_rows_of_eye,
        one_hot_by_writing,
        one_hot_by_equal,
        one_hot_class_by_class,
        one_hot_by_multiplying,
    ],
    "broadcasting/image-normalize": [
        normalize_channels_last,
        normalize_with_a_shape,
        normalize_in_float32,
        normalize_channel_by_channel,
        normalize_by_moments,
    ],
}

EQUIVALENT_MUTANTS = {
    ("broadcasting/standardize", "Constant: 1"): "a constant feature is 0 after centring, whatever it is divided by",
}
