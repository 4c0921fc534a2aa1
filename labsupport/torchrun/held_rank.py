"""A rank that stays: runs one cell of `%%ranks` after the other, in one namespace and with one process group.

The kernel puts each cell into a folder of its own, `cells/K` of the job's, and the rank writes there what it would
write for a whole job: attempt-0/rank-R with out, err, state.json, error.json, calls.json, stack.txt, returned/.
"""

import ast
import faulthandler
import gc
import json
import linecache
import os
import signal
import sys
import time
import types
from pathlib import Path

from labsupport.ranks import leaving, scripts
from labsupport.ranks.bootstrap import attempt_folder
from labsupport.ranks.scripts import SCRIPT

__all__ = ["LOOP", "serve"]

LOOP = "from labsupport.torchrun.held_rank import serve\n\nserve(globals())\n"  # the job's script
_SOON_S, _LATER_S = 0.004, 0.03  # between two looks for the next cell; later: when the last one is a while ago
_A_WHILE_S = 20.0


def serve(namespace):
    """Run the kernel's cells in `namespace`, that of `__main__`, until it says that there is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only a running cell is interrupted
    job, own = Path(namespace["__file__"]).parent, dict(os.environ)
    for name in ("serve", "__file__"):
        del namespace[name]
    number, known = 0, {}
    while True:
        cell = job / "cells" / str(number)
        order = _await(cell / "order.json")
        if order["do"] == "end":
            return
        _Cell(cell, order, job, own, known).run(namespace)
        number += 1


def _await(file):
    since = time.monotonic()
    while True:
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            time.sleep(_SOON_S if time.monotonic() - since < _A_WHILE_S else _LATER_S)


class _Cell:
    """One cell on this rank.

    Args:
        cell: the cell's folder; order: what the kernel asked for; job: the job's folder.
        environ: the rank's environment as the agent gave it.
        known: what lives from cell to cell: the open file of stacks.
    """

    def __init__(self, cell, order, job, environ, known):
        self.cell, self.order, self.known = cell, order, known
        self.rank, self.world = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        self.state = {"pid": os.getpid(), "rank": self.rank, "local_rank": int(environ["LOCAL_RANK"])}
        self.state |= {"node": int(environ["GROUP_RANK"]), "attempt": 0, "world": self.world}
        self.socket = attempt_folder(job, int(environ["TORCHELASTIC_RESTART_COUNT"]), self.rank) / "s"
        self.state["socket"] = str(self.socket) if self.socket.exists() else None
        self.folder = attempt_folder(cell, 0, self.rank)
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, namespace):
        """Run the cell and write how it went."""
        began_ns, cpu_s = time.time_ns(), sum(os.times()[:2])
        self._own_files()
        self._tell("running")
        place = types.SimpleNamespace(folder=self.folder)
        failure = _interruptible(lambda: self._begin(place, namespace) or _execute(self.cell / SCRIPT, namespace))
        code = leaving.code_of(failure)
        if code:
            self._tell_failure(failure)
        code = self._finish(place, namespace, code)
        _flush()
        failure = None
        used = leaving.used()
        self._tell("failed" if code else "done", code=code, **used | {"cpu_s": round(used["cpu_s"] - cpu_s, 4)},
                   counts=self._write_calls(began_ns))  # fmt: skip
        _rename_code(f"cell-{self.order['number']}.py")

    def _own_files(self):
        """Let this process write into this cell's files from now on, what C++ writes included."""
        _flush()
        for fd, name in ((1, "out"), (2, "err")):
            file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, fd)
            os.close(file)
        stacks = (self.folder / "stack.txt").open("ab", buffering=0)
        faulthandler.enable(file=stacks)
        if hasattr(signal, "SIGUSR1"):
            faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True, chain=False)
        last, self.known["stacks"] = self.known.get("stacks"), stacks
        if last is not None:
            last.close()

    def _tell(self, state, **more):
        _write_json(self.folder / "state.json", self.state | {"state": state} | more)

    def _tell_failure(self, failure):
        if isinstance(failure, SystemExit):
            if isinstance(failure.code, str):
                print(failure.code, file=sys.stderr)
            return
        _below_us(failure)
        told = scripts.described(failure, SCRIPT)
        _write_json(self.folder / "error.json", told)
        print(told["full"], end="", file=sys.stderr)

    def _begin(self, place, namespace):
        if (self.cell / "pushed").exists():
            from labsupport.torchrun import pushing

            pushing.receive((self.cell / "pushed").read_bytes(), namespace)
        if self.order.get("trace"):
            from labsupport.torchrun import tracing

            tracing.begin(place)

    def _finish(self, place, namespace, code):
        try:
            if self.order.get("trace"):
                from labsupport.torchrun import tracing

                tracing.finish(place)
            if self.order.get("returns"):
                from labsupport.torchrun import values

                wanted = values.parse_returns(self.order["returns"])
                values.give(wanted, namespace, self.folder, rank=self.rank, world=self.world, failed=bool(code))
        except Exception as error:
            self._tell_failure(error)
            return code or 1
        return code

    def _write_calls(self, began_ns):
        """Write this cell's calls and return how many of each kind there were: all ranks must have as many."""
        try:
            from labsupport.ranks import recorder

            calls = recorder.here(began_ns)
            _write_json(self.folder / "calls.json", recorder.to_dicts(calls))
        except Exception:  # what a rank tells of its calls is a help; without it the group is held to be in step
            return {}
        return counts_of(calls, self.rank)


