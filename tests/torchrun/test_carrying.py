"""Values as bytes and back: what crosses, what is refused and how, and that reading runs nothing."""

import collections
import dataclasses
import datetime
import math
import pathlib
import threading

import numpy as np
import pytest

from labsupport.errors import LabError
from labsupport.grading import codec
from labsupport.torchrun import carrying

ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    rates: list


Point = collections.namedtuple("Point", "x y")


def crossed(value, namespace=None):
    arrived, notes = carrying.unpack(carrying.pack(value, "v"), namespace)
    return arrived, notes


PLAIN = [
    None, True, 0, -1, 2**63, -(2**200), 0.1, math.inf, -0.0, 1 - 2j, "", "ascii", "Grüße \N{SNOWMAN}", "\ud800",
    "x" * 100_000, b"", b"\x00\xff", bytearray(b"ab"), [], [1, [2, [3]]], (), (1,), (1.5,) * 20, [True] * 20,
    [2**70] * 20, ["a", "bü", ""] * 10, list(range(100)), {}, {"a": 1, 2: "b", None: 3, 1.5: 4, (1, "x"): 5, True: 6},
    {1, "two", (3,)}, frozenset({b"x"}), {"deep": [{"er": ({"est": {1}},)}]}, collections.Counter("abca"),
    collections.OrderedDict(b=1, a=2), collections.deque([1, 2], maxlen=5), collections.deque(), range(2, 20, 3),
    pathlib.Path("folder") / "file.txt", datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.date(2026, 1, 2),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), datetime.time(3, 4),
    datetime.timedelta(days=-1, microseconds=5), {datetime.date(2026, 1, 2): 1, pathlib.Path("x"): 2},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)  # a set is written in any order
def test_plain_values_arrive_equal_and_of_the_same_type(value):
    arrived, notes = crossed(value)
    assert type(arrived) is type(value)
    assert arrived == value
    assert isinstance(value, set) or repr(arrived) == repr(value)  # 1, 1.0 and True are equal; a set has no order
    assert notes == []


def test_nan_and_shared_parts_arrive():
    (arrived, _), (many, _) = crossed(math.nan), crossed([math.nan] * 50)
    assert math.isnan(arrived) and len(many) == 50 and all(map(math.isnan, many))
    part = [1]
    assert crossed([part, part])[0] == [[1], [1]]


