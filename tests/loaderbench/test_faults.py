"""Bad input is named with the fix, within its deadline, and leaves no process. Deadlines here only end real hangs."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import little_datasets as little
import psutil
import pytest

from labsupport.errors import LabError, UsageError
from labsupport.loaderbench import record

HERE = Path(__file__).parent
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
SHORT_S = 1.5  # for what hangs for ever


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert multiprocessing.active_children() == []


def told(dataset, **options):
    with pytest.raises(LabError) as caught:
        record(dataset, **{"batch_size": 8} | options)
    assert caught.value.next_step, "every problem comes with a next action"
    return str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_item_that_raises_is_told_with_its_line(workers):
    text = told(little.Raising(), num_workers=workers)
    assert "item 5" in text and "ValueError: bad header in file 5" in text and "little_datasets.py:" in text


def test_len_that_promises_too_much():
    assert "compare len()" in told(little.TooLong())


@pytest.mark.parametrize("workers", [0, 1])
def test_ragged_items_are_told_with_their_shapes(workers):
    text = told(little.Ragged(), num_workers=workers)
    assert "(3,) float32; (4,) float32" in text and "collate_fn" in text


def test_items_that_collate_does_not_know():
    assert "items object" in told(little.Odd())


def test_a_dataset_that_leaves_python():
    assert "SystemExit: no more" in told(little.Exiting(), num_workers=1)


@posix
@pytest.mark.parametrize("workers", [0, 1])
def test_an_item_that_hangs_ends_at_the_deadline(workers):
    text = told(little.Hanging(), num_workers=workers, deadline_s=SHORT_S)
    assert "no batch of Hanging came within 1.5 s" in text
    if not workers:  # it can be looked at
        assert "at item 5 (little_datasets.py:" in text and "time dataset[5] by hand" in text


def test_items_that_are_none_are_told_as_such():
    text = told(little.WithNone())
    assert "NoneType" in text and "returned None" in text and "pad" not in text


def test_the_line_that_is_told_is_the_users_and_not_pythons():
    assert "(little_datasets.py:" in told(little.NotJson())


@posix
def test_a_worker_that_listens_to_nothing_is_ended_all_the_same():
    assert "no batch of Deaf came" in told(little.Deaf(), num_workers=1, deadline_s=SHORT_S)


@posix
def test_a_step_that_hangs_ends_at_the_deadline():
    text = told(little.Numbers(), step=lambda batch: signal.pause(), deadline_s=SHORT_S)
    assert "the step on batch 0 was not back" in text


def test_a_step_that_raises_is_the_steps_fault():
    assert "the step raised KeyError on batch 0" in told(little.Numbers(), step=lambda batch: {}["x"])


@posix
@pytest.mark.parametrize("method", [m for m in multiprocessing.get_all_start_methods() if m != "spawn"])
def test_a_worker_that_the_kernel_killed_is_about_memory(method):
    text = told(little.Killed(), num_workers=2, multiprocessing_context=method)
    assert "was killed" in text and "memory runs out" in text and "fewer workers" in text


@posix
def test_a_bus_error_is_about_shared_memory():
    assert "--shm-size" in told(little.BusError(), num_workers=1, multiprocessing_context="fork")


def test_shared_memory_that_is_full_is_named():
    """torch's words, from where it says them: collate makes the batch in shared memory, in the worker."""
    text = told(little.Numbers(), num_workers=1, collate_fn=little.no_room)
    assert "no room in shared memory (/dev/shm)" in text and "--shm-size" in text


@posix
def test_a_worker_that_leaves_is_told_with_its_code():
    assert "exit code 3" in told(little.Leaving(), num_workers=1, multiprocessing_context="fork")


def test_an_empty_dataset_and_things_that_are_none():
    assert "has no items" in told(little.Numbers(0))
    assert "a class, not a dataset" in told(little.Numbers)
    assert "not a dataset" in told(3)
    assert "no length" in told(type("NoLength", (), {"__getitem__": lambda self, at: at})())
    assert "IterableDataset" in told(type("Iterable", (), {"__iter__": lambda self: iter(())})())


def test_a_stream_that_breaks_is_told_with_its_place():
    text = told(little.Broken(), num_workers=1)
    assert "item 1" in text and "OSError: connection lost" in text and "iterate" in text


def test_what_does_not_pickle_is_found_inside_the_dataset():
    spawn = {"num_workers": 1, "multiprocessing_context": "spawn"}
    assert "the dataset.handle['lock'] does not pickle" in told(little.Locked(), **spawn)
    assert "the dataset.transform is a lambda" in told(little.Transformed(lambda x: x), **spawn)
    assert "collate_fn is a lambda" in told(little.Numbers(), collate_fn=lambda items: items, **spawn)


