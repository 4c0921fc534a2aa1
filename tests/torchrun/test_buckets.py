"""A recorded backward pass on real ranks: the gradients are DDP's to the bit, and what is told of them is so."""

import json

import pytest
from rank_jobs import forker, needs_fork  # noqa: F401 - a fixture

from labsupport.errors import LabError
from labsupport.figures import buckets
from labsupport.figures.buckets_model import runs_of, simulated
from labsupport.ranks.buckets import record_buckets

pytestmark = needs_fork

TWINS = """
import json
from labsupport.ranks.buckets import record_buckets
DDP = torch.nn.parallel.DistributedDataParallel

def net():
    torch.manual_seed(0)
    layers = [m for _ in range(3) for m in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))

def loss_of(model):
    return torch.nn.functional.cross_entropy(model(x), y)

options = dict(bucket_cap_mb=0.03, **OPTIONS)
plain, watched = DDP(net(), **options), DDP(net(), **options)
before = len(recorder.here())
torch.manual_seed(rank + 1)
equal, told = [], []
for step in range(3):
    x, y = torch.randn(8, 64), torch.randint(0, 10, (8,))
    plain.zero_grad(), watched.zero_grad()
    loss_of(plain).backward()
    loss = loss_of(watched)
    with record_buckets(watched) as seen:
        loss.backward()
    equal += [torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), watched.parameters())]
    told.append(seen)
plain.zero_grad(), watched.zero_grad()   # and without recording afterwards
loss_of(plain).backward(), loss_of(watched).backward()
equal += [torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), watched.parameters())]
calls = [(c.op, c.origin) for c in recorder.here()[before:]]
(folder / f"told-{rank}").write_text(json.dumps({"equal": equal, "told": told, "calls": calls}))
"""


def run(forker, folder, ranks, source):  # noqa: F811
    with forker.job(folder, ranks, source) as job:
        job.all_in("done", "failed")
        assert not list(folder.glob("failed-*")), job.said()
        return [json.loads((folder / f"told-{rank}").read_text(encoding="utf-8")) for rank in range(ranks)]


OPTIONS = ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True})


@pytest.mark.parametrize("ranks, options", [(3, {}), *((2, options) for options in OPTIONS)])
def test_gradients_are_ddps_to_the_bit(forker, tmp_path, ranks, options):  # noqa: F811
    answers = run(forker, tmp_path, ranks, TWINS.replace("OPTIONS", repr(options)))
    for answer in answers:
        assert len(answer["equal"]) == 4 * 8 and all(answer["equal"])
        ops = {tuple(call) for call in answer["calls"] if call[0] == "all_reduce"}
        assert ops == {("all_reduce", "torch")}  # the hook adds no call of the program's


@pytest.fixture(scope="module")
def seen(forker, tmp_path_factory):  # noqa: F811
    return [
        answer["told"] for answer in run(forker, tmp_path_factory.mktemp("twins"), 3, TWINS.replace("OPTIONS", "{}"))
    ]


def test_every_gradient_is_told_once_and_before_its_bucket_is_reduced(seen):
    names = {f"{layer}.{kind}" for layer in (0, 2, 4, 6) for kind in ("weight", "bias")}
    for rank, steps in enumerate(seen):
        for told in steps:
            assert (told["rank"], told["world"]) == (rank, 3)
            ready = {g["name"]: g["at"] for g in told["ready"]}
            assert set(ready) == names == {name for b in told["buckets"] for name in b["parameters"]}
            assert [g["at"] for g in told["ready"]] == sorted(g["at"] for g in told["ready"])
            assert sum(g["bytes"] for g in told["ready"]) == sum(b["bytes"] for b in told["buckets"])
            for b in told["buckets"]:
                assert max(ready[name] for name in b["parameters"]) <= b["start"] < b["end"] <= told["ended"]


def test_the_simulation_fills_buckets_as_ddp_does_once_it_knows_the_order(seen):
    for steps in seen:
        (run_,) = runs_of(steps[2])
        made = simulated(run_, 0.03 * 2**20, 1e-4, 1e9)
        assert [set(b["parameters"]) for b in made["buckets"]] == [set(b["parameters"]) for b in run_["buckets"]]


def test_one_rank_and_all_ranks_are_drawn(seen):
    figure = buckets.draw(seen[0][2])
    assert "recorded on" in figure.alt and "rank 0 of 3" in figure.alt
    together = buckets.draw([steps[2] for steps in seen])
    assert all(f"Rank {rank}" in together.alt for rank in range(3))
    assert "simulated from a run recorded on" in buckets.draw(seen[0][2], sizes_mb=True).alt


def test_a_pass_without_reduction_and_a_models_own_hook(forker, tmp_path):  # noqa: F811
    source = """
    import json
    from labsupport.ranks.buckets import record_buckets
    from labsupport.errors import LabError
    DDP = torch.nn.parallel.DistributedDataParallel
    model = DDP(torch.nn.Linear(4, 2))
    model(torch.ones(2, 4)).sum().backward()          # recording may begin later
    with model.no_sync():
        loss = model(torch.ones(2, 4)).sum()
    with record_buckets(model) as seen:
        loss.backward()
    own = DDP(torch.nn.Linear(4, 2))
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    own.register_comm_hook(None, allreduce_hook)
    try:
        with record_buckets(own):
            pass
    except LabError as error:
        why = str(error)
    (folder / f"told-{rank}").write_text(json.dumps({"seen": seen, "why": why}))
    """
    for answer in run(forker, tmp_path, 2, source):
        assert len(answer["seen"]["ready"]) == 2 and answer["seen"]["buckets"] == []
        assert "no all_reduce" in buckets.draw(answer["seen"]).alt
        assert "has a communication hook already" in answer["why"]


def test_only_ddp_has_buckets():
    with pytest.raises(LabError, match="has no buckets"), record_buckets(object()):
        pass
