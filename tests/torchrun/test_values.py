"""`--return`: whose values arrive, what is said of those that do not, and DTensors that all ranks gather or none."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from labsupport.errors import UsageError
from labsupport.torchrun import gathering
from labsupport.torchrun.pictures import Picture
from labsupport.torchrun.values import Wanted, collect, give, parse_returns

ROOT = pathlib.Path(__file__).parents[2]


class Mine:
    pass


def test_words_of_return():
    assert parse_returns(("loss, weights", "shard@all,x@3,loss")) == (
        Wanted("loss"), Wanted("weights"), Wanted("shard", "all"), Wanted("x", 3),
    )  # fmt: skip
    for wrong in ("model.state_dict()", "3", "x@one", "x@-1", "@all", "class"):
        with pytest.raises(UsageError):
            parse_returns((wrong,))


def ranks_give(tmp_path, wanted, namespaces, failed=()):
    """Play the end of a cell on several ranks, each in a thread: none of these values needs a process group."""
    threads = []
    for rank, namespace in enumerate(namespaces):
        folder = tmp_path / f"rank-{rank}"
        folder.mkdir()
        options = {"rank": rank, "world": len(namespaces), "failed": rank in failed}
        threads.append(threading.Thread(target=give, args=(wanted, namespace, folder), kwargs=options))
        threads[-1].start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_the_first_ranks_value_all_values_and_one_ranks_value(tmp_path):
    wanted = parse_returns(("a,b@all,c@1",))
    ranks_give(tmp_path, wanted, [{"a": rank, "b": [rank], "c": rank * 10} for rank in range(2)])
    returned = collect(wanted, tmp_path, world=2)
    assert returned.values == {"a": 0, "b": [[0], [1]], "c": 10} and returned.problems == []
    assert returned.error() is None
    assert sorted(path.name for path in (tmp_path / "rank-1/returned").iterdir()) == ["1.value", "2.value"]


def test_a_name_that_is_not_there_is_told_with_near_names_and_the_others_arrive(tmp_path):
    wanted = parse_returns(("losses,ok,mine@all,far@7",))
    ranks_give(tmp_path, wanted, [{"loss": 1, "ok": 2, "mine": 1}, {"ok": 2, "mine": Mine()}])
    returned = collect(wanted, tmp_path, world=2)
    assert returned.values == {"ok": 2}
    told = [str(problem) for problem in returned.problems]
    assert "the cell defines no `losses`" in told[0] and "near names are `loss`" in told[0]
    assert told[1].startswith("on rank 1, `mine` is a")
    assert "there is no rank 7 in a group of 2" in told[2]
    assert "3 values did not come back" in str(returned.error())


def test_a_rank_that_ended_early_and_a_torn_file(tmp_path):
    wanted = (Wanted("a", "all"), Wanted("b"))
    ranks_give(tmp_path, wanted, [{"a": 1, "b": 2}, {}], failed={1})
    path = tmp_path / "rank-0/returned/1.value"
    path.write_bytes(path.read_bytes()[:-1])
    told = [str(problem) for problem in collect(wanted, tmp_path, world=2).problems]
    assert "rank 1 ended before it returned `a`" in told[0]
    assert "`b` of rank 0 cannot be read" in told[1]


def test_an_object_that_raises_when_it_is_looked_at_is_a_sentence(tmp_path):
    @dataclasses.dataclass
    class Broken:
        a: int

        @property
        def a(self):
            raise RuntimeError("no")

        @a.setter
        def a(self, value):
            pass

    wanted = (Wanted("x"),)
    ranks_give(tmp_path, wanted, [{"x": Broken(1)}])
    assert "RuntimeError: no" in str(collect(wanted, tmp_path, world=1).error())


def test_a_figure_arrives_as_a_picture(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    wanted = (Wanted("fig", "all"),)
    for rank in range(2):  # one after the other: drawing is not safe from two threads
        (tmp_path / f"rank-{rank}").mkdir()
        give(wanted, {"fig": figure}, tmp_path / f"rank-{rank}", rank=rank, world=2)
    returned = collect(wanted, tmp_path, world=2)
    shown = list(returned.pictures())
    assert [name for name, _ in shown] == ["fig of rank 0", "fig of rank 1"]
    picture = shown[0][1]
    assert picture.width > 50 and picture._repr_png_().startswith(b"\x89PNG")
    assert 'alt="the loss"' in picture.html("the loss")
    assert picture.save(tmp_path / "a.png").read_bytes() == picture.png
    with pytest.raises(ValueError):
        Picture(b"<svg onload=...>")


def test_a_kernel_needs_torch_only_when_a_tensor_arrives(tmp_path):
    torch = pytest.importorskip("torch")
    wanted = parse_returns(("n,w",))
    ranks_give(tmp_path, wanted, [{"n": [1.5] * 100, "w": torch.ones(2)}])
    program = (
        "import sys\nfrom labsupport.torchrun import values\n"
        "assert 'numpy' not in sys.modules\n"
        f"n, w = values.parse_returns(('n,w',))\n"
        f"raw = {str(tmp_path)!r}\n"
        "assert values.collect((n,), raw, world=1).values == {'n': [1.5] * 100}\n"
        "assert 'torch' not in sys.modules\n"
        "assert values.collect((n, w), raw, world=1).values['w'].sum() == 2\n"
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


# -- DTensors: all ranks together, or none ------------------------------------------------------------------------

_RANK = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import torch, torch.distributed as dist
from torch.distributed.tensor import DeviceMesh, DTensor, Shard, distribute_tensor
from labsupport.torchrun.values import give, parse_returns

rank, world = int(sys.argv[1]), 2
folder = Path(sys.argv[2])
dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), world), rank=rank, world_size=world)
mesh = DeviceMesh("cpu", list(range(world)))
whole = torch.arange(10.0).reshape(5, 2)
w = distribute_tensor(whole, mesh, [Shard(0)])
state = {{"layers": [{{"w": torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(1)]))}}], "step": 3}}
lonely = distribute_tensor(whole, mesh, [Shard(0)])
odd = DTensor.from_local(torch.ones(2, 2), mesh, [Shard(rank)])
if rank == 1:
    del lonely
give(parse_returns(("w,state,lonely,odd@all",)), globals(), folder / f"rank-{{rank}}", rank=rank, world=world)
dist.destroy_process_group()
give(parse_returns(("w",)), globals(), folder / "late" / f"rank-{{rank}}", rank=rank, world=world)
os._exit(0)
"""


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    pytest.importorskip("torch.distributed.tensor")
    folder = tmp_path_factory.mktemp("gather")
    for part in ("rank-0", "rank-1", "late/rank-0", "late/rank-1"):
        (folder / part).mkdir(parents=True)
    command = [sys.executable, "-c", _RANK.format(root=str(ROOT))]
    ranks = [subprocess.Popen([*command, str(rank), str(folder)]) for rank in range(2)]
    try:
        assert [rank.wait(120) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return folder


def test_dtensors_are_gathered_wherever_they_lie(gathered):
    import torch

    returned = collect(parse_returns(("w,state",)), gathered, world=2)
    whole = torch.arange(10.0).reshape(5, 2)
    assert torch.equal(returned.values["w"], whole)
    inner = returned.values["state"]["layers"][0]["w"]
    assert type(inner) is torch.nn.Parameter and torch.equal(inner.detach(), whole)
    assert returned.values["state"]["step"] == 3


def test_a_dtensor_that_one_rank_lacks_or_shards_otherwise_is_a_sentence_and_nobody_hangs(gathered):
    told = [str(p) for p in collect(parse_returns(("w,state,lonely,odd@all",)), gathered, world=2).problems]
    assert "`lonely` is a DTensor on rank 0, but rank 1 has no `lonely`" in told[0]
    assert "`odd` holds different DTensors on different ranks" in told[1]


def test_a_rank_that_is_gone_without_a_word_is_not_waited_for(tmp_path):
    over = subprocess.Popen([sys.executable, "-c", ""])
    over.wait()
    (tmp_path / "state.json").write_text(f'{{"pid": {over.pid}}}', encoding="utf-8")
    gone = gathering._heard(tmp_path)
    here = {"failed": False, "names": ["a"], "group": True, "held": {"a": [{"ranks": [0, 1]}]}}
    assert "rank 1 ended before it returned `a`" in str(gathering._disagreement("a", [here, gone]))


def test_a_dtensor_whose_group_was_destroyed_is_a_sentence(gathered):
    told = str(collect(parse_returns(("w",)), gathered / "late", world=2).error())
    assert "the process group that holds its parts is gone" in told and "destroy_process_group" in told


def test_a_rank_that_failed_is_named(tmp_path):
    everyone = [
        {"failed": False, "names": ["w"], "group": True, "held": {"w": [{"ranks": [0, 1]}]}},
        {"failed": True, "names": [], "group": True, "held": {}},
    ]
    assert "but rank 1 failed" in str(gathering._disagreement("w", everyone))
