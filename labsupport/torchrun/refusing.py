"""What cannot cross between kernel and ranks, said by name and with the way out."""

import types

from labsupport.errors import LabError

__all__ = ["refused"]

# "module.Class" among a type's bases -> (what it is, the expression that crosses)
_WAYS = {
    "torch.nn.parallel.distributed.DistributedDataParallel": ("a model wrapped by DDP", "{x}.module.state_dict()"),
    "torch.nn.modules.module.Module": ("a model", "{x}.state_dict()"),
    "torch.optim.optimizer.Optimizer": ("an optimizer", "{x}.state_dict()"),
    "torch.optim.lr_scheduler.LRScheduler": ("a scheduler", "{x}.state_dict()"),
    "torch._C.Generator": ("a random generator", "{x}.get_state()"),
    "torch.utils.data.dataset.Dataset": ("a dataset", "[{x}[i] for i in range(10)]"),
    "torch.utils.data.dataloader.DataLoader": ("a loader", "next(iter({x}))"),
    "torch.Tensor": ("a kind of tensor", "{x}.as_subclass(torch.Tensor)"),
    "pandas.core.frame.DataFrame": ("a table", '{x}.to_dict("list")'),
    "pandas.core.series.Series": ("a column", "{x}.to_numpy()"),
    "pandas.DataFrame": ("a table", '{x}.to_dict("list")'),
    "pandas.Series": ("a column", "{x}.to_numpy()"),
    "PIL.Image.Image": ("an image", "np.asarray({x})"),
    "matplotlib.axes._base._AxesBase": ("axes of a figure", "{x}.figure"),
    "numpy.random._generator.Generator": ("a random generator", "{x}.bit_generator.state"),
    "enum.Enum": ("a member of an Enum", "{x}.value"),
    "decimal.Decimal": ("a Decimal", "str({x})"),
    "fractions.Fraction": ("a Fraction", "({x}.numerator, {x}.denominator)"),
    "uuid.UUID": ("a UUID", "str({x})"),
    "builtins.generator": ("a generator", "list({x})"),
    "builtins.map": ("an iterator", "list({x})"),
    "builtins.zip": ("an iterator", "list({x})"),
    "builtins.dict_keys": ("a view of a dict", "list({x})"),
    "builtins.dict_values": ("a view of a dict", "list({x})"),
    "builtins.dict_items": ("a view of a dict", "dict({x})"),
    "builtins.memoryview": ("a view of memory", "bytes({x})"),
    "builtins.dict": ("a kind of dict", "dict({x})"),
    "builtins.list": ("a kind of list", "list({x})"),
    "builtins.tuple": ("a kind of tuple", "tuple({x})"),
    "builtins.set": ("a kind of set", "set({x})"),
    "builtins.str": ("a kind of str", "str({x})"),
    "builtins.int": ("a kind of int", "int({x})"),
    "builtins.float": ("a kind of float", "float({x})"),
    "_io._IOBase": ("an open file", "{x}.name"),
}
_OF_THE_GROUP = ("torch._C._distributed_c10d", "torch.distributed.device_mesh", "torch.distributed.distributed_c10d")


def refused(value, where):
    """Return the LabError for a value that does not cross, at `where` ("model" or "results['net']")."""
    kind = type(value)
    if isinstance(value, type):
        return _code(where, f"`{where}` is the class {kind_name(value)}")
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return _code(where, f"`{where}` is a function")
    if isinstance(value, types.ModuleType):
        return LabError(
            f"`{where}` is the module {value.__name__}", next_step=f"import {value.__name__} where it is used"
        )
    if any(base.__module__ in _OF_THE_GROUP for base in kind.__mro__):
        what = f"`{where}` is {_one(kind_name(kind))}"
        return LabError(what, why="it belongs to the ranks' process group", next_step="return numbers or tensors")
    if (tensor := _tensor_without_data(value, where)) is not None:
        return tensor
    for base in kind.__mro__:
        if (way := _WAYS.get(f"{base.__module__}.{base.__qualname__}")) is not None:
            return _with_way_out(where, kind, *way)
    parts = f"vars({where})" if hasattr(value, "__dict__") else "its parts"
    return LabError(
        f"`{where}` is {_one(kind_name(kind))}",
        why="objects of one's own do not cross: that would take their code along",
        next_step=f"return its data as numbers, text, lists, dicts, arrays or tensors, such as {parts}",
    )


def _with_way_out(where, kind, what, way):
    expression = way.format(x=where)
    step = f"write `{where}_out = {expression}` in the cell and name `{where}_out`"
    if not where.isidentifier():
        step = f"put {expression} in its place"
    same = what.split()[-1] == kind.__name__
    return LabError(f"`{where}` is {what}" + ("" if same else f" ({kind_name(kind)})"), why="its data crosses, the "
                    "object does not", next_step=step)  # fmt: skip


def _tensor_without_data(value, where):
    if not any(f"{base.__module__}.{base.__qualname__}" == "torch.Tensor" for base in type(value).__mro__):
        return None
    if value.is_meta:
        return LabError(f"`{where}` is a tensor on the meta device: it has no data", next_step="return its shape")
    for what, holds, way in (
        ("a quantized tensor", value.is_quantized, "dequantize()"),
        ("a nested tensor", value.is_nested, "unbind()"),
    ):
        if holds:
            return _with_way_out(where, type(value), what, f"{{x}}.{way}")
    return None


def _code(where, what):
    return LabError(
        what,
        why="only data comes back, never code",
        next_step=f"define it in a notebook cell and give it to the ranks with --push {where.split('[')[0]}",
    )


def _one(name):
    """Return "a Point" or "an Adam"."""
    return f"{'an' if name[:1] in 'AEIOUaeio' else 'a'} {name}"


def kind_name(kind):
    """Return a class's name as one would write it: without the module for builtins and the notebook's own."""
    hidden = kind.__module__ in ("builtins", "__main__", "answer")
    return kind.__qualname__ if hidden else f"{kind.__module__.split('.')[0]}'s {kind.__qualname__}"
