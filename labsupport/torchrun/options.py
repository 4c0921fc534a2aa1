"""The words after `%%torchrun`: the magic's own flags, torchrun's own, and what the cell's program gets.

torchrun's flags are read from its source without importing torch, so that a typing mistake is answered at once; what
they mean is left to torchrun's own parser.
"""

import ast
import difflib
import functools
import importlib.util
import math
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from labsupport.errors import UsageError

__all__ = ["OWN", "Options", "help_text", "parse", "torchrun_flags"]

# The magic's own flags: what stands for the value (None: there is none), and what it does.
OWN = {
    "--nproc": ("N", "ranks on each node: exactly torchrun's --nproc-per-node"),
    "--cold": (None, "start a fresh torchrun process instead of the prepared one: slower, nothing shared"),
    "--show": (None, "show the equal shell command; nothing runs"),
    "--save": ("FILE", "write the cell as a script, then run it"),
    "--return": ("NAMES", "names set in the cell to bring back: losses (of rank 0), loss@all, shard@3"),
    "--push": ("NAMES", "names of this notebook to hand to every rank"),
    "--kill": ("WHAT", "kill a rank or node on purpose: rank=2@step=12, node=1"),
    "--trace": (None, "profile every rank and show one chart; --trace=FILE.json keeps the profiles"),
    "--env": ("NAME=VALUE", "an environment variable of every rank"),
    "--timeout": ("SECONDS", "how long a collective may wait before it fails"),
    "--may-fail": (None, "a failure is shown, and the notebook goes on"),
    "--stop-when-stuck": (None, "end the job once it is certain that its ranks wait for each other for ever"),
    "--keep": (None, "keep the job's folder with the whole output of every rank"),
    "--help": (None, "show this"),
}
_MANY = ("--return", "--push", "--kill", "--env")  # may be given more than once
# Flags of torchrun that choose another program than the cell.
_OTHER_PROGRAM = ("--module", "-m", "--no-python", "--run-path", "--use-env")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The words of one `%%torchrun` line, sorted. `flags` are torchrun's own, spelled with hyphens."""

    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()  # of the cell's program
    cold: bool = False
    show: bool = False
    save: str | None = None
    returns: tuple[str, ...] = ()
    push: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
    trace: bool = False
    trace_file: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    timeout_s: float | None = None
    may_fail: bool = False
    stop_when_stuck: bool = False
    keep: bool = False
    help: bool = False

    def flag(self, name, default=None):
        """Return the value of one of torchrun's flags as written ("4"), or a default."""
        for i, word in enumerate(self.flags):
            if word == name:
                return self.flags[i + 1] if i + 1 < len(self.flags) else default
        return default


def parse(line):
    """Return the `Options` of the words after `%%torchrun`.

    Raises:
        UsageError: a flag that neither the magic nor torchrun has, one without its value, a value that is none.
    """
    words = _split(line)
    own, flags, arguments, i = {}, [], (), 0
    while i < len(words):
        word, i = words[i], i + 1
        if word == "--":
            arguments = tuple(words[i:])
            break
        name, equals, value = word.partition("=")
        name, takes = _find(name, word)
        if takes and not equals:
            if i == len(words) or words[i] == "--":
                raise UsageError(f"{name} needs a value", next_step=f"write {name} {takes}")
            value, i = words[i], i + 1
        elif name == "--trace" and value:
            _note(own, "--trace-file", value)
        elif equals and not takes:
            raise UsageError(f"{name} takes no value, got {value!r}", next_step=f"write {name} alone")
        if name in OWN and name != "--nproc":
            _note(own, name, value if takes else True)
        else:
            flags += ["--nproc-per-node" if name == "--nproc" else name, *([value] if takes else [])]
    return Options(flags=tuple(flags), arguments=arguments, **_checked(own))


def _split(line):
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    if os.name == "nt":
        lexer.escape = ""  # a backslash belongs to a path
    try:
        return list(lexer)
    except ValueError:
        raise UsageError(
            "the %%torchrun line cannot be read",
            why="a quotation mark is opened and not closed",
            next_step="close it, or put a backslash before it",
        ) from None


def _find(name, word):
    """Return (a flag's full name, what stands for its value or None)."""
    if name in OWN:
        return name, OWN[name][0]
    known = torchrun_flags()
    if name == "-h":
        return "--help", None
    name = _abbreviated(name, known) or name
    if name in known:
        full = _hyphens(name)
        if full in _OTHER_PROGRAM:
            raise UsageError(
                f"{name} cannot be used here",
                why="it chooses the program to run, and that is the cell",
                next_step="put the program's code into the cell, or run torchrun in a terminal",
            )
        return full, known[name]
    if re.match(r"-[a-z]\w+$", name) and known.get(name[:2]):  # -r3
        raise UsageError(f"{word} cannot be read", next_step=f"write {name[:2]} {name[2:]}")
    raise _unknown(name, word, known)


