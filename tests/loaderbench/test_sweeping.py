"""What a sweep runs, in which order, and what it makes of it; the loader is played, except in one small real run."""

import json
import multiprocessing

import little_datasets as little
import pytest
from test_deciding import sample

from labsupport.errors import LabError, UsageError
from labsupport.loaderbench import Report, bench, compare, sweeping
from labsupport.loaderbench.progress import NotebookProgress, TerminalProgress, words_of
from labsupport.loaderbench.settings import Axes, Setting


class World:
    """Plays `record` and `measure`: what each setting takes is given by a function, and every call is noted."""

    def __init__(self, monkeypatch, makes_s=lambda setting: 0.01, fails=lambda setting: None, step_s=0.0):
        self.makes_s, self.fails, self.step_s, self.calls = makes_s, fails, step_s, []
        monkeypatch.setattr(sweeping, "record", self.record)
        monkeypatch.setattr(sweeping, "measure", self.measure)
        monkeypatch.setattr(sweeping.settings, "cores", lambda: 2)
        monkeypatch.setattr(sweeping, "shared_free_bytes", lambda: 8_000_000)

    def record(self, dataset, **options):
        setting = Setting(
            workers=options["num_workers"],
            batch_size=options["batch_size"],
            prefetch=options.get("prefetch_factor"),
            persistent=options.get("persistent_workers", False),
            pin=options.get("pin_memory", False),
            start=options.get("multiprocessing_context"),
            batched=options["batched"],
        )
        self.calls.append((setting, options))
        if (problem := self.fails(setting)) is not None:
            raise problem
        return _Run(setting)

    def measure(self, run, stage="", repetition=0, epoch_batches=None):
        setting = run.setting
        return sample(
            self.makes_s(setting),
            self.step_s,
            setting.workers,
            hand_s=0.0005,
            start_s=0.02,
            stage=stage,
            repetition=repetition,
            batch_bytes=1_000 * (setting.batch_size or 1),
        )

    @property
    def settings(self):
        return [setting for setting, _ in self.calls[1:]]  # the first call tries the dataset out


class _Run:
    counts, notes = {"batches": 4}, ()

    def __init__(self, setting):
        self.setting = setting


def swept(**options):
    usual = {"workers": (0, 1, 2), "persistent": False, "start": "fork", "repeat": 3, "progress": None}
    return bench(little.Numbers(), **usual | options)


def test_the_settings_of_one_axis_run_by_turns(monkeypatch):
    world = World(monkeypatch)
    swept()
    assert [setting.workers for setting in world.settings[:9]] == [0, 1, 2, 1, 2, 0, 2, 0, 1]


def test_the_best_and_the_baseline_run_once_more_beside_each_other(monkeypatch):
    world = World(monkeypatch)
    report = swept()
    assert report.decision.setting.workers == 2
    assert [setting.workers for setting in world.settings[9:]] == [0, 2, 2, 0, 0, 2]


def test_other_axes_are_varied_one_at_a_time_around_the_best(monkeypatch):
    world = World(monkeypatch, makes_s=lambda s: 0.01 * (0.5 if s.prefetch == 8 else 1) * (2 if s.persistent else 1))
    report = swept(prefetch=(2, 8), persistent=(False, True), repeat=3)
    best = report.decision.setting
    assert (best.workers, best.prefetch, best.persistent) == (2, 8, False)
    around = {(s.workers, s.prefetch, s.persistent) for s in world.settings if s.workers == 2}
    assert around == {(2, 2, False), (2, 8, False), (2, 2, True)}


def test_a_step_that_is_the_bottleneck_ends_the_sweep_early(monkeypatch):
    world = World(monkeypatch, makes_s=lambda s: 0.001, step_s=0.05)
    report = swept(step=len, prefetch=(2, 8))
    assert report.decision.verdict == "not the bottleneck"
    assert {setting.prefetch for setting in world.settings} == {None, 2}


def test_a_setting_that_fails_is_left_out_and_told(monkeypatch):
    problem = LabError("a worker was killed", next_step="use fewer workers")
    World(monkeypatch, fails=lambda s: problem if s.workers == 4 else None)
    report = swept(workers=(0, 2, 4))
    assert report.decision.setting.workers == 2
    assert [setting.workers for setting, _ in report.refused] == [4]
    assert "not run: 4 workers (fork), batch 32: a worker was killed; use fewer workers" in report.text()