ARRAYS = [
    np.arange(6, dtype=np.int16).reshape(2, 3).T, np.array(3.5), np.zeros((0, 4), np.complex64),
    np.array([True, False]), np.arange(3, dtype=">f8"), np.float16([1, math.inf]), np.array(["ab", "ü"]),
    np.array([b"a", b"bc"]),
    np.array(["2026-01-02", "NaT"], "M8[D]"), np.array([1, 2], "m8[25s]"), np.array([], "M8[ns]"), np.arange(5)[::-2],
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_keep_dtype_shape_and_values(array):
    arrived, _ = crossed(array)
    assert type(arrived) is np.ndarray and arrived.dtype == array.dtype and arrived.shape == array.shape
    np.testing.assert_array_equal(arrived, array)
    assert arrived.flags.writeable or not arrived.size


@pytest.mark.parametrize("scalar", [np.float32(1.5), np.int8(-3), np.bool_(True), np.datetime64("2026-01-02T03", "h")])
def test_numpy_scalars_stay_numpy_scalars(scalar):
    arrived, _ = crossed(scalar)
    assert type(arrived) is type(scalar) and arrived == scalar


def test_a_dataclass_is_the_notebooks_own_class_again_and_none_of_its_code_runs():
    @dataclasses.dataclass
    class Loud:
        a: int

        def __post_init__(self):
            raise AssertionError("called")

        __setattr__ = None  # assigning would call it

    made = object.__new__(Loud)
    object.__setattr__(made, "a", 3)
    arrived, notes = crossed([made], {"Loud": Loud})
    assert type(arrived[0]) is Loud and arrived[0].a == 3 and notes == []
    arrived, notes = crossed(Config(2, [0.1]), {"Config": Config})
    assert arrived == Config(2, [0.1])


def test_a_dataclass_without_its_class_is_a_dict_and_a_note_says_so():
    for namespace in ({}, {"Config": dataclasses.make_dataclass("Config", ["other"])}, {"Config": dict}):
        arrived, notes = crossed(Config(2, [0.1]), namespace)
        assert arrived == {"width": 2, "rates": [0.1]}
        assert notes == ["`Config` arrives as a dict: there is no class `Config` here with the fields width, rates."]


def test_named_tuples_and_default_dicts():
    assert crossed(Point(1, 2), {"Point": Point})[0] == Point(1, 2)
    assert type(crossed(Point(1, 2), {"Point": Point})[0]) is Point
    assert crossed(Point(1, 2))[0] == {"x": 1, "y": 2}
    arrived, notes = crossed(collections.defaultdict(list, a=[1]))
    assert type(arrived) is dict and arrived == {"a": [1]} and "defaultdict" in notes[0]


# -- tensors ------------------------------------------------------------------------------------------------------


def tensor_dtypes():
    from labsupport.torchrun.carrying_tensors import DTYPES

    return sorted(DTYPES)


@pytest.mark.parametrize("name", tensor_dtypes())
def test_a_tensor_of_every_dtype_arrives_bit_for_bit(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    raw = torch.arange(64, dtype=torch.uint8) % (2 if name == "bool" else 64)
    tensor = raw.view(dtype).reshape(2, -1)
    arrived, _ = crossed(tensor)
    assert arrived.dtype is dtype and arrived.shape == tensor.shape
    assert torch.equal(arrived.reshape(-1).view(torch.uint8), raw)


def test_torch_has_no_dtype_that_is_forgotten():
    torch = pytest.importorskip("torch")
    known = {str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}
    assert {name for name in known - set(tensor_dtypes()) if not name.startswith(("q", "bits"))} == set()


def test_tensors_keep_what_training_needs_and_lose_their_graph():
    torch = pytest.importorskip("torch")
    leaf = torch.ones(3, requires_grad=True)
    assert crossed(leaf)[0].requires_grad and crossed(leaf)[0].is_leaf
    loss = (leaf * 2).sum()
    arrived, _ = crossed({"loss": loss, "step": 3})
    assert arrived["loss"].item() == 6 and not arrived["loss"].requires_grad
    parameter, _ = crossed(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert type(parameter) is torch.nn.Parameter and not parameter.requires_grad
    transposed = torch.arange(6).reshape(2, 3).T
    assert torch.equal(crossed(transposed)[0], transposed)
    lazy = torch.tensor([1 + 2j]).conj()
    assert torch.equal(crossed(lazy)[0], lazy)
    assert crossed(torch.empty(0, 3))[0].shape == (0, 3) and crossed(torch.tensor(5))[0].item() == 5
    assert crossed((torch.Size([2, 3]), torch.bfloat16, torch.device("cpu")))[0] == (
        torch.Size([2, 3]), torch.bfloat16, torch.device("cpu")
    )  # fmt: skip


def test_a_trained_model_goes_on_after_its_state_crossed():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    weights, _ = crossed(model.state_dict())
    assert type(weights) is collections.OrderedDict
    twin = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    twin.load_state_dict(weights)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), twin.state_dict().values()))
    torch.optim.AdamW(twin.parameters()).load_state_dict(crossed(optimizer.state_dict())[0])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors(layout):
    torch = pytest.importorskip("torch")
    dense = torch.eye(4) * 3
    blocks = ((2, 2),) if layout.startswith("bs") else ()
    tensor = dense.to_sparse() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")(*blocks)
    arrived, _ = crossed(tensor)
    assert arrived.layout is tensor.layout and torch.equal(arrived.to_dense(), dense)


# -- refusals -----------------------------------------------------------------------------------------------------


def refusal(value, name="model"):
    with pytest.raises(LabError) as caught:
        carrying.pack(value, name)
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_models_optimizers_and_loaders_are_refused_with_the_way_out():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Linear):
        pass

    net = Net(2, 2)
    assert "`model` is a model (" in refusal(net) and "model_out = model.state_dict()" in refusal(net)
    assert "results['net'].state_dict()" in refusal({"net": net}, "results")
    assert "opt.state_dict()" in refusal(torch.optim.SGD(net.parameters(), lr=1.0), "opt")
    assert "next(iter(loader))" in refusal(torch.utils.data.DataLoader([1]), "loader")
    assert "meta device" in refusal(torch.empty(2, device="meta"))
    assert "dequantize()" in refusal(torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8))


class Mine:
    pass


class Kind(dict):
    pass


REFUSED = [
    (Mine(), "`x` is a test_carrying's Mine", "vars(x)"),
    (Mine, "`x` is the class", "--push x"),
    (lambda: 1, "`x` is a function", "--push x"),
    (len, "`x` is a function", "--push x"),
    (np, "`x` is the module numpy", "import numpy"),
    (threading.Lock(), "lock", "numbers"),
    ((i for i in ()), "generator", "list(x)"),
    (Kind(), "a kind of dict (", "dict(x)"),
    ({"a": [0, Mine()]}, "`x['a'][1]` is a", "vars("),
    ({Mine(): 1}, "a key of x is a Mine", "its name or number"),
    ({frozenset({Mine()})}, "a member of", "its name or number"),
    (np.array([None]), "array of Python objects", "x.tolist()"),
    (np.zeros(2, "i4,f8"), "array of records", 'x["f0"]'),
    (np.ma.masked_array([1]), "MaskedArray", "np.asarray(x)"),
    (np.longdouble(1), "longdouble" if np.dtype("longdouble").itemsize == 8 else "float128", "astype"),
    (1 << 20_000, "20,001 bits", "hex(x)"),
]


