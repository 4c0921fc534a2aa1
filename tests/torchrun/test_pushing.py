"""`--push`: values and definitions of the notebook on the ranks, and what they would lack there."""

import pytest

from labsupport.errors import LabError, UsageError
from labsupport.torchrun import pushing


@pytest.fixture
def notebook():
    """A namespace filled by cells, as a kernel fills it."""
    import linecache

    namespace, history = {"__name__": "__main__"}, []

    def run(cell):
        name = f"<cell {len(history)} of {id(namespace)}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        history.append(cell)
        exec(compile(cell, name, "exec"), namespace)

    def push(names, cell=""):
        there = {"__name__": "__main__"}
        pushing.receive(
            pushing.pack_names(pushing.parse_pushes((names,)), namespace, cell=cell, history=history), there
        )
        return there

    run.push, run.namespace = push, namespace
    return run


def test_values_functions_and_what_they_import_arrive(notebook):
    notebook("import math\nimport numpy as np\nfrom math import sqrt as root\nLR = 0.1\ndata = np.arange(3)")
    notebook("def step(x, rate=LR):\n    return root(x) * rate + np.sum(data) + math.pi * 0")
    there = notebook.push("step,LR,data")
    assert there["step"](4.0) == pytest.approx(0.2 + 3)
    assert there["LR"] == 0.1 and there["data"].tolist() == [0, 1, 2]


def test_what_a_function_needs_is_told_before_anything_starts(notebook):
    notebook("LR = 0.1\nbase = 2\ndef loss(x):\n    return x * base\ndef step(x):\n    return loss(x) - LR")
    with pytest.raises(LabError) as caught:
        notebook.push("step")
    told = str(caught.value)
    assert "`step` uses `LR` and `loss`, which the ranks would not have" in told
    assert "--push step,LR,loss,base" in told
    assert notebook.push("step,LR,loss,base")["step"](3) == pytest.approx(5.9)
    assert notebook.push("step", cell="LR = 1\nbase = 3\ndef loss(x):\n    return x")["step"].__name__ == "step"
    notebook("def odd():\n    return nowhere")
    with pytest.raises(LabError, match="define nowhere before you push odd"):
        notebook.push("odd")


def test_classes_arrive_in_the_order_they_need_and_dataclasses_as_instances(notebook):
    notebook(
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Config:\n    rate: float\n    sizes: list\n"
        "class Child(dict):\n    def f(self):\n        return helper(1)\n"
        "class Base:\n    def g(self):\n        return 'base'\n"
        "class Derived(Base):\n    def f(self):\n        return super().g()\n"
        "def helper(x):\n    return x\n"
        "config = Config(0.5, [1])\n"
    )
    there = notebook.push("config,Derived,Child,Config,Base,helper")
    assert there["config"].rate == 0.5 and type(there["config"]) is there["Config"]
    assert there["Derived"]().f() == "base" and there["Child"]().f() == 1
    with pytest.raises(LabError, match="`config` uses `Config`"):
        notebook.push("config")
    with pytest.raises(LabError, match="`Derived` uses `Base`"):
        notebook.push("Derived", cell="class Base: pass")  # made too late: the class body needs it before the cell


def test_annotations_may_be_deferred_and_names_may_be_aliases(notebook):
    notebook("from __future__ import annotations\ndef f(x: NotThere) -> AlsoNot:\n    return x + 1\ng = f")
    there = notebook.push("g")
    assert there["g"](1) == 2


@pytest.mark.parametrize(
    "cell, name, told",
    [
        ("f = lambda x: x", "f", "is a lambda"),
        (
            "def outer():\n    k = 2\n    def inner():\n        return k\n    return inner\nf = outer()",
            "f",
            "it keeps `k`",
        ),
        ("class A:\n    def m(self): ...\nf = A().m", "f", "is a method"),
        ("class A: pass\na = A()", "a", "`a` is a"),
        ("losses = []", "losess", "--push losses"),
        ("import threading\nlock = threading.Lock()", "lock", "lock"),
    ],
)
def test_what_cannot_be_pushed_is_refused_by_name(notebook, cell, name, told):
    notebook(cell)
    with pytest.raises(LabError, match=told):
        notebook.push(name)


def test_the_way_out_of_a_pushed_object_is_told_for_the_notebook(notebook):
    notebook("import enum\nclass E(enum.Enum):\n    A = 1\na = E.A\nclass Mine: pass\nmine = Mine()")
    with pytest.raises(LabError, match=r"`a_out = a.value` in a cell of the notebook and push `a_out`"):
        notebook.push("a")
    with pytest.raises(LabError, match="push its data as numbers"):
        notebook.push("mine")


