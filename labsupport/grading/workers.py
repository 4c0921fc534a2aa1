"""Who grades: this process, or Dask workers on this machine or on others. All of them are judges; none runs an answer.

A worker keeps one open `Runner`, which starts children for the answers in processes of their own. What goes to a worker
are submissions as read, what comes back are rows and observations.
"""

import atexit
import concurrent.futures
import sys
import threading
from dataclasses import asdict, dataclass, field

from labsupport.errors import LabError, UsageError
from labsupport.grading.errors import GradingImpossible

__all__ = ["Broken", "Cluster", "Here", "Job", "Result", "grade"]

IN_FLIGHT = 200  # more at once stalls a scheduler without grading anything sooner
_PER_WORKER = 8
_NO_WORKER_S = 60


@dataclass(frozen=True, kw_only=True)
class Job:
    """One submission to grade.

    Args:
        submission: as `intake` read it.
        digest: what its rows will be tied to.
        secret: the instructor's.
        known: {key: frame} of observations that need not be made again.
        verdicts: whether to grade; `clean_run`: whether to make the clean run.
        allow_fenced: whether tier B may grade.
        course: the version of the course that asks; a worker with another one refuses.
    """

    submission: object = field(repr=False)
    digest: str
    secret: object = field(repr=False)
    known: dict = field(repr=False, default_factory=dict)
    verdicts: bool = True
    clean_run: bool = False
    allow_fenced: bool = False
    course: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a worker made of a job: rows and frames, or `fault` in words when the grader itself failed."""

    rows: tuple = ()
    frames: dict = field(default_factory=dict, repr=False)
    tier: str = ""
    clean: dict | None = None
    fault: str = ""


@dataclass(frozen=True)
class Broken:
    """A worker ended while it had this job, `times` times in a row."""

    how: str
    times: int = 1


def grade(job):
    """Return the `Result` of a job, from a worker's one grading thread; see `_Desk`."""
    return _desk().submit(job)


def _grade(job, runner):
    from labsupport.grading.engine import course_version, grade_submission

    if job.course and job.course != course_version():
        raise GradingImpossible(
            f"a worker has version {course_version()} of the course, this process has {job.course}",
            next_step="install the same checkout on every machine",
        )
    try:
        clean = _clean(job.submission) if job.clean_run else None
        if not job.verdicts:
            return Result(tier=runner.report.tier, clean=clean)
        graded = grade_submission(job.submission, runner=runner, secret=job.secret, known=job.known.get)
        return Result(rows=graded.rows, frames=graded.frames, tier=runner.report.tier, clean=clean)
    except Exception as error:
        if getattr(error, "exit_code", 0) == GradingImpossible.exit_code:
            raise
        # A fault of ours: it must cost neither the class nor the learner.
        return Result(tier=runner.report.tier, fault=f"{type(error).__name__}: {error}")


def _clean(submission):
    from labsupport.grading.clean_run import clean_run

    return asdict(clean_run(submission))


class _Desk:
    """One thread that opens the runner and uses it as long as the process lives.

    The zygote asks the kernel to end with its parent, and the kernel means the *thread* that started it: a thread of a
    pool that shrinks would take the zygote along.
    """

    def __init__(self):
        self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="grading")
        self._runner = None
        atexit.register(self.close)

    def submit(self, job):
        return self._thread.submit(self._grade, job).result()

    def report(self, allow_fenced):
        """Return the `TierReport` of the runner that will grade."""
        return self._thread.submit(self._opened, allow_fenced).result().report

    def _grade(self, job):
        return _grade(job, self._opened(job.allow_fenced))

    def _opened(self, allow_fenced):
        if self._runner is None:
            self._runner = open_runner(allow_fenced)
        return self._runner

    def close(self):
        if self._runner is not None:
            self._runner.__exit__(None, None, None)
            self._runner = None


_ONE = threading.Lock()
_DESKS = []


def _desk():
    with _ONE:
        if not _DESKS:
            _DESKS.append(_Desk())
        return _DESKS[0]


def open_runner(allow_fenced):
    """Return an entered `Runner`. Where there are no cages at all it runs answers for feedback; Linux never does that.

    Raises:
        GradingImpossible: no cage, and no fence that is allowed; its `report` says what was found.
    """
    from labsupport.grading.runner import Runner

    return Runner(allow_fenced=allow_fenced, feedback=sys.platform != "linux").__enter__()


def _report(allow_fenced):
    return _desk().report(allow_fenced)


# -- one process ---------------------------------------------------------------------------------------------------


