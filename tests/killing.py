"""Run one operation on a copy again and again, each time killed one write later; leaves a folder for every kill.

    python tests/killing.py ROOT SCENARIO

Below ROOT: `template/` is the workspace before, `killed-N/` the workspace after the kill at write N, `again-N/` the
same after repeating the operation undisturbed. Prints the number of kills.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import little_course

from labsupport import workspace
from labsupport.reading import load

ANSWER = "# exercise: demo/double-up\ndef double_up(x):\n    return x + x  # the learner's"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}


def operations():
    def start():
        workspace.start_all()

    def update():
        workspace.update()

    def reset():
        workspace.reset("demo/double-up")

    return {"start": start, "update": update, "update-without-record": update, "reset": reset}


def prepare(root, scenario):
    """Make the course in its second release and a workspace from its first, with an answer and a cell of its own."""
    template = root / "template"
    little_course.use(root / "course")
    little_course.release(root / "course")
    os.environ["LAB_WORK"] = str(template)
    if scenario == "start":
        template.mkdir()
        return template
    path = workspace.start_all()[0]
    notebook = load(path)
    cells = notebook["cells"]
    next(cell for cell in cells if cell["id"] == "ex-demo-double-up")["source"] = ANSWER
    cells[0]["source"] += "\nA note of the learner."
    cells.insert(2, {"cell_type": "markdown", "id": "note", "metadata": {}, "source": "An added cell."})
    path.write_text(json.dumps(notebook), encoding="utf-8")
    if scenario == "update-without-record":
        (template / ".lab/base/05_demo.ipynb").unlink()
    little_course.release(root / "course", little_course.SECOND_RELEASE)
    return template


def arm(number):
    """Kill this process at its `number`-th change to the file system; a write may end half-way."""
    count = 0

    def tick():
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event, args):
        if event in _EVENTS or (event == "open" and isinstance(args[2], int) and args[2] & _WRITING):
            tick()

    write = os.write

    def torn(descriptor, data):
        tick()
        half = write(descriptor, data[: max(1, len(data) // 2)])
        tick()
        return half + write(descriptor, data[half:])

    os.write = torn
    os.fsync = lambda descriptor: tick()
    sys.addaudithook(hook)


def run(folder, operation, number=None):
    """Return the wait status of a child that does the operation on `folder`, killed at write `number`."""
    child = os.fork()
    if child == 0:
        os.environ["LAB_WORK"] = str(folder)
        os.fsync = lambda descriptor: None  # nobody pulls the plug of this disk
        if number is not None:
            arm(number)
        operation()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def main(root, scenario):
    template = prepare(root, scenario)
    operation = operations()[scenario]
    number = 0
    while True:
        number += 1
        killed, again = root / f"killed-{number}", root / f"again-{number}"
        shutil.copytree(template, killed)
        status = run(killed, operation, number)
        shutil.copytree(killed, again)
        if run(again, operation) != 0:
            sys.exit(f"after the kill at write {number} the operation could not be repeated")
        if status == 0:
            break
        if not os.WIFSIGNALED(status):
            sys.exit(f"write {number} ended with status {status}")
    print(number - 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
