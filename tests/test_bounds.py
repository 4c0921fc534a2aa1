"""Views that reach outside their memory are told from those that do not, without being read."""

import numpy as np
import pytest

from labsupport.course import Limits, Probe
from labsupport.probing import Subject, observe
from labsupport.probing.bounds import unreadable
from labsupport.probing.plain import Opaque

as_strided = np.lib.stride_tricks.as_strided


@pytest.mark.parametrize(
    "view",
    [
        np.arange(10.0),
        np.arange(10.0)[::-1],
        np.arange(12.0).reshape(3, 4).T[1:],
        np.broadcast_to(np.arange(3.0), (4, 3)),
        as_strided(np.arange(10.0), (8, 3), (8, 8)),
        as_strided(np.arange(30.0)[10:20], (10, 5), (8, 8)),  # past x, but inside its owner
        np.arange(10.0)[:0],
        np.frombuffer(b"12345678", np.uint8)[2:],
    ],
)
def test_views_inside_their_memory_may_be_read(view):
    assert unreadable(view) is None


def test_a_view_past_the_end_says_by_how_much():
    x = np.arange(10.0)
    assert "reads 16 bytes past the end" in unreadable(as_strided(x, (10, 3), (8, 8)))
    assert "reads 8 bytes before the start" in unreadable(as_strided(x[:2], (2,), (-8,)))


def test_a_view_too_large_to_compare_is_not_copied():
    assert "bytes" in unreadable(np.broadcast_to(np.zeros(()), (1 << 40,)))


def test_the_call_probe_survives_a_view_into_nowhere():
    source = "import numpy as np\ndef f(x):\n    return np.lib.stride_tricks.as_strided(x, (9000, 9000), (80000, 8))\n"
    namespace = {}
    exec(source, namespace)
    probe = Probe("call", {"view_of": 0, "writeable": True})
    seen = observe(probe, Subject(("f",), namespace, source), (np.arange(10.0),), Limits())
    assert isinstance(seen.value, Opaque)
    assert "past the end" in seen.value.type_name
