"""Which setting to recommend, and why: a pure function of the samples. Nothing here runs, times or prints anything.

Two settings are compared only where they ran beside each other: in the same stage, repetition by repetition. One is
*really* faster when it is so in four of five repetitions and by 5 % in the median; with fewer than three repetitions
it takes all of them and twice the speed. Of settings that are not really different, the one that asks least is
recommended.
"""

import statistics
from dataclasses import dataclass

from labsupport.figures.words import count
from labsupport.loaderbench.measuring import spread_of
from labsupport.loaderbench.settings import Setting
from labsupport.loaderbench.wording import duration, size

__all__ = ["AT_THE_END", "NOT_THE_BOTTLENECK", "Decision", "best_of", "decide", "gain", "really_faster", "waits"]

AT_THE_END = "at the end"  # the stage in which the best and the baseline run beside each other once more
NOT_THE_BOTTLENECK = 0.1  # of a pass inside next(): less than this is not worth a process
_REAL, _FEW_REAL, _SHARE = 1.05, 2.0, 0.8


@dataclass(frozen=True)
class Decision:
    """What is recommended.

    Attributes:
        verdict: "change" (the setting is really faster than the baseline), "keep" (nothing was), or "not the
            bottleneck" (the step is: a loader that costs nothing would hardly be faster).
        setting: the recommended one; `baseline` is what it was compared with.
        gain: how many times less a pass takes than with the baseline, in the median; 1.0 for the baseline.
        because: the evidence, sentence by sentence.
    """

    verdict: str
    setting: Setting
    baseline: Setting
    gain: float
    because: tuple[str, ...]

    def headline(self):
        """Return the recommendation in one sentence."""
        if self.verdict == "not the bottleneck":
            return f"The loader is not the bottleneck: keep {self.baseline.words()}."
        if self.verdict == "keep":
            none = "no workers" if self.baseline.workers == 0 else self.baseline.words()
            return f"Recommended: {none}; nothing measured here is faster than {self.baseline.words()}."
        return f"Recommended: {self.setting.words()}, {self.gain:.3g} times less time per pass."


def gain(samples, setting, other):
    """Return the median of how many times less `setting` took than `other`, repetition by repetition; 1.0 if never."""
    ratios = _ratios(samples, setting, other)
    return statistics.median(ratios) if ratios else 1.0


def really_faster(samples, setting, other):
    """Return whether `setting` is faster than `other` beyond the noise of these samples."""
    ratios = _ratios(samples, setting, other)
    if not ratios:
        return False
    share = sum(ratio > 1 for ratio in ratios) / len(ratios)
    few = len(ratios) < 3
    return share >= (1 if few else _SHARE) and statistics.median(ratios) >= (_FEW_REAL if few else _REAL)


def _ratios(samples, setting, other):
    """Pair the samples of two settings by stage and repetition; times are per item, so that batch sizes compare."""
    beside = {(sample.stage, sample.repetition): sample.item_s for sample in samples.get(other, ())}
    return [
        beside[key] / max(sample.item_s, 1e-12)
        for sample in samples.get(setting, ())
        if (key := (sample.stage, sample.repetition)) in beside
    ]


def waits(samples, setting):
    """Return the share of a pass that the main process waits for its loader, in the median."""
    return _middle(samples, setting).share


def best_of(samples, settings, stage=None):
    """Return of `settings` the one that asks least among those that are not really slower than the fastest.

    With `stage` only the samples of that stage count.
    """
    samples = {s: [row for row in samples.get(s, ()) if stage in (None, row.stage)] for s in settings}
    measured = [setting for setting in settings if samples.get(setting)]
    fastest = min(measured, key=lambda setting: spread_of(s.item_s for s in samples[setting]).median)
    for setting in sorted(measured, key=Setting.cost):
        if not really_faster(samples, fastest, setting):
            return setting
    return fastest


def decide(samples, baseline, candidate, *, has_step, cores):
    """Return the `Decision`.

    Args:
        samples: {Setting: [Sample]}; baseline and candidate ran beside each other.
        baseline: what the user has, or the setting without workers.
        candidate: the best that the sweep found.
        has_step: whether a training step ran between the batches.
        cores: how many this process may use.
    """
    samples = _at_the_end(samples, baseline, candidate)
    base = _middle(samples, baseline)
    if has_step and base.share <= NOT_THE_BOTTLENECK:
        return Decision("not the bottleneck", baseline, baseline, 1.0, tuple(_bound_by_step(base)))
    if candidate == baseline or not really_faster(samples, candidate, baseline):
        return Decision("keep", baseline, baseline, 1.0, tuple(_why_keep(samples, baseline, base, has_step)))
    because = tuple(_why_change(samples, baseline, candidate, has_step, cores))
    return Decision("change", candidate, baseline, gain(samples, candidate, baseline), because)


def _at_the_end(samples, *compared):
    """Return the samples with only the last stage of the compared settings, where both have one.

    The candidate was chosen for its earlier samples: comparing by those would flatter it.
    """
    last = {setting: [row for row in samples[setting] if row.stage == AT_THE_END] for setting in compared}
    return {**samples, **last} if all(last.values()) else samples


@dataclass(frozen=True)
class _Middle:
    """The medians of what matters, of one setting."""

    step_s: float
    wait_s: float
    made_s: float
    collate_s: float
    cpu_s: float
    start_s: float
    epoch_s: float
    idle_s: float
    share: float
    flight_bytes: int
    private_bytes: int | None


