"""The recommendation, from numbers alone: nothing here runs a loader."""

import dataclasses

from labsupport.loaderbench.deciding import AT_THE_END, best_of, decide, gain, really_faster, waits
from labsupport.loaderbench.measuring import Sample
from labsupport.loaderbench.settings import Setting

PASS = 100  # batches of 32


def sample(made_s, step_s=0.0, workers=0, *, hand_s=0.0, start_s=0.0, cpu=1.0, stage="workers", repetition=0, **more):
    """Return the sample of an ideal machine: workers divide the making, waiting overlaps with the step."""
    per = made_s + step_s if workers == 0 else max(made_s / workers, step_s + hand_s)
    wait = per - step_s
    first = made_s + (start_s if workers else 0.0)
    epoch = first + (PASS - 1) * per + step_s
    numbers = {
        "epoch_s": epoch,
        "idle_s": first + (PASS - 1) * wait,
        "step_s": per,
        "wait_s": wait,
        "load_s": made_s * 0.9,
        "collate_s": made_s * 0.1,
        "cpu_s": made_s * cpu,
        "transfer_s": 0.0,
        "compute_s": step_s,
        "start_s": first,
        "later_start_s": first,  # not persistent
        "item_s": epoch / (PASS * 32),
        "batches": 20,
        "items": 640,
        "calls": 640,
        "batch_bytes": 1_000_000,
        "processes": 1 + workers,
        "private_bytes": 12_000_000 if workers else None,
        "flight_bytes": workers * 2_000_000,
    }
    return Sample(stage=stage, repetition=repetition, **numbers | more)


def setting(workers, **changes):
    return Setting().with_(workers=workers, start="fork", **changes)


def swept(made_s, step_s=0.0, *, counts=(0, 1, 2, 4), cores=2, noise=(1.0, 1.02, 0.97, 1.01, 0.99), **more):
    """Return {setting: samples} of a sweep over numbers of workers, on a machine with so many cores."""
    found = {}
    for count in counts:
        rows = []
        for repetition, factor in enumerate(noise):
            # more workers than cores take turns: each batch takes them longer to make
            slowed = made_s * max(1, count / cores) if more.get("cpu", 1.0) > 0.5 else made_s
            rows.append(sample(slowed * factor, step_s * factor, count, repetition=repetition, **more))
        found[setting(count)] = rows
    return found


def decided(samples, has_step=False, cores=2):
    baseline = next(iter(samples))
    return decide(samples, baseline, best_of(samples, samples), has_step=has_step, cores=cores)


def test_a_slow_decode_is_given_workers_up_to_the_cores():
    decision = decided(swept(0.040, hand_s=0.001, start_s=0.03))
    assert decision.verdict == "change"
    assert decision.setting.workers == 2  # four are not really faster on two cores, and ask more
    assert 1.8 < decision.gain < 2.0
    assert "2 workers (fork)" in decision.headline()
    assert any("all of it computing" in sentence for sentence in decision.because)
    assert any("2 processes, each with 12 MB" in sentence for sentence in decision.because)


def test_items_that_wait_are_given_more_workers_than_cores():
    decision = decided(swept(0.040, hand_s=0.001, start_s=0.03, cpu=0.02))
    assert decision.setting.workers == 4
    assert any("2% of it on a processor" in sentence for sentence in decision.because)


def test_tiny_items_in_memory_are_given_no_workers():
    decision = decided(swept(0.00005, hand_s=0.0008, start_s=0.03))
    assert decision.verdict == "keep" and decision.setting.workers == 0
    assert decision.headline().startswith("Recommended: no workers;")
    assert any("times as long per pass" in sentence for sentence in decision.because)


def test_a_step_that_computes_longer_than_the_loader_loads_is_the_bottleneck():
    samples = swept(0.001, 0.040, hand_s=0.0005, start_s=0.03)
    decision = decided(samples, has_step=True)
    assert decision.verdict == "not the bottleneck"
    assert decision.headline().startswith("The loader is not the bottleneck")
    assert waits(samples, setting(0)) < 0.03


def test_without_a_step_nothing_is_said_about_the_bottleneck():
    decision = decided(swept(0.001, 0.0, counts=(0,)))
    assert decision.verdict == "keep"
    assert not any("waits" in sentence and "pass" in sentence for sentence in decision.because)


def test_a_step_as_long_as_loading_is_overlapped_by_one_worker():
    decision = decided(swept(0.040, 0.045, hand_s=0.001, start_s=0.03), has_step=True)
    assert decision.setting.workers == 1  # the second one has nothing left to save
    assert any("the step is the bottleneck" in sentence for sentence in decision.because)


