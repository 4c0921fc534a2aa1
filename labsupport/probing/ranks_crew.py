"""The processes of one answer, one per rank: given a case, listened to, asked where they stand, ended."""

import contextlib
import select
import signal
import sys
import time

from labsupport.grading.wire import Channel, Closed, WireError
from labsupport.probing import fair, ranks_stalls, ranks_start
from labsupport.probing.ranks_looks import Looks

__all__ = ["Crew"]

_TICK_S = 0.02
_SAMPLE_S = 0.1  # how often it is asked whether ranks wait for a processor
_GRACE_S = 1.0  # for the other ranks to say how they ended, once one has failed
_END_S = 2.0  # for a process that has closed its connection to end
_SHORT_S = 20.0  # for what takes no time on a quiet machine
_LEAVE_S = 2.0  # new ranks cost less than patience
_IMPORT_S = 180.0
_GONE = (Closed, WireError, TimeoutError, OSError)


class Crew:
    """`world` rank processes; `program` is the one they have loaded.

    Args:
        world: how many ranks.
        forks: make them by `fork`; else as programs, which may be given one answer after the other.
        owns: every other child of this process, direct or not, is of these ranks too and ends with them.
    """

    def __init__(self, world, forks, owns):
        self.world, self.forks, self._owns = world, forks, owns
        made = [ranks_start.fork(rank, world) for rank in range(world)] if forks else ranks_start.spawn(world)
        self._processes = [process for process, _, _ in made]
        self._channels = [Channel(sock, asks=True) for _, sock, _ in made]
        self._watches = [watch for _, _, watch in made]
        self._looks = Looks(self._watches)
        self.program, self.cases = None, 0
        self.pids = [process.pid for process in self._processes]
        self.replies = [None] * world

    def load(self, program):
        """Give the ranks a program; returns whether all took it. Programs of their own import torch before."""
        self.program = program
        return self._all({"op": "load", "program": program}, _SHORT_S if self.forks else _IMPORT_S)

    def leave(self):
        """Have the ranks leave the group of a case; returns whether all did."""
        return self._all({"op": "end"}, _LEAVE_S)

    def _all(self, question, patience_s):
        self._be_patient(patience_s)
        try:
            for channel in self._channels:
                channel.send(question, _SHORT_S)
            for channel in self._channels:
                channel.recv(patience_s)
        except _GONE:
            return False
        return True

    def _be_patient(self, seconds):
        """Put the deadlines of what is sent and received from now on off by the time ranks have no processor."""
        clock = self._clock()
        for channel in self._channels:
            channel.granted_s = lambda: clock.granted_s(seconds)

    def run(self, args, question, call_s):
        """Give each rank its part of a case and wait until all are done, or it is known that they will not be.

        Afterwards `replies` has a dict per rank: what it said, {"ended": how} when its process ended, {"waits": True}
        when it was still at it.

        Args:
            args: a tuple of arguments per rank.
            question: what every rank is told besides.
            call_s: seconds they may take.

        Returns:
            None, or which limit they were over, as a `ranks_stalls.Stuck`.
        """
        self.replies, self.cases = [None] * self.world, self.cases + 1
        self._be_patient(_SHORT_S)
        for channel, own in zip(self._channels, args, strict=True):
            channel.send({"op": "case", "args": own, **question}, _SHORT_S, keep_layout=True)
        self._looks.begin()
        clock = self._clock()
        grace, stuck, sampled_s = None, None, 0.0
        while None in self.replies and not stuck:
            self._listen()
            if clock.elapsed_s() > sampled_s + _SAMPLE_S:
                sampled_s = clock.elapsed_s()
                clock.starved_s()
            if grace is None and any(reply and _failed(reply) for reply in self.replies):
                grace = self._clock()
                self._looks.hurry()
            found = self._looks.stuck(self.replies, clock)
            if grace is not None and (found or grace.is_over(_GRACE_S) or grace.gives_up(_GRACE_S)):
                break
            stuck = (found or self._late(clock, call_s)) if grace is None else None
        self.replies = [{"waits": True} if reply is None else reply for reply in self.replies]
        return stuck

    def _clock(self):
        def each(told):
            return lambda: [told(process.pid) for process in self._processes]

        return fair.Clock(each(fair.whole_delay), used=each(fair.thread_used))

    def _late(self, clock, call_s):
        """Return why it has taken too long, or None while it has not.

        Who waits for whom is said only of ranks that had a processor and stood still: on a busy machine a right answer
        looks the same for any moment.
        """
        if clock.is_over(call_s):
            return self._looks.held(call_s / 2, clock) or ranks_stalls.Stuck(f"still running after {call_s:g} s")
        if clock.gives_up(call_s):
            return ranks_stalls.Stuck("", busy_s=clock.elapsed_s())
        return None

    def _listen(self):
        """Take in what comes within a tick: replies, standings, ends of processes."""
        channels = {self._channels[r]: r for r in range(self.world) if self.replies[r] is None}
        ready, *_ = select.select([*channels, *self._looks.open()], [], [], _TICK_S)
        for one in ready:
            if one not in channels:
                self._looks.hear(one)
                continue
            try:
                self.replies[channels[one]] = one.recv(_SHORT_S)
            except _GONE as error:
                self.replies[channels[one]] = {"ended": self._how_ended(channels[one], error)}
        for rank in channels.values():  # what an ended rank had started may keep its connection open
            if self.replies[rank] is None and self._processes[rank].poll() is not None:
                self.replies[rank] = {"ended": self._how_ended(rank, Closed())}

    def _how_ended(self, rank, error):
        if not isinstance(error, (Closed, OSError)) or isinstance(error, TimeoutError):
            return "it wrote to the connection of the check"
        process, clock = self._processes[rank], self._clock()
        while process.poll() is None and not (clock.is_over(_END_S) or clock.gives_up(_END_S)):
            time.sleep(0.002)
        code = process.poll()
        if code is None:
            return "it closed the connection of the check"
        return f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"

    def was_killed(self, rank):
        """Return whether a rank's process was ended by SIGKILL."""
        return self._processes[rank].poll() in (-9, -15)

    def end(self, keep=()):
        """End every rank and whatever they started; `keep`: children of this process that stay."""
        for process in self._processes:
            process.kill()
        if self._owns and sys.platform == "linux":
            from labsupport.processes import reaping

            for process in self._processes:
                process.wait()
            reaping.end_others(keep)
        for process in self._processes:
            process.wait()
        for end in [*self._channels, *self._watches]:
            end.close()


def _failed(reply):
    return bool(reply.get("raised") or reply.get("ended") or reply.get("fault"))


def _signal_name(number):
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return str(number)