class Here:
    """Grades in this process, one submission after another."""

    room = 1

    def __init__(self, allow_fenced=False):
        self._allow_fenced = allow_fenced
        self._runner, self._waiting = None, None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._runner is not None:
            self._runner.__exit__(*exc)

    def tiers(self):
        """Return the `TierReport`s of the machines that grade."""
        return [self._opened().report]

    def _opened(self):
        if self._runner is None:
            self._runner = open_runner(self._allow_fenced)
        return self._runner

    @property
    def flying(self):
        return int(self._waiting is not None)

    def submit(self, job):
        self._waiting = job

    def next(self):
        """Return (job, Result) of the submitted job."""
        job, self._waiting = self._waiting, None
        return job, _grade(job, self._opened())


# -- many processes ------------------------------------------------------------------------------------------------


class Cluster:
    """Grades on Dask workers: `jobs` processes of this machine, or those of the scheduler at `address`.

    Raises:
        LabError: Dask is not installed, or the scheduler or its workers do not answer.
    """

    def __init__(self, jobs=0, address=None, allow_fenced=False):
        self._jobs, self._address, self._allow_fenced = jobs, address, allow_fenced
        self._flying, self._ready, self._open = {}, [], []

    def __enter__(self):
        try:
            import distributed
        except ImportError:
            # Editable, as the course itself: a copy among the packages would have no notebooks beside it.
            pip = f"{sys.executable} -m pip install -c constraints.txt -e '.[cluster]'"
            step = f"in the course's folder: {pip}; or leave --jobs at 1"
            raise UsageError("more than one process needs Dask, which is not installed", next_step=step) from None
        self._dask = distributed
        try:
            self._client = self._connect()
            self._client.wait_for_workers(1, timeout=_NO_WORKER_S)
        except (OSError, TimeoutError, ValueError) as error:
            self.__exit__()
            raise LabError(f"no worker answers at {self._address or 'this machine'}", why=str(error) or None) from None
        workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        self.room = min(IN_FLIGHT, _PER_WORKER * workers)
        return self

    def _connect(self):
        import logging

        import dask

        if self._address:
            client = self._dask.Client(self._address, timeout=_NO_WORKER_S)
            self._open.append(client)
            return client
        # One death is enough to be told about it: who counts is the grader. A worker holds no more than it works on,
        # so that a death is blamed on the submission that it had.
        quick = {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.scheduler.http.routes": [],  # no page that shows a class to other users of the machine
            "distributed.worker.http.routes": [],
            # What nobody looks at: samples of where workers spend their time, their loads, copies of their results.
            # Left on, these and the clock of each process take a tenth of a core from the grading.
            "distributed.worker.profile.enabled": False,
            "distributed.admin.tick.interval": "1s",
            "distributed.admin.system-monitor.interval": "5s",
            "distributed.scheduler.active-memory-manager.start": False,
        }
        with dask.config.set(quick):
            cluster = self._dask.LocalCluster(
                n_workers=self._jobs,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # answers have limits of their own; a judge is small
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                security=True,  # TLS with keys of this run: no other user of the machine can send work
                silence_logs=logging.CRITICAL,
            )
        client = self._dask.Client(cluster)
        self._open += [cluster, client]
        return client

    def __exit__(self, *_):
        while self._open:
            self._open.pop().close()

    def tiers(self):
        """Return the `TierReport`s of the machines that grade, one per worker."""
        return list(self._client.run(_report, self._allow_fenced).values())

    @property
    def flying(self):
        return len(self._flying) + len(self._ready)

    def submit(self, job):
        self._flying[self._client.submit(grade, job, pure=False)] = job

    def next(self):
        """Return (job, Result or Broken) of a job that is done, as soon as there is one.

        Raises:
            GradingImpossible: a worker cannot grade.
            LabError: no worker is left.
        """
        while not self._ready:
            self._collect()
        return self._ready.pop()

    def _collect(self):
        try:
            done = self._dask.wait(list(self._flying), timeout=_NO_WORKER_S, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            if self._client.status != "running" or not self._client.scheduler_info(n_workers=-1)["workers"]:
                step = "start workers and repeat the command: it goes on from here"
                raise LabError("no worker is left", next_step=step) from None
            return
        for future in done:
            job = self._flying.pop(future)
            self._ready.append((job, self._result(future)))

    def _result(self, future):
        error = future.exception() if future.status != "finished" else None
        if error is None:
            return future.result()
        if isinstance(error, self._dask.KilledWorker):
            return Broken("its worker ended", 1 + getattr(error, "allowed_failures", 0))
        if isinstance(error, LabError):
            raise error
        return Result(fault=f"{type(error).__name__}: {error}")