def test_names_of_push_are_names():
    assert pushing.parse_pushes(("a, b", "a")) == ("a", "b")
    with pytest.raises(UsageError):
        pushing.parse_pushes(("a.b",))


def test_a_pushed_functions_lines_are_shown_when_it_fails(notebook):
    import traceback

    notebook("def f(x):\n    return 1 / x")
    there = notebook.push("f")
    with pytest.raises(ZeroDivisionError) as caught:
        there["f"](0)
    assert "return 1 / x" in "".join(traceback.format_exception(caught.value))


def test_torn_bytes_are_refused_on_the_rank(notebook):
    notebook("x = [1, 2]")
    raw = pushing.pack_names(("x",), notebook.namespace)
    for wrong in (raw[:-1], raw[:5], b"\x00" * 40, raw + b"!"):
        with pytest.raises(LabError):
            pushing.receive(wrong, {})
    pushing.receive(None, {})


@pytest.mark.parametrize(
    "cell, later, name, told",
    [
        ("def a():\n    return 2", "exec('def a():\\n    return 8')", "a", "defined again without a cell"),
        ("def a(n=1, *, m=2):\n    return n", "a.__defaults__ = (5,)", "a", "its defaults have changed"),
        ("def a(n=1, *, m=2):\n    return n", "a.__kwdefaults__['m'] = 3", "a", "its defaults have changed"),
        ("RATE = 1\ndef a(n=RATE):\n    return n", "RATE = 2", "a,RATE", "its defaults have changed"),
        ("class A:\n    k = 1\n    def f(self):\n        return 1", "A.k = 2", "A", "`A.k`: it has changed"),
        ("class A:\n    def f(self):\n        return 1", "A.f = lambda self: 2", "A", "`A.f`: it was defined again"),
        ("class A:\n    def f(self):\n        return 1", "def g(self): pass\nA.g = g", "A", "`A.g`: it was added"),
        ("class A:\n    def f(self):\n        return 1\n    def g(self): pass", "del A.f", "A", "`A.f` is gone"),
    ],
)
def test_what_is_not_as_its_source_says_is_refused(notebook, cell, later, name, told):
    notebook(cell)
    exec(later, notebook.namespace)
    with pytest.raises(LabError) as caught:
        notebook.push(name)
    assert told in str(caught.value)


def test_a_definition_is_found_in_the_cell_that_made_it(notebook):
    notebook("def a():\n    return 2")
    notebook("a.__code__ = (lambda: 8).__code__")
    notebook("def a():\n    return 8")
    assert notebook.push("a")["a"]() == 8


UNUSUAL = """
import abc, dataclasses, enum, functools, typing
import contextlib

def logged(f):
    @functools.wraps(f)
    def g(*a, **k):
        return f(*a, **k)
    return g

@functools.wraps(print)
def odd(x: int = 3, *rest, key: "str" = 'x', none=None) -> list[int]:
    \'\'\'Of several

        lines.
    \'\'\'
    def inner(y: int):
        return [lambda z: z + x + y for _ in range(2)]
    return inner

@contextlib.contextmanager
def opened(a=(1, 2)):
    yield a

async def later(n=-1.5):
    return n

@dataclasses.dataclass
class Config:
    rate: float = 0.1
    names: list = dataclasses.field(default_factory=list)
    def double(self): return 2 * self.rate

class Base(abc.ABC):
    kind, other = 1, 2
    for i in range(2): pass
    @abc.abstractmethod
    def f(self): ...
    @property
    def p(self): return self.__secret
    @p.setter
    def p(self, value): self.__secret = value
    @staticmethod
    def s(x={}): return x
    @classmethod
    def c(cls): return super().__new__(cls)
    @functools.cached_property
    def q(self): return 1
    class Inner:
        z = 1

class Colour(enum.Enum):
    RED = 1
    def shown(self): return self.name

class Point(typing.NamedTuple):
    x: int = 0
"""


@pytest.mark.parametrize("name", ["opened", "later", "Config", "Base", "Colour", "Point"])
def test_definitions_of_all_kinds_are_what_their_source_says(notebook, name):
    from labsupport.answering import definition_in
    from labsupport.torchrun import likeness

    notebook(UNUSUAL)
    text = definition_in(UNUSUAL, name)
    assert likeness.difference(notebook.namespace[name], text, notebook.namespace) == ""


def test_a_function_inside_an_if_is_what_its_source_says(notebook):
    notebook('if True:\n    def a(x: int = 1):\n        """One.\n\n        Two.\n        """\n        return x')
    assert notebook.push("a")["a"]() == 1
