"""One chunk, two chunks: in what chunklab says of a selection, of an array and of a mistake."""

import pytest

from labsupport.chunklab import touched
from labsupport.chunklab.opening import _unread
from labsupport.chunklab.plurals import plural
from labsupport.chunklab.selecting import normal
from labsupport.errors import UsageError


def test_one_is_singular_and_thousands_are_separated():
    assert [plural(n, "chunk") for n in (0, 1, 1024)] == ["0 chunks", "1 chunk", "1,024 chunks"]
    assert repr(touched((1,), (1,), (0,), itemsize=1)) == "<1 of 1 chunk: 1 byte decoded for 1 wanted>"
    one, many = touched((4,), (1,), (0,), itemsize=1, shards=(2,)), touched((4,), (1,), ..., itemsize=1, shards=(2,))
    assert "1 of 4 chunks in 1 shard: 1 byte" in repr(one) and "4 of 4 chunks in 2 shards: 4 bytes" in repr(many)


@pytest.mark.parametrize("bad, of, words", [
    (1, 1, "1 of 1 chunk does not read"), (2, 2, "2 of 2 chunks do not read"),
    (1, 2, "1 of 2 chunks does not read, the other does"), (2, 2000, "2 of 2,000 chunks do not read, the others do"),
])  # fmt: skip
def test_damaged_chunks_are_counted_in_words(bad, of, words):
    assert _unread(bad, of) == words


def test_an_axis_of_one_element():
    with pytest.raises(UsageError, match="out of range") as raised:
        normal((1,), 3)
    assert raised.value.why == "axis 0 has 1 element"
