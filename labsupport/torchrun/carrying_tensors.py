"""Tensors on their way between kernel and ranks: every dtype, parameters, sparse layouts; data only, on the CPU.

A leaf that requires gradients still does when it arrives; a computed tensor arrives without its graph.
"""

import math
import sys

import numpy as np

from labsupport.errors import LabError
from labsupport.grading import codec, layouts
from labsupport.torchrun.refusing import refused

__all__ = ["LIFT", "is_dtensor", "lower"]

# name: bytes of an element
DTYPES = codec.TENSOR_BYTES | {
    "complex32": 4, "uint16": 2, "uint32": 4, "uint64": 8, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1, "bits8": 1, "bits16": 2, "bits1x8": 1,
    "bits2x4": 1, "bits4x2": 1, **{f"{sign}int{n}": 1 for sign in ("", "u") for n in range(1, 8)},
}  # fmt: skip
_SPARSE = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_BY_ROW = ("sparse_csr", "sparse_bsr")
_DIFFERENTIABLE = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def is_dtensor(value):
    """Return whether a value is a DTensor, without importing what defines it."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def lower(lowering, value, where):
    """Return the tree of a tensor, size, dtype or device; None for anything else. Raises LabError when refused."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return _lower_tensor(lowering, value, where)
    if type(value) is torch.Size:
        return ("size", *map(int, value))
    if type(value) is torch.dtype:
        return ("dtype", str(value).removeprefix("torch."))
    return ("device", str(value)) if type(value) is torch.device else None


def _lower_tensor(lowering, value, where):
    torch = sys.modules["torch"]
    needs_grad = value.requires_grad and value.is_leaf
    role = "parameter" if isinstance(value, torch.nn.Parameter) else "tensor"
    if is_dtensor(value):
        if id(value) not in lowering.gathered:
            raise LabError(
                f"`{where}` is a DTensor: each rank holds a part of it",
                why="it was not gathered",
                next_step=f"gather it on every rank: {where} = {where}.full_tensor()",
            )
        value = lowering.gathered[id(value)]
    data = value.detach()
    if type(data).__name__ == "AsyncCollectiveTensor":  # a functional collective whose result nobody has waited for
        data = data.wait()
    if type(data) is not torch.Tensor or data.is_quantized or data.is_meta or data.is_nested:
        raise refused(value, where)
    if data.layout is torch.strided:
        return ("tensor", role, needs_grad, *_dense(data, where))
    return ("sparse", needs_grad, *_sparse(data, where))


def _dense(data, where):
    """Return (name of the dtype, shape, elements as bytes)."""
    name = str(data.dtype).removeprefix("torch.")
    if name not in DTYPES or not codec.is_shape(data.shape) or data.layout is not sys.modules["torch"].strided:
        raise LabError(f"`{where}` is a tensor of {name}", why="it does not cross", next_step=f"return {where}.float()")
    return name, list(map(int, data.shape)), np.frombuffer(layouts.tensor_bytes(data), np.uint8)


def _sparse(data, where):
    name = str(data.layout).removeprefix("torch.")
    if name not in _SPARSE:
        raise LabError(f"`{where}` has the layout {name}", next_step=f"return {where}.to_dense()")
    if name == "sparse_coo":
        data = data.coalesce()
        parts = (data.indices(), data.values())
    elif name in _BY_ROW:
        parts = (data.crow_indices(), data.col_indices(), data.values())
    else:
        parts = (data.ccol_indices(), data.row_indices(), data.values())
    return name, list(map(int, data.shape)), *(_dense(part, where) for part in map(_strided, parts))


def _strided(part):
    return part.detach().cpu()


def _tensor(lifting, role, needs_grad, name, shape, raw):
    import torch

    tensor = _from_bytes(name, shape, raw)
    if type(needs_grad) is not bool or (needs_grad and name not in _DIFFERENTIABLE):
        raise ValueError("gradients where there can be none")
    if role == "parameter":
        return torch.nn.Parameter(tensor, requires_grad=needs_grad)
    if role != "tensor":
        raise ValueError("an unknown role of a tensor")
    return tensor.requires_grad_(needs_grad)


def _from_bytes(name, shape, raw):
    import torch

    if type(name) is not str or name not in DTYPES or type(raw) is not np.ndarray or raw.dtype != np.uint8:
        raise ValueError("a tensor that is none")
    _check_shape(shape)
    if raw.ndim != 1 or math.prod(shape) * DTYPES[name] != raw.size:
        raise ValueError("a tensor whose bytes do not fit its shape")
    if name == "bool" and raw.size and raw.max() > 1:
        raise ValueError("a bool that is neither 0 nor 1")
    dtype = getattr(torch, name)
    if not raw.size:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(raw).view(dtype).reshape(shape)


def _check_shape(shape):
    if type(shape) is not list or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError("a shape that is none")
    if not codec.is_shape(tuple(shape)):
        raise ValueError("a shape without measure")


def _sparse_tensor(lifting, needs_grad, name, shape, *parts):
    import torch

    if name not in _SPARSE or len(parts) != (2 if name == "sparse_coo" else 3) or type(needs_grad) is not bool:
        raise ValueError("a sparse tensor that is none")
    _check_shape(shape)
    if not all(type(part) is tuple and len(part) == 3 for part in parts):
        raise ValueError("a sparse tensor without its parts")
    tensors = [_from_bytes(*part) for part in parts]
    if any(index.dtype not in (torch.int64, torch.int32) for index in tensors[:-1]):
        raise ValueError("indices that are no whole numbers")
    # The invariants are checked: indices out of range would let later arithmetic write outside the tensor's memory.
    if name == "sparse_coo":
        made = torch.sparse_coo_tensor(*tensors, size=shape, check_invariants=True)
        made = made.coalesce()
    else:
        layout = getattr(torch, name)
        made = torch.sparse_compressed_tensor(*tensors, size=shape, layout=layout, check_invariants=True)
    return made.requires_grad_(needs_grad)


def _size(lifting, *sides):
    import torch

    _check_shape(list(sides))
    return torch.Size(sides)


def _dtype(lifting, name):
    import torch

    if type(name) is not str or name not in DTYPES:  # asked first: torch imports some of its parts when asked for them
        raise ValueError("a dtype that does not cross")
    return getattr(torch, name)


def _device(lifting, name):
    import torch

    if type(name) is not str or len(name) > 40:
        raise ValueError("a device that is none")
    return torch.device(name)


LIFT = {"tensor": _tensor, "sparse": _sparse_tensor, "size": _size, "dtype": _dtype, "device": _device}
