"""Wrong answers that try to pass as right ones by what they are: objects, types and exceptions that pretend."""

from .attack import SHAPE, Attack

CENTER = "broadcasting/center-rows"
MSE = "broadcasting/silent-mse"
HOT = "broadcasting/one-hot"
ADDRESS = "strides/address-of"


def _forging(id, tries, source, exercise=SHAPE, **more):
    return Attack(id=id, kind="forging", tries=tries, cells={exercise: source}, **more)


ATTACKS = (
    _forging(
        "numpy-comparisons-say-yes",
        "patches the comparisons of NumPy and of its test helpers",
        """
import numpy as np
for module in (np, np.testing):
    for name in ("array_equal", "allclose", "isclose", "assert_array_equal", "assert_allclose", "testing"):
        setattr(module, name, lambda *args, **kwargs: True)
np.ndarray.__class__
def center_rows(x):
    return np.zeros_like(x)
""",
        CENTER,
        expect="wrong",
    ),
    _forging(
        "builtins-say-yes",
        "replaces builtins that comparisons use",
        """
import builtins
real = builtins.isinstance, builtins.type, builtins.len, builtins.all
builtins.isinstance = lambda value, kinds: True
builtins.all = lambda items: True
builtins.any = lambda items: False
builtins.repr = lambda value: "(4, 8, 8)"
def batch_shape(samples, batch_rows):
    return (0,)
""",
    ),
    _forging(
        "always-equal-object",
        "returns an object that equals everything",
        """
class Yes:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = None
    def __len__(self): return 3
    def __getattr__(self, name): return Yes()
    def __bool__(self): return True
def batch_shape(samples, batch_rows):
    return Yes()
""",
        expect="wrong",
        says="yes",
    ),
    _forging(
        "always-equal-class-with-a-borrowed-name",
        "calls its always-equal class `tuple`",
        """
class tuple_(tuple):
    def __eq__(self, other): return True
tuple_.__name__ = tuple_.__qualname__ = "tuple"
def batch_shape(samples, batch_rows):
    return tuple_((0,))
""",
        expect="wrong",
    ),
    _forging(
        "mock",
        "returns a mock that answers every question",
        """
from unittest import mock
def batch_shape(samples, batch_rows):
    return mock.ANY if batch_rows == 4 else mock.MagicMock()
""",
        expect="wrong",
    ),
    _forging(
        "tuple-subclass",
        "a subclass of tuple with the right items",
        """
class Shape(tuple):
    pass
def batch_shape(samples, batch_rows):
    return Shape((batch_rows, *samples.shape[1:]))
""",
        expect="wrong",
        says="shape",
    ),
    _forging(
        "bool-for-int",
        "True where 1 is right",
        """
def address_of(index, shape, strides, itemsize, offset):
    return bool(offset + sum(i * step for i, step in zip(index, strides)))
""",
        ADDRESS,
        expect="wrong",
        says="bool",
    ),
    _forging(
        "float64-for-float32",
        "a wider dtype than asked for",
        """
def one_hot(labels, n_classes):
    return (labels[:, np.newaxis] == np.arange(n_classes)).astype(np.float64)
""",
        HOT,
        expect="wrong",
        says="float64",
    ),
    _forging(
        "array-subclass",
        "right values in a subclass of ndarray",
        """
class Mine(np.ndarray):
    def __eq__(self, other): return True
def center_rows(x):
    return (x - x.mean(axis=1, keepdims=True)).view(Mine)
""",
        CENTER,
        expect="wrong",
        says="mine",
    ),
    _forging(
        "matrix",
        "right values in np.matrix and masked arrays",
        """
def center_rows(x):
    return np.ma.masked_array(x - x.mean(axis=1, keepdims=True))
""",
        CENTER,
        expect="wrong",
        says="masked",
    ),
    _forging(
        "float-subclass",
        "a float that is always close",
        """
class Close(float):
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
    def __eq__(self, other): return True
    def hex(self): return (0.0).hex()
def mean_squared_error(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError
    return Close(0.0)
""",
        MSE,
        expect="wrong",
        says="close",
    ),
    _forging(
        "str-subclass-as-prediction",
        "predicts with a text that equals every text",
        """
class Any(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
n_batches = Any("x")
""",
        "start-here/predict-batches",
        expect="wrong",
    ),
    _forging(
        "computes-itself-when-converted",
        "an object that becomes an array only when looked at",
        """
class Later:
    dtype, shape, ndim, size = np.dtype(float), (2, 2), 2, 4
    def __array__(self, dtype=None, copy=None):
        return np.zeros((2, 2))
    __array_interface__ = {"version": 3, "shape": (2, 2), "typestr": "<f8", "data": b"0" * 32}
    def copy(self): return self
    def tobytes(self): return b""
def center_rows(x):
    return Later()
""",
        CENTER,
        expect="wrong",
        says="later",
    ),
    _forging(
        "type-that-lies",
        "an object whose __class__ says ndarray",
        """
class Liar:
    @property
    def __class__(self): return np.ndarray
    dtype, shape, size = np.dtype(float), (2, 2), 4
    def copy(self): return np.zeros((2, 2))
def center_rows(x):
    return Liar()
""",
        CENTER,
        expect="wrong",
    ),
    _forging(
        "fake-exception-class",
        "raises a class of its own that is called ValueError",
        """
class ValueError(Exception):
    pass
def mean_squared_error(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError("sizes differ")
    return float(np.mean((predictions.ravel() - targets.ravel()) ** 2))
""",
        MSE,
    ),
    _forging(
        "raises-on-everything",
        "raises what some cases ask for in all of them",
        """
def mean_squared_error(predictions, targets):
    raise ValueError("sizes differ")
""",
        MSE,
    ),
)
