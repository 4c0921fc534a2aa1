"""kill -9 at every single write of start, update and reset: the old state or the new one, and nothing lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from killing import ANSWER

from labsupport.reading import load

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL, which Windows lacks"),
]


@pytest.fixture(scope="module", params=["start", "update", "update-without-record", "reset"])
def scenes(request, tmp_path_factory):
    """Return (scenario, folder, number of kills) after all kills of one scenario."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    command = [sys.executable, str(HERE / "killing.py"), str(tmp_path), request.param]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return request.param, tmp_path, int(done.stdout)


def read(path):
    return path.read_bytes() if path.exists() else None


def test_a_kill_at_any_write_leaves_the_old_state_or_the_new_one(scenes):
    scenario, root, kills = scenes
    names = ["05_demo.ipynb", "home.ipynb", ".lab/base/05_demo.ipynb", ".lab/base/home.ipynb"]
    old = {name: read(root / "template" / name) for name in names}
    new = {name: read(root / f"again-{kills + 1}" / name) for name in names}
    assert kills >= 10 and old["05_demo.ipynb"] != new["05_demo.ipynb"]
    seen = set()
    for number in range(1, kills + 1):
        folder = root / f"killed-{number}"
        for name in names:
            now = read(folder / name)
            assert now in (old[name], new[name]), (number, name)
            if now is not None:
                load(folder / name)
        changed = read(folder / "05_demo.ipynb") == new["05_demo.ipynb"]
        seen.add(changed)
        if changed and scenario != "start":
            kept = [file.read_bytes() for file in (folder / ".lab/backups").glob("05_demo.2*.ipynb")]
            assert old["05_demo.ipynb"] in kept, number
    assert seen == {False, True}


def test_the_learners_cells_are_there_after_any_kill(scenes):
    scenario, root, kills = scenes
    if scenario == "start":  # nothing of the learner's exists before the first start
        assert list((root / "template").iterdir()) == []
        return
    for number in range(1, kills + 1):
        folder = root / f"killed-{number}"
        texts = [cell["source"] for cell in load(folder / "05_demo.ipynb")["cells"]]
        assert "An added cell." in texts and any("A note of the learner." in text for text in texts)
        everywhere = [*folder.glob("*.ipynb"), *folder.glob(".lab/backups/*.ipynb")]
        assert any(ANSWER in (cell["source"] for cell in load(path)["cells"]) for path in everywhere), number


def test_repeating_the_command_after_any_kill_completes_it(scenes):
    _, root, kills = scenes
    wanted = {name: read(root / f"again-{kills + 1}" / name) for name in ("05_demo.ipynb", "home.ipynb")}
    for number in range(1, kills + 1):
        folder = root / f"again-{number}"
        assert {name: read(folder / name) for name in wanted} == wanted, number
        left = [path.name for path in folder.rglob("*.lab-tmp")]
        assert left == [], number
