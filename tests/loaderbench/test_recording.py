"""A recorded run counts what the loader did, in every process and with every start method. No time is asserted."""

import multiprocessing
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import little_datasets as little
import pytest
import torch

from labsupport.errors import LabError, UsageError
from labsupport.loaderbench import Run, record
from labsupport.loaderbench.memory import private_dirty_bytes
from labsupport.loaderbench.runs import KINDS

METHODS = multiprocessing.get_all_start_methods()


def kinds(run, lane):
    return [event.kind for event in run.events if event.lane == lane]


def test_without_workers_the_main_process_fetches_and_collates():
    run = record(little.Numbers(20), batch_size=8)
    assert run.counts == {"batches": 3, "items": 20, "calls": 20, "bytes": 20 * 4 * 4, "processes": 1}
    assert kinds(run, "main") == ["start"] + ["fetch", "collate"] * 3
    assert run.queue == () and run.workers == () and run.settings["multiprocessing_context"] is None


@pytest.mark.parametrize("method", METHODS)
def test_workers_share_the_batches_whatever_starts_them(method):
    run = record(little.Numbers(48), batch_size=8, num_workers=2, multiprocessing_context=method)
    assert run.counts["batches"] == 6 and run.counts["calls"] == 48 and run.counts["processes"] == 3
    assert [worker.batches for worker in run.workers] == [3, 3]
    assert run.settings["multiprocessing_context"] == method
    for lane in ("worker 0", "worker 1"):
        assert kinds(run, lane) == ["start"] + ["fetch", "collate"] * 3
    assert kinds(run, "main").count("wait") == 6
    assert multiprocessing.active_children() == []


def test_the_start_method_is_always_told():
    run = record(little.Numbers(8), batch_size=8, num_workers=1)
    assert run.settings["multiprocessing_context"] == multiprocessing.get_all_start_methods()[0]


def test_events_are_in_order_and_within_the_run():
    run = record(little.Numbers(48), batch_size=8, num_workers=2, step=len)
    assert {event.kind for event in run.events} == set(KINDS) - {"transfer"}
    assert all(0 <= event.start_s <= event.end_s <= run.seconds for event in run.events)
    assert [e.batch for e in run.events if e.kind == "compute"] == list(range(6))
    for batch in range(6):
        fetch, collate, wait = (
            next(e for e in run.events if e.kind == kind and e.batch == batch) for kind in ("fetch", "collate", "wait")
        )
        assert fetch.end_s == collate.start_s and collate.end_s <= wait.end_s


def test_the_queue_ends_empty_and_is_never_negative():
    run = record(little.Numbers(64), batch_size=4, num_workers=2, prefetch_factor=3)
    ready = [count for _, count in run.queue]
    assert len(ready) == 32 and min(ready) >= 0 and ready[-1] == 0
    assert max(ready) <= 2 * 3


def test_steps_bound_what_is_fetched_too():
    """Nothing is fetched that nobody takes, so that calls can be counted exactly."""
    run = record(little.Numbers(1000), batch_size=4, num_workers=2, prefetch_factor=8, steps=5)
    assert run.counts["batches"] == 5 and sum(worker.calls for worker in run.workers) == 20


def test_persistent_workers_are_the_same_processes_in_every_epoch():
    options = {"batch_size": 8, "num_workers": 2, "epochs": 3}
    stayed = record(little.Numbers(32), persistent_workers=True, **options)
    anew = record(little.Numbers(32), **options)
    assert len({epoch.pids for epoch in stayed.epochs}) == 1 and stayed.counts["processes"] == 3
    assert len({epoch.pids for epoch in anew.epochs}) == 3 and anew.counts["processes"] == 7
    assert [epoch.batches for epoch in anew.epochs] == [4, 4, 4]


def test_a_batched_fetch_is_one_call():
    data = little.Gathered(32)
    assert record(data, batch_size=8).counts["calls"] == 4
    assert record(data, batch_size=8, batched=False).counts["calls"] == 32
    assert record(data, batch_size=8).settings["batched_fetch"] is True
    assert record(little.Numbers(32), batch_size=8).settings["batched_fetch"] is False


def test_the_order_and_the_sampler_are_the_loaders_own():
    seen = []
    generator = torch.Generator().manual_seed(3)
    record(little.Numbers(12), batch_size=4, shuffle=True, generator=generator, step=lambda b: seen.extend(b[:, 0]))
    generator = torch.Generator().manual_seed(3)
    loader = torch.utils.data.DataLoader(little.Numbers(12), batch_size=4, shuffle=True, generator=generator)
    assert [int(x) for x in seen] == [int(x) for batch in loader for x in batch[:, 0]]


def test_no_batching_at_all():
    run = record(little.Numbers(5), batch_size=None)
    assert run.counts["batches"] == 5 and run.counts["items"] == 5


def test_a_stream_without_a_length_ends_when_it_ends():
    run = record(little.Stream(40), batch_size=8, num_workers=2)
    assert run.counts["items"] == 40 and run.counts["batches"] == 6  # 20 items each: 8, 8, 4
    bounded = record(little.Stream(40), batch_size=8, num_workers=2, steps=2, epochs=2, persistent_workers=True)
    assert [epoch.batches for epoch in bounded.epochs] == [2, 2]
    assert multiprocessing.active_children() == []


