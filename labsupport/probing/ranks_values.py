"""What goes into a rank and comes out of it: arrays become tensors of the same layout, results become plain data."""

import numpy as np
import torch

from labsupport.probing.plain import Opaque, fresh, identical, plain

__all__ = ["as_plain", "as_tensors", "changed", "layouts"]

_MAX_DEPTH = 40


def as_tensors(inputs):
    """Return fresh copies of a tuple of inputs in which every array is a tensor with the same dtype, shape and strides.

    What torch has no tensor for (text, negative strides) stays an array. Inputs that share memory still do.
    """
    return tuple(_as_tensor(value) for value in fresh(inputs))


def _as_tensor(value):
    kind = type(value)
    if kind is np.ndarray:
        try:
            return torch.from_numpy(value)
        except (TypeError, ValueError):
            return value
    if kind in (list, tuple):
        return kind(_as_tensor(item) for item in value)
    if kind is dict:
        return {key: _as_tensor(item) for key, item in value.items()}
    return value


def as_plain(value):
    """Return a result as plain data: tensors as arrays, any mapping as a dict, dtypes and devices as text."""
    return plain(_without_tensors(value, 0))


def _without_tensors(value, depth):
    if depth > _MAX_DEPTH:
        return Opaque("structure nested too deeply")
    if isinstance(value, torch.Tensor):
        return _array_of(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    kind = type(value)
    if isinstance(value, dict):  # a state dict is an OrderedDict
        return {_key(key): _without_tensors(item, depth + 1) for key, item in value.items()}
    if kind is list:
        return [_without_tensors(item, depth + 1) for item in value]
    if isinstance(value, tuple):  # a named tuple and a torch.Size, too
        return tuple(_without_tensors(item, depth + 1) for item in value)
    return value


def _array_of(tensor):
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return Opaque(type(tensor).__name__)
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        return Opaque(f"Tensor of layout {tensor.layout}")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:  # NumPy has none: the name travels with the numbers
        return {"bfloat16": tensor.float().numpy()}
    try:
        return tensor.numpy()
    except TypeError:
        return Opaque(f"Tensor of {tensor.dtype}")


def _key(key):
    return key if type(key) in (str, int) else str(key)


def layouts(args):
    """Return what tensors and arrays are beside their values: an answer may resize its caller's tensor."""
    return [(tuple(a.shape), a.stride(), a.dtype) if isinstance(a, torch.Tensor) else None for a in args]


def changed(args, before, shapes):
    """Return the indices of arguments that are not what they were: `as_plain(args)` and `layouts(args)` of then."""
    now = zip(as_plain(args), before, layouts(args), shapes, strict=True)
    return tuple(i for i, (a, b, x, y) in enumerate(now) if not identical(a, b) or x != y)
