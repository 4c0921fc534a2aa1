"""The loader on a clock: it keeps the rules of the real one, and its steady pace is the formula of the lesson."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.loading.clock import play, steady_ms

TIMES = st.integers(1, 200).map(float)


@given(
    load=TIMES, compute=TIMES, workers=st.integers(1, 12), receive=st.integers(0, 30), prefetch=st.sampled_from((2, 4))
)
@settings(max_examples=80, deadline=None)
def test_the_steady_pace_is_that_of_the_slower_side(load, compute, workers, receive, prefetch):
    paced = steady_ms(load, compute, workers, prefetch, receive)
    assert paced == pytest.approx(max(load / workers, compute + receive), rel=0.01)


def test_without_workers_everything_adds_up():
    assert steady_ms(80, 20, 0, receive_ms=7) == 100
    run = play([80.0, 80.0], 20, 0)
    assert [lane for lane, *_ in run.events] == ["main"] * 4
    assert run.ended_ms == (100, 200) and run.waited_ms == 160


LOADS = st.lists(st.integers(0, 50).map(float), min_size=1, max_size=30)


@given(loads=LOADS, compute=TIMES, workers=st.integers(1, 5), prefetch=st.integers(1, 4), channels=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_every_batch_is_fetched_once_and_handed_out_in_order(loads, compute, workers, prefetch, channels):
    run = play(loads, compute, workers, prefetch, 1.0, channels or None)
    assert list(run.received_ms) == sorted(run.received_ms)
    computed = [batch for _, kind, _, _, batch in run.events if kind == "compute"]
    assert computed == list(range(len(loads)))
    assert all(lane == f"worker {batch % workers}" for lane, kind, *_, batch in run.events if kind == "fetch")
    for lane in {event[0] for event in run.events}:
        own = sorted((start, end) for at, _, start, end, _ in run.events if at == lane)
        assert all(before[1] <= after[0] + 1e-9 for before, after in itertools.pairwise(own)), lane
    begun = [(start, end) for _, kind, start, end, _ in run.events if kind == "fetch"]
    if channels:
        assert all(sum(a <= start < b for a, b in begun) <= channels for start, _ in begun)


@given(loads=LOADS, compute=TIMES, workers=st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_deeper_prefetch_is_never_slower(loads, compute, workers):
    ends = [play(loads, compute, workers, prefetch).ended_ms[-1] for prefetch in (1, 2, 4, 8)]
    assert ends == sorted(ends, reverse=True)


@pytest.mark.parametrize(("workers", "prefetch"), [(1, 1), (2, 2), (3, 4)])
def test_a_batch_is_asked_for_when_an_earlier_one_is_received(workers, prefetch):
    """`workers * prefetch` are asked for before the first is received, then one for each that is."""
    run = play([0.5] * 40, 100.0, workers, prefetch)
    begun = {batch: start for _, kind, start, _, batch in run.events if kind == "fetch"}
    ahead = workers * prefetch
    assert max(begun[batch] for batch in range(ahead)) < run.received_ms[0] + prefetch
    for batch in range(2 * ahead, 40):  # the first ones find their worker busy
        assert begun[batch] == pytest.approx(run.received_ms[batch - ahead])


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "prefetch"), [(1, 2), (2, 4), (2, 1)])
def test_the_real_loader_asks_as_far_ahead_and_deals_batches_the_same_way(workers, prefetch):
    from torch.utils.data import DataLoader

    from labsupport.loading import CountingSampler, Who, start_method

    sampler = CountingSampler(20)
    options = {"num_workers": workers, "prefetch_factor": prefetch, "multiprocessing_context": start_method()}
    batches = iter(DataLoader(Who(20), sampler=sampler, **options))
    assert sampler.asked == workers * prefetch
    made = [next(batches)["worker"].item() for _ in range(4)]
    assert sampler.asked == workers * prefetch + 4
    made += [batch["worker"].item() for batch in batches]
    assert made == [batch % workers for batch in range(20)]
    assert Counter(made) == Counter(batch % workers for batch in range(20))
