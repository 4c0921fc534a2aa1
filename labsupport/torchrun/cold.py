"""`--cold`: a real `python -m torch.distributed.run` in a process of its own, on the same script, with the same folder.

Nothing is shared with the helper. The script that torchrun runs makes each of its processes a rank as a forked one
is, so everything else (output, errors, stacks, values) is found in the same places. Runs wherever torchrun runs.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import traceback
from pathlib import Path

from labsupport.errors import UsageError
from labsupport.torchrun import hosting
from labsupport.torchrun.events import Events
from labsupport.torchrun.starting import ask_by_signal
from labsupport.torchrun.tagging import new_token

__all__ = ["Cold", "be_rank", "main", "node_counts"]

_RANK = """import json, sys
order = json.load(open({order!r}, encoding="utf-8"))
sys.path[:] = [{root!r}, *order["path"]]
from labsupport.torchrun import cold
cold.be_rank(order)
"""
_NODE = "LAB_TORCHRUN_NODE"
_ENDED = re.compile(r"exit ?code\s*: (-?\d+)\)? .*?\(?pid: (\d+)\)")


# -- in the kernel ------------------------------------------------------------------------------------------------


class Cold:
    """Starts a fresh torchrun for each job."""

    mode, parses = "cold", False

    def start(self, order):
        _check(order["flags"])
        return _Handle(order)

    def ask_for_stack(self, pid):
        if os.name != "nt":
            ask_by_signal(pid)

    def clean(self):
        pass


def _check(flags):
    for flag in ("--rdzv-endpoint", "--master-addr", "--rdzv-backend", "--node-rank"):
        if any(word.partition("=")[0].replace("_", "-") == flag for word in flags):
            what = f"{flag} has no meaning here: all ranks run on this machine"
            raise UsageError(what, next_step=f"leave {flag} out")


class _Handle:
    def __init__(self, order):
        self.ending = None
        self._code = -9
        token = new_token()
        with (Path(order["folder"]) / "agent.log").open("ab") as log:
            self._host = hosting.Host(
                hosting.interpreter("cold"), hosting.environment(token), token, self._hear, log=log
            )
        self._host.say(**order)

    def _hear(self, message):
        self._code = message["code"]

    def wait(self, timeout_s=None):
        if self.ending is None and self._host.ended.wait(timeout_s):
            self.ending = hosting.Ended(self._code)
        return self.ending

    def close(self):
        if self.ending is None:
            self._host.close()
            self.wait(0)
        return self.ending


# -- beside the kernel --------------------------------------------------------------------------------------------


def main():
    """Read an order, run torchrun once per node, tell how they ended, and end whatever they left."""
    hosting.adopt()
    line = hosting.Line()
    order = line.messages.get()
    try:
        code = _run(order)
    except BaseException:  # also when the job's folder is being removed: with this thread all others would end at once
        traceback.print_exc()
        code = 70
    hosting.end_below()
    line.tell(code=code)
    line.leave()


def _run(order):
    folder, events = Path(order["folder"]), Events(order["folder"], order["begun"])
    (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")
    script = folder / "rank.py"
    script.write_text(_RANK.format(order=str(folder / "order.json"), root=str(hosting.ROOT)), encoding="utf-8")
    nodes = node_counts(order["flags"])
    events.write("parsed", nodes=nodes)
    agents = _start(order, script, nodes[1])
    codes = {number: agent.wait() for number, agent in enumerate(agents)}
    for number, code in codes.items() if nodes[1] > 1 else ():
        events.write("node ended", node=number, code=code)
    _tell_ends(folder, events)
    _tell_refusal(folder, events)
    code = _job_code(list(codes.values()), nodes[0])
    events.write("ended", code=code)
    return code


def _job_code(codes, min_nodes):
    from labsupport.torchrun.nodes import exit_code

    return exit_code(codes, min_nodes)


def node_counts(flags):
    """Return [least, most] nodes as `--nnodes` says; what makes no sense is left to torchrun to refuse."""
    text = "1"
    for i, word in enumerate(flags):
        name, equals, value = word.partition("=")
        if name == "--nnodes":
            text = value if equals else "".join(flags[i + 1 : i + 2])
    numbers = [int(part) for part in text.split(":") if part.isdecimal()]
    return [min(numbers, default=1), min(max(numbers, default=1), 16)]


def _start(order, script, nodes):
    """Start the agents and return them; each ends with this process."""
    flags = [f"--nproc-per-node{word[7:]}" if word.partition("=")[0] == "--nproc" else word for word in order["flags"]]
    environ = dict(order["environ"]) | {hosting.TAG: os.environ[hosting.TAG]}
    restarts = any(word.startswith(("--max-restarts", "--max_restarts")) for word in flags)
    if not restarts and any(kill.startswith("node") for kill in order["rank_options"]["options"]["kills"]):
        restarts = True
        flags += ["--max-restarts", "1"]  # as in a warm job: without it the job would end there
    if nodes > 1 or restarts:  # else the ranks of a second attempt look for those of the first
        environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
        # One store for all attempts would hand the new ranks the addresses of dead ones.
        environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    if not any(word.startswith(("--log-dir", "--log_dir")) for word in flags):
        flags += ["--log-dir", str(script.with_name("elastic"))]  # else a folder is left among the temporary files
    port = _free_port() if nodes > 1 else 0
    agents = []
    for number in range(nodes):
        meeting = ["--standalone"] if nodes == 1 else _meeting(port, number)
        words = ["torch.distributed.run", *meeting, *flags, str(script), *order["arguments"]]
        agents.append(
            subprocess.Popen(
                hosting.die_with_parent_command(words),
                cwd=order["cwd"],
                env=environ | {_NODE: str(number)},
                stdin=subprocess.DEVNULL,
                stdout=2,  # all of it goes to agent.log
                start_new_session=True,
            )
        )
    return agents


def _meeting(port, number):
    conf = f"is_host={int(number == 0)},keep_alive_interval=1,keep_alive_max_attempt=2,last_call_timeout=1"
    flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "cell"]
    return [*flags, "--rdzv-conf", conf, "--local-addr", "127.0.0.1"]


def _free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _tell_ends(folder, events):
    """Write how each rank ended, as torchrun's own log says it: it has no other way to tell of a signal."""
    log = (folder / "agent.log").read_text(encoding="utf-8", errors="replace")
    codes = {int(pid): int(code) for code, pid in _ENDED.findall(log)}
    for file in sorted(folder.glob("attempt-*/rank-*/state.json")):
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(file.read_text(encoding="utf-8"))
            if (code := codes.get(state["pid"], state.get("code"))) is not None:
                asked = code == -15
                events.write("rank ended", rank=state["rank"], attempt=state["attempt"], code=code, asked=asked)


def _tell_refusal(folder, events):
    """Write what torchrun's parser said when no rank was started."""
    if not any(folder.glob("attempt-*")):
        log = (folder / "agent.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = [line.partition(": error: ")[2] for line in log if ": error: " in line] or log[-1:]
        events.write("refused", what="torchrun cannot take these flags", why="".join(said[-1:]) or None, next=None)


# -- on a rank ----------------------------------------------------------------------------------------------------


def be_rank(order):
    """Make this process, which torchrun started, the rank it was started as. Never returns."""
    from labsupport.ranks import bootstrap
    from labsupport.torchrun import extras

    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    while True:
        folder = bootstrap.attempt_folder(order["folder"], attempt, os.environ["RANK"])
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True, mode=0o700)
            break
        attempt += 1  # the agent does not count a restart that follows a change of members
    place = bootstrap.Place(
        job=Path(order["folder"]),
        folder=folder,
        environ={name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")},
        node=int(os.environ.get(_NODE, "0")),
        attempt=attempt,
        begun=order["begun"],
        arguments=tuple(order["arguments"]),
        **extras.hooks(),
        **order["rank_options"],
    )
    sys.path[:] = order["path"]
    bootstrap.become(place)
