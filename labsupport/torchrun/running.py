"""One run of a `%%torchrun` cell: starts the job, shows it while it runs, and says how it ended."""

import contextlib
import signal
import sys
import threading
import time

from labsupport.errors import LabError
from labsupport.torchrun.screens import screen_of
from labsupport.torchrun.telling import Told, stall_report
from labsupport.torchrun.view import Picture, View, ending_in_words, error_of, in_words
from labsupport.torchrun.watching import Watcher, place_in

__all__ = ["Interrupted", "RanksFailed", "Run"]

POLL_S = 0.03
SHOW_S = 0.1  # between two pictures
FIRST_AFTER_S = 0.3  # a job that ends sooner and prints nothing before is shown once, when it has ended


class RanksFailed(Exception):
    """A job failed. The report is shown above; this says it in one line and stops the notebook."""

    def _render_traceback_(self):
        return [f"RanksFailed: {self}"]


class Interrupted(KeyboardInterrupt):
    """A job was interrupted; it and everything it started are gone."""

    def _render_traceback_(self):
        return [f"KeyboardInterrupt: {self}"]


@contextlib.contextmanager
def left_whole(job):
    """Enter a job and leave it without being interrupted: half a clean-up would leave processes and files behind."""
    job.__enter__()
    try:
        yield job
    finally:
        for _ in range(9):  # an interrupt may still come just before interrupts are off
            try:
                with _uninterrupted():
                    job.__exit__(*sys.exc_info())
                break
            except KeyboardInterrupt:
                continue


