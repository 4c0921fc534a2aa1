"""Build an all-reduce by hand, message by message: in a cell, or in a terminal by `python -m labsupport.figures.moves`.

    moves = Moves(ranks=4)
    moves.send(0, 1, chunk=0).send(1, 2, chunk=1).step()    # two messages in one step
    moves                                                   # who holds what
    moves.score()                                           # against the ring

Every rank starts with its own values, and all are to end with the sum of every chunk. Within a step a rank sends at
most one chunk and receives at most one, and all messages leave with the values from before the step. A chunk that is
still partial is added at the receiver; a complete one replaces what is there. Nothing may count twice.
"""

from dataclasses import dataclass, replace
from itertools import combinations

from labsupport.errors import LabError
from labsupport.figures.collective_given import plan_for
from labsupport.figures.collective_model import OPS, Message, Step, apply
from labsupport.figures.figure import whole_number
from labsupport.figures.words import byte_text, count, join_words, value_label

__all__ = ["Moves", "Score", "figure"]

_HINTS = (
    "A step takes as long however many ranks send in it: let every rank send and receive in every step.",
    "Let every rank send to the next one, each a different chunk; then pass on what has just arrived.",
)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How many steps and bytes were needed, and what the ring needs."""

    done: bool
    steps: int
    most_bytes: int
    ring_steps: int
    ring_bytes: int

    @property
    def as_good(self):
        """Whether it is complete and needs no more steps and bytes than the ring."""
        return self.done and self.steps <= self.ring_steps and self.most_bytes <= self.ring_bytes

    def __repr__(self):
        so_far = f"{count(self.steps, 'step')}, at most {byte_text(self.most_bytes)} sent by one rank"
        ring = f"the ring takes {count(self.ring_steps, 'step')} and {byte_text(self.ring_bytes)}"
        if not self.done:
            return f"Not complete yet: {so_far}; {ring}."
        return f"Complete: {so_far}; {ring}." + (" As good as the ring." if self.as_good else "")


class Moves:
    """An all-reduce in the making. `send` and `step` return it, so that calls chain; refused moves raise LabError.

    Attributes:
        done: whether every rank holds every chunk complete.
        steps: the steps that are closed, each a tuple of (src, dst, chunk).
        sent: bytes sent by each rank.
    """

    def __init__(self, ranks=4, values=None, *, op="sum"):
        self.plan = plan_for("all_reduce", "ring", values, ranks=ranks if values is None else None, op=op)
        self._closed, self._open, self._hints = [], [], 0

    # -- moves -----------------------------------------------------------------------------------------------------

    def send(self, src, dst, chunk):
        """Add a message to the open step.

        Raises:
            LabError: the rules do not allow it; says why. Nothing has changed then.
        """
        src, dst, chunk = whole_number(src, "src"), whole_number(dst, "dst"), whole_number(chunk, "chunk")
        why, step = self._refusal(src, dst, chunk)
        if why:
            raise LabError(f"rank {src} cannot send chunk {chunk} to rank {dst} now", why=why, next_step=step)
        self._open.append((src, dst, chunk))
        return self

    def step(self):
        """Close the step: all its messages arrive at once.

        Raises:
            LabError: nothing is sent in it.
        """
        if not self._open:
            raise LabError("nothing is sent in this step yet", next_step="send(src, dst, chunk) first")
        self._closed.append(tuple(self._open))
        self._open = []
        return self

    def undo(self):
        """Take back the last message of the open step, or open the last step again."""
        if self._open:
            self._open.pop()
        elif self._closed:
            self._open = list(self._closed.pop())
        return self

    def _refusal(self, src, dst, chunk):
        n, held = self.plan.ranks, self.held
        for rank in (src, dst):
            if not 0 <= rank < n:
                return f"There is no rank {rank}.", f"ranks are 0 to {n - 1}"
        if not 0 <= chunk < self.plan.chunks:
            return f"There is no chunk {chunk}.", f"chunks are 0 to {self.plan.chunks - 1}"
        if src == dst:
            return "A rank does not send to itself.", None
        for who, place, verb in ((src, 0, "sends"), (dst, 1, "receives")):
            if any(move[place] == who for move in self._open):
                return f"Rank {who} already {verb} in this step.", "step() closes the step"
        piece, there = held[src][chunk], held[dst][chunk]
        if self.plan.finished(chunk, there):
            return f"Rank {dst} holds chunk {chunk} complete already.", None
        twice = sorted(piece.parts & there.parts)
        if not self.plan.finished(chunk, piece) and twice:
            missing = _ranks(sorted(set(range(n)) - piece.parts))
            return (
                f"Rank {src} does not hold chunk {chunk} complete yet ({missing} missing), so it would be added; "
                f"but what rank {dst} holds contains {_ranks(twice)} already, which would count twice."
            ), None
        return "", None

    # -- where things stand ------------------------------------------------------------------------------------------

    @property
    def steps(self):
        return list(self._closed)

    @property
    def held(self):
        """What every rank holds, by rank and chunk, before the open step."""
        return self._plan().states[-1]

    @property
    def sent(self):
        return self._plan(with_open=True).sent[-1]

    @property
    def done(self):
        held = self._plan(with_open=True).states[-1]
        return all(self.plan.finished(c, piece) for lane in held for c, piece in enumerate(lane))

    @property
    def stuck(self):
        """The chunks that can no longer be completed: whichever ranks combine theirs, something counts twice."""
        held, everyone = self._plan(with_open=True).states[-1], self.plan.ranks
        return [c for c in range(self.plan.chunks) if not _completable([lane[c].parts for lane in held], everyone)]

    def score(self):
        """Return steps and bytes so far, against the ring."""
        made = len(self._closed) + bool(self._open)
        return Score(done=self.done, steps=made, most_bytes=max(self.sent),
                     ring_steps=len(self.plan.steps), ring_bytes=max(self.plan.sent[-1]))  # fmt: skip

    def hint(self):
        """Return help: first a thought, then a way, then the next move."""
        if self.done:
            return "It is complete."
        if self.stuck:
            return f"Chunk {self.stuck[0]} cannot be completed any more: undo() takes the last message or step back."
        self._hints += 1
        if self._hints <= len(_HINTS):
            return _HINTS[self._hints - 1]
        move = self._next_move()
        return f"send({move[0]}, {move[1]}, {move[2]})" if move else "step() closes the step: all that can move moves."

    def _next_move(self):
        """Return a move that is allowed now: the ring's where its steps were followed, else any that loses nothing."""
        at = len(self._closed)
        ring = [[(m.src, m.dst, m.slots[0]) for m in step.messages] for step in self.plan.steps]
        n, chunks = self.plan.ranks, self.plan.chunks
        every = [(a, (a + k) % n, c) for k in range(1, n) for a in range(n) for c in range(chunks)]
        for move in [*(ring[at] if at < len(ring) else []), *every]:
            if self._refusal(*move)[0]:
                continue
            self._open.append(move)
            loses = self.stuck
            self._open.pop()
            if not loses:
                return move
        return None

    def _plan(self, with_open=False):
        """Return what has been played as a plan."""
        played = [*self._closed, tuple(self._open)] if with_open and self._open else self._closed
        steps, held = [], self.plan.held
        for moves in played:
            steps.append(Step(phase="your step", messages=tuple(self._message(held, *move) for move in moves)))
            held = apply(held, steps[-1].messages, OPS[self.plan.op])
        return replace(self.plan, algorithm="yours", steps=tuple(steps))

    def _message(self, held, src, dst, chunk):
        adds = not self.plan.finished(chunk, held[src][chunk])
        return Message(src=src, dst=dst, slots=(chunk,), into=(chunk,), adds=adds)

    def __repr__(self):
        head = ["", *(f"chunk {c}" for c in range(self.plan.chunks)), "sent"]
        rows = [head]
        for rank, (lane, sent) in enumerate(zip(self._plan(with_open=True).states[-1], self.sent)):
            rows.append([f"rank {rank}", *(self._cell(c, piece) for c, piece in enumerate(lane)), byte_text(sent)])
        wide = [max(len(row[k]) for row in rows) for k in range(len(head))]
        table = "\n".join("  ".join(words.ljust(w) for words, w in zip(row, wide)).rstrip() for row in rows)
        pending = f"\nin the open step: {', '.join(f'{c}: {a} → {b}' for a, b, c in self._open)}" if self._open else ""
        return f"{table}{pending}\n{self.score()}"

    def _cell(self, chunk, piece):
        whose = "✓" if self.plan.finished(chunk, piece) else "+".join(map(str, sorted(piece.parts)))
        return f"{' '.join(value_label(v) for v in piece.values)[:16]} ({whose})"


