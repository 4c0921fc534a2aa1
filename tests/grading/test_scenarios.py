"""What a class meets, end to end: answers in a cage, rows from the judge, and nobody loses by another's mistake."""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from labsupport import answering, catalog
from labsupport.clean import clean_check
from labsupport.course import Limits
from labsupport.grading.engine import Secret, grade_submission
from labsupport.grading.finding import Taken
from labsupport.observing import verdict_on
from labsupport.probing import Subject

SECRET = Secret(b"a secret of the tests")
LESSONS = ("start_here", "strides", "broadcasting")
RIGHT_SHAPE = "def batch_shape(samples, batch_rows):\n    return (batch_rows, *samples.shape[1:])\n"


@dataclass(frozen=True)
class Submission:
    """What intake makes of a file."""

    lesson: str
    answers: dict
    learner: str = "ada"
    sha256: str = "5" * 64
    notes: tuple = ()
    unreadable: str = ""
    repair: str = ""
    usage: dict = field(default_factory=dict)


def grade(runner, lesson, sources=None, *, secret=SECRET, only=False):
    """Return {exercise id: row}: references, but `sources` {exercise id: text} where given (`only`: nothing else)."""
    sources = sources or {}
    found = {}
    for exercise in catalog.exercises(lesson):
        text = sources.get(exercise.id) or (not only and answering.reference_answer(exercise).source)
        if text:
            found[exercise.id] = Taken(exercise.id, text, (), "by its marker")
    graded = grade_submission(Submission(lesson, found), runner=runner, secret=secret)
    return {row.exercise: row for row in graded.rows}


def outcomes(rows):
    return {key.split("/")[1]: row.outcome for key, row in rows.items()}


# -- right and wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS)
def test_right_answers_pass_and_the_record_says_what_they_used(runner, lesson):
    rows = grade(runner, lesson)
    assert set(outcomes(rows).values()) == {"passed"}
    used = next(iter(rows.values())).usage
    assert used["children"] == 1
    assert used["wall_s"] > 0
    assert used["cpu_s"] > 0
    assert used["peak_bytes"] > 0