@contextlib.contextmanager
def _uninterrupted():
    """Ignore interrupts meanwhile; only the main thread has any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Run:
    """One run of a cell.

    Args:
        options: the cell's `Options`; request: what to run.
        shell: the IPython shell, whose names `--return` sets.
        exercise: the id in the cell's marker, or None.
        notes: sentences to show under the job.
    """

    def __init__(self, options, request, shell, exercise=None, notes=()):
        self.options, self.request, self.shell, self.exercise = options, request, shell, exercise
        self.notes = list(notes)
        self.screen = screen_of(shell)
        self.began = time.monotonic()
        self.job = self.view = self.watcher = None
        self._ended_at = None
        self._shown_at, self._shown_s, self._cost_s, self._news = None, 0, 0.0, False

    def start(self):
        """Run the job to its end. Raises as `magic.torchrun` does."""
        from labsupport.torchrun.job import launch

        self._tell_of_the_helper()
        with left_whole(self._begun(lambda: launch(self.request))) as job:
            self._play(job)

    def _tell_of_the_helper(self):
        """Say so when the job has to wait for the helper."""
        from labsupport.torchrun import helper

        if self.request.mode == "auto" and helper.state() in ("off", "starting"):
            words = "the helper is starting: a process that keeps torch loaded, once per notebook"
            self._show(Picture(head=words, tone="wait"))

    def _play(self, job):
        """Show a job that has begun until it has ended, and say how."""
        self._job_began(job)
        self.view = View(job.folder, kept=self.request.keep)
        self.watcher = Watcher(job, self.request.source)
        try:
            last, stall = self._follow()
        except KeyboardInterrupt:
            self._interrupted()
        finally:
            self.watcher.close()
        self._ended(last) if stall is None else self._stopped(last, stall)

    def _begun(self, begin):
        """Return the job that `begin()` starts; an interrupt while the helper starts is told as any other."""
        try:
            return begin()
        except KeyboardInterrupt:
            self._show(Picture(head="interrupted before any rank ran", tone="wait", notes=self.notes), final=True)
            raise Interrupted("no rank had started") from None

    def _job_began(self, job):
        """Count the time from here: the helper's start is not the cell's."""
        waited_s = job.began - self.began
        self.job, self.began = job, job.began
        if waited_s > 1:
            self.notes.append(f"before that, {waited_s:.0f} s for the helper to start: once per notebook")

    # -- while it runs ---------------------------------------------------------------------------------------------

    def _follow(self):
        """Show the job until it has ended; returns (last snapshot, None), or (snapshot, stall) to stop it for that."""
        while True:
            now, stall = self.job.poll(), self.watcher.stall
            self._news |= self.view.update(now.ranks, _of_running(now, self.watcher.said) | _asked_to_end(now))
            if now.ended:
                self._ended_at = time.monotonic()
                return now, None
            if stall is not None and stall.certain and self._is_to_end(stall):
                return now, stall
            self.watcher.tell(now.ranks, bool(self.view.last_words_from))
            if self._is_due():
                began = time.monotonic()
                self._show(self._live(now, stall))
                self._cost_s = time.monotonic() - began
            time.sleep(POLL_S)

    def _is_to_end(self, stall):
        """Whether a job that is stuck for certain is ended: calls that do not fit are an error like any other."""
        return self.options.stop_when_stuck or stall.kind == "mismatch"

    def _is_due(self):
        now = time.monotonic()
        if self._shown_at is None:
            return now - self.began > FIRST_AFTER_S or self.view.has_output
        if now - self._shown_at < max(SHOW_S, 3 * self._cost_s):  # at most a quarter of the time goes into pictures
            return False
        return self._news or int(now - self.began) != self._shown_s

    def _show(self, picture, final=False):
        self.screen.show(picture, final)
        self._shown_at = time.monotonic()
        self._shown_s = int(self._shown_at - self.began)
        self._news = False

    def _live(self, now, stall):
        states = {rank.state for rank in now.ranks}
        doing = "running" if "running" in states else "starting" if states <= {"starting"} else "ending"
        seconds = int(time.monotonic() - self.began)
        head = f"{self._who(now)}: {doing}" + (f", {seconds} s" if seconds else "")
        reports = () if stall is None else (stall_report(stall),)
        return self.view.picture(head, live=True, notes=self.notes, reports=reports, ends=_ends(now))

    def _who(self, now):
        parsed = [event for event in now.events if event["event"] == "parsed" and "nproc" in event and not now.ranks]
        asked = [event["nproc"] * event["nodes"][1] for event in parsed]
        count = max([len(now.ranks), *asked, *(rank.world for rank in now.ranks)])
        ranks = f"{count} rank{'s' if count != 1 else ''}" if count else "ranks"
        nodes = len({rank.node for rank in now.ranks})
        return f"{ranks} on {nodes} nodes" if nodes > 1 else ranks

    def _took(self):
        seconds = (self._ended_at or time.monotonic()) - self.began
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"

    # -- when it has ended -----------------------------------------------------------------------------------------

    def _ended(self, last):
        told = [event["text"] for event in last.events if event["event"] == "note"]
        self.notes += [text for text in told if not text.startswith("the agent of node ") or " failed: " not in text]
        if self.options.kills:
            from labsupport.torchrun.killing import missed

            self.notes += missed(self.options.kills, last.events)
        if last.code == 0:
            self._succeeded(last)
        elif self.exercise and (line := self._unwritten(last)) is not None:
            words = "the ranks stopped at NotImplementedError" + (f", line {line}" if line else "")
            self.notes.append(f"{words}: write the answer there, then run this cell again")
            self._close(f"not yet   {self.exercise}", last, tone="wait", standings=False)
        else:
            self._failed(last)

    def _succeeded(self, last):
        returned, chart = self._returned(last), self._chart(last)
        restarts = self.view.attempts - 1
        again = f", {restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""
        report = self._unnoticed(last)
        head, tone = f"{self._who(last)}: done in {self._took()}{again}", "wait" if report else "good"
        self._close(head, last, tone=tone, report=report, standings=False)
        if chart is not None:
            self.screen.add(chart)
        if returned is None:
            return
        for name, picture in returned.pictures():
            self.screen.add(picture, name)
        self.shell.user_ns.update(returned.values)
        if error := returned.error():
            raise error

    def _unnoticed(self, last):
        """Return a report on calls that did not fit together though nothing failed, or None."""
        try:
            from labsupport.torchrun.diagnosis import unnoticed

            return unnoticed(self.job.folder, last)
        except Exception:  # a job that went well is not spoiled by one who looks for faults in it
            return None

    def _chart(self, last):
        """Return the chart of `--trace`, or None; what is in the way of it becomes a note."""
        if not self.options.trace or not last.ranks:
            return None
        from labsupport.torchrun import trace_picture, tracing

        attempt = last.ranks[0].folder.parent
        try:
            target = self.options.trace_file or (self.job.folder / "trace.json" if self.request.keep else None)
            if target:
                self.notes.append(f"the profile of all ranks: {tracing.merge(attempt, target)}")
            return trace_picture.TracePicture(tracing.read(attempt))
        except LabError as problem:
            self.notes.append(f"--trace: {problem.what}" + (f", {problem.why}" if problem.why else ""))
            return None

    def _returned(self, last):
        if not self.options.returns or not last.ranks:
            return None
        from labsupport.torchrun.values import collect, parse_returns

        attempt = last.ranks[0].folder.parent
        returned = collect(
            parse_returns(self.options.returns), attempt, world=len(last.ranks), namespace=self.shell.user_ns
        )
        self.notes += returned.notes
        return returned

    def _failed(self, last):
        report = self._diagnosed(last)
        self._miss_returned()
        head = f"{self._who(last)}: failed after {self._took()}"
        self._close(head, last, tone="bad", report=report)
        if not self.options.may_fail:
            raise RanksFailed(report.headline)

    def _miss_returned(self):
        """Say that nothing comes back from a job that did not succeed."""
        if names := [str(name).partition("@")[0] for name in self.options.returns]:
            listed = ", ".join(f"`{name}`" for name in names)
            kept = [name for name in names if name in self.shell.user_ns]
            also = "; the notebook keeps the value it had" if kept else ""
            self.notes.append(f"{listed} did not come back: --return needs a job that ends without an error{also}")

    def _diagnosed(self, last):
        """Return the report on a failed job; a short one where the diagnosis itself fails or has nothing to say."""
        from labsupport.torchrun.agents import agent_report

        if (report := agent_report(self.job, last)) is not None:
            return report
        try:
            from labsupport.torchrun.diagnosis import diagnose

            report = diagnose(self.job.folder, last)
        except Exception:
            report = None
        return report or _short_report(last)

    def _close(self, head, last, *, tone, report=None, standings=True):
        """Take the job's record, then show the last picture."""
        record = self.job.wait()
        record.report = report
        if self.request.keep:
            self.notes.append(f"the job's folder: {self.job.folder}")
        reports = () if report is None else (report,)
        picture = self.view.picture(
            head, tone=tone, notes=self.notes, reports=reports, standings=standings, ends=_ends(last)
        )
        self._show(picture, final=True)

    def _unwritten(self, last):
        """Return the line at which the ranks stopped if that was NotImplementedError and nothing else, else None."""
        from labsupport.torchrun.causes import is_echo

        errors = [error for rank in last.ranks if (error := error_of(rank.folder)) and not is_echo(error)]
        if errors and all(error["type"] == "NotImplementedError" for error in errors):
            return errors[0].get("lineno") or 0
        return None

    # -- when it is ended ------------------------------------------------------------------------------------------

    def _interrupted(self):
        try:
            now, stall = self.job.poll(), self.watcher.stall
            report = stall and stall_report(stall, running=False)
            self._end(now, f"{self._who(now)}: interrupted after {self._took()}", "wait", report)
        except KeyboardInterrupt:  # once more, by a person who cannot wait; leaving the job ends it
            pass
        raise Interrupted("every rank of this job has ended") from None

    def _stopped(self, now, stall):
        report = stall_report(stall, running=False)
        self._miss_returned()
        self._end(now, f"{self._who(now)}: stopped after {self._took()}, as nobody could go on", "bad", report)
        if not self.options.may_fail:
            raise RanksFailed(report.headline)

    def _end(self, now, head, tone, report=None):
        """End the job and show where each rank was."""
        record = self.job.interrupt()
        record.report = report
        places = {rank.rank: ("waiting", _place(rank, self.watcher.said.get(rank.rank))) for rank in now.ranks}
        self.view.update(now.ranks, _of_running(now, places))
        reports = () if report is None else (report,)
        self._show(self.view.picture(head, tone=tone, notes=self.notes, reports=reports, ends=_ends(now)), final=True)


