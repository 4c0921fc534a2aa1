"""The cell as a program that runs without a notebook: the shell command that is equal to it, and the file for it."""

import hashlib
import os
import re
import shlex
from pathlib import Path

from labsupport.errors import LabError
from labsupport.torchrun.options import OWN

__all__ = ["as_script", "save", "shell_command", "unsaved_flags"]

_MARK = re.compile(r"\n# written by %%torchrun --save, sha256 of the lines above: ([0-9a-f]{64})\n\Z")
# What has a meaning only where the magic watches the job, so that no shell command can say it.
_ONLY_HERE = ("returns", "push", "kills", "trace", "keep", "may_fail", "stop_when_stuck")


def as_script(line, body):
    """Return the cell's program: its first line is the magic's as a comment, so that line numbers are the cell's."""
    head = f"# %%torchrun {line}".rstrip()
    return f"{head}\n{body if body.endswith(chr(10)) else body + chr(10)}"


def save(path, script):
    """Write a script and return where it is; a file of that name which this function did not write is left alone.

    Raises:
        LabError: there is such a file, or it cannot be written.
    """
    path = Path(path).expanduser()
    try:
        if path.exists() and not _is_ours(path.read_bytes()):
            raise LabError(
                f"{path} was not written by %%torchrun --save, or was changed since",
                why="what is in it would be lost",
                next_step="choose another name, or move that file away",
            )
        _write(path, f"{script}\n# written by %%torchrun --save, sha256 of the lines above: {_digest(script)}\n")
    except OSError as error:
        raise LabError(f"the script cannot be written to {path}", why=error.strerror or str(error)) from None
    return path


def _is_ours(raw):
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    mark = _MARK.search(text)
    return mark is not None and _digest(text[: mark.start()]) == mark[1]


def _digest(script):
    return hashlib.sha256(script.encode()).hexdigest()


def _write(path, text):
    """Write all of it or nothing: a script half written over the last one would be lost work."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def shell_command(options, path="train.py"):
    """Return the shell command, one line per node, that does with real torchrun what the cell does.

    Args:
        options: the cell's `Options`.
        path: the script's file name.
    """
    nodes = _nodes(options.flag("--nnodes"))
    flags = list(options.flags)
    if "--rdzv-endpoint" not in flags and "--master-addr" not in flags and "--standalone" not in flags:
        if nodes == 1 and "--nnodes" not in flags:
            flags.insert(0, "--standalone")  # a free port; torchrun's default is 29500 for everyone
        else:
            flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:29500", *_local(flags), *flags]
    words = ["torchrun", *flags, str(path), *options.arguments]
    variables = [f"{name}={shlex.quote(value)}" for name, value in _environment(options)]
    line = " ".join([*variables, *map(shlex.quote, words)])
    return "\n".join([f"{line} &"] * (nodes - 1) + [line])


def _local(flags):
    return [] if "--local-addr" in flags else ["--local-addr", "127.0.0.1"]


def _nodes(text):
    """Return how many nodes `--nnodes` ("2", "1:2") starts with."""
    last = (text or "1").split(":")[-1]
    return int(last) if last.isdecimal() and 1 <= int(last) <= 64 else 1


def _environment(options):
    """Return the variables that the command needs: the cell's own, and what restarts with gloo ask for."""
    variables = dict(options.env)
    restarts = options.flag("--max-restarts", "0") != "0" or ":" in (options.flag("--nnodes") or "")
    if restarts:
        variables.setdefault("TORCH_GLOO_LAZY_INIT", "1")  # else new ranks look for the addresses of the old ones
    return variables.items()


def unsaved_flags(options):
    """Return those of the magic's flags that were given and have no counterpart in a shell."""
    names = {"returns": "return", "kills": "kill"}
    given = [names.get(field, field).replace("_", "-") for field in _ONLY_HERE if getattr(options, field)]
    if options.timeout_s is not None:
        given.append("timeout")
    return [f"--{name}" for name in given if f"--{name}" in OWN]