def _abbreviated(name, known):
    """Return the one flag of torchrun that `name` begins, when torchrun itself would take it for that; else None."""
    starts = [full for full in (*OWN, *known) if full.startswith(name)] if name.startswith("--") else []
    return starts[0] if len(starts) == 1 and len(name) > 2 and starts[0] not in OWN else None


def _hyphens(name):
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def _unknown(name, word, known):
    if not name.startswith("-"):
        return UsageError(
            f"{word!r} is not a flag",
            why="the cell is the program, so no script is named",
            next_step=f"arguments for the cell's program follow two hyphens: -- {word}",
        )
    spellings = [*OWN, *known]
    starts = [full for full in spellings if full.startswith(_hyphens(name)) or full.startswith(name)]
    meant = list(dict.fromkeys(_hyphens(full) for full in starts)) if len(name) > 2 else []
    if meant:
        theirs = [full for full in starts if full in known]
        why = f"torchrun itself calls this ambiguous: {', '.join(theirs)}" if len(theirs) > 1 else None
        return UsageError(f"{name} is not spelled out", why=why, next_step=f"write {_either(meant)}")
    plain = {_hyphens(full).lstrip("-"): _hyphens(full) for full in spellings}  # hyphens alone are no likeness
    near = [plain[word] for word in difflib.get_close_matches(_hyphens(name).lstrip("-"), plain, n=3, cutoff=0.7)]
    step = f"write {_either(near)}" if near else "%%torchrun --help lists the flags"
    return UsageError(f"neither %%torchrun nor torchrun has a flag {name}", next_step=step)


def _either(names):
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _note(own, name, value):
    if name in _MANY:
        own.setdefault(name, []).append(value)
    elif name in own and own[name] != value:
        raise UsageError(f"{name} is given twice: {own[name]} and {value}", next_step="keep one of them")
    else:
        own[name] = value


def _checked(own):
    given = {name[2:].replace("-", "_"): value for name, value in own.items()}
    if "return" in given:
        from labsupport.torchrun.values import parse_returns

        given["returns"] = tuple(map(str, parse_returns(given.pop("return"))))
    if "push" in given:
        from labsupport.torchrun.pushing import parse_pushes

        given["push"] = parse_pushes(given["push"])
    if "kill" in given:
        from labsupport.torchrun.killing import parse as parse_kill

        given["kills"] = tuple(map(str, map(parse_kill, given.pop("kill"))))
    if "env" in given:
        given["env"] = tuple(_variable(text) for text in given["env"])
    if "timeout" in given:
        given["timeout_s"] = _seconds(given.pop("timeout"))
    return given


def _variable(text):
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(f"--env takes NAME=VALUE, got {text!r}", next_step="for example --env TORCH_LOGS=ddp_graphs")
    return name, value


def _seconds(text):
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"--timeout takes seconds above 0, got {text!r}", next_step="for example --timeout 30")
    return seconds


# -- torchrun's own flags ------------------------------------------------------------------------------------------


@functools.cache
def torchrun_flags():
    """Return {flag as torchrun spells it: what stands for its value, or None}, without importing torch.

    Raises:
        UsageError: torch is not installed in this kernel's environment.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        raise UsageError(
            "torchrun is not installed here", why="this kernel has no torch", next_step="install torch, then run again"
        )
    source = Path(spec.origin).with_name("distributed") / "run.py"
    try:
        return _flags_in(source.read_text(encoding="utf-8")) or dict(_USUAL)
    except (OSError, SyntaxError):
        return dict(_USUAL)


def _flags_in(text):
    found = {"-h": None}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")]
            action = next((k.value for k in node.keywords if k.arg == "action"), None)
            word = getattr(action, "id", None) or getattr(action, "value", None) or "store"
            takes = None if word in ("check_env", "store_true", "store_false", "help", "version") else "VALUE"
            found.update(dict.fromkeys(names, takes))
    return found if len(found) > 1 else {}


# Only if torchrun's source cannot be read: the flags of torch 2.13 that a notebook needs.
_USUAL = {
    spelling: takes
    for names, takes in (
        ("nnodes nproc-per-node max-restarts rdzv-backend rdzv-endpoint rdzv-conf rdzv-id node-rank", "VALUE"),
        ("master-addr master-port local-addr role monitor-interval shutdown-timeout", "VALUE"),
        ("standalone", None),
    )
    for name in names.split()
    for spelling in (f"--{name}", f"--{name.replace('-', '_')}")
}


def help_text():
    """Return the magic's own flags, one per line."""
    rows = [(f"{name} {takes}" if takes else name, does) for name, (takes, does) in OWN.items()]
    width = max(len(flag) for flag, _ in rows)
    lines = ["%%torchrun [flags] [-- arguments of the cell's program]", ""]
    lines += [f"  {flag:<{width}}  {does}" for flag, does in rows]
    lines += ["", "All other flags are torchrun's own:"]
    others = sorted({_hyphens(name) for name in torchrun_flags()} - set(OWN) - set(_OTHER_PROGRAM) - {"-h"})
    return "\n".join([*lines, *(f"  {name}" for name in others)])
