"""The host of rank exercises: makes the ranks of an answer, gives them a case, ends them, and removes what they wrote.

It runs in a process with torch loaded and one thread, so that ranks are made by `fork` in a few milliseconds: the
child of a grader's cage, or a helper of the kernel. Where there is no fork it starts them as programs and keeps them.
"""

import contextlib
import os
import select
import socket
import sys
import tempfile
from pathlib import Path

from labsupport.grading.wire import MAX_QUESTION, Channel, Closed
from labsupport.probing.ranks_crew import Crew
from labsupport.probing.ranks_start import NotMade
from labsupport.processes.removing import remove_tree

__all__ = ["Host", "serve"]

_MOST_FILES = 200


_IDLE_S = 2.0  # until the ranks of an answer are ended when nothing more is asked of it
_MOST_CREWS = 2
_MOST_CASES = 60  # of ranks that run one program after the other; what is noted of a process grows


def serve(fd, folder):
    """Answer questions of the process that checks, until it is gone."""
    if sys.platform == "linux":
        from labsupport.processes import kernel

        kernel.subreaper()  # what a rank started becomes this process's child and is ended with the ranks
    channel, host = Channel(socket.socket(fileno=fd), asks=False), Host(folder, owns=True)
    with contextlib.suppress(Closed):
        while True:
            if not select.select([channel], [], [], _IDLE_S)[0]:
                host.rest()
            question = channel.recv(None, MAX_QUESTION)
            channel.send(host.observe(question), max_bytes=MAX_QUESTION)
    host.close()


class Host:
    """Holds the ranks of the answer that was asked for last, and ranks for the course's own programs.

    Args:
        folder: where cases get their folders.
        forks: ranks are made by `fork`, anew for each answer.
        owns: this process has no other children than the ranks and what they start.
    """

    def __init__(self, folder, *, forks=True, owns=False):
        self.folder, self._forks, self._owns = Path(folder).resolve(), forks, owns
        self._crews = {}  # (whether they may run any program, how many) -> ranks; the one used last comes last

    def close(self):
        """End all ranks."""
        for key in list(self._crews):
            self._dismiss(key)

    def rest(self):
        """End the ranks that ran somebody's answer, and whatever it may have left running."""
        if self._forks:
            for key in [key for key in self._crews if not key[0]]:
                self._dismiss(key)

    def _dismiss(self, key):
        self._crews.pop(key).end(keep=[pid for crew in self._crews.values() for pid in crew.pids])

    def observe(self, question):
        """Return what happened when the ranks of a program were given one case.

        Args:
            question: "program" {setup, source, names}, "args" (a tuple per rank), "options" (see `ranks`), "call_s",
                "counts" (calls and bytes are wanted), "own" (it is a program of the course).

        Returns:
            a dict: "ranks" (per rank a dict: value, raised, changed, printed, counts, sent; or ended; or waits), "over"
            (sentence, kind and busy_s, or None), "restarts", "writers" {file: ranks}, "read" {file: content}.
        """
        case = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            return self._in_folder(question, case)
        finally:
            remove_tree(case)

    def _in_folder(self, question, case):
        for name in ("work", "tmp", "own"):
            (case / name).mkdir()
        options, attempt = question["options"], 0
        kill = options.get("kill")
        while True:
            key = self._prepare(question)
            crew = self._crews[key]
            stuck = self._attempt(crew, question, case, attempt, kill if attempt == 0 else None)
            replies = crew.replies
            again = kill and attempt < options.get("max_restarts", 0) and crew.was_killed(kill["rank"])
            usable = stuck is None and not any(r.get("ended") or r.get("waits") or r.get("fault") for r in replies)
            # A receive that nobody waited for holds a rank up for good once it leaves, or the answer lets go of it.
            holds = crew.forks and any(reply.get("receives") for reply in replies)
            if not usable or holds or not crew.leave():
                self._dismiss(key)
            if not again:
                break
            attempt += 1
        writers = _writers(case, len(replies))
        return {
            "ranks": replies,
            "over": None if stuck is None else {"sentence": stuck.sentence, "kind": stuck.kind, "busy_s": stuck.busy_s},
            "restarts": attempt,
            "writers": writers,
            "read": self._read_back(case, options.get("read_back", ()), writers) if usable else {},
        }

    def _attempt(self, crew, question, case, attempt, kill):
        """Return why the ranks were stuck at one start of them, or None."""
        told = {
            "attempt": attempt,
            "work": str(case / "work"),
            "tmp": str(case / "tmp"),
            "store": str(case / "own" / "store"),
            "log": str(case / "own" / "writes"),
            "notes": str(self.folder),
            "seed": question["options"].get("seed", 0),
            "counts": question["counts"],
            "deadly": kill and {"batches": question["options"].get("batches", 0), **kill},
        }
        return crew.run(_later(question) if attempt else question["args"], told, question["call_s"])

    def _prepare(self, question):
        """Return the key of ranks that have loaded the program: those of before where they may go on, else new ones."""
        program, world = question["program"], len(question["args"])
        key = (question.get("own", False) or not self._forks, world)
        crew = self._crews.get(key)
        if not key[0] and (crew is None or crew.program != program):
            self.rest()
        elif crew is not None and crew.cases >= _MOST_CASES:
            self._dismiss(key)
        while key not in self._crews and len(self._crews) >= _MOST_CREWS:
            self._dismiss(next(iter(self._crews)))
        crew = self._crews[key] = self._crews.pop(key, None) or self._new(world)
        if crew.program != program and not crew.load(program):
            self._dismiss(key)
            raise NotMade("ranks did not take a program")
        return key

    def _new(self, world):
        try:
            return Crew(world, self._forks, self._owns)
        except (OSError, RuntimeError) as error:
            raise NotMade(str(error)) from error

    def _read_back(self, case, names, writers):
        """Return {name: content or why there is none} of files, loaded by a process that ran nothing of the answer."""
        told, found = {}, []
        for name in names:
            if len(writers.get(name, ())) > 1:
                told[name] = f"written by ranks {' and '.join(map(str, writers[name]))}"
            elif not (case / "work" / name).is_file():
                told[name] = "was not written"
            else:
                found.append(name)
        if not found:
            return told
        reader = Crew(1, self._forks, owns=False)
        try:
            reader.run([()], {"op": "read", "work": str(case / "work"), "names": found}, 30.0)
            reply = reader.replies[0]
        finally:
            reader.end()
        return told | reply.get("read", dict.fromkeys(found, "could not be read"))


def _later(question):
    """Return the arguments after a restart: what lay before the deadly item is another item now.

    So the work done before cannot be done once more, and who brings none of it back has no right result.
    """
    kill = question["options"]["kill"]
    place = kill.get("batches", question["options"].get("batches", 0))
    return [(*args[:place], _without_first(args[place], kill["item"]), *args[place + 1 :]) for args in question["args"]]


def _without_first(items, count):
    count = min(count, len(items) - 1)
    return [items[count]] * count + list(items[count:])


def _writers(case, world):
    """Return {file: ranks that opened it for writing} of the files that are there in the end."""
    there = [path for path in sorted((case / "work").rglob("*")) if path.is_file()][:_MOST_FILES]
    writers = {path.relative_to(case / "work").as_posix(): [] for path in there}
    for rank in range(world):
        log = case / "own" / f"writes-{rank}"
        lines = log.read_bytes().split(b"\n") if log.is_file() else []
        for name in {os.fsdecode(line).replace(os.sep, "/") for line in lines}:
            if name in writers:
                writers[name].append(rank)
    return {name: tuple(ranks) for name, ranks in writers.items()}
