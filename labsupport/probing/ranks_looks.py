"""Looks at the ranks of a case: each is asked where it stands, and what they say tells whether they can go on."""

import contextlib
import json

from labsupport.probing import ranks_stalls

__all__ = ["Looks"]

_FIRST_S = 0.1  # most cases are over by then
_EVERY_S, _SLOWER, _SLOWEST_S = 0.05, 1.3, 0.5  # each look comes a little later than the last
_HURRY_S = 0.02
_FRESH_S = 1.5  # a look that is older tells nothing about now: since then a rank has not come to say where it stands
_MOST_BYTES = 1 << 22


class Looks:
    """Asks the ranks where they stand, and finds out whether those that are not done can go on.

    One for all cases of the same ranks: what a rank says late must not be taken for what it says about another look.

    Args:
        watches: per rank the connection on which it is asked.
    """

    def __init__(self, watches):
        self._watches = watches
        self._raw, self._number = [b""] * len(watches), 0
        self._mute = set()  # ranks that have sent what is no message: nothing is known about them any more
        self.begin()

    def begin(self):
        """Begin with a new case."""
        self._asked, self._where = set(), {}
        self._next_s, self._every_s = _FIRST_S, _EVERY_S
        self._earlier = self._last = self._unmoved_since_s = None
        self._done_s = 0.0

    def hurry(self):
        """Look at once and more often: one rank has failed, the others may wait for it."""
        self._next_s, self._every_s = 0.0, _HURRY_S

    def open(self):
        """Return the connections on which something is expected."""
        return [self._watches[rank] for rank in self._asked]

    def hear(self, watch):
        """Take in a part of what a rank says about itself."""
        rank = self._watches.index(watch)
        try:
            chunk = watch.recv(1 << 16)
        except OSError:
            chunk = b""
        self._raw[rank] += chunk
        if not chunk:
            self._asked.discard(rank)
        while (said := self._message(rank)) is not None:
            if said.get("look") == self._number % 256 and rank in self._asked:
                self._where[rank] = said
                self._asked.discard(rank)

    def _message(self, rank):
        """Take the first whole message off what a rank has sent; None when there is none."""
        raw = self._raw[rank]
        size = int.from_bytes(raw[:4], "little")
        if len(raw) >= 4 and size > _MOST_BYTES:
            return self._silence(rank)
        if len(raw) < 4 + size or len(raw) < 4:
            return None
        self._raw[rank] = raw[4 + size :]
        with contextlib.suppress(ValueError):
            said = json.loads(raw[4 : 4 + size])
            if isinstance(said, dict):
                return said
        return self._silence(rank)

    def _silence(self, rank):
        self._mute.add(rank)
        self._asked.discard(rank)
        self._raw[rank] = b""

    def stuck(self, replies, clock):
        """Return a `Stuck` once two looks make it certain that the ranks wait for ever; else None.

        Args:
            replies: per rank what it replied, or None while it is at it.
            clock: a `fair.Clock` that began with the case.
        """
        elapsed_s = clock.elapsed_s()
        if elapsed_s < self._next_s or self._asked:
            return None
        alive = [rank for rank, reply in enumerate(replies) if not (reply and "ended" in reply)]
        if None in replies and self._where.keys() >= set(alive):
            found = self._look(ranks_stalls.standings_of(replies, self._where), elapsed_s, clock)
            if found is not None and found.certain:
                return found
        self._next_s, self._every_s = elapsed_s + self._every_s, min(_SLOWEST_S, self._every_s * _SLOWER)
        self._ask([rank for rank in alive if rank not in self._mute])
        return None

    def _look(self, now, elapsed_s, clock):
        if self._earlier is None or not _same_calls(self._earlier, now):
            self._unmoved_since_s = clock.fair_s()
        self._last, self._earlier, self._done_s = ranks_stalls.explain(now, self._earlier), now, elapsed_s
        return self._last

    def _ask(self, ranks):
        """Ask those that are done, too: what they have called tells what the others wait for."""
        self._where, self._number = {}, self._number + 1
        for rank in ranks:
            with contextlib.suppress(OSError):
                self._watches[rank].send(bytes([self._number % 256]))
                self._asked.add(rank)

    def held(self, seconds, clock):
        """Return what the looks found when it has been so for a while, up to now; else None.

        A healthy program looks stuck for moments, and for as long as it likes where it gets no processor.

        Args:
            seconds: for how long at least no rank has called anything or come back from it, in time that counts.
            clock: as for `stuck`.
        """
        if self._last is None or clock.elapsed_s() > self._done_s + _FRESH_S:
            return None
        return self._last if clock.fair_s() - self._unmoved_since_s >= seconds else None


def _same_calls(earlier, now):
    return all((earlier[rank].state, earlier[rank].calls) == (now[rank].state, now[rank].calls) for rank in now)