def test_a_setting_that_failed_is_not_tried_again(monkeypatch):
    world = World(monkeypatch, fails=lambda s: LabError("no") if s.workers == 2 else None)
    swept()
    assert sum(setting.workers == 2 for setting in world.settings) == 1


@pytest.mark.parametrize("stage", ["around", "at the end"])
def test_the_best_setting_may_fail_later_on(monkeypatch, stage):
    """Memory that was enough for the first runs is taken now: the baseline is kept, the failure is told."""
    seen = []

    def fails(setting):
        seen.append(setting.workers == 2)
        return LabError("killed") if setting.workers == 2 and sum(seen) > 3 else None

    World(monkeypatch, fails=fails)
    report = swept(workers=(0, 2), persistent=(False, True) if stage == "around" else False)
    assert report.decision.setting.workers == 0 and report.refused
    assert "killed" in report.text()


def test_batches_that_would_fill_the_shared_memory_are_not_tried(monkeypatch):
    world = World(monkeypatch)
    report = swept(batch_size=1500)  # 1.5 MB: two workers would hold 6 MB of 8, prefetch 8 four times as much
    assert report.refused == ()
    report = swept(batch_size=3000)
    assert [setting.workers for setting, _ in report.refused] == [2]
    assert "need 12 MB of /dev/shm, where 8 MB are free" in report.text()
    assert all(setting.workers < 2 or setting.batch_size == 1500 for setting in world.settings)


def test_what_is_wrong_with_the_dataset_ends_everything_at_once(monkeypatch):
    World(monkeypatch, fails=lambda s: LabError("item 5 raised"))
    with pytest.raises(LabError, match="item 5 raised"):
        swept()


def test_a_baseline_of_ones_own_is_what_is_compared_with(monkeypatch):
    World(monkeypatch)
    report = swept(baseline={"workers": 1, "prefetch": 4})
    assert report.decision.baseline == Setting().with_(workers=1, prefetch=4, start="fork")
    assert report.decision.setting.workers == 2


