"""lab grade: verdicts on a folder, an archive or notebooks, for one learner or thousands; goes on where it stopped."""

import contextlib
import os
import sys
from pathlib import Path

import labsupport
from labsupport import catalog
from labsupport.errors import LabError, UsageError

__all__ = ["add_arguments", "run"]

_IMPOSSIBLE = 3  # grading is not possible here, or the grader failed: nobody's points can be read off such a run
_FEW = 8  # so few submissions are graded sooner by this process alone
_SHOWN = 20


def add_arguments(parser):
    """Declare what is graded, where results go, who works, and what counts as failure."""
    add = parser.add_argument
    add("paths", nargs="*", type=Path, metavar="PATH", help="a folder, an archive (.zip, .tar) or a notebook")
    add(
        "--out",
        type=Path,
        default=Path("grades"),
        metavar="DIR",
        help="folder of records and reports (default: grades)",
    )
    add("--lesson", metavar="SLUG", help="grade this lesson only; also the lesson of files that do not say theirs")
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="processes; above 1 needs Dask (default: with Dask and a class, all cores)",
    )
    add("--cluster", metavar="ADDRESS", help="grade on the workers of this Dask scheduler")
    add("--allow-fenced", action="store_true", help="grade although this machine has only a fence (tier B), no cage")
    add("--fail-under", type=_share, metavar="SHARE", help="exit with 1 when a learner has less: 0.8 or 80%%")
    add("--github", action="store_true", help="annotations and a step summary (always in GitHub Actions)")
    add("--clean-run", action="store_true", help="also run the answers in the course's notebook from top to bottom")
    add("--secret-file", type=Path, metavar="F", help="the secret that makes inputs and signatures (else LAB_SECRET)")
    add("--regrade", action="store_true", help="judge kept observations again with the course of today; runs nothing")
    add("--verify", type=Path, metavar="FILE", help="check the signature of a grades.json, and do nothing else")


def _share(text):
    import argparse

    with contextlib.suppress(ValueError):
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 <= share <= 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r} is not a share: write 0.8 or 80%")


def run(args):
    """Return 0 when all is graded, 1 below --fail-under, 2 for wrong use, 3 when grading failed or is not possible."""
    try:
        return _run(args)
    except LabError as error:
        _make_harmless(error)
        raise
    except (BrokenPipeError, ModuleNotFoundError):  # told by the `lab` command itself
        raise
    except Exception as error:
        raise _failed(error) from error


def _make_harmless(error):
    """Clean an error's words in place: names of files are learners' own, and what they hold is printed."""
    from labsupport.grading.reports.texts import harmless

    for name in ("what", "why", "next_step"):
        if text := getattr(error, name, None):
            setattr(error, name, harmless(text))
    error.args = (error.what,)


def _failed(error):
    """Return the error for what nobody foresaw: nothing is lost, and the run says so instead of ending in a heap."""
    import traceback

    from labsupport.grading.errors import GradingImpossible
    from labsupport.grading.reports.texts import harmless, line

    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return GradingImpossible(
        f"grading stopped on our side{where}",
        why=harmless(line(f"{type(error).__name__}: {error}")),
        next_step="what is graded is kept and the next run goes on from there; report this line",
    )


def _run(args):
    secret = _secret(args.secret_file)
    if args.verify:
        return _verify(args.verify, secret)
    submissions, notes = _submissions(args)
    from labsupport.grading.store import Store

    with Store(args.out / "grades.sqlite") as store:
        grading = _Grading(args, secret, store, submissions)
        try:
            report = grading.regraded(notes) if args.regrade else grading.graded(notes)
        except LabError as error:
            if found := getattr(error, "report", None):
                print(grading.header([found]).line, flush=True)
            raise
    return _tell(report, args, secret, grading.changed)


def _secret(path):
    from labsupport.grading.engine import Secret

    try:
        return Secret.load(path)
    except LabError as error:  # a file that is not fit to be one is wrong use of this command
        raise UsageError(error.what, why=error.why, next_step=error.next_step) from None


def _verify(path, secret):
    from labsupport.figures.words import count
    from labsupport.grading.reports.record import verify
    from labsupport.grading.reports.texts import line

    record = verify(path, secret)
    print(f"the signature is right: {count(len(record['rows']), 'row')}, as graded\n{line(record['header']['line'])}")
    return 0


