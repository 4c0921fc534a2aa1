"""Functions of tensors: plain arrays go in as tensors, and what comes back is arrays again.

torch is loaded when a function is called, since most answers never need it.
"""

import numpy as np

from labsupport.probing.drivers import Driven, Unusable

__all__ = ["call", "gradients", "to_arrays", "to_tensors"]


def to_tensors(value, requires_grad=False):
    """Return plain data with its arrays as tensors that share their memory, layout included.

    Args:
        value: arrays, or tuples, lists and dicts of them; whatever else is in there stays.
        requires_grad: make those of a floating type leaves that want a gradient.
    """
    import torch

    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(value)
        return tensor.requires_grad_() if requires_grad and tensor.is_floating_point() else tensor
    if isinstance(value, (list, tuple)):
        return type(value)(to_tensors(item, requires_grad) for item in value)
    if isinstance(value, dict):
        return {key: to_tensors(item, requires_grad) for key, item in value.items()}
    return value


def to_arrays(value):
    """Return plain data with its tensors as arrays of their own memory; bfloat16, which NumPy lacks, as float32."""
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg().cpu()
        if value.dtype is torch.bfloat16:
            value = value.float()
        return value.numpy().copy()
    if isinstance(value, (list, tuple)):
        items = [to_arrays(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: to_arrays(item) for key, item in value.items()}
    return value


def call(answer, *inputs, requires_grad=False):
    """Return what the answer's first name gives for tensors, and whether a gradient would flow back through it."""
    import torch

    result = _first(answer)(*to_tensors(inputs, requires_grad))
    tensors = [item for item in _flat(result) if isinstance(item, torch.Tensor)]
    facts = {"dtype of the result": ", ".join(str(tensor.dtype) for tensor in tensors)}
    if requires_grad:
        facts["graph behind the result"] = ", ".join("yes" if tensor.requires_grad else "no" for tensor in tensors)
    return Driven(value=to_arrays(result), facts=facts)


def gradients(answer, *inputs):
    """Return the result for all inputs but the last, and their gradients when the last one is its cotangent.

    A gradient is that of `(result * cotangent).sum()`: with random cotangents every entry of the Jacobian counts.
    """
    import torch

    *given, cotangent = inputs
    tensors = to_tensors(tuple(given), requires_grad=True)
    result = _first(answer)(*tensors)
    if not isinstance(result, torch.Tensor):
        raise Unusable(f"It returns {type(result).__name__}, expected a tensor.")
    wanted = torch.from_numpy(cotangent)
    if result.shape != wanted.shape:
        raise Unusable(f"The result has shape {tuple(result.shape)}, expected {tuple(wanted.shape)}.")
    if not result.requires_grad:
        raise Unusable("No gradient can flow back from the result: it has no `grad_fn`.")
    result.backward(wanted.to(result.dtype))
    found = {"result": to_arrays(result)}
    for index, tensor in enumerate(tensors):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            found[f"gradient of input {index + 1}"] = None if tensor.grad is None else to_arrays(tensor.grad)
    return found


def _first(answer):
    return next(iter(vars(answer).values()))


def _flat(value):
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in _flat(item)]
    if isinstance(value, dict):
        return [part for item in value.values() for part in _flat(item)]
    return [value]
