"""The seconds a submission has are those its answers take, not those of references and specimens."""

import sys

import nbformat
import pytest

from labsupport.grading import engine, programs
from labsupport.grading.intake import read_submission

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux")

SHAPE = "# exercise: start-here/return-shape\ndef batch_shape(samples, batch_rows):\n    return (batch_rows,)\n"
BATCHES = "# exercise: start-here/mend-batches\ndef batches(samples, batch_size):\n    return []\n"


@pytest.mark.parametrize(("whose", "over"), [(programs.COURSE, False), ("answer", True)], ids=["course", "answer"])
def test_whose_time_it_is(caged, tmp_path, monkeypatch, whose, over):
    real = engine.observe_program

    def taking_its_time(*args):
        seen = real(*args)
        children = next(arg for arg in args if isinstance(arg, programs.Children))
        children.get(whose).spent_s += 2 * engine._SUBMISSION_S
        return seen

    monkeypatch.setattr(engine, "observe_program", taking_its_time)
    path = tmp_path / "ada" / "00_start_here.ipynb"
    path.parent.mkdir()
    cells = [nbformat.v4.new_code_cell(text) for text in (SHAPE, BATCHES)]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    rows = engine.grade_submission(read_submission(path), runner=caged, secret=engine.Secret(bytes(range(32)))).rows
    outcomes = [row.outcome for row in rows if row.answer]
    assert outcomes[0] in ("wrong", "crashed")
    assert (outcomes[1] == "over limit") is over