def _middle(samples, setting):
    rows = samples[setting]

    def median(value):
        return statistics.median(value(row) for row in rows)

    private = [row.private_bytes for row in rows if row.private_bytes is not None]
    return _Middle(
        step_s=median(lambda row: row.step_s),
        wait_s=median(lambda row: row.wait_s),
        made_s=median(lambda row: row.load_s + row.collate_s),
        collate_s=median(lambda row: row.collate_s),
        cpu_s=median(lambda row: row.cpu_s),
        start_s=median(lambda row: row.later_start_s),
        epoch_s=median(lambda row: row.epoch_s),
        idle_s=median(lambda row: row.idle_s),
        share=median(lambda row: row.idle_s / row.epoch_s if row.epoch_s else 0.0),
        flight_bytes=max(row.flight_bytes for row in rows),
        private_bytes=int(statistics.median(private)) if private else None,
    )


def _bound_by_step(base):
    yield (
        f"in a pass of {duration(base.epoch_s)} the main process waits {duration(base.idle_s)} for the loader "
        f"({base.share:.0%}); a batch takes {duration(base.step_s)}, of which {duration(base.wait_s)} is waiting"
    )
    yield f"a loader that costs nothing would save {base.share:.0%} of a pass; look at the step instead"


def _making(row):
    """Return what making one batch takes, and how much of it is computing."""
    made = f"making one batch takes {duration(row.made_s)} (fetch and collate)"
    share = min(1.0, row.cpu_s / row.made_s) if row.made_s else 1.0
    if row.made_s < 1e-3:  # so little that the clocks of the system say nothing about it
        return made
    if share >= 0.9:
        return f"{made}, all of it computing"
    return f"{made}, {share:.0%} of it on a processor; the rest waits for a disk, a network, a lock, or a free core"


def _threads(base, best):
    """Say when collate suffers from torch's threads, which the main process has and a worker has not."""
    if base.collate_s > 3 * best.collate_s and base.collate_s > 0.2 * base.made_s:
        yield (
            f"collate takes {duration(base.collate_s)} in the main process and {duration(best.collate_s)} in a worker, "
            "where torch has one thread: on a busy machine try torch.set_num_threads(1) as well"
        )


def _why_keep(samples, baseline, base, has_step):
    yield _making(base)
    others = [setting for setting in samples if setting != baseline and _ratios(samples, setting, baseline)]
    same_batch = [setting for setting in others if setting.batch_size == baseline.batch_size]
    with_workers = [setting for setting in same_batch if setting.workers and not baseline.workers]
    if best := max(with_workers or same_batch, key=lambda other: gain(samples, other, baseline), default=None):
        yield _beside(best, _middle(samples, best), _ratios(samples, best, baseline))
    if has_step:
        yield f"the main process waits {base.share:.0%} of a pass for its loader, and no setting here changes that"


def _beside(best, row, ratios):
    """Return how the best of the others did, and what a batch from its workers costs."""
    ratio, won = statistics.median(ratios), sum(ratio > 1 for ratio in ratios)
    if ratio < 1 / _REAL:
        how = f"takes {1 / ratio:.3g} times as long per pass"
    elif ratio < _REAL:
        how = "takes as long per pass"
    else:
        how = (
            f"took {ratio:.3g} times less per pass, but was faster in {won} of {count(len(ratios), 'repetition')} "
            "only: measure again when the machine is quiet, or with more repetitions"
        )
    costs = f"; a batch from a worker costs the main process {duration(row.wait_s)}" if best.workers else ""
    start = f", the start of an epoch {duration(row.start_s)}" if best.workers else ""
    return f"{best.words()} {how}{costs}{start}"


def _why_change(samples, baseline, candidate, has_step, cores):
    base, best = _middle(samples, baseline), _middle(samples, candidate)
    ratios = _ratios(samples, candidate, baseline)
    won = sum(ratio > 1 for ratio in ratios)
    times = " to ".join(dict.fromkeys(f"{ratio:.3g}" for ratio in (min(ratios), max(ratios))))
    yield (
        f"a batch every {duration(best.step_s)} instead of {duration(base.step_s)}; faster in {won} of "
        f"{count(len(ratios), 'repetition')}: {times} times"
    )
    if candidate.workers and not baseline.workers:
        many = f"{candidate.workers} batches" if candidate.workers > 1 else "one batch"
        yield f"{_making(base)}; workers do that beside the main process, {many} at a time"
        yield from _threads(base, best)
    if has_step:
        yield f"the main process waits {best.share:.0%} of a pass instead of {base.share:.0%}"
        if best.share <= NOT_THE_BOTTLENECK:
            yield "with this setting the step is the bottleneck, and more workers cannot help"
        elif candidate.workers >= cores:
            has = count(cores, "core")
            yield f"the loader still is the bottleneck, with {has}: make an item cheaper, or batch the fetch"
    if candidate.workers:
        yield _price(candidate, best)


def _price(candidate, best):
    """Return what the workers ask of the machine."""
    many = candidate.workers > 1
    what = f"{candidate.workers} processes" if many else "a process"
    if best.private_bytes is not None:
        what += f"{', each' if many else ''} with {size(best.private_bytes)} of its own"
    return (
        f"it costs {what}, {size(best.flight_bytes)} of batches in flight, and {duration(best.start_s)} at the start "
        "of an epoch"
    )
