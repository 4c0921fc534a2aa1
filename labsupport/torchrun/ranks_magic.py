"""`%%ranks`: cells that run one after the other in ranks that stay.

    %%ranks --nproc 4       starts four ranks and runs the cell in them
    %%ranks                 runs a cell in the same ranks: names and process group are kept
    %ranks --status         says what is alive
    %ranks --end            ends the ranks (with a cell: after it)

`--return`, `--push`, `--trace`, `--may-fail` and `--stop-when-stuck` work as in `%%torchrun`, cell by cell; torchrun's
flags, `--env` and `--timeout` belong to the first cell of a group. When a group had to be ended, the next cell starts
another one like it and says so.
"""

import atexit

from labsupport.errors import UsageError
from labsupport.figures.words import count
from labsupport.torchrun.checking import asked_world, check_numbers, check_syntax, idle_words
from labsupport.torchrun.running import Interrupted, Run, left_whole

__all__ = ["end", "ranks"]

_OWN = ("--end", "--status")
_NOT_HERE = {
    "cold": "--cold starts ranks for one cell only",
    "save": "--save writes the program of one cell",
    "show": "--show tells the command of one cell",
    "kills": "--kill ends ranks, and with them the group",
    "arguments": "arguments are a program's, and these cells are none",
    "keep": "--keep keeps what one job wrote",
}
_LONGER_THAN_A_CELL = {"env": "--env", "timeout_s": "--timeout"}

_group = None  # of this kernel
_last = None  # the options its first cell had: a group that takes its place is started with them


def ranks(line, cell, shell):
    """Do what `%%ranks line` and a cell (None or text) ask for.

    Raises:
        LabError, RanksFailed, KeyboardInterrupt: as `magic.torchrun`.
    """
    from labsupport.torchrun.options import parse

    words = line.split()
    asked = {word for word in words if word in _OWN}
    options = parse(" ".join(word for word in words if word not in _OWN))
    if options.help:
        print(__doc__)
        return
    if "--status" in asked:
        print(_status())
    if cell is not None and cell.strip():
        _run(line, cell, options, shell)
    elif not asked:
        raise UsageError("%%ranks runs a cell, and there is none", next_step="write the cell's lines below it")
    if "--end" in asked:
        print(end())


def end():
    """End the group of this kernel, if there is one; returns a sentence."""
    global _group
    group, _group = _group, None
    if group is None:
        return "No group of ranks is alive."
    alive, world = group.is_alive(), group.world()
    group.end()
    return f"The group of {count(world, 'rank')} has ended." if alive else f"The group had ended before: {group.fate}."


def _status():
    return "No group of ranks is alive; %%ranks --nproc 4 starts one." if _group is None else _group.status()


def _run(line, cell, options, shell):
    from labsupport.torchrun.requesting import request_of
    from labsupport.torchrun.script import as_script

    _check_options(options)
    _check_numbers(options)
    program = as_script(line, cell)
    check_syntax(program)
    HeldRun(options, request_of(options, program, cell, shell), shell, notes=idle_words(options)).start()


def _check_numbers(options):
    """Raise UsageError when `--return x@9` names a rank that the group has not, or will not have."""
    alive = _group is not None and _group.is_alive() and _group.world()
    asked = (alive, 1) if alive else asked_world(options if options.flags or _last is None else _last)
    if asked is not None:
        check_numbers(options, *asked)


def _check_options(options):
    for name, why in _NOT_HERE.items():
        if getattr(options, name):
            raise UsageError("%%ranks cannot take this flag", why=why, next_step="use it with %%torchrun")
    if options.flag("--max-restarts", "0") != "0":
        why = "a rank that is started again has lost the names of all earlier cells"
        raise UsageError("%%ranks cannot restart ranks", why=why, next_step="use --max-restarts with %%torchrun")
    if _group is None or not _group.is_alive():
        if not options.flags and _last is None:
            raise UsageError("no group of ranks is alive", next_step="write %%ranks --nproc 4 to start one")
        return
    if options.flags and options.flags != _last.flags:
        why = f"it was started with {' '.join(_last.flags)}, this cell asks for {' '.join(options.flags)}"
        raise UsageError("a group of ranks is alive already", why=why, next_step="end it first: %ranks --end")
    for name, flag in _LONGER_THAN_A_CELL.items():
        if getattr(options, name) and getattr(options, name) != getattr(_last, name):
            why = "a group keeps the environment and the timeout it was started with"
            raise UsageError(f"{flag} comes too late for this group", why=why, next_step="end it first: %ranks --end")


def _the_group(options):
    """Return (the group, a sentence when it is a new one in the place of another)."""
    global _group, _last
    from labsupport.torchrun.holding import Group

    if _group is not None and _group.is_alive():
        return _group, ""
    before, _group = _group, None
    if before is not None:
        before.end()
    if options.flags or _last is None:
        _last = options
    _group = Group(_last.flags, env=dict(_last.env), timeout_s=_last.timeout_s)
    if before is None:
        return _group, ""
    why = "" if before.fate_is_told else f" The last one has ended: {before.fate}."
    return _group, f"A new group of ranks was started: names of earlier cells are gone.{why}"


class HeldRun(Run):
    """One run of a `%%ranks` cell."""

    def start(self):
        """Run the cell to its end. Raises as `ranks` does."""
        self._tell_of_the_helper()
        group, note = self._begun(lambda: _the_group(self.options))
        self.notes += [note] if note else []
        request = self.request
        asked = {"returns": request.returns, "pushed": request.pushed, "trace": request.trace}
        with left_whole(group.run(request.source, **asked)) as job:
            self._play(job)

    def _diagnosed(self, last):
        from labsupport.torchrun.telling import Told, stall_report
        from labsupport.torchrun.view import error_of, in_words

        if self.job.stall is not None and not any(error_of(rank.folder) for rank in last.ranks):
            return stall_report(self.job.stall, running=False)
        if left := [rank.rank for rank in last.ranks if rank.state == "failed" and rank.code == 0]:
            told = f"{in_words(left)} left the group by exit code 0 before the cell had ended"
            return Told(told, [("try", "Leave out os._exit: ranks that stay end by %ranks --end.")])
        from labsupport.torchrun.agents import agent_report

        whole = self.job.group.job
        report = None if self.job.group.destroyed else agent_report(whole, whole.poll())
        return report or super()._diagnosed(last)

    def _interrupted(self):
        try:
            super()._interrupted()
        except Interrupted:
            fate = self.job.group.fate
            words = (
                "the ranks live on" if fate is None else "the group of ranks has ended; the next cell starts another"
            )
            raise Interrupted(words) from None

    def _end(self, now, head, tone, report=None):
        self.job.interrupt()
        self.notes += [event["text"] for event in self.job.poll().events if event["event"] == "note"]
        super()._end(now, head, tone, report)


def _at_exit():
    if _group is not None:
        _group.destroy("the kernel has ended")
        _group.end()


atexit.register(_at_exit)