def test_batch_sizes_are_measured_and_not_recommended(monkeypatch):
    World(monkeypatch)
    report = swept(batch_size=(32, 64))
    assert report.decision.setting.batch_size == 32
    assert {setting.batch_size for setting in report.samples} == {32, 64}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_workers": 2}, "give it as workers"),
        ({"pin_memory": True}, "give it as pin"),
        ({"batch_sampler": []}, "record"),
        ({"workers": -1}, "whole number from 0"),
        ({"workers": (0, 0)}, "twice"),
        ({"workers": True}, "whole number"),
        ({"batch_size": 0}, "whole number from 1"),
        ({"start": "thread"}, "one of"),
        ({"pin": True}, "device"),
        ({"batched": True}, "__getitems__"),
        ({"repeat": 0}, "from 1"),
        ({"progress": "loud"}, "auto"),
        ({"baseline": {"wrokers": 1}}, "its names are"),
        ({"baseline": {"workers": -2}}, "whole number from 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_arguments_that_do_not_fit_are_refused_before_anything_runs(monkeypatch, options, words):
    world = World(monkeypatch)
    with pytest.raises(UsageError, match=words):
        swept(**options)
    assert world.calls == []


class FakeAccelerator:
    """A device for which pinned memory makes a difference."""

    name, pins = "fake", True

    def move(self, batch, pinned):
        return batch

    def synchronize(self):
        pass


def test_pinning_is_swept_where_batches_go_to_an_accelerator(monkeypatch):
    world = World(monkeypatch, makes_s=lambda s: 0.005 if s.pin else 0.01)
    device = FakeAccelerator()
    report = swept(device=device)
    assert report.decision.setting.pin is True and "pin_memory=True" in report.decision.setting.call()
    assert report.surroundings["device"] == "fake"
    assert all(options["device"] is device for _, options in world.calls)


def test_settings_that_are_the_same_loader_are_equal():
    none = Setting().with_(workers=0, prefetch=8, persistent=True, start="spawn")
    assert none == Setting() and none.words() == "no workers, batch 32"
    assert Setting().with_(workers=2, start="spawn").prefetch == 2


def test_the_call_that_is_recommended_is_python():
    setting = Setting().with_(workers=2, start="spawn", prefetch=4, persistent=True)
    assert setting.call() == (
        "DataLoader(dataset, batch_size=32, num_workers=2, prefetch_factor=4, persistent_workers=True, "
        "multiprocessing_context='spawn')"
    )


def test_no_more_settings_run_than_progress_promises(monkeypatch):
    class Seen:
        def __init__(self):
            self.rows = []

        def show(self, done, total, words, left_s):
            self.rows.append((done, total))

        def close(self):
            self.rows.append("closed")

    World(monkeypatch, makes_s=lambda s: 0.01 / (s.prefetch or 1))
    seen = Seen()
    swept(prefetch=(2, 4, 8), persistent=(False, True), batch_size=(32, 64), progress=seen)
    assert seen.rows[-1] == "closed"
    assert all(done <= total for done, total in seen.rows[:-1])


def test_axes_around_a_setting_without_workers_hold_only_what_it_has():
    axes = Axes(workers=(0, 2), prefetch=(2, 8), persistent=(False, True), batched=(True, False))
    assert list(axes.around(Setting(batched=True))) == ["batched"]


def test_the_time_left_is_told_in_one_line(capsys):
    assert words_of(3, 12, "workers: 2 workers", 41.2) == "run 4 of at most 12, about 41 s left: workers: 2 workers"
    assert words_of(0, 12, "first batches", None) == "run 1 of at most 12: first batches"

    class Terminal:
        written = ""

        def isatty(self):
            return True

        def write(self, text):
            self.written += text

        def flush(self):
            pass

    terminal = Terminal()
    progress = TerminalProgress(terminal)
    progress.show(3, 12, "workers: 2 workers", 41.2)
    progress.close()
    assert "about 41 s left" in terminal.written and terminal.written.endswith("\r")


def test_a_small_real_sweep_counts_right_and_is_kept(tmp_path):
    """The one real run: counts only. What it recommends depends on the machine."""
    report = bench(
        little.Gathered(64), step=len, workers=(0, 1), batch_size=8, persistent=(False, True), repeat=1, batches=4,
        progress=None,
    )  # fmt: skip
    assert multiprocessing.active_children() == []
    for setting, rows in report.samples.items():
        for row in rows:
            assert row.items == row.batches * 8 and row.batches % 4 == 0
            assert row.calls == (row.batches if setting.batched else row.items)
            epochs = row.batches // 4  # two where persistent workers are compared
            assert epochs == (1 if row.stage == "workers" else epochs)
            assert row.processes == 1 + (setting.workers and (1 if setting.persistent else epochs))
            assert row.batch_bytes == 8 * 4 * 4
    again = Report.load(report.save(tmp_path / "report.json"))
    assert again.text() == report.text() and again.samples == report.samples
    assert again.baseline_run == report.baseline_run
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["format"] == "loaderbench report 1"
    assert "no difference" in compare(report, again).text()


def test_a_dataset_that_raises_ends_the_real_sweep_too():
    with pytest.raises(LabError, match="item 5"):
        bench(little.Raising(), batch_size=8, progress=None)


def test_an_empty_stream_is_named():
    with pytest.raises(LabError, match="gave no batch"):
        bench(little.Stream(0), workers=0, progress=None)


def test_a_notebook_keeps_one_line_of_the_progress(monkeypatch):
    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown[-1] = bundle

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    progress = NotebookProgress()
    progress.show(0, 3, "baseline", None)
    progress.show(2, 3, "<workers>", 4.0)
    assert shown[0]["text/html"].startswith('<div><progress value="2" max="3"')
    assert "&lt;workers&gt;" in shown[0]["text/html"]
    progress.close()
    assert len(shown) == 1
    for form in ("text/plain", "text/html"):
        assert "loaderbench ran for" in shown[0][form]


def test_a_sweep_that_never_ran_leaves_no_line(monkeypatch):
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: pytest.fail("something was displayed"))
    NotebookProgress().close()
