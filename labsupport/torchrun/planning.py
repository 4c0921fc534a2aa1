"""From torchrun's flags to what its agents need: its own parser reads them, and this machine's limits bind them."""

import contextlib
import copy
import io
import os
import socket
import uuid
from dataclasses import dataclass

from labsupport.errors import UsageError
from labsupport.torchrun import devices

__all__ = ["MOST_RANKS", "Plan", "Refused", "plan"]

MOST_RANKS = 64
GRACE_S = 0.5


class Refused(UsageError):
    """The flags do not fit: torchrun's words, or why a flag makes no sense for a cell."""


@dataclass
class Plan:
    """What a job was asked to be. `args` are torchrun's; `notes`: sentences about what was decided.

    `devices`: what each node's ranks see of the GPUs, as `CUDA_VISIBLE_DEVICES` spells it; None: there are none.
    """

    args: object
    min_nodes: int
    max_nodes: int
    nproc: int
    notes: tuple = ()
    devices: tuple | None = None

    @property
    def max_restarts(self):
        return self.args.max_restarts

    @property
    def grace_s(self):
        """Seconds between the friendly signal and the last one."""
        return GRACE_S if self.args.shutdown_timeout is None else float(self.args.shutdown_timeout)

    def config(self, port, logs):
        """Return the `LaunchConfig` of a node: on loopback, looking at its ranks often.

        Args:
            port: where the store of all nodes listens; None when there is one node.
            logs: the `LogsSpecs` that say where ranks write.
        """
        from torch.distributed.run import config_from_args

        from labsupport.torchrun import meeting

        meeting.register()
        args = copy.copy(self.args)
        args.local_addr, args.rdzv_endpoint = meeting.LOOPBACK, f"{meeting.LOOPBACK}:{port or 0}"
        args.rdzv_backend = meeting.ONE if port is None else meeting.MANY
        args.log_dir, args.redirects, args.tee, args.logs_specs = os.devnull, "0", "0", None
        config = config_from_args(args)[0]
        config.logs_specs, config.start_method = logs, "fork"
        if port is None:
            config.rdzv_configs["port"] = args.master_port or 0
        else:
            config.rdzv_configs = _ONE_MACHINE | config.rdzv_configs | {"is_host": False}
        return config


# How soon a lost node is noticed and how long the others wait for late ones. torchrun's own values are for clusters:
# with them a node that is left alone goes on after 20 seconds.
_ONE_MACHINE = {"keep_alive_interval": 1, "keep_alive_max_attempt": 2, "last_call_timeout": 1, "join_timeout": 30}


def plan(flags, script, arguments, kills=()):
    """Return the `Plan` of a command line.

    Raises:
        Refused: torchrun's parser, or we, cannot take it.
    """
    args = _parsed([*_long(flags), str(script), *arguments])
    from torch.distributed.run import determine_local_world_size, parse_min_max_nnodes

    try:
        min_nodes, max_nodes = parse_min_max_nnodes(args.nnodes)
        nproc = determine_local_world_size(args.nproc_per_node)
    except (RuntimeError, ValueError) as error:
        raise Refused("torchrun cannot take these flags", why=str(error)) from None
    _bounded(args, min_nodes, max_nodes, nproc)
    seen, note = devices.assign(devices.present(), max_nodes, nproc)
    notes = (*_notes(args, min_nodes, max_nodes, kills), *filter(None, [note]))
    made = Plan(args, min_nodes, max_nodes, nproc, notes, seen)
    try:
        made.config(None, None)
    except (AssertionError, RuntimeError, ValueError) as error:
        raise Refused("torchrun cannot take these flags", why=str(error)) from None
    return made


def _bounded(args, min_nodes, max_nodes, nproc):
    if not 0 < min_nodes <= max_nodes or nproc < 1 or args.max_restarts < 0:
        why = f"--nnodes {args.nnodes}, --nproc-per-node {nproc}, --max-restarts {args.max_restarts}"
        raise Refused("torchrun cannot take these numbers", why=why, next_step="at least one node and one rank")
    if max_nodes * nproc > MOST_RANKS:
        raise Refused(
            f"{max_nodes * nproc} ranks are more than one machine should start",
            why=f"the limit is {MOST_RANKS}: each rank is a process",
            next_step="ask for fewer ranks, or use torchrun in a terminal",
        )
    for flag, text in (("--master-addr", args.master_addr), ("--rdzv-endpoint", args.rdzv_endpoint)):
        if text and text.rsplit(":", 1)[0] not in ("127.0.0.1", "localhost", ""):
            raise Refused(
                f"{flag} {text} is another machine",
                why="a cell's ranks all run here and talk over the loopback interface only",
                next_step=f"leave {flag} out; for several machines use torchrun in a terminal",
            )
    if args.rdzv_backend not in ("static", "c10d"):
        raise Refused(f"--rdzv-backend {args.rdzv_backend} needs a server of its own", next_step="leave it out")
    if args.master_port and not _is_free(args.master_port):
        raise Refused(f"port {args.master_port} is in use", next_step="leave --master-port out: a free one is found")
    if args.node_rank:
        raise Refused("--node-rank has no meaning here: --nnodes starts all nodes", next_step="leave it out")


def _is_free(port):
    """Return whether a port of the loopback interface can be listened on."""
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def _notes(args, min_nodes, max_nodes, kills):
    """Yield sentences about what was decided, and decide it."""
    if any(kill.startswith("node") for kill in kills) and min_nodes < max_nodes and not args.max_restarts:
        args.max_restarts = 1
        yield "--kill of a node: one restart is allowed (--max-restarts 1), without it the job would end there"
    if args.log_dir or args.logs_specs or (args.redirects, args.tee) != ("0", "0"):
        yield "--log-dir, --logs-specs, --redirects and --tee do nothing here: --keep keeps every rank's output"
    if args.numa_binding:
        yield "--numa-binding does nothing here: ranks are not bound to processors"


def _long(flags):
    for flag in flags:
        name, equals, value = flag.partition("=")
        yield f"--nproc-per-node{equals}{value}" if name == "--nproc" else flag


def _parsed(words):
    from torch.distributed.run import get_args_parser

    parser, said = get_args_parser(), io.StringIO()
    parser.prog = "torchrun"
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            args = parser.parse_args(words)
        except SystemExit as left:
            last = said.getvalue().strip().splitlines()[-1:] or [""]
            if left.code == 0:
                raise Refused(said.getvalue()) from None
            raise Refused("torchrun cannot take these flags", why=last[0].removeprefix("torchrun: error: ")) from None
    if args.monitor_interval == parser.get_default("monitor_interval"):
        args.monitor_interval = 0.02
    args.rdzv_id = uuid.uuid4().hex
    return args