def _ranks(numbers):
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {join_words(map(str, numbers))}"


def _completable(parts, ranks):
    """Return whether some of these sets, no two with a rank in common, make up all ranks."""
    sets = set(parts)
    return any(
        sum(map(len, some)) == ranks == len(frozenset().union(*some))
        for k in range(1, ranks + 1)
        for some in combinations(sets, k)
    )


def figure(moves, **state):
    """Return the player of what has been played so far."""
    from labsupport.figures.collective_player import player_of  # a game in a terminal needs no widget

    return player_of(moves._plan(with_open=True), made_up=False, note="your own moves", **state)


def main():
    """Play in a terminal: "0 1 2" sends chunk 2 from rank 0 to rank 1; step, undo, hint, score, quit."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m labsupport.figures.moves", description=main.__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    try:
        moves = Moves(ranks=parser.parse_args().ranks)
    except LabError as error:
        return print(error)
    print(moves)
    while not (moves.done and not moves._open):
        try:
            words = input("src dst chunk | step | undo | hint | quit> ").split()
        except EOFError:
            break
        if words == ["quit"]:
            break
        try:
            print(_played(moves, words))
        except LabError as error:
            print(error)
    return print(moves.score())


def _played(moves, words):
    if len(words) == 3 and all(word.isdigit() for word in words):
        return moves.send(*map(int, words))
    if len(words) == 1 and words[0] in ("step", "undo", "hint", "score"):
        return getattr(moves, words[0])()
    return "Three numbers send a chunk: from rank, to rank, chunk. Or: step, undo, hint, score, quit."


if __name__ == "__main__":
    main()
