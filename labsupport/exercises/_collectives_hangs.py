"""Lesson 15: who waits for ever. The programs of the ranks are walked through with gloo's rules.

Gloo's `send` returns once the other rank receives, its `recv` once the other sends; `isend` and `irecv` return at
once. An `all_reduce` returns once every rank has called it. tests/test_exercises_collectives.py runs the same programs
on real ranks.
"""

from labsupport.course import Case, Drill, Exercise, Misconception, Probe

__all__ = ["WHO_HANGS", "walk"]

_DOC = "https://docs.pytorch.org/docs/2.13/distributed.html#point-to-point-communication, read 2026-11"


def walk(programs, *, sends_wait=True, collectives_wait=True):
    """Return the ranks that never reach the end of their program, as a tuple.

    Args:
        programs: one tuple of calls per rank: "send 1", "recv 1", "isend 1", "all_reduce", "sleep".
        sends_wait, collectives_wait: False plays a wrong belief.
    """
    at = [0] * len(programs)
    posted = [[] for _ in programs]  # what isend has under way: the receivers
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(programs):
            if at[rank] < len(program) and _goes_on(rank, programs, at, posted, sends_wait, collectives_wait):
                moved = True
    return tuple(rank for rank, program in enumerate(programs) if at[rank] < len(program))


def _goes_on(rank, programs, at, posted, sends_wait, collectives_wait):
    """Let a rank make its next call if nothing holds it back; returns whether it did, alone or with its partner."""
    call, *peer = programs[rank][at[rank]].split()
    if call == "isend" or (call == "send" and not sends_wait):
        posted[rank].append(int(peer[0]))
        at[rank] += 1
    elif call == "recv" and rank in posted[int(peer[0])]:
        posted[int(peer[0])].remove(rank)
        at[rank] += 1
    elif call in ("send", "recv"):
        other = int(peer[0])
        wanted = f"{'recv' if call == 'send' else 'send'} {rank}"
        if at[other] == len(programs[other]) or programs[other][at[other]] != wanted:
            return False
        at[rank] += 1
        at[other] += 1
    elif call == "all_reduce" and collectives_wait:
        here = [at[r] < len(p) and p[at[r]] == "all_reduce" for r, p in enumerate(programs)]
        if not all(here):
            return False
        at[:] = [place + 1 for place in at]
    else:
        at[rank] += 1
    return True


def _who(programs):
    return walk(programs)


def _mail_needs_no_receiver(programs):
    return walk(programs, sends_wait=False)


def _collectives_are_local(programs):
    return walk(programs, collectives_wait=False)


def _one_hangs_all_hang(programs):
    return tuple(range(len(programs))) if walk(programs) else ()


def _a_cycle_of_sends(programs):
    """Everybody whose first call is a blocking send, without asking whether the chain has an end."""
    first = [rank for rank, program in enumerate(programs) if program and program[0].startswith("send")]
    return tuple(range(len(programs))) if len(first) > 1 else walk(programs)


def _the_absent_hang(programs):
    """Those who did not call, instead of those who wait."""
    hanging = walk(programs)
    return tuple(rank for rank in range(len(programs)) if rank not in hanging) if hanging else ()


def _backwards(programs):
    return walk(programs)[::-1]


_BOTH_SEND = (("send 1", "recv 1"), ("send 0", "recv 0"))
_IN_TURN = (("send 1", "recv 1"), ("recv 0", "send 0"))
_ONE_REDUCES = (("all_reduce", "sleep"), ("sleep",))
_CHAIN = (("send 1", "recv 2"), ("send 2", "recv 0"), ("recv 1", "send 0"))
_STARTED_FIRST = (("isend 1", "recv 2"), ("isend 2", "recv 0"), ("isend 0", "recv 1"))
_SKIPPED = (("all_reduce", "send 1"), ("all_reduce", "recv 0"), ("sleep",))


def _pair(rng):
    """Return an exchange between two ranks: a send and a receive each, in random order, sometimes not waited for."""
    calls = [["send 1", "recv 1"], ["send 0", "recv 0"]]
    for program in calls:
        if rng.integers(2):
            program.reverse()
        if not rng.integers(3):
            program[:] = [call.replace("send", "isend") for call in program]
    return calls