@pytest.mark.parametrize("lesson", LESSONS)
def test_right_answers_written_differently_pass(runner, lesson):
    path = Path(__file__).parents[1] / "answers" / f"{lesson}.py"
    spec = importlib.util.spec_from_file_location(f"answers_{lesson}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # classes find their source by it
    spec.loader.exec_module(module)
    most = max(len(answers) for answers in module.ANSWERS.values())
    for i in range(most):
        sources = {}
        for exercise in catalog.exercises(lesson):
            answers = module.ANSWERS.get(exercise.id, ())
            if i < len(answers):
                sources[exercise.id] = answering.source_of(answers[i], exercise.names[0], exercise.setup)
        rows = grade(runner, lesson, sources, only=True)
        answered = {key: rows[key].outcome for key in sources}
        assert answered == dict.fromkeys(sources, "passed")


def test_one_wrong_answer_is_told_without_the_expected_value(runner):
    wrong = "def center_rows(x):\n    return x - x.mean(axis=1, keepdims=True) + 0.125\n"
    rows = grade(runner, "broadcasting", {"broadcasting/center-rows": wrong})
    row = rows.pop("broadcasting/center-rows")
    assert (row.outcome, set(outcomes(rows).values())) == ("wrong", {"passed"})
    assert "largest error 0.125" in row.why
    assert "elements differ" in row.why
    assert "expected" not in row.why


@pytest.mark.parametrize(
    ("exercise", "source", "told"),
    [
        (
            "broadcasting/center-rows",
            "class Mine(np.ndarray): pass\ndef center_rows(x):\n    return x.view(Mine)\n",
            "Mine",
        ),
        ("start-here/return-shape", "from unittest.mock import ANY\ndef batch_shape(*args):\n    return ANY\n", "_ANY"),
        ("start-here/return-shape", "def batch_shape(x, n):\n    return [n, *x.shape[1:]]\n", "list"),
        ("strides/address-of", "def address_of(*args):\n    return True\n", "bool"),
        ("strides/address-of", "class text(str): pass\ndef address_of(*args):\n    return text('0')\n", "text"),
        ("strides/address-of", "class D(dict): pass\ndef address_of(*args):\n    return D()\n", "D"),
        ("broadcasting/silent-mse", "class F(float): pass\ndef mean_squared_error(p, t):\n    return F(0)\n", "F"),
    ],
)
def test_another_type_is_named(caged, exercise, source, told):
    lesson = exercise.split("/")[0].replace("-", "_")
    row = grade(caged, lesson, {exercise: source}, only=True)[exercise]
    assert row.outcome == "wrong"
    assert told in f"{row.why} {row.seen}".split() or f"{told}," in f"{row.why} {row.seen}"


def test_four_ways_to_be_nearly_right_get_four_messages(runner):
    """In place asked, new array returned; view asked, copy returned; a wider dtype; NaN in one place."""
    rows = grade(runner, "strides", {
        "strides/write-through": "def clip_peaks(h, limit):\n    return np.minimum(h, limit).astype(h.dtype)\n",
        "strides/diagonal-view": "def diagonal_view(m, k=0):\n    return m.diagonal(k).copy()\n",
    }, only=True)  # fmt: skip
    more = grade(runner, "broadcasting", {
        "broadcasting/one-hot": "def one_hot(labels, n):\n    return (labels[:, None] == np.arange(n)).astype(float)\n",
        "broadcasting/standardize": (
            "def standardize(x):\n    s = x.std(axis=0)\n    r = (x - x.mean(axis=0)) / np.where(s > 0, s, 1)\n"
            "    r[0, 0] = np.nan\n    return r\n"
        ),
    }, only=True)  # fmt: skip
    wrong = [row for row in (rows | more).values() if row.outcome == "wrong"]
    assert len(wrong) == 4
    assert len({row.why for row in wrong}) == 4
    told = {row.exercise.split("/")[1]: f"{row.why} {row.seen}" for row in wrong}
    assert "nan" in told["standardize"]
    assert "float64" in told["one-hot"]
    assert "new array" in told["write-through"]
    assert "copied" in told["diagonal-view"]


def test_an_answer_that_changes_its_input_gets_fresh_ones_and_is_told(runner):
    source = """
        seen = []
        def standardize(x):
            seen.append(float(x.ravel()[0]))
            s = x.std(axis=0)
            result = (x - x.mean(axis=0)) / np.where(s > 0, s, 1)
            x[...] = 0
            return result
    """
    text = "\n".join(line[8:] for line in source.splitlines())
    row = grade(runner, "broadcasting", {"broadcasting/standardize": text}, only=True)["broadcasting/standardize"]
    assert row.outcome == "wrong"
    assert "changed its first input" in row.why  # the values stayed right: no case saw what another one left


@pytest.mark.parametrize("lesson", ["strides", "broadcasting"])
def test_live_check_clean_check_and_batch_say_the_same(caged, tmp_path, lesson):
    import nbformat

    exercises = catalog.exercises(lesson)
    specimens = {}
    for exercise in exercises:
        answer = answering.specimen_answer(exercise, exercise.misconceptions[0])
        specimens[exercise.id] = answer.source
    rows = grade(caged, lesson, specimens, secret=Secret())
    cells = [nbformat.v4.new_code_cell(f"# exercise: {key}\n{text}") for key, text in specimens.items()]
    path = tmp_path / catalog.find_lesson(lesson).notebook
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    clean = clean_check(path, exercises)
    for exercise in exercises:
        names, source = exercise.names, specimens[exercise.id]
        body = None if exercise.kind == "prediction" else answering.definition_in(source, names[0])
        namespace = answering.load(answering.Answer(source, names))
        live = verdict_on(exercise, Subject(names, namespace, body), reveal=False)
        told = (live.outcome.value, live.misconception, live.why, live.next)
        assert (rows[exercise.id].outcome, rows[exercise.id].misconception) == told[:2]
        assert (rows[exercise.id].why, rows[exercise.id].next) == told[2:]
        verdict = clean[exercise.id].verdict
        assert (verdict.outcome.value, verdict.misconception, verdict.why, verdict.next) == told


# -- one's own mistakes only ------------------------------------------------------------------------------------


ODD = "class Odd(Exception):\n    def __str__(self): raise RuntimeError\n"


@pytest.mark.parametrize(
    "source",
    [
        f"import os\n{RIGHT_SHAPE}os._exit(0)\n",
        "import sys\ndef batch_shape(*args):\n    sys.exit(0)\n",
        f"{ODD}def batch_shape(*args):\n    raise Odd\n",
        f"import os\n{ODD}def batch_shape(*args):\n    try:\n        raise Odd\n    finally:\n        os._exit(0)\n",
    ],
)
def test_an_end_costs_its_own_exercise(runner, source):
    rows = grade(runner, "start_here", {"start-here/return-shape": source})
    assert outcomes(rows) == {"predict-batches": "passed", "return-shape": "crashed", "mend-batches": "passed"}


@pytest.mark.parametrize("body", ["while True: pass", "pow(7, 10**10)", "import time; time.sleep(1e6)"])
def test_a_hang_is_over_its_limit_and_costs_one_call(runner, monkeypatch, body):
    short = [replace(e, limits=Limits(call_s=0.3)) for e in catalog.exercises("start_here")]
    monkeypatch.setattr(catalog, "exercises", lambda slug=None: short)
    monkeypatch.setattr("labsupport.grading.outside._SPARE_S", 0.3)
    source = f"def batch_shape(*args):\n    {body}\n"
    rows = grade(runner, "start_here", {"start-here/return-shape": source})
    assert outcomes(rows) == {"predict-batches": "passed", "return-shape": "over limit", "mend-batches": "passed"}
    assert "still running after 0.3 s" in rows["start-here/return-shape"].why
    assert rows["start-here/return-shape"].usage["children"] <= 2  # four cases, one of them waited for


def test_what_an_earlier_answer_left_behind_is_not_the_next_ones_fault(runner):
    breaks = f"{RIGHT_SHAPE}import builtins\nbuiltins.range = None\nnp.mean = None\n"
    rows = grade(runner, "start_here", {"start-here/return-shape": breaks})
    assert rows["start-here/mend-batches"].outcome == "passed"  # which needs `range`
    assert rows["start-here/predict-batches"].outcome == "passed"


def test_lines_below_an_answer_that_fail_are_not_the_answer(runner):
    rows = grade(runner, "start_here", {"start-here/return-shape": f"{RIGHT_SHAPE}batch_shape(digits, 64)\n"})
    assert rows["start-here/return-shape"].outcome == "passed"


def test_a_reference_that_fails_is_our_fault_and_nobodys_zero(runner, monkeypatch):
    real = catalog.exercises

    def broken(slug=None):
        return tuple(replace(e, reference=BROKEN) if e.id == "start-here/return-shape" else e for e in real(slug))

    monkeypatch.setattr(catalog, "exercises", broken)
    for source in (RIGHT_SHAPE, "def batch_shape(*args):\n    return None\n"):
        rows = grade(runner, "start_here", {"start-here/return-shape": source}, secret=Secret(b"of this test alone"))
        assert outcomes(rows) == {"predict-batches": "passed", "return-shape": "grader fault", "mend-batches": "passed"}


BROKEN = "def batch_shape(samples, batch_rows):\n    raise KeyError('ours')\n"


# -- what cannot be told from values ----------------------------------------------------------------------------


ONE_HOT = {
    "compared": ("passed", "def one_hot(labels, n):\n    return np.float32(labels[:, None] == np.arange(n))\n"),
    "indexed": ("passed", "def one_hot(labels, n):\n    return np.eye(n, dtype=np.float32)[labels]\n"),
    "looped": ("wrong", (
        "def one_hot(labels, n):\n    r = np.zeros((len(labels), n), np.float32)\n"
        "    for i, k in enumerate(labels):\n        r[i, k] = 1\n    return r\n"
    )),
    "vectorize": ("wrong", (
        "def one_hot(labels, n):\n    f = np.vectorize(lambda a, b: np.float32(a == b), otypes=[np.float32])\n"
        "    return f(labels[:, None], np.arange(n)) if len(labels) else np.zeros((0, n), np.float32)\n"
    )),
    "threaded": ("wrong", (
        "import threading\ndef one_hot(labels, n):\n    r = np.zeros((len(labels), n), np.float32)\n"
        "    def fill():\n        for i, k in enumerate(labels):\n            r[i, k] = 1\n"
        "    t = threading.Thread(target=fill)\n    t.start()\n    t.join()\n    return r\n"
    )),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("how", ONE_HOT)
def test_loops_are_counted_the_same_every_time_under_load(caged, how):
    expected, source = ONE_HOT[how]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for _ in range(50):
            row = grade(caged, "broadcasting", {"broadcasting/one-hot": source}, only=True)["broadcasting/one-hot"]
            assert row.outcome == expected
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_the_words_of_an_answer_are_read_from_all_it_leans_on(caged):
    source = (
        "def joined(shapes):\n    return np.broadcast_shapes(*shapes)\ndef result_shape(*s):\n    return joined(s)\n"
    )
    row = grade(caged, "broadcasting", {"broadcasting/result-shape": source}, only=True)["broadcasting/result-shape"]
    assert (row.outcome, row.misconception) == ("wrong", "asks-numpy")


def test_a_comparison_below_an_answer_is_not_part_of_it(caged):
    exercise = catalog.find_exercise("broadcasting/result-shape")
    source = answering.reference_answer(exercise).source + "\nassert result_shape((3,)) == np.broadcast_shapes((3,))\n"
    row = grade(caged, "broadcasting", {exercise.id: source}, only=True)[exercise.id]
    assert row.outcome == "passed"


def test_what_nobody_answered_is_not_yet(runner):
    assert set(outcomes(grade(runner, "start_here", only=True)).values()) == {"not yet"}