def _submissions(args):
    """Return the submissions below the paths, each with its lesson, and what is to be said about files."""
    from labsupport.grading.batch import prepare
    from labsupport.grading.intake import find_submissions

    if not args.paths:
        raise UsageError(
            "there is nothing to grade", next_step="name a folder, an archive or a notebook: lab grade work/"
        )
    for path in args.paths:
        if path.is_symlink() and not path.exists():
            raise UsageError(f"{path} is a link that leads to no file or folder")
        if not path.exists():
            raise UsageError(f"{path} does not exist")
    if args.jobs is not None and args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs} leaves nobody to grade", next_step="--jobs 1")
    lesson = catalog.find_lesson(args.lesson).slug if args.lesson else None
    prepared = prepare(find_submissions(args.paths), lesson)
    if not prepared.submissions:
        raise UsageError(
            "no notebook to grade was found below the paths",
            why=" ".join(prepared.notes[:3]) or None,
            next_step="name a folder that holds notebooks, or an archive of one",
        )
    return prepared.submissions, prepared.notes


class _Grading:
    """One command: plans, grades or judges again, makes the report. `changed` holds verdicts that are others now."""

    def __init__(self, args, secret, store, submissions):
        self.args, self.secret, self.store, self.submissions = args, secret, store, submissions
        self.changed = ()

    def header(self, tiers):
        """Return the `Header` for the machines that grade: the weakest of them speaks for all."""
        from labsupport.grading.engine import course_version
        from labsupport.grading.reports import Header

        weakest = max(tiers, key=lambda found: found.tier)
        reasons = {f"no stronger tier ({n})": why for n, why in enumerate(weakest.reasons, 1)}
        return Header(
            mode="grade" if self.secret and weakest.tier in "AB" else "feedback",
            tier=weakest.tier,
            layers=dict(weakest.layers) | reasons,
            course=f"{labsupport.__version__} ({course_version()})",
            inputs=self._inputs(),
        )

    def _inputs(self):
        return "inputs of its own for every file" if self.secret else "the same public inputs for everybody"

    def graded(self, notes):
        planned = self._plan("A")
        open_ = [one for one in planned if one.todo or one.clean_todo]
        if not open_ and (kept := self._kept_header()):
            print(kept.line, flush=True)
            return self._report(kept, planned, notes)
        with self._desk(len(open_)) as desk:
            header = self.header(desk.tiers())
            self.store.add_run(_plain(header))
            print(header.line, flush=True)
            planned = self._plan(header.tier)
            self._grade(planned, desk, header)
        self.changed = self._changes(planned)
        return self._report(header, planned, notes)

    def _plan(self, tier):
        from labsupport.grading.batch import plan

        return plan(self.submissions, self.store, self.secret, tier, self.args.clean_run)

    def _grade(self, planned, desk, header):
        from labsupport.grading.batch import grade_all
        from labsupport.grading.progress import progress

        left = len({one.digest for one in planned if one.todo or one.clean_todo})
        if left < len(planned):
            print(f"{len(planned) - left} of {len(planned)} submissions are graded already", flush=True)
        with progress(left, sys.stderr) as told:
            allowed = {"allow_fenced": self.args.allow_fenced, "tier": header.tier}
            grade_all(planned, self.store, self.secret, desk, **allowed, progress=told)

    def _desk(self, count):
        from labsupport.environment.machine import cores
        from labsupport.grading.workers import Cluster, Here

        jobs = self.args.jobs
        if jobs is None:
            jobs = min(max(1, int(cores()[0])), count) if count > _FEW and _has_dask() else 1
        if self.args.cluster or jobs > 1:
            return Cluster(jobs, self.args.cluster, self.args.allow_fenced)
        return Here(self.args.allow_fenced)

    def _kept_header(self):
        """Return the header of the newest run on inputs like these, for a run that has nothing to grade; or None."""
        from labsupport.grading.engine import course_version
        from labsupport.grading.reports import Header

        runs = [run for run in self.store.runs() if run["inputs"] == self._inputs()]
        return Header(**runs[-1] | {"course": f"{labsupport.__version__} ({course_version()})"}) if runs else None

    def regraded(self, notes):
        from labsupport.grading.regrade import regrade

        header = self._kept_header()
        if header is None:
            what = f"nothing has been graded into {self.args.out} {'with' if self.secret else 'without'} a secret yet"
            raise UsageError(what, next_step="leave out --regrade")
        print(header.line, flush=True)
        planned = self._plan(header.tier)
        done = regrade(planned, self.store, self.secret)
        self.changed = done.changes
        if done.rerun:
            told = f"{_answers(done.rerun)} must be run again to be judged: `lab grade` does."
            notes = (*notes, told)
        return self._report(header, planned, notes, rows=done.rows)

    def _changes(self, planned):
        from labsupport.grading.regrade import changes

        found = []
        for one in planned:
            if one.todo:
                earlier = self.store.earlier(one.submission.learner, one.submission.sha256, one.digest)
                found += changes(earlier.values(), self.store.rows(one.digest))
        return found

    def _report(self, header, planned, notes, rows=None):
        from labsupport.grading.batch import collect
        from labsupport.grading.reports import Report

        rows, exercises = collect(planned, self.store, rows)
        known = (e for slug in exercises if slug for e in catalog.exercises(slug))
        beliefs = {(e.id, m.id): m.says for e in known for m in e.misconceptions}
        return Report(header=header, rows=rows, exercises=exercises, notes=tuple(notes), beliefs=beliefs)


