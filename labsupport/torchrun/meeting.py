"""How agents and ranks find each other: a store of its own for every attempt, on a port the system chooses.

torchrun keeps one store for all attempts, and gloo finds the addresses of ranks that are dead in it: a restart fails
or waits for ever. With a fresh store it starts as the first attempt did. No port is picked and released again, so
nobody else can take it in between.
"""

import os
import time

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    dynamic_rendezvous,
    rendezvous_handler_registry,
)

__all__ = ["LOOPBACK", "MANY", "ONE", "listen", "register"]

LOOPBACK = "127.0.0.1"
ONE, MANY = "lab-one", "lab-many"  # names of the two kinds of rendezvous, one node or several
_PORT = "lab/port"


def register():
    """Let `elastic_launch` find both kinds by name; calling it again changes nothing."""
    for name, make in ((ONE, OneNode), (MANY, ManyNodes)):
        if name not in rendezvous_handler_registry._registry:
            rendezvous_handler_registry.register(name, make)


def listen(port=0):
    """Return a store that listens on this machine; `port` 0: any free one."""
    libuv = os.environ.get("USE_LIBUV", "1") == "1"
    return TCPStore(LOOPBACK, port, is_master=True, multi_tenant=True, wait_for_workers=False, use_libuv=libuv)


def _shortly(seconds):
    time.sleep(0.02)


class OneNode(RendezvousHandler):
    """The rendezvous of a single agent: nobody to wait for, a new store each time."""

    def __init__(self, params):
        self._run_id, self._store = params.run_id, None
        self._wanted = int(params.get("port", 0))

    def get_backend(self):
        return ONE

    @property
    def use_agent_store(self):
        return True  # ranks join the store of the agent, none of them listens

    def next_rendezvous(self):
        self._store = None
        self._store = listen(self._wanted)
        return RendezvousInfo(self._store, 0, 1, RendezvousStoreInfo(LOOPBACK, self._store.port))

    def is_closed(self):
        return False

    def set_closed(self):
        pass

    def num_nodes_waiting(self):
        return 0

    def get_run_id(self):
        return self._run_id

    def shutdown(self):
        self._store = None
        return True


class ManyNodes(RendezvousHandler):
    """torch's own c10d rendezvous; only the store that the ranks get is new in each round.

    Nodes that wait for others look again after a second, which spares a server in a cluster; here they look sooner,
    and at once: what they have seen is not kept for a second either.
    """

    def __init__(self, params):
        dynamic_rendezvous._delay = _shortly
        config = {name: value for name, value in params.config.items() if name != "port"}
        self._theirs = rendezvous_handler_registry.create_handler(
            RendezvousParameters(
                "c10d", params.endpoint, params.run_id, params.min_nodes, params.max_nodes, params.local_addr, **config
            )
        )
        self._theirs._state_holder._cache_duration = 0
        self._store = None

    def get_backend(self):
        return MANY

    @property
    def use_agent_store(self):
        return True

    def next_rendezvous(self):
        info = self._theirs.next_rendezvous()
        if info.rank == 0:
            self._store = listen()
            info.store.set(_PORT, str(self._store.port))
        port = int(info.store.get(_PORT))
        return RendezvousInfo(info.store, info.rank, info.world_size, RendezvousStoreInfo(LOOPBACK, port))

    def is_closed(self):
        return self._theirs.is_closed()

    def set_closed(self):
        self._theirs.set_closed()

    def num_nodes_waiting(self):
        return self._theirs.num_nodes_waiting()

    def get_run_id(self):
        return self._theirs.get_run_id()

    def shutdown(self):
        return self._theirs.shutdown()
