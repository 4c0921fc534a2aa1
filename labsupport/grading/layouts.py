"""Arrays with their memory: which array owns it, where in it a view begins, and building both again elsewhere."""

import sys

import numpy as np

__all__ = ["in_order", "rooted", "tensor_bytes", "tensor_from", "view_of"]


def rooted(array, crosses):
    """Return (root, axes, array, offset): the owner of `array`'s memory and where in it `array` begins, in bytes.

    `axes` puts the root's axes in the order of its memory. An owner whose bytes are not one gapless block, or whose
    dtype does not cross (`crosses(owner)` is false), is not used: a copy of `array` in C order is its own root then.
    """
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if type(root) is np.ndarray and crosses(root) and (axes := _memory_order(root)) is not None:
        return root, axes, array, _address(array) - _address(root)
    copy = array.copy(order="C")
    return copy, tuple(range(copy.ndim)), copy, 0


def _memory_order(root):
    """Return the order of axes in which the array's elements lie one after the other, or None."""
    by_stride = tuple(sorted(range(root.ndim), key=lambda axis: -root.strides[axis]))
    orders = (tuple(range(root.ndim)), tuple(reversed(range(root.ndim))), by_stride)
    return next((axes for axes in orders if root.transpose(axes).flags.c_contiguous), None)


def in_order(array, axes):
    """Return an array that owns its memory, with `array`'s bytes in `array`'s order and its axes put back."""
    if axes == tuple(range(array.ndim)):
        return array
    view = array.transpose(tuple(np.argsort(axes)))  # a repeated axis is refused here
    owner = np.empty_like(view, order="K")
    owner[...] = view
    return owner


def _address(array):
    return array.__array_interface__["data"][0]


def view_of(root, dtype, shape, strides, offset, writeable=True):
    """Return the view of `root`'s memory with this layout.

    Raises:
        ValueError: the view would reach outside the root's bytes.
    """
    if not _reaches_within(root.nbytes, dtype, shape, strides, offset):
        raise ValueError("a view that reaches outside its array")
    flat = root.transpose(_memory_order(root)).reshape(-1)
    raw = flat.view(np.uint8) if root.size else np.empty(0, np.uint8)
    view = np.ndarray(shape, dtype, buffer=raw, offset=offset, strides=strides)
    view.flags.writeable = writeable
    return view


def _reaches_within(size, dtype, shape, strides, offset):
    """NumPy asks the same, except of an empty buffer, where it takes the caller's word (seen in 2.4)."""
    if 0 in shape:
        return 0 <= offset <= size
    reach = [step * (side - 1) for side, step in zip(shape, strides)]
    lowest = offset + sum(step for step in reach if step < 0)
    highest = offset + sum(step for step in reach if step > 0) + dtype.itemsize
    return lowest >= 0 and highest <= size


def tensor_bytes(tensor):
    """Return a tensor's elements as bytes, in C order, whatever its device, strides and lazy flags."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(sys.modules["torch"].uint8).numpy().tobytes() if flat.numel() else b""


def tensor_from(raw, name, shape, needs_grad):
    """Return a tensor on the CPU from its bytes; torch must be loaded."""
    torch = sys.modules["torch"]
    dtype = getattr(torch, name)
    tensor = (
        torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape) if len(raw) else torch.empty(shape, dtype=dtype)
    )
    return tensor.requires_grad_() if needs_grad else tensor