def counts_of(calls, rank):
    """Return {kind: number} of a rank's calls, so that those of two ranks can be compared.

    A kind is "group: G" for collectives, and "pair: G from S to R" for sends as for the receives that take them.
    """
    found = {}
    for call in calls:
        if call.setup or call.raised:
            continue
        name = f"group: {call.group}"
        if call.pair:
            sender, receiver = (rank, call.peer) if call.way == "dst" else (call.peer, rank)
            name = f"pair: {call.group} from {sender} to {receiver}"
        found[name] = found.get(name, 0) + 1
    return found


def _interruptible(action):
    """Call `action` with SIGINT raising KeyboardInterrupt; returns the exception that ended it, or None."""
    failure = None
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            action()
        except BaseException as error:
            failure = error
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt as error:  # it came after the cell's last line
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        failure = failure or error
    return failure


def _execute(file, namespace):
    """Run a cell's source; the value of its last line is shown if that is an expression, as in a notebook."""
    source = file.read_text(encoding="utf-8")
    linecache.cache[SCRIPT] = (len(source), None, source.splitlines(keepends=True), SCRIPT)
    if "labsupport.ranks.noting" in sys.modules:
        sys.modules["labsupport.ranks.noting"]._lines.clear()  # it keeps lines by file and number: those of other cells
    tree = ast.parse(source, SCRIPT)
    last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) and not _is_hushed(source) else []
    exec(compile(tree, SCRIPT, "exec", dont_inherit=True), namespace)
    if last:
        exec(compile(ast.Interactive(last), SCRIPT, "single", dont_inherit=True), namespace)


def _is_hushed(source):
    return source.rstrip().endswith(";")


def _below_us(failure):
    """Cut our own frames off a traceback."""
    tb = failure.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    failure.__traceback__ = tb


def _rename_code(name):
    """Give functions that this cell defined another file name: the next cell's lines are not theirs."""
    linecache.cache[name] = linecache.cache.get(SCRIPT, (0, None, [], name))
    for found in gc.get_objects():
        if type(found) is types.FunctionType and found.__code__.co_filename == SCRIPT:
            found.__code__ = _renamed(found.__code__, name)


def _renamed(code, name):
    inner = (_renamed(part, name) if isinstance(part, types.CodeType) else part for part in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(inner))


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def _write_json(file, data):
    new = file.with_name(file.name + ".new")
    new.write_text(json.dumps(data), encoding="utf-8")
    new.replace(file)
