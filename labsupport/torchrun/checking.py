"""What a line and a cell cannot mean for so many ranks, said before any of them starts; and what will do nothing."""

import warnings

from labsupport.errors import UsageError

__all__ = ["asked_world", "check_numbers", "check_syntax", "idle_words"]

# Read when an interpreter or its libraries start, which for a forked rank was when the helper did.
_READ_AT_START = (
    "PYTHONPATH", "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONSTARTUP", "PYTHONDEVMODE", "PYTHONUTF8",
    "PYTHONMALLOC", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME",
    "LD_PRELOAD", "LD_LIBRARY_PATH", "TORCH_CPP_LOG_LEVEL",
)  # fmt: skip


def asked_world(options):
    """Return (ranks, nodes) that a line asks for at most, or None where only torchrun can tell."""
    nodes, ranks = options.flag("--nnodes", "1").split(":")[-1], options.flag("--nproc-per-node", "1")
    if not (nodes.isdecimal() and ranks.isdecimal()):
        return None
    return int(nodes) * int(ranks), int(nodes)


def check_numbers(options, world, nodes=1):
    """Raise UsageError when a flag names a rank or a node that there will not be, or a number that is none.

    Args:
        options: of the line.
        world, nodes: how many ranks and nodes there will be.
    """
    restarts = options.flag("--max-restarts")
    if restarts is not None and restarts[:1] == "-":
        raise UsageError(f"--max-restarts {restarts} is below 0", next_step="0 is no restart, 1 is one")
    for text in options.returns:
        name, _, rank = text.partition("@")
        if rank.isdecimal() and int(rank) >= world:
            step = f"write --return {name}@{world - 1} or --return {name}@all"
            raise UsageError(f"--return {text}: there is no rank {rank}", why=_those("rank", world), next_step=step)
    for text in options.kills:
        kind, _, number = text.partition("@")[0].partition("=")
        count = world if kind == "rank" else nodes
        if int(number) >= count:
            step = f"write --kill {kind}={count - 1}"
            raise UsageError(f"--kill {text}: there is no {kind} {number}", why=_those(kind, count), next_step=step)


def _those(kind, count):
    return f"the only {kind} is 0" if count == 1 else f"{kind}s are 0 to {count - 1}"


def check_syntax(program):
    """Raise UsageError for a cell that is no Python, before four ranks say so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(program, "cell.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        lineno, text = getattr(error, "lineno", None), (getattr(error, "text", "") or "").strip()
        own = text.startswith(("%", "!"))
        raise UsageError(
            f"line {lineno} is not Python: {getattr(error, 'msg', error)}" if lineno else f"not Python: {error}",
            why=f"`{text}`" if text else None,
            next_step="lines that begin with % or ! are the notebook's: put them in a cell of their own"
            if own
            else None,
        ) from None


def idle_words(options):
    """Return sentences on what a line asks for and forked ranks do not take; none with --cold."""
    if options.cold:
        return []
    names = [name for name, _ in options.env if name in _READ_AT_START]
    told = []
    if names:
        these = (
            "is read when a process starts, and these ranks are"
            if len(names) == 1
            else ("are read when a process starts, and these ranks are")
        )
        told.append(f"--env {', '.join(names)} {these} forked from one that runs: it needs --cold")
    if "--local-ranks-filter" in options.flags:
        told.append("--local-ranks-filter does nothing here: it needs --cold")
    return told
