"""Lesson 16: the logs of five broken jobs, and what they say.

The lines were printed by torchrun (torch 2.13, gloo, two ranks) for five small broken programs, and are shortened;
`tests/test_ddp_logs.py` runs such programs again and looks for the lines that matter.
"""

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["DIAGNOSE", "LOGS", "SIGNS", "fault"]

LOGS = {
    "log_a": """rank 1: epoch done
[rank0]: RuntimeError: [...] Connection closed by peer [127.0.0.1]:23943. [...]
failed (exitcode: 1) local_rank: 0""",
    "log_b": """[rank0]: RuntimeError: [...] Connection closed by peer [127.0.0.1]:52104. [...]
Sending process 28248 closing signal SIGTERM
failed (exitcode: -9) local_rank: 1""",
    "log_c": """[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'model.pt'
Sending process 28720 closing signal SIGTERM
failed (exitcode: 1) local_rank: 1""",
    "log_d": """[rank0]: Missing key(s) in state_dict: "weight", "bias".
[rank0]: Unexpected key(s) in state_dict: "module.weight", "module.bias".
failed (exitcode: 1) local_rank: 0""",
    "log_e": """[rank1]: RuntimeError: Expected to have finished reduction in the prior iteration before starting [...]
[rank1]: Parameter indices which did not receive grad for rank 1: 2 3
failed (exitcode: 1) local_rank: 1""",
}  # fmt: skip

# What gives a fault away, the strongest sign first: how a process ended, what a rank said, what is missing.
SIGNS = (
    ("exitcode: -9", "killed"),
    ("did not receive grad", "unused"),
    ("module.weight", "prefix"),
    ("No such file", "early"),
    ("epoch done", "uneven"),
)


def fault(log):
    """Return the fault a log gives away."""
    return next(word for sign, word in SIGNS if sign in log)


def _blames_the_connection(log):
    return "network" if "Connection closed" in log else fault(log)


def _any_closed_connection_is_a_death(log):
    return "killed" if "Connection closed" in log else fault(log)


def _every_victim_is_uneven(log):
    return "uneven" if "Connection closed" in log else fault(log)


def _a_file_is_a_name(log):
    return "prefix" if "No such file" in log else fault(log)


def _keys_are_unused(log):
    return "unused" if "Missing key" in log else fault(log)


def _unfinished_is_uneven(log):
    return "uneven" if "finished reduction" in log else fault(log)


DIAGNOSE = Exercise(
    id="ddp/diagnose",
    kind="prediction",
    task="Read the logs of five broken jobs and name the fault of each: uneven batches (`uneven`), a process that was "
    "killed (`killed`), a parameter without gradient (`unused`), the wrapper's names (`prefix`), a file read too early "
    "(`early`), or a broken network (`network`).",
    names=tuple(LOGS),
    probe=Probe("literal"),
    reference=fault,
    cases=tuple(Case(name.replace("_", " "), lambda rng, log=log: (log,)) for name, log in LOGS.items()),
    misconceptions=(
        Misconception(
            id="blames-the-connection",
            specimen=_blames_the_connection,
            says="The rank that complains about a connection is the one that was left alone. The network is seldom at "
            "fault on one machine.",
            next="Look at the *other* rank: what did it print, and how did it end?",
        ),
        Misconception(
            id="a-death-behind-every-connection",
            specimen=_any_closed_connection_is_a_death,
            says="A connection also closes when the other rank simply ends. Here it said that it was done, and no "
            "exit code speaks of a signal.",
            next="Ask why one rank was done before the other.",
        ),
        Misconception(
            id="uneven-behind-every-connection",
            specimen=_every_victim_is_uneven,
            says="The other rank did not finish early: the last line tells how it ended. An exit code below zero is "
            "a signal's number.",
            next="Which signal is 9, and who sends it when memory runs out?",
        ),
        Misconception(
            id="a-file-is-a-name",
            specimen=_a_file_is_a_name,
            says="It is the file that is not there, not a key in it.",
            next="One rank writes it. What makes the other one wait?",
        ),
        Misconception(
            id="keys-are-unused",
            specimen=_keys_are_unused,
            says="Missing keys speak of a checkpoint, not of gradients. Compare the two lists: they differ by one "
            "word.",
            next="Who puts that word in front of every name?",
        ),
        Misconception(
            id="unfinished-is-uneven",
            specimen=_unfinished_is_uneven,
            says="The same rank began a new iteration while its last reduction was open: it waits for gradients, not "
            "for another rank's batches.",
            next="The log names the parameters.",
        ),
    ),
    hints=(
        "Whoever complains about a connection is a victim. Look for the rank that ended first, and how.",
        "An exit code below zero is a signal: -9 is SIGKILL, which the system sends when memory runs out.",
    ),
    core=False,
    level=3,
    minutes=6,
    source="torchrun of torch 2.13.0 on gloo, run 2026-11; tests/test_ddp_logs.py runs the jobs again",
)