@pytest.mark.parametrize(
    "value, what, step", REFUSED, ids=lambda part: part[:30] if isinstance(part, str) else type(part).__name__
)
def test_what_does_not_cross_is_refused_by_name_with_the_way_out(value, what, step):
    if isinstance(value, np.longdouble) and np.dtype("longdouble").itemsize == 8:
        pytest.skip("this platform's long double is a double")
    told = refusal(value, "x")
    assert what in told and step in told


def test_what_contains_itself_is_refused_at_once():
    loop = []
    loop += [loop, loop]
    assert "itself" in refusal(loop, "loop")
    wide = [{"step": k} for k in range(200_000)]
    assert "more than 100,000 parts" in refusal(wide, "wide")


# -- hostile bytes ------------------------------------------------------------------------------------------------

SAMPLES = [
    {"a": [1, 2.5, "ü", (b"x", None)], "b": {1, 2}}, list(range(50)), ["ab"] * 30, Config(1, [2.0]), Point(1, 2),
    np.arange(6).reshape(2, 3), np.array(["2026-01-02"], "M8[D]"), datetime.datetime(2026, 1, 2), range(3),
    collections.Counter("aab"), pathlib.Path("a"), collections.deque([1], 2), "\ud800",
]  # fmt: skip


def tensor_samples():
    torch = pytest.importorskip("torch")
    sparse = torch.eye(3).to_sparse()
    return [torch.ones(2, 3).bfloat16(), sparse, sparse.to_sparse_csr(), torch.nn.Parameter(torch.ones(2)), torch.int8]


def read_or_refuse(raw):
    """Read bytes; only a BadValue may come of it."""
    try:
        carrying.unpack(raw, {"Config": Config, "Point": Point})
    except carrying.BadValue as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore:Sparse")
def test_changed_and_cut_bytes_are_read_or_refused_never_anything_else():
    rng = np.random.default_rng(0)
    refused = 0
    for sample in [*SAMPLES, *tensor_samples()]:
        raw = carrying.pack(sample, "v")
        for _ in range(150):
            changed = bytearray(raw)
            for _ in range(rng.integers(1, 4)):
                changed[rng.integers(len(changed))] = rng.integers(256)
            refused += read_or_refuse(bytes(changed[: rng.integers(1, len(changed) + 1)])) is not None
            refused += read_or_refuse(bytes(changed)) is not None
    assert refused > 1000


@pytest.mark.filterwarnings("ignore:Sparse")
def test_trees_that_fit_the_codec_but_no_value_are_refused():
    """The header is well formed, the tags exist, only what follows them is wrong: each is a BadValue."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    tags = ["set", "dict", "tuple", "many", "deque", "text", "datetime", "timedelta", "range", "dataclass", "named",
            "counter", "ordered", "path", "tensor", "sparse", "size", "dtype", "device", "moments", "figure",
            "eval"]  # fmt: skip
    parts = [None, True, -1, 3, 2**62, 1.5, "x", "float32", "sparse_csr", "parameter", b"ab", [], [2], [-1, 2], ["a"],
             np.zeros(8, np.uint8), np.zeros(3), np.zeros((2, 2), np.int64), {"a": 1}, (), ("set", []),
             ("tuple", 1)]  # fmt: skip
    refused = 0
    for _ in range(6000):
        chosen = [parts[k] for k in rng.integers(len(parts), size=rng.integers(0, 6))]
        raw = codec.encode(["value", (tags[rng.integers(len(tags))], *chosen), []])
        refused += read_or_refuse(raw) is not None
    assert 3000 < refused < 6000


def test_a_sparse_tensor_cannot_point_outside_itself():
    pytest.importorskip("torch")
    index = ("int64", [1, 1], np.frombuffer(np.int64([10**9]).tobytes(), np.uint8))
    value = ("float32", [1], np.zeros(4, np.uint8))
    raw = codec.encode(["value", ("sparse", False, "sparse_coo", [3], index, value), []])
    assert "not a value" in read_or_refuse(raw)


def test_no_part_of_the_package_that_carries_values_imports_pickle():
    folder = ROOT / "labsupport/torchrun"
    mine = ["values", "carrying", "carrying_arrays", "carrying_tensors", "lowering", "lifting", "gathering", "pushing"]
    for name in [*mine, "needs", "pictures"]:
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        assert "import pickle" not in text and "torch.load" not in text and "torch.save" not in text, name
