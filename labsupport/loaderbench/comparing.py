"""Two reports beside each other: which settings became faster or slower beyond their spread."""

from dataclasses import dataclass

from labsupport.errors import LabError
from labsupport.figures.words import count
from labsupport.loaderbench.measuring import spread_of
from labsupport.loaderbench.settings import Setting
from labsupport.loaderbench.wording import duration

__all__ = ["Change", "Comparison", "compare"]


@dataclass(frozen=True)
class Change:
    """One setting in both reports: seconds per batch before and after; `verdict` is "faster", "slower" or "same"."""

    setting: Setting
    before_s: float
    after_s: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """Two reports: the settings that both have, those that one has alone, and what else differs."""

    changes: tuple[Change, ...]
    only_before: tuple[Setting, ...]
    only_after: tuple[Setting, ...]
    differences: tuple[str, ...]
    headlines: tuple[str, str]

    def text(self):
        """Return the comparison as plain text."""
        width = max(len(change.setting.words()) for change in self.changes)
        lines = [f"{'setting'.ljust(width)}  {'before':>9}  {'after':>9}"]
        for one in self.changes:
            before, after = duration(one.before_s), duration(one.after_s)
            ratio = one.before_s / one.after_s if one.after_s else 1.0
            words = {"faster": f"{ratio:.3g} times faster", "slower": f"{1 / ratio:.3g} times slower"}
            said = words.get(one.verdict, "no difference beyond the spread")
            lines.append(f"{one.setting.words().ljust(width)}  {before:>9}  {after:>9}  {said}")
        lines += [f"only before: {setting.words()}" for setting in self.only_before]
        lines += [f"only after: {setting.words()}" for setting in self.only_after]
        lines += [f"before: {self.headlines[0]}", f"after:  {self.headlines[1]}"]
        lines += [f"note: {difference}" for difference in self.differences]
        return "\n".join(lines)

    __str__ = __repr__ = text

    def _repr_html_(self):
        from html import escape

        return f"<pre>{escape(self.text())}</pre>"


def compare(before, after):
    """Return the `Comparison` of two reports.

    A setting counts as changed when the ranges of its repetitions do not meet: runs of two days cannot be paired.

    Raises:
        LabError: they have no setting in common.
    """
    both = [setting for setting in before.samples if setting in after.samples]
    if not both:
        raise LabError(
            "the two reports have no setting in common",
            why=f"{count(len(before.samples), 'setting')} in the first, {len(after.samples)} in the second",
            next_step="sweep the same values in both",
        )
    return Comparison(
        changes=tuple(_change(setting, before.samples[setting], after.samples[setting]) for setting in both),
        only_before=tuple(setting for setting in before.samples if setting not in after.samples),
        only_after=tuple(setting for setting in after.samples if setting not in before.samples),
        differences=tuple(_differences(before, after)),
        headlines=(before.decision.headline(), after.decision.headline()),
    )


def _change(setting, before, after):
    old, new = (spread_of(sample.step_s for sample in samples) for samples in (before, after))
    verdict = "faster" if new.most < old.least else "slower" if new.least > old.most else "same"
    return Change(setting, old.median, new.median, verdict)


def _differences(before, after):
    if (before.dataset, before.length) != (after.dataset, after.length):
        yield f"the datasets differ: {before.dataset} ({before.length}) and {after.dataset} ({after.length})"
    for name in before.surroundings:
        old, new = before.surroundings[name], after.surroundings.get(name)
        if old != new:
            yield f"{name} was {old} and is {new}"