def _draw_programs(rng):
    if rng.integers(2):
        return (tuple(tuple(calls) for calls in _with_a_collective(rng, _pair(rng))),)
    ring = []
    for rank in range(3):
        calls = [f"send {(rank + 1) % 3}", f"recv {(rank - 1) % 3}"]
        if rng.integers(2):
            calls.reverse()
        ring.append(calls)
    return (tuple(tuple(calls) for calls in _with_a_collective(rng, ring)),)


def _with_a_collective(rng, programs):
    """Put an all_reduce into every program, at the front or at the end; now and then one rank leaves it out."""
    where = int(rng.integers(3))
    if where == 2:
        return programs
    for program in programs:
        program.insert(0 if where == 0 else len(program), "all_reduce")
    if not rng.integers(2):
        programs[int(rng.integers(len(programs)))].remove("all_reduce")
    return programs


def _ask(programs):
    lines = "\n".join(f"rank {rank}: {', then '.join(program)}" for rank, program in enumerate(programs))
    return (
        f"```\n{lines}\n```\nWhich ranks never get to the end? Write a tuple in increasing order: `(0,)` for rank 0 "
        "alone, `()` for none. "
        "A rank that is done stays alive."
    )


WHO_HANGS = Exercise(
    id="collectives/who-hangs",
    kind="prediction",
    task="Say of each program which ranks never come to its end, as a tuple in increasing order: (0,) for rank 0 "
    "alone, () when all do.",
    names=("both_send", "in_turn", "one_reduces", "chain", "started_first", "skipped"),
    reference=_who,
    cases=(
        Case("0: send 1, recv 1; 1: send 0, recv 0", lambda rng: (_BOTH_SEND,)),
        Case("0: send 1, recv 1; 1: recv 0, send 0", lambda rng: (_IN_TURN,)),
        Case("0: all_reduce, sleep; 1: sleep", lambda rng: (_ONE_REDUCES,)),
        Case("0: send 1, recv 2; 1: send 2, recv 0; 2: recv 1, send 0", lambda rng: (_CHAIN,)),
        Case("each of 3: isend to the right, recv from the left", lambda rng: (_STARTED_FIRST,)),
        Case("0: all_reduce, send 1; 1: all_reduce, recv 0; 2: sleep", lambda rng: (_SKIPPED,)),
    ),
    probe=Probe("literal"),
    drill=Drill(_draw_programs, _ask),
    misconceptions=(
        Misconception(
            id="sends-like-mail",
            specimen=_mail_needs_no_receiver,
            says="You let a send return before anybody receives, like a letter put into a box. Gloo's `send` waits "
            "until the other rank is in its `recv`.",
            next="Stand in both first lines at once: who can take the next step?",
        ),
        Misconception(
            id="collectives-are-local",
            specimen=_collectives_are_local,
            says="You let a rank finish a collective that another rank never calls. It waits for all ranks of "
            "the group.",
            next="Count the ranks that call it.",
        ),
        Misconception(
            id="two-sends-are-a-deadlock",
            specimen=_a_cycle_of_sends,
            says="Two ranks that begin with a send are no deadlock yet. Somebody at the end of the chain receives, and "
            "frees the one before it.",
            next="Which rank is in `recv` at the start, and who goes on after it?",
        ),
        Misconception(
            id="all-or-none",
            specimen=_one_hangs_all_hang,
            says="You let every rank hang as soon as one does. A rank that waits for nobody reaches its end, and its "
            "log looks perfectly well.",
            next="Take each rank alone: which of its calls does not return?",
        ),
        Misconception(
            id="blames-the-wrong-rank",
            specimen=_the_absent_hang,
            says="You name the ranks that get through. They may be the cause, but those who never come to the end are "
            "the ones who wait.",
            next="Who stands in a call that does not return?",
        ),
        Misconception(
            id="in-another-order",
            specimen=_backwards,
            says="Those are the ranks that hang, in another order than the one asked for.",
            next="Write the same ranks in increasing order.",
        ),
    ),
    hints=(
        "A step is possible when a send meets its recv, when an isend is under way, or when all stand in all_reduce.",
        "Write the current line of each rank side by side, cross out what can be done, and go on until nothing can.",
    ),
    core=True,
    level=3,
    minutes=6,
    source=_DOC,
)
