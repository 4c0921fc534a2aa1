"""The datasets of lesson 12: importable, picklable, and what they say they are."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from labsupport import loading
from labsupport.datasets import crops, load
from labsupport.errors import LabError
from labsupport.loading.tracing import cause

DATASETS = {
    "photos": lambda: loading.Photos(count=6, side=32),
    "photos-uint8": lambda: loading.Photos(count=6, side=32, floats=False),
    "decoded": lambda: loading.DecodedPhotos(count=6, side=32),
    "paced": lambda: loading.Paced(6, 0.0),
    "paced-at-once": lambda: loading.Paced(6, 0.0, at_once=True),
    "tiny": lambda: loading.Tiny(6),
    "hours": lambda: loading.Hours(at_once=True),
    "remote": lambda: loading.RemoteHours(trip_ms=0.0),
    "jitter": lambda: loading.Jitter(6),
    "who": lambda: loading.Who(6),
    "names": lambda: loading.NameList(6),
    "name-buffer": lambda: loading.NameBuffer(6),
}


@pytest.mark.parametrize("name", list(DATASETS))
def test_a_copy_that_went_through_pickle_gives_the_same_items(name):
    dataset = DATASETS[name]()
    arrived = pickle.loads(pickle.dumps(dataset))
    assert len(arrived) == len(dataset)
    for index in (0, 5):
        np.testing.assert_equal(arrived[index], dataset[index])
    if hasattr(dataset, "__getitems__"):
        np.testing.assert_equal(arrived.__getitems__([4, 1]), [dataset[4], dataset[1]])


def test_photos_are_the_crops_of_the_retina():
    expected = crops(6, 32)
    photos = loading.Photos(count=6, side=32, floats=False)
    assert all((photos[i] == expected[i]).all() and photos[i].flags.writeable for i in range(6))
    as_floats = loading.Photos(count=6, side=32)[2]
    assert as_floats.shape == (1, 32, 32) and as_floats.dtype == np.float32
    assert np.array_equal(as_floats[0], expected[2] / np.float32(255))
    assert (loading.DecodedPhotos(6, 32).photos == expected).all()
    with pytest.raises(IndexError):
        photos[6]


def test_hours_count_their_calls():
    hours, weather = loading.Hours(at_once=True), load("weather")
    samples = hours.__getitems__([7, 3])
    assert isinstance(samples, list) and hours.calls == 1
    assert np.array_equal(samples[1], weather[3:27]) and np.array_equal(hours[8736], weather[-24:])
    assert len(hours) == 8737


def test_both_ways_of_keeping_names_are_the_same_dataset():
    a, b = loading.NameList(50), loading.NameBuffer(50)
    assert [a[i] for i in range(50)] == [b[i] for i in range(50)]


def test_noise_by_request_is_noise_by_epoch():
    by_epoch, by_request, sampler = loading.Jitter(5, 1), loading.Jitter(5, 1, "request"), loading.EpochSampler(5)
    by_epoch.epoch = 3
    sampler.set_epoch(3)
    assert [by_request[request] for request in sampler] == [by_epoch[i] for i in range(5)]
    by_epoch.epoch = 4
    assert by_epoch[0] != by_request[3, 0]


def test_the_recorded_runs_are_what_they_were_made_for():
    assert [cause(loading.trace(name)) for name in loading.TRACES] == ["loading", "model", "start", "order"]
    assert len({loading.trace(name).settings["num_workers"] for name in loading.TRACES}) == 1
    assert max(loading.trace(name).seconds for name in loading.TRACES) < 5
    with pytest.raises(LabError):
        loading.trace("z")


def test_nothing_loads_torch_before_it_is_used():
    code = (
        "import sys\nfrom labsupport import loading\n"
        "names = [getattr(loading, name) for name in loading.__all__]\n"
        "assert len(names) > 10\nassert 'torch' not in sys.modules and 'PIL' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError):
        _ = loading.Nothing


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn"] + (["fork"] if sys.platform == "linux" else []))
def test_persistent_workers_really_keep_their_copy(method):
    """What the driver of `stale-epoch` imitates, with real processes."""
    from torch.utils.data import DataLoader

    how = {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": method}
    stale, sampler = loading.Jitter(4, 1), loading.EpochSampler(4)
    told = loading.Jitter(4, 1, "request")
    loaders = DataLoader(stale, **how), DataLoader(told, sampler=sampler, **how)
    seen = []
    for epoch in (0, 1):
        stale.epoch = epoch
        sampler.set_epoch(epoch)
        seen.append([[item.item() for item in loader] for loader in loaders])
    assert seen[0][0] == seen[1][0] == seen[0][1]
    assert seen[1][1] == [loading.Jitter(4, 1, "request")[1, i] for i in range(4)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells which pages a process wrote to")
def test_a_list_of_names_is_copied_by_reading_it_and_a_buffer_is_not():
    listed, _ = loading.worker_megabytes(loading.NameList(300_000))
    packed, how = loading.worker_megabytes(loading.NameBuffer(300_000))
    assert how == "counted now"
    assert listed - packed > 10  # 150,000 texts of 111 bytes in each worker's half
