"""Counting the bytes of tensors that are alive, whoever keeps them: a graph, a closure or an attribute."""

import weakref

__all__ = ["KeptBytes"]


def _mode():
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


class KeptBytes:
    """A context in which memory made by torch operations is counted: `bytes` alive now, `peak` the most so far.

    Each memory counts once, however many tensors look at it; what existed before does not count.
    """

    def __init__(self):
        self.bytes = self.peak = 0
        self._seen = {}
        self._watch = _watcher(self._made)

    def __enter__(self):
        self._watch.__enter__()
        return self

    def __exit__(self, *error):
        return self._watch.__exit__(*error)

    def _made(self, tensor, before):
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if not storage.nbytes() or address in self._seen or address in before:
            return
        self._seen[address] = size = storage.nbytes()
        weakref.finalize(storage, self._gone, address, size)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)

    def _gone(self, address, size):
        if self._seen.pop(address, None):
            self.bytes -= size


def _watcher(made):
    import torch
    from torch.utils._pytree import tree_leaves

    class Watch(_mode()):
        """Calls `made` with every tensor an operation returns and the memory its inputs had."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            before = {t.untyped_storage().data_ptr() for t in given}
            result = func(*args, **(kwargs or {}))
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor):
                    made(tensor, before)
            return result

    return Watch()
