"""Where batches go: a real accelerator, or one that tests play. Imports torch only when a device is asked for."""

from labsupport.errors import LabError

__all__ = ["Device", "bytes_of", "device_of"]


class Device:
    """A torch device that batches are moved to.

    Args:
        name: as torch has it, "cuda:0", "mps", "cpu".
    """

    def __init__(self, name):
        import torch

        self.name = str(name)
        self._device = torch.device(name)

    @property
    def pins(self):
        """Whether pinned memory makes a difference on the way to it."""
        return self._device.type != "cpu"

    def move(self, batch, pinned):
        """Return the batch on the device; from pinned memory the copy need not wait for itself."""
        return _mapped(batch, lambda tensor: tensor.to(self._device, non_blocking=pinned))

    def synchronize(self):
        """Return when everything asked of the device is done."""
        import torch

        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)


def device_of(device):
    """Return a `Device` for a name, "auto" (None where there is no accelerator), a device-like object or None.

    Raises:
        LabError: this machine has no such device.
    """
    if device is None or hasattr(device, "move"):
        return device
    import torch

    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device == "auto":
        return Device(found) if found is not None else None
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise LabError(f"there is no device {device!r}", why=str(error).split(". ")[0]) from None
    if wanted.type != "cpu" and (found is None or found.type != wanted.type):
        have = f"torch finds {found} on this machine" if found is not None else "torch finds no accelerator here"
        raise LabError(f"there is no device {device!r}", why=have, next_step="leave the device out, or say auto")
    return Device(wanted)


def bytes_of(batch):
    """Return the bytes of all tensors and arrays in a batch; text and numbers count nothing."""
    if (size := getattr(batch, "nbytes", None)) is not None:
        return int(size)
    if isinstance(batch, dict):
        return sum(bytes_of(value) for value in batch.values())
    if isinstance(batch, (list, tuple)):
        return sum(bytes_of(value) for value in batch)
    return len(batch) if isinstance(batch, (bytes, bytearray)) else 0


def _mapped(batch, change):
    """Return the batch with every tensor changed; what has a `to` of its own is asked, other things stay."""
    import torch

    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, dict):
        return {key: _mapped(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_mapped(value, change) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_mapped(value, change) for value in batch)
    return change(batch) if hasattr(batch, "to") else batch
