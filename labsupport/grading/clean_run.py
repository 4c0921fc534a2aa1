"""Does it run from top to bottom? A learner's answers in the course's notebook, executed under nbmake in bubblewrap.

The run is reported beside the verdicts and decides nothing: the notebook's cells share a kernel with the answers. All
that leaves it is whether it ran, which cell stopped it, and the class of the exception if it is a common one.
"""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from labsupport import building, catalog
from labsupport.errors import LabError
from labsupport.places import NOTEBOOKS, ROOT
from labsupport.reading import load

__all__ = ["CleanRun", "clean_run", "told"]

_CELL_S, _RUN_S = 60, 300
_MEMORY_BYTES = 4 << 30  # of the kernel, the notebook runner and everything written, together
_DISK_BYTES = 256 << 20
_ANSWER_BYTES = 4096
_HOME = "/tmp/lab"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
# Bubblewrap's own process can be seen from inside, and its environment read there: it gets nothing of the grader's.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
# The answers choose what is raised, so each further name would be a further word that they could pass on.
_TOLD_EXCEPTIONS = frozenset(
    "NameError TypeError ValueError KeyError IndexError AttributeError SyntaxError ZeroDivisionError FileNotFoundError "
    "ModuleNotFoundError MemoryError KeyboardInterrupt CellTimeoutError DeadKernelError".split()
)


@dataclass(frozen=True)
class CleanRun:
    """What a clean run found.

    Args:
        outcome: `ran`, `stopped` or `not run`.
        cell: which code or text cell of the course's notebook stopped it, from 1.
        exercise: whose answer or check that cell holds, "" when it is another cell.
        error: class of the exception, or what ended the run.
    """

    outcome: str
    cell: int = 0
    exercise: str = ""
    error: str = ""

    def __str__(self):
        if self.outcome == "ran":
            return "ran from top to bottom"
        if self.outcome == "not run":
            return f"not run: {self.error}"
        if not self.cell:
            return f"stopped before the end: {self.error}"
        whose = f" ({self.exercise})" if self.exercise else ""
        return f"stopped at cell {self.cell}{whose}: {self.error}"


def clean_run(submission):
    """Return the `CleanRun` of a submission's answers; nothing a learner wrote makes it raise.

    The course is read-only, the network private and empty, what is written is in memory and gone afterwards.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return CleanRun("not run", error="bubblewrap is not installed here")
    lesson = next((known for known in catalog.lessons() if known.slug == submission.lesson and known.ready), None)
    if lesson is None:
        return CleanRun("not run", error="the lesson of this file is not known")
    try:
        notebook = _grafted(load(NOTEBOOKS / lesson.notebook), submission)
    except LabError as error:
        return CleanRun("not run", error=error.what)
    answer, how = _run(bwrap, lesson.notebook, building.dump(notebook).encode("utf-8", "replace"))
    return _read(answer, how, notebook)


def told(run, exercise, order):
    """Return what a clean run (as plain data) says about one exercise's answer.

    Args:
        run: a `CleanRun` as a dict.
        exercise: the exercise's id.
        order: the lesson's exercise ids in order.
    """
    run = CleanRun(**run)
    stopped_at = run.exercise if run.exercise in order else None
    if run.outcome != "stopped" or stopped_at is None or stopped_at == exercise:
        return str(run)
    reached = order.index(exercise) < order.index(stopped_at)
    return f"ran; the notebook {run}" if reached else f"not reached: the notebook {run}"


def _grafted(notebook, submission):
    """Return the course's notebook with the answers in it, a learner's helper before the first that had it."""
    there = {catalog.marker_of(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"}
    answers, placed = {}, set()
    for name in there & set(submission.answers):
        taken = submission.answers[name]
        if taken.source:
            answers[name] = taken
    grafted = {}
    for exercise in catalog.exercises(submission.lesson):
        if exercise.id not in answers:
            continue
        taken = answers[exercise.id]
        helpers = [helper for helper in taken.helpers if helper not in placed]
        placed.update(helpers)
        grafted[exercise.id] = "\n".join([*helpers, taken.source])
    return building.graft(notebook, grafted)


def _read(answer, how, notebook):
    """Return the `CleanRun` told by the run's few bytes; they come from beside a learner's code, so any may come."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        said = json.loads(answer)
        cell, error = said["cell"], said["error"]
        if cell is None and error is None:
            return CleanRun("ran")
        if type(cell) is int and -1 <= cell < len(notebook["cells"]) and isinstance(error, str):
            exercise = _exercise_at(notebook, cell) if cell >= 0 else ""
            return CleanRun("stopped", cell + 1, exercise, error if error in _TOLD_EXCEPTIONS else "another error")
    return CleanRun("stopped", error=how or "the run ended without saying how")


def _exercise_at(notebook, index):
    cell = notebook["cells"][index]
    if marker := catalog.marker_of(cell["source"]):
        return marker
    prefixes = {m.split("/")[0] for c in notebook["cells"] if (m := catalog.marker_of(c["source"]))}
    checked = building.checks_in(cell["source"])
    if checked and "/" not in checked[0] and len(prefixes) == 1:
        return f"{prefixes.pop()}/{checked[0]}"
    return checked[0] if checked else ""


