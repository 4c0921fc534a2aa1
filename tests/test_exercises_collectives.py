"""What the predictions of lesson 15 say without running ranks is what real gloo groups do."""

import threading
from datetime import timedelta

import numpy as np
import pytest

from labsupport.exercises._collectives_costs import PREDICT_COST, _walk, ring_cost
from labsupport.exercises._collectives_hangs import WHO_HANGS, walk

dist = pytest.importorskip("torch.distributed")
torch = pytest.importorskip("torch")

TIMEOUT_S = 6  # what waits longer waits for ever; everything else takes milliseconds


class Real:
    """One program per rank, on a gloo group with a thread for each; `hanging` are those who never came to the end."""

    def __init__(self, programs):
        self.programs, self.store = programs, dist.HashStore()
        self.kept, self.ended = [], set()  # groups and handles stay: a rank at its end is alive
        self.threads = [threading.Thread(target=self._run, args=(r,), daemon=True) for r in range(len(programs))]
        for thread in self.threads:
            thread.start()

    def _run(self, rank):
        gloo = dist.ProcessGroupGloo
        options = gloo._Options()
        options._timeout = timedelta(seconds=TIMEOUT_S)
        options._devices = [gloo.create_device(hostname="127.0.0.1")]
        group = gloo(self.store, rank, len(self.programs), options)
        self.kept.append(group)
        try:
            for call in self.programs[rank]:
                self._call(group, *call.split())
        except RuntimeError:  # timed out
            return
        self.ended.add(rank)

    def _call(self, group, call, peer="0"):
        x = torch.zeros(4)
        if call in ("send", "isend"):
            work = group.send([x], int(peer), 0)
        elif call == "recv":
            work = group.recv([x], int(peer), 0)
        elif call == "all_reduce":
            work = group.allreduce([x])
        else:
            return
        self.kept += [x, work]
        if call != "isend":
            work.wait()

    @property
    def hanging(self):
        for thread in self.threads:
            thread.join(60)
        return tuple(rank for rank in range(len(self.programs)) if rank not in self.ended)


def test_who_hangs_is_what_gloo_does():
    programs = [case.make(None)[0] for case in WHO_HANGS.cases]
    programs += [WHO_HANGS.drill.make(np.random.default_rng(seed))[0] for seed in range(12)]
    running = [(asked, Real(asked)) for asked in programs]  # side by side: most of them wait for the timeout
    assert [(asked, real.hanging) for asked, real in running] == [(asked, walk(asked)) for asked, _ in running]


def test_the_drill_asks_about_both_kinds_of_ends():
    answers = [walk(*WHO_HANGS.drill.make(np.random.default_rng(seed))) for seed in range(60)]
    assert 10 < sum(not hanging for hanging in answers) < 50
    assert any(0 < len(hanging) < 3 for hanging in answers)


@pytest.mark.parametrize("n_ranks", [2, 3, 4, 8])
def test_the_ring_that_is_walked_costs_what_the_formula_says(n_ranks):
    steps = _walk(n_ranks)
    assert len(steps) == 2 * (n_ranks - 1)
    assert all(sorted(sender for _, sender, _ in step) == list(range(n_ranks)) for step in steps)
    counted, sent, bus = ring_cost(n_ranks, 1e9, 0.01)
    assert (counted, sent / 1e9) == (len(steps), pytest.approx(len(steps) / n_ranks))
    assert PREDICT_COST.reference("bus bandwidth in GB/s", n_ranks, 1.0, 0.01) == pytest.approx(bus / 1e9)


def test_the_figures_of_the_bank():
    asked = [case.make(None) for case in PREDICT_COST.cases]
    assert [PREDICT_COST.reference(*inputs) for inputs in asked] == [6, 1.5, 1.75, 175.0]
