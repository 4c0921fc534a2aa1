"""Torch tensors as figures need them, read without importing torch: layout in bytes, values as texts."""

import math

from labsupport.errors import LabError
from labsupport.figures.words import value_label

__all__ = ["dtype_name", "is_tensor", "labels_of", "numpy_of", "result_of_tensors", "with_memory"]

_PARTS = ("data_ptr", "detach", "storage_offset", "untyped_storage", "element_size")
_REFUSED = (RuntimeError, NotImplementedError, TypeError)  # how torch says that a kind of tensor cannot do something


def is_tensor(value):
    """Return whether `value` is a torch tensor; its class is asked, since an object may do anything when it is."""
    return all(hasattr(type(value), name) for name in _PARTS)


def with_memory(tensor):
    """Return `tensor` without its gradient history, once it is sure that it has values, strides and a buffer.

    Raises:
        LabError: it has not; says which tensor has.
    """
    kind = str(tensor.layout).removeprefix("torch.")
    if tensor.is_nested:
        raise LabError("a nested tensor has no single shape", next_step="pass one of its parts: x.unbind()[0]")
    if kind != "strided":
        raise LabError(f"a tensor of layout {kind} has no strides", next_step="pass x.to_dense()")
    if tensor.is_meta:
        raise LabError("a tensor on the device meta has no values", next_step="pass one on another device")
    if tensor.is_quantized:
        raise LabError("the values of a quantized tensor are not in its memory", next_step="pass x.dequantize()")
    return tensor.detach()


def numpy_of(tensor):
    """Return the values of a tensor as a NumPy array; what NumPy has no dtype for comes as float32."""
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.float().numpy()


def dtype_name(tensor):
    """Return "float32" for torch.float32."""
    return str(tensor.dtype).removeprefix("torch.")


def labels_of(tensor, places=None):
    """Return the texts of a tensor's elements in row-major order, or of a flat one at `places`.

    A dtype that torch itself cannot turn into numbers (packed 4-bit floats, bits) gives "·".
    """
    try:
        values = tensor if places is None else tensor[places]
        return [value_label(v) for v in values.flatten().tolist()]
    except _REFUSED:
        return ["·"] * (math.prod(tensor.shape) if places is None else len(places))


def result_of_tensors(tensors, with_labels):
    """Return (dtype, itemsize, texts) of the sum, as torch has it; (None, 0, []) where it adds no such tensors.

    Args:
        tensors: what `with_memory` returned.
        with_labels: whether the sum is made; without it only its dtype is found out.
    """
    try:
        # Whether a tensor has axes decides on the dtype too, so single elements stand for the tensors.
        total = _sum([tensor.new_zeros([1] * tensor.dim()) for tensor in tensors])
        labels = labels_of(_sum(tensors)) if with_labels else []
    except _REFUSED:
        return None, 0, []
    return dtype_name(total), total.element_size(), labels


def _sum(tensors):
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total