def test_a_lambda_is_no_problem_where_nothing_is_pickled():
    assert record(little.Numbers(8), batch_size=8, collate_fn=lambda items: items).counts["batches"] == 1


def test_worker_init_that_raises():
    assert "no licence" in told(little.Numbers(), num_workers=1, worker_init_fn=little.refuse)


def test_options_that_the_loader_does_not_take():
    with pytest.raises(UsageError, match="does not take these options"):
        record(little.Numbers(), prefetch_factor=4)
    with pytest.raises(UsageError, match="does not take these options"):
        record(little.Numbers(), bach_size=4)


_IN_A_PROMPT = """
import sys
from torch.utils.data import Dataset
class Mine(Dataset):
    def __len__(self): return 8
    def __getitem__(self, at): return at
from labsupport.errors import LabError
from labsupport.loaderbench import record
try:
    record(Mine(), num_workers=1, multiprocessing_context="spawn")
except LabError as error:
    print(error)
"""


def test_a_class_of_a_prompt_or_a_notebook_cannot_be_spawned():
    done = subprocess.run([sys.executable, "-c", _IN_A_PROMPT], capture_output=True, text=True, timeout=120)
    assert "the dataset needs Mine, which was defined in this notebook or prompt" in done.stdout
    assert "file beside the notebook" in done.stdout and done.stderr == ""


_WITHOUT_GUARD = """
import little_datasets as little
from labsupport.loaderbench import record
record(little.Numbers(), num_workers=1, multiprocessing_context="spawn")
"""


def test_a_program_without_a_main_guard_is_told(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(f"import sys; sys.path.insert(0, {str(HERE)!r})\n{_WITHOUT_GUARD}", encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    in_the_worker, in_the_program = done.stderr.split("a worker of Numbers left before it gave its batch")
    assert "would have started workers of its own" in in_the_worker
    assert 'if __name__ == "__main__":' in in_the_program


_SHORT_DEADLINE = """
import threading
import little_datasets as little
from labsupport.errors import LabError
from labsupport.loaderbench import record
def load(dataset, workers):
    try:
        record(dataset, batch_size=8, num_workers=workers, deadline_s=1.5, multiprocessing_context=METHOD)
    except LabError as error:
        print(error.what)
thread = threading.Thread(target=load, args=(little.Hanging(), 1))
thread.start(); thread.join()
"""


@posix
def test_a_worker_that_hangs_is_ended_from_a_thread_too():
    """Without the main thread's alarm the loader's own timeout holds."""
    source = _SHORT_DEADLINE.replace("METHOD", "'fork'")
    done = subprocess.run(_program(source), capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("no batch of Hanging came within 1.5 s")


def test_a_deadline_in_a_thread_ends_what_runs_in_python():
    from labsupport.loaderbench.guarding import Overdue, deadline

    ended = []

    def spin():
        try:
            with deadline(0.2):
                while True:
                    pass
        except Overdue:
            ended.append(True)

    thread = threading.Thread(target=spin)
    thread.start()
    thread.join(60)
    assert ended == [True]


def _program(body):
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r})\n{body}"]


_HANGING = """
import little_datasets as little
from labsupport.loaderbench import record
print("go", flush=True)
record(little.Hanging(), batch_size=8, num_workers=2, deadline_s=100, multiprocessing_context=METHOD)
"""


@posix
@pytest.mark.parametrize(
    ("how", "method"),
    [("SIGINT", method) for method in multiprocessing.get_all_start_methods()] + [("SIGKILL", "fork")],
)
def test_no_worker_outlives_an_interrupt_or_a_kill(how, method):
    source = _HANGING.replace("METHOD", repr(method))
    with subprocess.Popen(_program(source), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        program.stdout.readline()
        family = _family(program.pid, 2)
        os.kill(program.pid, getattr(signal, how))
        program.wait(60)
        _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def _family(pid, workers):
    """Return the descendants of a process once its workers are there, each started and running Python."""
    import time

    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = psutil.Process(pid).children(recursive=True)
        if len(found) >= workers + (len(found) > workers):
            return found
    raise AssertionError("the workers did not start")


@posix
def test_the_signal_handler_of_the_loader_is_as_it_was():
    record(little.Numbers(16), batch_size=8, num_workers=1)
    before = signal.getsignal(signal.SIGCHLD)
    told(little.Raising(), num_workers=1)
    assert signal.getsignal(signal.SIGCHLD) is before
    subprocess.run([sys.executable, "-c", "pass"], check=True)  # a child that ends: nobody calls it a failed worker
