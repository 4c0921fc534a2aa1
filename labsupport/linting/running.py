"""What the cells of a lesson print when it is run as shipped, remembered until the lesson changes."""

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
from importlib import metadata

from labsupport import building
from labsupport.linting.lesson import Problem
from labsupport.places import NOTEBOOKS, ROOT

__all__ = ["printed", "remembered", "text_of"]

_CACHE = ROOT / "build" / "lint"
_HANG_GUARD_S = 300


def remembered(notebook):
    """Return what an earlier run of this very notebook printed, per cell, or None."""
    with contextlib.suppress(OSError, ValueError):
        outputs = json.loads((_CACHE / f"{_key(notebook)}.json").read_text(encoding="utf-8"))
        if len(outputs) == len(notebook["cells"]):
            return outputs
    return None


def printed(notebook, text):
    """Return (what each cell prints, the problem that stopped the run or None).

    The run sees an empty workspace, so that nobody's journal hears of it.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    running = nbformat.reads(building.dump(notebook), as_version=4)
    where = {"metadata": {"path": str(NOTEBOOKS)}}
    with tempfile.TemporaryDirectory() as folder, _environment(LAB_WORK=folder):
        client = NotebookClient(running, timeout=_HANG_GUARD_S, kernel_name="python3", resources=where)
        client.extra_arguments = ["--IPKernelApp.log_level=50"]  # its remarks on transport are nobody's news here
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return None, _stopped(running, text, error)
    outputs = [text_of(cell.get("outputs", [])) for cell in running.cells]
    with contextlib.suppress(OSError):  # a read-only checkout is linted as well, only slower
        _CACHE.mkdir(parents=True, exist_ok=True)
        (_CACHE / f"{_key(notebook)}.json").write_text(json.dumps(outputs), encoding="utf-8")
    return outputs, None


def _stopped(running, text, error):
    failed = [n for n, cell in enumerate(running.cells) if cell.cell_type == "code" and cell.execution_count]
    index = failed[-1] if failed else 0
    last = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    why = "a lesson runs from top to bottom as it is shipped"
    return Problem(
        "runs", text.cells[index].line, f"the lesson stops here: {last[:120]}", why, "run it in JupyterLab", index
    )


def text_of(outputs):
    """Return what a cell's outputs say as text; of a page the words, not the markup."""
    texts = []
    for output in outputs:
        data = output.get("data", {})
        # In files texts are lists of lines, in memory one text.
        texts.append("".join(output.get("text", "") or data.get("text/plain", "")))
        page = re.sub(r"<(style|script)\b.*?</\1>", " ", "".join(data.get("text/html", "")), flags=re.DOTALL)
        texts.append(re.sub(r"<[^>]+>", " ", page))
    return "\n".join(texts)


def _key(notebook):
    numpy = metadata.version("numpy")
    about = f"{sys.version_info[:2]} {numpy}\n{building.dump(notebook)}"
    return hashlib.sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@contextlib.contextmanager
def _environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
