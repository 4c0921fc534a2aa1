"""Right answers to lesson 00, written differently from the references."""

import numpy as np


def shape_of_a_slice(samples, batch_rows):
    return samples[:batch_rows].shape


def shape_by_replacing(samples, batch_rows):
    sizes = list(samples.shape)
    sizes[0] = batch_rows
    return tuple(sizes)


def shape_of_an_empty_array(samples, batch_rows):
    return np.empty((batch_rows,) + np.shape(samples)[1:], np.bool_).shape


def shape_in_a_loop(samples, batch_rows):
    sizes = [batch_rows]
    for axis in range(1, samples.ndim):
        sizes.append(samples.shape[axis])
    return tuple(sizes)


def batches_by_while(samples, batch_rows):
    result = []
    start = 0
    while start < len(samples):
        result.append(samples[start : start + batch_rows])
        start += batch_rows
    return result


def batches_by_splitting(samples, batch_rows):
    cuts = range(batch_rows, len(samples), batch_rows)
    return np.split(samples, cuts) if len(samples) else []


def batches_by_ceiling(samples, batch_rows):
    n_batches = (len(samples) + batch_rows - 1) // batch_rows
    return [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(n_batches)]


def batches_off_the_front(samples, batch_rows):
    result = []
    rest = samples
    while len(rest):
        result.append(rest[:batch_rows].copy())
        rest = rest[batch_rows:]
    return result


def batches_and_a_tail(samples, batch_rows):
    full, rest = divmod(len(samples), batch_rows)
    result = [samples[i * batch_rows : (i + 1) * batch_rows] for i in range(full)]
    if rest:
        result.append(samples[full * batch_rows :])
    return result


ANSWERS = {
    "start-here/return-shape": [shape_of_a_slice, shape_by_replacing, shape_of_an_empty_array, shape_in_a_loop],
    "start-here/mend-batches": [
        batches_by_while,
        batches_by_splitting,
        batches_by_ceiling,
        batches_off_the_front,
        batches_and_a_tail,
    ],
}
