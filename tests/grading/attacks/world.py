"""What an attack finds around itself, and what has to be there afterwards: canaries, notebooks, processes."""

import contextlib
import hashlib
import os
import re
import secrets
import select
import socket
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat

from labsupport import catalog
from labsupport.answering import reference_answer
from labsupport.course import Limits
from labsupport.grading.allowance import Allowance
from labsupport.grading.engine import Secret
from labsupport.observing import PUBLIC_SEED, inputs_for
from labsupport.places import ROOT
from labsupport.processes.reaping import descendants_of
from labsupport.processes.removing import remove_tree

__all__ = ["NEIGHBOURS", "OneSeed", "Small", "World", "notebook", "short_exercises"]

NEIGHBOURS = 1  # exercises answered rightly before and after the attacked one
_MB = 1 << 20
_CALL_S = 0.4  # for answers that take microseconds and hang on purpose


class Small:
    """A runner whose children have little of everything, so that using it up takes no time."""

    def __init__(self, runner):
        self._runner, self.report = runner, runner.report

    def child(self, limits=None):
        few = {"cpu_s": 4, "cell_s": 1.0, "memory_bytes": 200 * _MB, "work_bytes": 4 * _MB}
        return self._runner.child(replace(limits or Allowance(), **few))


class OneSeed(Secret):
    """A secret whose inputs are the same for every submission: what references do is found out once."""

    def seed(self, submission, exercise_id):
        return int.from_bytes(hashlib.sha256(self.key + exercise_id.encode()).digest()[:8], "big")


def short_exercises(exercises):
    """Return exercises with short limits."""
    return tuple(replace(e, limits=Limits(call_s=_CALL_S, memory_bytes=e.limits.memory_bytes)) for e in exercises)


@dataclass
class World:
    """A folder that stands for the host, with a secret, another submission and two listening sockets."""

    folder: Path
    secret: str
    mark: str

    @classmethod
    @contextlib.contextmanager
    def made(cls):
        # In the folder for temporary files itself and open to read: what protects it must be the cage, not its mode.
        folder = Path(tempfile.mkdtemp(prefix="lab-attacked-"))
        folder.chmod(0o755)
        before = tempfile.tempdir
        with contextlib.ExitStack() as stack:
            stack.callback(remove_tree, folder)
            stack.callback(setattr, tempfile, "tempdir", before)
            (folder / "temporary").mkdir(mode=0o755)
            tempfile.tempdir = str(folder / "temporary")  # the grader's own files: nothing may be left there
            world = cls(folder, "canary-" + secrets.token_hex(16), "mark" + secrets.token_hex(4))
            world._fill(stack)
            yield world

    def _fill(self, stack):
        (self.folder / "host").mkdir()
        (self.folder / "host" / "canary.txt").write_text(self.secret, encoding="ascii")
        self.secret_file = self.folder / "secret.txt"
        self.secret_file.write_text(self.secret, encoding="ascii")
        self.submission = self.folder / "other" / "ada" / "00_start_here.ipynb"
        self.submission.parent.mkdir(parents=True)
        self.submission.write_text(f'{{"cells": [], "of": "{self.secret}"}}', encoding="ascii")
        for path in (self.folder / "host" / "canary.txt", self.submission, self.secret_file):
            path.chmod(0o644)
        self.port = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        self.abstract.bind(f"\0{self.mark}")
        self.abstract.listen()
        os.environ["LAB_SECRET_OF_THE_TESTS"] = self.secret
        stack.callback(os.environ.pop, "LAB_SECRET_OF_THE_TESTS")
        self.before = self.state()

    def words(self):
        """Return {placeholder: text} for the cells."""
        return {
            "@SECRET@": str(self.secret_file),
            "@HOST@": str(self.folder / "host"),
            "@MARK@": self.mark,
            "@PORT@": str(self.port.getsockname()[1]),
            "@JUDGE@": str(os.getpid()),
            "@REPOSITORY@": str(ROOT),
            "@SUBMISSION@": str(self.submission),
        }

    def state(self):
        """Return what must stay as it is: every file of the host's folder, and files named by the mark elsewhere."""
        files = {}
        for path in sorted(self.folder.rglob("*")):
            if "temporary" not in path.parts:
                found = path.lstat()
                raw = path.read_bytes() if path.is_file() else b""
                files[str(path)] = (found.st_mode, found.st_uid, found.st_mtime_ns, found.st_nlink, raw)
        return files

    def damage(self):
        """Return what an attack has done to the host, as a list of texts."""
        now = self.state()
        found = [f"{path} changed" for path, was in self.before.items() if now.get(path) != was]
        found += [f"{path} is new" for path in now if path not in self.before]
        folders = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue", ROOT, ROOT / "labsupport")
        for folder in map(Path, folders):
            with contextlib.suppress(OSError):
                found += [f"{path} is new" for path in folder.iterdir() if self.mark in path.name]
        ready, *_ = select.select([self.port, self.abstract], [], [], 0)
        return found + ["a socket of the host was reached"] * bool(ready)

    def marked_processes(self):
        """Return the processes that carry the mark in their name, command or environment, this one left out."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                with contextlib.suppress(OSError):
                    told = b"".join((folder / name).read_bytes() for name in ("comm", "cmdline"))
                    found += [folder.name] * (self.mark.encode() in told)
        return found

    def processes(self):
        """Return the pids below this process."""
        return set(descendants_of(os.getpid()))


def notebook(attack, exercises, world):
    """Return the text of an attack's notebook: its cells, and right answers to the exercises beside them."""
    attacked = [i for i, e in enumerate(exercises) if e.id in attack.cells]
    near = range(max(0, attacked[0] - NEIGHBOURS), attacked[-1] + NEIGHBOURS + 1)
    cells = [nbformat.v4.new_code_cell(_filled(text, world)) for text in attack.loose]
    for exercise in [exercises[i] for i in near if i < len(exercises)]:
        text = attack.cells.get(exercise.id) or reference_answer(exercise, PUBLIC_SEED).source
        text = _filled(text, world, exercise)
        cell = nbformat.v4.new_code_cell(
            text if text.startswith("# exercise:") else f"# exercise: {exercise.id}\n{text}"
        )
        cell.id = "ex-" + exercise.id.replace("/", "-")
        cells += [cell, nbformat.v4.new_code_cell(f'lab.check("{exercise.short_id}")')]
    cells += [nbformat.v4.new_code_cell(_filled(text, world)) for text in attack.after]
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


def _filled(text, world, exercise=None):
    for word, meaning in world.words().items():
        text = text.replace(word, meaning)
    if "@STUB@" in text:
        text = text.replace("@STUB@", catalog.stubs(exercise.slug)[exercise.id])
    if "@PUBLIC_ANSWERS@" in text:
        text = text.replace("@PUBLIC_ANSWERS@", repr(_public_answers(exercise)))
    assert not re.search(r"@[A-Z]+@", text), text
    return text.lstrip("\n")


def _public_answers(exercise):
    """Return {digest of an input: its right answer} for the inputs of the live check."""
    found = {}
    for (x,) in inputs_for(exercise, PUBLIC_SEED):
        right = exercise.reference(x)
        found[hashlib.sha256(x.tobytes()).hexdigest()] = (right.shape, right.dtype.str, right.tobytes().hex())
    return found