def _has_dask():
    import importlib.util

    return importlib.util.find_spec("distributed") is not None


def _plain(header):
    from dataclasses import asdict

    return asdict(header)


# -- telling ---------------------------------------------------------------------------------------------------------


def _tell(report, args, secret, changed):
    """Write the reports, print what matters, and return the exit code."""
    from labsupport.grading.reports import github, write

    written = write(report, args.out, secret=secret)
    in_actions = args.github or os.environ.get("GITHUB_ACTIONS") == "true"
    with github.quiet(_print) if in_actions else contextlib.nullcontext(_print) as say:
        for text in _lines(report, changed):
            say(text)
        say(f"written: {', '.join(str(path) for path in written.values())}")
        code = _exit_code(report, args.fail_under, say)
    if in_actions:
        for command in github.annotations(report):
            _print(command)
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            github.write_summary(report, Path(path))
    return code


def _print(text):
    print(text, flush=True)


def _lines(report, changed):
    """Yield what a person at the terminal wants to know, every text harmless."""
    from labsupport.grading.reports.texts import line, plain
    from labsupport.showing import show_verdict

    for note in report.notes[:_SHOWN]:
        yield line(note)
    for change in changed[:_SHOWN]:
        yield line(f"changed: {change}")
    if len(changed) > _SHOWN:
        yield f"changed: {len(changed) - _SHOWN} more"
    alone = len(report.learners) == 1
    if alone:
        yield from (plain(show_verdict(row.verdict())) for row in report.rows if row.outcome != "not yet")
    else:
        yield from _troubles(report)
    waiting = [row.exercise for row in report.rows if row.outcome == "not yet"]
    if alone and waiting:
        yield f"not yet: {', '.join(waiting)}"
    counted = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes().items())
    yield f"{len(report.learners)} learner{'s' * (len(report.learners) != 1)}, {len(report.rows)} results: {counted}"
    yield from _believed(report)


def _troubles(report):
    """Yield a line per learner and reason for what an instructor has to look into: files and faults."""
    from labsupport.grading.reports.texts import line

    found = {}
    for row in report.rows:
        if row.outcome in ("grader fault", "unreadable", "cannot run here"):
            found.setdefault((row.learner, row.outcome, row.why, row.next), []).append(row.exercise)
    for (learner, outcome, why, step), exercises in list(found.items())[:_SHOWN]:
        where = exercises[0] if len(exercises) == 1 else f"{len(exercises)} exercises"
        yield line(f"{learner}: {outcome}, {where}: {why} {step}")
    if len(found) > _SHOWN:
        yield f"{len(found) - _SHOWN} more like these are in grades.csv"


def _answers(rerun):
    """Return how many answers of how many learners these pairs of (learner, exercise) are, in words."""
    from labsupport.figures.words import count

    return f"{count(len(rerun), 'answer')} of {count(len({learner for learner, _ in rerun}), 'learner')}"


def _believed(report):
    """Yield the most common known mistakes of a class."""
    from labsupport.grading.reports.texts import line

    exercises = [name for ids in report.exercises.values() for name in ids]
    found = [(count, e, name) for e in exercises for name, count, _ in report.misconceptions(e) if count > 1]
    for count, exercise, name in sorted(found, reverse=True)[:5]:
        yield line(f"  {count} learners: {name} ({exercise})")


def _exit_code(report, fail_under, say):
    from labsupport.grading.reports.texts import line

    if faults := report.outcomes().get("grader fault"):
        told = "results are the grader's own faults and count against nobody; the next run tries them again"
        one = "result is the grader's own fault and counts against nobody; the next run tries it again"
        say(f"{faults} {one if faults == 1 else told}")
        return _IMPOSSIBLE
    if fail_under is None:
        return 0
    shares = {name: report.share(name) for name in report.learners}
    below = [f"{line(name)} {share:.0%}" for name, share in shares.items() if share is not None and share < fail_under]
    if below:
        more = f" and {len(below) - _SHOWN} more" if len(below) > _SHOWN else ""
        say(f"below {fail_under:.0%} of the points: {', '.join(below[:_SHOWN])}{more}")
    return int(bool(below))