def _of_running(now, said):
    return {rank.rank: said[rank.rank] for rank in now.ranks if rank.state == "running" and rank.rank in said}


def _asked_to_end(now):
    """Return what to say of ranks that torchrun ended because of another one."""
    latest = now.ranks[0].attempt if now.ranks else 0
    asked = {
        event["rank"]
        for event in now.events
        if event["event"] == "rank ended" and event.get("asked") and event["attempt"] == latest and event["code"] < 0
    }
    return dict.fromkeys(asked, ("ended", "ended by torchrun"))


def _ends(now):
    """Return {attempt: words} on how earlier attempts ended: by the first rank that ended by itself, a signal first."""
    first = {}
    for event in now.events:
        if event["event"] == "rank ended" and event["code"] and not event.get("asked"):
            first.setdefault(event["attempt"], []).append(event)
    latest = max((rank.attempt for rank in now.ranks), default=0)
    culprits = {attempt: min(ended, key=lambda event: event["code"] > 0) for attempt, ended in first.items()}
    words = {attempt: f"rank {event['rank']} {ending_in_words(event['code'])}" for attempt, event in culprits.items()}
    from labsupport.torchrun.causes import kill_of

    killed = [told for rank in now.earlier if (told := kill_of(rank, now.events))]
    words |= {0: killed[0]} if killed else {}
    return {attempt: f"{told}; all ranks were started again" for attempt, told in words.items() if attempt < latest}


def _place(rank, said):
    """Return where a rank that was ended stood: in a collective, or at a line of the cell."""
    if said and said[0] == "waiting":
        return said[1].replace("waits", "waited", 1)
    line = place_in(rank.folder / "stack.txt")
    return f"was at line {line}" if line else "was running"


def _short_report(last):
    """Return a report that says of each failed rank how it ended, and nothing of why."""
    rows = []
    for rank in last.ranks:
        if error := error_of(rank.folder):
            line = f", line {error['lineno']}" if error.get("lineno") else ""
            rows.append((in_words([rank.rank]), f"{error['type']}: {error['message']}{line}"))
        elif rank.code:
            rows.append((in_words([rank.rank]), ending_in_words(rank.code)))
    if not rows:
        return Told(f"the job ended with exit code {last.code}, and no rank said why")
    return Told(": ".join(rows[0]), rows[1:])
