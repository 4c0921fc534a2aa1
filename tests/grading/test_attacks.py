"""Every notebook of `attacks/` in both tiers: no false pass, no lost neighbour, nothing left, nothing leaked."""

import os
import sys
import time
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("cages need Linux", allow_module_level=True)

from attacks import ATTACKS, KNOWN
from attacks.world import OneSeed, Small, World, notebook, short_exercises

from labsupport import catalog
from labsupport.grading.allowance import LIBRARIES
from labsupport.grading.engine import Secret, grade_submission
from labsupport.grading.intake import read_submission
from labsupport.grading.runner import GradingImpossible, Runner

pytestmark = pytest.mark.slow  # each takes a moment, all together two minutes

_MB = 1 << 20
_GONE_WITHIN_S = 2.0  # a guard; closing a child waits for its processes by itself


@pytest.fixture(scope="module")
def world():
    with World.made() as made:
        yield made


@pytest.fixture(scope="module", params=["A", "B"])
def runner(request, world):
    try:
        started = Runner(request.param, allow_fenced=True).__enter__()
    except GradingImpossible as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"tier {request.param}: {error.why}")
    with started.child(LIBRARIES):  # what children with libraries are forked from stays until the runner is closed
        pass
    yield started
    started.close()


@pytest.fixture
def short_limits(monkeypatch):
    """Let what hangs or fills hang and fill for less than a second."""

    def shorten():
        real = catalog.exercises
        monkeypatch.setattr(catalog, "exercises", lambda slug=None: short_exercises(real(slug)))
        monkeypatch.setattr("labsupport.grading.programs.LOAD_S", 0.5)
        monkeypatch.setattr("labsupport.grading.programs._SPARE_S", 0.3)
        monkeypatch.setattr("labsupport.grading.outside._SPARE_S", 0.3)

    return shorten


def graded(attack, runner, world, tmp_path):
    """Return {exercise id: row} of an attack's notebook, once the host is seen to be as it was."""
    slug = next(iter(attack.cells)).split("/")[0].replace("-", "_")
    lesson = catalog.find_lesson(slug)
    path = tmp_path / "mallory" / lesson.notebook
    path.parent.mkdir()
    path.write_text(notebook(attack, catalog.exercises(slug), world), encoding="utf-8")
    # References are observed beside an answer that steals; for the others, once for all is enough.
    secret = Secret(os.urandom(32)) if attack.kind == "stealing" else OneSeed(b"of the tests " * 2)
    before = world.processes(), set((world.folder / "temporary").iterdir())
    with MemoryGrowth() as growth:
        result = grade_submission(read_submission(path), runner=Small(runner), secret=secret)
    assert still(lambda: world.processes() - before[0]) == set()
    assert still(world.marked_processes) == []
    assert world.damage() == []
    assert set((world.folder / "temporary").iterdir()) == before[1]
    told = repr(result.rows).encode() + b"".join(result.frames.values())
    assert world.secret.encode() not in told
    assert growth.bytes < 128 * _MB  # what the course's own programs return is kept: of lesson 13 some 80 MB
    assert result.usage["children"] <= 2 * len(catalog.exercises(slug))
    return {row.exercise: row for row in result.rows}


class ForgedPass(AssertionError):
    """A wrong answer got through. `lab test` never asks again where it reads this name."""


class MemoryGrowth:
    """How far this process's memory rose above what it held at the start, at its highest."""

    def __enter__(self):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = self._kilobytes("VmRSS")
        return self

    def __exit__(self, *_):
        self.bytes = (self._kilobytes("VmHWM") - self._before) * 1024

    @staticmethod
    def _kilobytes(name):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(name)))


def still(look):
    """Return what `look()` finds, given a moment to find nothing."""
    ends = time.monotonic() + _GONE_WITHIN_S
    while (found := look()) and time.monotonic() < ends:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("attack", [*ATTACKS, *KNOWN], ids=lambda a: f"{a.kind}-{a.id}")
def test_attack(attack, runner, world, tmp_path, short_limits):
    if attack.kind in ("exhausting", "escaping") and not attack.is_patient:
        short_limits()
    rows = graded(attack, runner, world, tmp_path)
    for exercise_id in attack.cells:
        row = rows[exercise_id]
        if row.outcome == "passed" and "passed" not in attack.allowed(exercise_id):
            raise ForgedPass(row)
        assert row.outcome in attack.allowed(exercise_id), row
    first = rows[next(iter(attack.cells))]
    assert attack.says.lower() in f"{first.why} {first.seen} {first.measured}".lower(), first
    answered = [row for row in rows.values() if row.exercise not in attack.cells and row.answer]
    lost = [row for row in answered if row.outcome not in attack.others.split("|")]
    assert answered and not lost


def test_the_corpus_is_large_and_in_five_classes():
    kinds = [attack.kind for attack in ATTACKS]
    assert {kind: kinds.count(kind) >= 12 for kind in set(kinds)} == dict.fromkeys(
        ("forging", "stealing", "exhausting", "escaping", "accident"), True
    )
    ids = [attack.id for attack in (*ATTACKS, *KNOWN)]
    assert len(ids) == len(set(ids)) >= 60
    assert all(attack.why for attack in KNOWN)
