"""Layout advice: means against every position, counts against real stores, nonsense against words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.chunklab import advise, touched
from labsupport.chunklab.patterns import Pattern, checked_patterns, chunks_along, cost_of, parse_pattern
from labsupport.errors import LabError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore")
STACK = ((1024, 128, 128), "uint8")
BOTH = {"one image": (1, ":", ":"), "pixel series": (":", 1, 1)}


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_mean_over_positions_is_exact(data):
    length = data.draw(st.integers(1, 40))
    chunk, window = data.draw(st.integers(1, length)), data.draw(st.integers(1, length))
    every = [touched((length,), (chunk,), slice(at, at + window)).count for at in range(length - window + 1)]
    mean, most = chunks_along(length, chunk, window)
    assert mean == pytest.approx(sum(every) / len(every))
    assert most == max(every)


def test_the_cost_of_a_block_is_the_mean_of_its_reads():
    shape, chunks, shards, window = (12, 10), (5, 3), (10, 6), (4, 2)
    reads = [
        touched(shape, chunks, np.s_[i : i + 4, j : j + 2], itemsize=8, shards=shards)
        for i in range(9)
        for j in range(9)
    ]
    cost = cost_of(Pattern("block", window), shape, chunks, 8, shards)
    assert cost.chunks == pytest.approx(np.mean([read.count for read in reads]))
    assert cost.worst_chunks == max(read.count for read in reads)
    assert cost.decoded_bytes == pytest.approx(np.mean([read.decoded_bytes for read in reads]))
    assert cost.objects == pytest.approx(np.mean([read.files for read in reads]))
    assert cost.index_reads >= np.mean([read.index_reads for read in reads])
    assert cost.wanted_bytes == 64


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_predicted_is_what_is_counted(data):
    shape = tuple(data.draw(st.integers(1, 60)) for _ in range(data.draw(st.integers(1, 3))))
    patterns = {
        name: tuple(data.draw(st.integers(1, length)) for length in shape)
        for name in ("a", "b", "c")[: data.draw(st.integers(1, 3))]
    }
    advice = advise(
        shape,
        data.draw(st.sampled_from(["uint8", "float64", "bool", "S3"])),
        patterns,
        format=data.draw(st.sampled_from(["zarr", "zarr", "hdf5"])),
        chunk_bytes=(1, data.draw(st.sampled_from([64, 1000, 1 << 20]))),
        most_objects=data.draw(st.sampled_from([1, 7, 10_000])),
        sample_bytes=data.draw(st.sampled_from([20_000, 1 << 20])),
    )
    assert advice.trials
    assert advice.as_predicted, advice
    assert {trial.pattern for trial in advice.trials} == set(patterns)
    assert np.prod(advice.best.chunks) * advice.itemsize <= 1 << 20


def test_a_pattern_alone_gets_the_layout_made_for_it():
    image = advise(*STACK, {"one image": (1, ":", ":")})
    assert image.best.chunks == (1, 128, 128)
    assert (image.best.costs[0].chunks, image.best.costs[0].amplification) == (1, 1)
    series = advise(*STACK, {"pixel series": (":", 1, 1)})
    assert series.best.chunks[0] == 1024
    assert series.best.costs[0].chunks == 1


def test_two_patterns_get_a_compromise_and_see_its_price():
    advice = advise(*STACK, BOTH)
    costs = {choice.chunks: [cost.chunks for cost in choice.costs] for choice in (advice.best, *advice.alone)}
    assert max(costs[advice.best.chunks]) < max(costs[advice.alone[0].chunks])
    assert max(costs[advice.best.chunks]) < max(costs[advice.alone[1].chunks])
    text = str(advice)
    assert text.startswith(f"chunks of {advice.best.chunks} for (1024, 128, 128) uint8 (16.8 MB)")
    for phrase in ("predicted", "counted", "instead", "one image", "pixel series"):
        assert phrase in text
        assert phrase in advice._repr_html_()


def test_weights_move_the_advice():
    image = advise(*STACK, BOTH, weights={"one image": 100_000}, sample_bytes=0)
    series = advise(*STACK, BOTH, weights={"pixel series": 100_000}, sample_bytes=0)
    assert image.best.chunks == (1, 128, 128)
    assert series.best.costs[1].chunks == 1
    assert not image.trials


def test_many_chunks_go_into_shards_in_zarr_only():
    many = advise((100_000, 100, 100), "float32", BOTH, sample_bytes=1 << 20)
    assert many.best.shards is not None
    assert many.best.objects <= 10_000
    assert all(shard % chunk == 0 for shard, chunk in zip(many.best.shards, many.best.chunks))
    assert all(trial.predicted[3] > 0 for trial in many.trials)  # an index is read first
    assert many.as_predicted
    assert advise((100_000, 100, 100), "float32", BOTH, format="hdf5", sample_bytes=0).best.shards is None
    assert "index reads" in str(many)


def test_a_read_that_is_too_large_to_try_is_tried_in_part():
    advice = advise((4000, 4000), "float64", {"everything": (":", ":")}, sample_bytes=1 << 20)
    assert all(trial.part for trial in advice.trials)
    assert advice.as_predicted
    assert "everything (a part)" in str(advice)


def test_advice_is_the_same_each_time():
    assert len({str(advise(*STACK, BOTH)) for _ in range(5)}) == 1


def test_the_present_layout_stands_beside_the_advice():
    text = str(advise(*STACK, BOTH, current=((32, 128, 128), None), sample_bytes=0))
    assert "(as it is now)  (32, 128, 128)  1.00 chunks, 32.0x" in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"shape": (0, 4)}, "at least 1"),
        ({"shape": ("a", 4)}, "whole numbers"),
        ({"dtype": "object"}, "no fixed size"),
        ({"dtype": "nothing"}, "not a type"),
        ({"dtype": "S"}, "no fixed size"),
        ({"patterns": {}}, "no access patterns"),
        ({"patterns": [(1, 4)]}, "they are a dict"),
        ({"patterns": {"a": (1,)}}, "1 of the 2 sizes"),
        ({"patterns": {"a": (0, 1)}}, "'a' reads 0 elements along axis 0"),
        ({"patterns": {"a": (1, 5)}}, "'a' reads 5 elements along axis 1"),
        ({"patterns": {"a": (1, 1.5)}}, "'a' reads 1.5"),
        ({"patterns": {"a": (True, 1)}}, "'a' reads True"),
        ({"weights": {"b": 1}}, "no pattern 'b'"),
        ({"weights": {"a": -1}}, "weight of 'a' is -1"),
        ({"weights": {"a": 0}}, "every pattern has weight 0"),
        ({"weights": {"a": float("nan")}}, "weight of 'a' is nan"),
        ({"format": "npy"}, "no format 'npy'"),
        ({"chunk_bytes": 5}, "(least, most)"),
        ({"chunk_bytes": (9, 5)}, "least is above 0"),
        ({"chunk_bytes": (1, 3)}, "one element has 4"),
        ({"most_objects": 0}, "at least 1"),
        ({"sample_bytes": -1}, "at least 0"),
    ],
)
def test_nonsense_is_refused_in_words(more, says):
    asked = {"shape": (4, 4), "dtype": "float32", "patterns": {"a": (1, 4)}} | more
    with pytest.raises(UsageError) as caught:
        advise(asked.pop("shape"), asked.pop("dtype"), asked.pop("patterns"), **asked)
    assert says in str(caught.value)


def test_bounds_that_nothing_fits_are_told():
    with pytest.raises(LabError, match="no chunk shape has between"):
        advise((7, 7), "S5", {"a": (1, 7)}, chunk_bytes=(6, 9))


def test_patterns_as_text():
    assert parse_pattern("one image=1,:,:") == ("one image", (1, ":", ":"), 1.0)
    assert parse_pattern("a = :, 5@2.5") == ("a", (":", 5), 2.5)
    for text in ("a", "=1", "a=x", "a=1@b", "a="):
        with pytest.raises(UsageError, match="not an access pattern"):
            parse_pattern(text)
    assert checked_patterns((4, 5), {"a": (None, 2)})[0].extents == (4, 2)