def test_a_users_collate_and_worker_init_are_used():
    seen = []
    data = little.Numbers(16, width=4)
    record(data, batch_size=8, num_workers=1, collate_fn=little.list_of, worker_init_fn=little.mark, step=seen.append)
    assert [len(batch) for batch in seen] == [8, 8]
    assert {tuple(item.shape) for batch in seen for item in batch} == {(2,)}  # the worker's own dataset was changed


class FakeDevice:
    """A device whose moves are counted: what an accelerator would see."""

    name, pins = "fake", True

    def __init__(self):
        self.moved, self.waited = [], 0

    def move(self, batch, pinned):
        self.moved.append(pinned)
        return ("on the device", batch)

    def synchronize(self):
        self.waited += 1


def test_batches_are_moved_and_waited_for_before_and_after_the_step():
    device, seen = FakeDevice(), []
    run = record(little.Numbers(16), batch_size=8, device=device, step=seen.append)
    assert device.moved == [False, False] and device.waited == 4
    assert [batch[0] for batch in seen] == ["on the device"] * 2
    assert kinds(run, "main")[-4:] == ["fetch", "collate", "transfer", "compute"]


def test_a_device_moves_every_tensor_of_a_batch_and_nothing_else():
    from labsupport.loaderbench.devices import Device, bytes_of

    Pair = namedtuple("Pair", "left right")
    batch = {"x": [torch.zeros(2), ("text", 3)], "y": Pair(torch.ones(4, dtype=torch.float64), None)}
    device = Device("cpu")
    moved = device.move(batch, pinned=False)
    device.synchronize()
    assert not device.pins and moved["x"][1] == ("text", 3) and type(moved["y"]) is Pair
    assert bytes_of(batch) == bytes_of(moved) == 2 * 4 + 4 * 8
    assert Device("meta").move(batch, pinned=True)["y"].left.device.type == "meta"


def test_a_batch_carries_its_pinned_tensors():
    """Pinning happens in the loader's own thread, where there is an accelerator: it asks the batch for `pin_memory`."""
    from labsupport.loaderbench.wrapping import Carried

    class Pinnable:
        def pin_memory(self):
            return "pinned"

    pinned = Carried({"x": [Pinnable()], "name": "a"}, note=1).pin_memory()
    assert pinned.batch == {"x": ["pinned"], "name": "a"} and pinned.note == 1


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has the device")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(LabError, match="there is no device 'cuda'"):
        record(little.Numbers(8), device="cuda")
    with pytest.raises(LabError, match="there is no device 'toaster'"):
        record(little.Numbers(8), device="toaster")
    assert record(little.Numbers(8), device="auto").totals["transfer"] == 0


def test_a_run_is_kept_as_json(tmp_path):
    run = record(little.Numbers(16), batch_size=8, num_workers=1, step=len)
    assert Run.load(run.save(tmp_path / "run.json")) == run
    (tmp_path / "bad.json").write_text('{"format": "loaderbench run 1"}', encoding="utf-8")
    with pytest.raises(LabError, match="damaged"):
        Run.load(tmp_path / "bad.json")
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    with pytest.raises(LabError, match="not a recorded run"):
        Run.load(tmp_path / "other.json")
    with pytest.raises(LabError, match="no file"):
        Run.load(tmp_path / "none.json")


@pytest.mark.skipif(sys.platform != "linux", reason="memory per process is read from Linux's /proc")
def test_memory_of_each_worker_is_read_while_it_lives():
    run = record(little.Numbers(16), batch_size=8, num_workers=2, multiprocessing_context="fork")
    assert all(worker.private_dirty_bytes > 0 for worker in run.workers) and run.notes == ()


def test_memory_that_nobody_tells_is_said_to_be_missing(monkeypatch):
    monkeypatch.setattr("labsupport.loaderbench.memory.private_dirty_bytes", lambda pid: None)
    run = record(little.Numbers(16), batch_size=8, num_workers=1)
    assert run.workers[0].private_dirty_bytes is None and "memory per worker" in run.notes[0]


def test_a_process_that_is_not_there_has_no_memory():
    assert private_dirty_bytes(2**30) is None


def test_progress_counts_batches():
    told = []
    record(little.Numbers(16), batch_size=8, epochs=2, progress=lambda done, whole: told.append((done, whole)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("options", [{"steps": 0}, {"steps": -1}, {"epochs": 0}, {"epochs": None}], ids=str)
def test_lengths_that_are_none_are_refused(options):
    with pytest.raises(UsageError, match="cannot be"):
        record(little.Numbers(8), **options)


_ASKS = """
import multiprocessing, little_datasets as little
from labsupport.loaderbench import record
print(record(little.Numbers(8)).settings["multiprocessing_context"])
multiprocessing.set_start_method("spawn")
from labsupport.loaderbench.settings import usual_start
print(usual_start())
"""


def test_asking_for_the_start_method_does_not_settle_it(tmp_path):
    command = [sys.executable, "-c", _ASKS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, timeout=120)
    assert done.stdout.split() == ["None", "spawn"], done.stderr


def test_a_step_that_is_not_a_function_is_refused():
    with pytest.raises(UsageError, match="step is a int"):
        record(little.Numbers(8), step=3)