# -- starting it -------------------------------------------------------------------------------------------------------


def _run(bwrap, name, notebook):
    """Return (what the run wrote, how it ended when that was not by itself)."""
    receive, send = os.pipe()
    with tempfile.TemporaryFile() as file, _memory_group() as doors, os.fdopen(receive, "rb") as answer:
        file.write(notebook)
        file.seek(0)
        command = [*_joining(doors), bwrap, *_sandbox(file.fileno(), f"{_HOME}/{name}")]
        command += [sys.executable, "-m", "labsupport.grading.clean_run", f"{_HOME}/{name}", str(send), str(_CELL_S)]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        descriptors = (file.fileno(), send, *doors)
        try:
            process = subprocess.Popen(command, env=_ENVIRONMENT, pass_fds=descriptors, **quiet)
        finally:
            os.close(send)
        try:
            process.wait(_RUN_S)  # without reading: whoever fills a pipe waits, and the grader's memory is its own
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return b"", f"it took more than {_RUN_S} s"
        finally:
            complaint = _rest_of(process.stderr)
            process.stderr.close()
        said = _rest_of(answer)
    if process.returncode and complaint.startswith(b"bwrap:"):
        return b"", f"bubblewrap did not start ({_reason(complaint)})"
    return said, f"it used more than {_MEMORY_BYTES >> 30} GiB of memory" if process.returncode == -9 else ""


def _rest_of(pipe):
    """Return what is left in a pipe, at most `_ANSWER_BYTES`, without waiting for whoever might still hold it."""
    os.set_blocking(pipe.fileno(), False)
    return pipe.read(_ANSWER_BYTES) or b""


def _reason(complaint):
    """Return which of the known reasons a complaint names; an answer can write here too, so its words stay inside."""
    known = (errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENOSPC, errno.EINVAL, errno.ENOMEM, errno.EAGAIN)
    return next((os.strerror(n) for n in known if os.strerror(n).encode() in complaint), "for a reason of its own")


@contextlib.contextmanager
def _memory_group():
    """Yield descriptors through which a process joins a group with a memory limit; none where there are no groups."""
    from labsupport.processes.groups import Group, GroupsUnavailable

    try:
        group = Group(_MEMORY_BYTES, processes=512)
    except GroupsUnavailable:
        yield ()
        return
    doors = group.doors()
    try:
        yield doors
    finally:
        for door in doors:
            os.close(door)
        group.close()


def _joining(doors):
    """Return the start of a command line that joins the groups behind `doors` and then becomes the rest of it."""
    code = (
        "import os, resource, sys\n"
        "doors = [int(d) for d in sys.argv[1].split(',') if d]\n"
        "[(os.write(d, b'0'), os.close(d)) for d in doors]\n"
        # Without a group each process is limited by itself; threads and arenas reserve much that they never touch.
        f"doors or resource.setrlimit(resource.RLIMIT_AS, ({4 * _MEMORY_BYTES}, {4 * _MEMORY_BYTES}))\n"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    return [sys.executable, "-I", "-S", "-c", code, ",".join(map(str, doors))]


def _sandbox(notebook_fd, notebook):
    """Return bubblewrap's arguments: system, Python and course to read; nothing else, no network, no host processes."""
    words = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(_DISK_BYTES), "--tmpfs", "/tmp"]
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            words += ["--ro-bind", str(path), str(path)]
    course = [ROOT / name for name in ("labsupport", "notebooks", "data")]
    python = [Path(sys.base_prefix), Path(sys.prefix)]
    for path in dict.fromkeys([*python, *course]):
        if path.exists() and path != Path("/usr"):
            words += ["--ro-bind", str(path), str(path)]
    words += ["--dir", _HOME, "--file", str(notebook_fd), notebook, "--chdir", _HOME]
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": _HOME,
        "LAB_WORK": f"{_HOME}/work",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    for name, value in env.items():
        words += ["--setenv", name, value]
    return [*words, "--"]


# -- inside ------------------------------------------------------------------------------------------------------------


def _inside(notebook, answer_fd, cell_s):
    """Execute a notebook as `pytest --nbmake` does and write which cell stopped it."""
    from nbmake.nb_run import NotebookRun

    os.set_inheritable(answer_fd, False)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody reads it while the notebook runs
    try:
        result = NotebookRun(Path(notebook), cell_s).execute()
        cell, error = (result.error.failing_cell_index, _class_of(result)) if result.error else (None, None)
    except Exception as problem:  # for example a kernel that died
        cell, error = -1, type(problem).__name__  # and leaves no trace of the cell it died in
    os.write(answer_fd, json.dumps({"cell": cell, "error": error}).encode()[:_ANSWER_BYTES])


def _class_of(result):
    outputs = result.nb.cells[result.error.failing_cell_index].get("outputs", [])
    names = [output["ename"] for output in outputs if output.get("output_type") == "error"]
    return names[0] if names else "CellTimeoutError"


if __name__ == "__main__":
    _inside(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
