"""Which devices ranks get, what notes are told, and what a torchrun of another version would break."""

import inspect

import pytest

from labsupport.torchrun import devices

torch = pytest.importorskip("torch")


def test_one_device_per_rank_or_none_and_a_sentence():
    assert devices.assign((), 1, 4) == (None, None)
    assert devices.assign(("0", "1", "2", "3"), 1, 4) == (("0,1,2,3",), None)
    assert devices.assign(("0", "1", "2", "3"), 2, 2) == (("0,1", "2,3"), None)
    assert devices.assign(("4", "5", "6"), 1, 2) == (("4,5",), None)
    seen, note = devices.assign(("0",), 1, 4)
    assert seen == ("",)
    assert note == "4 ranks, and one GPU is here: NCCL takes one rank per GPU, so these ranks run on the CPU with gloo"
    seen, note = devices.assign(("0", "1"), 2, 2)
    assert seen == ("", "")
    assert "4 ranks, and 2 GPUs are here" in note


def test_devices_are_those_the_kernel_may_see(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.present() == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert devices.present() == ("3", "5")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.present() == ()


def test_the_agent_asks_for_ranks_where_we_answer():
    """The one place where a function of torch's is replaced: it must be called, by these names."""
    from torch.distributed.elastic.multiprocessing import api

    assert "get_subprocess_handler(" in inspect.getsource(api.SubprocessContext._start)
    names = set(inspect.signature(api.get_subprocess_handler).parameters)
    assert {"env", "local_rank_id"} <= names
    used = inspect.getsource(api.SubprocessContext)
    assert set(_attributes_of(used, "handler.proc.")) <= {"poll", "wait", "pid"}


def test_nodes_that_wait_for_others_wait_where_we_shorten_it():
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    assert "_delay(seconds=1)" in inspect.getsource(dynamic_rendezvous._DistributedRendezvousOpExecutor.run)
    assert callable(dynamic_rendezvous._delay)
    assert "self._cache_duration" in inspect.getsource(dynamic_rendezvous._BackendRendezvousStateHolder.sync)


def _attributes_of(source, prefix):
    import re

    return re.findall(re.escape(prefix) + r"(\w+)", source)


def test_torchs_own_store_is_shared_between_attempts_still():
    """Why each attempt gets a store of its own; should torch do so, `meeting` can become simpler."""
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous, static_tcp_rendezvous

    assert "if not self._store:" in inspect.getsource(static_tcp_rendezvous.StaticTCPRendezvous.next_rendezvous)
    source = inspect.getsource(dynamic_rendezvous.DynamicRendezvousHandler.next_rendezvous)
    assert "self._shared_tcp_store_server is None" in source


def test_a_rendezvous_is_new_each_time():
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    from labsupport.torchrun import meeting

    one = meeting.OneNode(RendezvousParameters("x", "", "id", 1, 1))
    first = one.next_rendezvous()
    first.store.set("key", "of the first attempt")
    port = first.bootstrap_store_info.master_port
    second = one.next_rendezvous()
    assert port != second.bootstrap_store_info.master_port or not second.store.check(["key"])
    assert not second.store.check(["key"])
    assert (second.rank, second.world_size) == (0, 1)
    one.shutdown()