def test_a_loader_that_stays_behind_is_told():
    decision = decided(swept(0.200, 0.010, hand_s=0.001, start_s=0.03), has_step=True)
    assert decision.setting.workers == 2
    assert any("still is the bottleneck, with 2 cores" in sentence for sentence in decision.because)


def test_the_start_of_workers_counts_in_a_short_pass():
    slow_start = swept(0.010, hand_s=0.001, start_s=3.0)
    assert decided(slow_start).verdict == "keep"
    assert decided(swept(0.010, hand_s=0.001, start_s=0.02)).setting.workers == 2


def test_the_wait_for_workers_to_start_is_not_the_step():
    """Steady batches that never wait, and an epoch that begins with three seconds of imports: the loader it is."""
    rows = [sample(0.001, 0.010, 2, start_s=3.0, repetition=at) for at in range(5)]
    assert decide({setting(2): rows}, setting(2), setting(2), has_step=True, cores=2).verdict == "keep"


def test_threads_that_slow_collate_in_the_main_process_are_told():
    none, two = setting(0), setting(2)
    samples = {
        none: [sample(0.040, collate_s=0.030, repetition=at) for at in range(5)],
        two: [sample(0.010, workers=2, collate_s=0.002, repetition=at) for at in range(5)],
    }
    because = decide(samples, none, two, has_step=False, cores=2).because
    assert any("30 ms in the main process and 2 ms in a worker" in sentence for sentence in because)
    assert not any("set_num_threads" in sentence for sentence in decided(swept(0.040)).because)


def test_one_worker_is_told_in_the_singular():
    because = decided(swept(0.040, 0.045, hand_s=0.001), has_step=True).because
    assert any("one batch at a time" in sentence for sentence in because)
    assert any(sentence.startswith("it costs a process with 12 MB of its own") for sentence in because)


def test_noise_is_not_a_difference():
    none, two = setting(0), setting(2)
    times = {none: (10, 14, 9, 13, 10), two: (9, 15, 8, 14, 9)}  # three of five
    samples = {one: [sample(ms / 1000, repetition=at) for at, ms in enumerate(row)] for one, row in times.items()}
    assert not really_faster(samples, two, none)
    decision = decide(samples, none, two, has_step=False, cores=2)
    assert decision.verdict == "keep"
    assert any("3 of 5 repetitions only" in sentence for sentence in decision.because)


def test_a_busy_machine_that_slows_all_alike_hides_nothing():
    none, two = setting(0), setting(2)
    busy = (1, 4, 1, 3, 2)
    samples = {
        none: [sample(0.010 * slow, repetition=at) for at, slow in enumerate(busy)],
        two: [sample(0.006 * slow, repetition=at) for at, slow in enumerate(busy)],
    }
    assert really_faster(samples, two, none)
    assert abs(gain(samples, two, none) - 10 / 6) < 1e-9


def test_settings_of_different_stages_are_not_compared():
    none, two = setting(0), setting(2)
    samples = {none: [sample(0.010, stage="workers")], two: [sample(0.001, stage="around")]}
    assert gain(samples, two, none) == 1.0 and not really_faster(samples, two, none)


def test_one_repetition_needs_twice_the_speed():
    none, two = setting(0), setting(2)
    assert not really_faster({none: [sample(0.010)], two: [sample(0.006)]}, two, none)
    assert really_faster({none: [sample(0.010)], two: [sample(0.004)]}, two, none)


def test_only_the_last_stage_counts_where_there_is_one():
    """The candidate was chosen for a lucky first stage; beside the baseline once more it is no faster."""
    none, two = setting(0), setting(2)
    lucky = {none: [sample(0.02, repetition=r) for r in range(5)], two: [sample(0.01, repetition=r) for r in range(5)]}
    sober = [sample(0.02, stage=AT_THE_END, repetition=r) for r in range(5)]
    samples = {none: lucky[none] + sober, two: lucky[two] + sober}
    assert decide(samples, none, two, has_step=False, cores=2).verdict == "keep"
    assert decide(lucky, none, two, has_step=False, cores=2).verdict == "change"


def test_of_equals_the_one_that_asks_least_wins():
    plain = setting(2)
    others = [setting(2, prefetch=8), setting(2, persistent=True), setting(2, pin=True), setting(4)]
    samples = {one: [sample(0.01, repetition=r) for r in range(5)] for one in [*others, plain]}
    assert best_of(samples, samples) == plain


def test_batch_sizes_are_compared_by_item():
    small, large = setting(0, batch_size=8), setting(0, batch_size=64)
    rows = {small: 0.001, large: 0.002}  # a batch takes twice as long and has eight times the items
    samples = {
        one: [dataclasses.replace(sample(s), item_s=s / one.batch_size, repetition=r) for r in range(5)]
        for one, s in rows.items()
    }
    assert really_faster(samples, large, small)
