"""The lesson object in a kernel: checks, hints, solutions, drills, and sentences for every accident."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from labsupport import LabError, catalog, lesson, progress
from labsupport.answering import definition_in, reference_answer
from labsupport.journal import Journal


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_WORK", str(tmp_path))
    monkeypatch.delenv("LAB_STRICT", raising=False)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    run(shell, "from labsupport import lesson\nlab = lesson('start_here')")
    yield shell
    InteractiveShell.clear_instance()


def run(shell, code):
    result = shell.run_cell(code, silent=False, store_history=True)
    result.raise_error()
    return result.result


EXERCISE = catalog.find_exercise("start-here/return-shape")
NAME = EXERCISE.names[0]
STUB = catalog.stubs("start_here")[EXERCISE.id]
REFERENCE = reference_answer(EXERCISE).source
CHECK = f"lab.check('{EXERCISE.short_id}')"


def test_the_stub_is_not_yet(shell):
    run(shell, STUB)
    assert str(run(shell, CHECK)).startswith("not yet   start-here/return-shape")


def test_a_right_answer_passes_and_is_recorded(shell, tmp_path):
    run(shell, REFERENCE)
    assert str(run(shell, CHECK)).startswith("passed")
    assert Journal(tmp_path).passed() == {EXERCISE.id}
    assert "1 of" in repr(run(shell, "lab"))


def test_an_answer_not_defined_yet(shell):
    told = str(run(shell, CHECK))
    assert told.startswith("not yet")
    assert f"`{NAME}` is not defined in this kernel." in told


def test_a_renamed_answer_is_named(shell):
    run(shell, REFERENCE.replace(NAME, NAME + "s"))
    assert f"but `{NAME}s` is." in str(run(shell, CHECK))


def test_a_deleted_answer(shell):
    run(shell, REFERENCE)
    run(shell, f"del {NAME}")
    assert "is not defined" in str(run(shell, CHECK))


def test_a_name_used_for_something_else(shell):
    run(shell, f"{NAME} = 3")
    told = str(run(shell, CHECK))
    assert "holds a value of type int" in told
    assert "A later cell may have used the name" in told


def test_the_stub_cell_run_again_after_the_answer(shell):
    run(shell, REFERENCE)
    run(shell, STUB)
    assert str(run(shell, CHECK)).startswith("not yet")


def test_the_answer_may_be_passed(shell):
    run(shell, REFERENCE.replace(NAME, "mine"))
    assert str(run(shell, f"lab.check('{EXERCISE.short_id}', mine)")).startswith("passed")
    with pytest.raises(LabError, match="2 were passed"):
        run(shell, f"lab.check('{EXERCISE.short_id}', mine, mine)")


def test_a_crash_shows_the_learners_line(shell):
    import inspect

    from labsupport.answering import load

    names = list(inspect.signature(load(reference_answer(EXERCISE))[NAME]).parameters)
    run(shell, f"def {NAME}({', '.join(names)}):\n    return undefined_thing")
    told = str(run(shell, CHECK))
    assert told.startswith("crashed")
    assert "`return undefined_thing` raised NameError" in told


def test_an_unknown_exercise_names_the_nearest(shell):
    with pytest.raises(LabError, match="return-shape"):
        run(shell, "lab.check('return-shap')")


def test_an_unknown_lesson_and_a_planned_one():
    with pytest.raises(LabError, match="start_here"):
        lesson("start-hear")
    with pytest.raises(LabError, match="planned"):
        lesson("serving")


def test_strict_makes_a_check_raise(shell, monkeypatch):
    run(shell, STUB)
    monkeypatch.setenv("LAB_STRICT", "1")
    with pytest.raises(LabError, match="not yet"):
        run(shell, CHECK)
    run(shell, REFERENCE)
    assert "passed" in str(run(shell, CHECK))


def test_hints_come_one_by_one_and_then_all(shell):
    hints = [str(run(shell, f"lab.hint('{EXERCISE.short_id}')")) for _ in EXERCISE.hints]
    assert all(hint in told for hint, told in zip(EXERCISE.hints, hints, strict=True))
    assert "All hints" in str(run(shell, f"lab.hint('{EXERCISE.short_id}')"))


def test_a_solution_opens_after_an_attempt_and_all_hints(shell, tmp_path):
    solution = f"lab.solution('{EXERCISE.short_id}')"
    assert "opens after one attempt" in str(run(shell, solution))
    for _ in EXERCISE.hints:
        run(shell, f"lab.hint('{EXERCISE.short_id}')")
    assert "opens after one attempt" in str(run(shell, solution))
    run(shell, f"def {NAME}(*args):\n    return 'wrong'")
    run(shell, CHECK)
    assert definition_in(REFERENCE, NAME).splitlines()[0] in str(run(shell, solution))
    assert Journal(tmp_path).records()[-1]["event"] == "solution"


def test_two_failures_point_to_the_hint(shell):
    run(shell, f"def {NAME}(*args):\n    return 'wrong'")
    assert "lab.hint" not in str(run(shell, CHECK))
    assert "lab.hint" in str(run(shell, CHECK))


def test_html_says_the_same_words_and_escapes_them(shell):
    run(shell, f"def {NAME}(*args):\n    raise ValueError('<script>alert(1)</script>')")
    message = run(shell, CHECK)
    page = message._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert message.head.split()[0] in page


def test_a_solution_keeps_its_lines_in_html(shell):
    run(shell, REFERENCE)
    run(shell, CHECK)
    page = run(shell, f"lab.solution('{EXERCISE.short_id}')")._repr_html_()
    assert "<pre" in page
    assert "\n    " in page
    assert '<a href="https://' in page


@pytest.mark.parametrize("broken", ["retrun 3", "x = nn", "def f(:"])
def test_an_answer_whose_cell_failed_is_not_judged_by_its_older_version(shell, broken):
    mark = f"# exercise: {EXERCISE.id}\n"
    run(shell, mark + REFERENCE)
    shell.run_cell(mark + broken)
    told = str(run(shell, CHECK))
    assert told.startswith("not yet")
    assert "the version before it" in told
    run(shell, mark + REFERENCE)
    assert str(run(shell, CHECK)).startswith("passed")


def test_a_wrong_answer_is_shown_the_call(shell):
    run(shell, f"def {NAME}(*args):\n    return 'wrong'")
    assert f"call: `{NAME}(" in " ".join(str(run(shell, CHECK)).split())


@pytest.mark.parametrize(
    "code",
    [
        "class Odd:\n    def __getattr__(self, name):\n        return self\n"
        "    def __call__(self, *a):\n        return 1\n{name} = Odd()",
        "def {name}(*a):\n    return 1\n{name}.__wrapped__ = {name}",
        "class Odd:\n    __code__ = 5\n    def __call__(self, *a):\n        return 1\n{name} = Odd()",
        "def {name}(*a):\n    import sys\n    sys.stdout.close()",
        "class E(Exception):\n    def __str__(self):\n        raise SystemExit\ndef {name}(*a):\n    raise E",
    ],
)
def test_odd_answers_get_a_verdict(shell, code):
    run(shell, code.replace("{name}", NAME))
    assert str(run(shell, CHECK)).split()[0] in ("wrong", "crashed")


def test_a_check_that_fails_itself_blames_nobody(shell, monkeypatch):
    def broken(*args, **options):
        raise TypeError("'NoneType' object is not callable")

    run(shell, REFERENCE)
    monkeypatch.setattr("labsupport.observing.verdict_on", broken)
    told = str(run(shell, CHECK))
    assert told.startswith("grader fault")
    assert "Restart the kernel" in told


def test_progress_is_told_in_words(shell):
    assert "not started" in str(progress())
    run(shell, REFERENCE)
    run(shell, CHECK)
    assert "core exercises passed" in str(progress())


def test_peak_memory_counts_a_block(shell):
    run(shell, "import numpy as np\nwith lab.peak_memory() as used:\n    x = np.ones(1_000_000)")
    assert 8_000_000 <= shell.user_ns["used"].bytes < 8_100_000


def test_no_figure_of_that_name(shell):
    with pytest.raises(LabError, match="no figure is called"):
        run(shell, "lab.show('nothing')")


def test_importing_the_package_is_light():
    import subprocess
    import sys

    code = "import labsupport, sys; print([m for m in ('torch', 'matplotlib', 'numpy', 'IPython') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_few_public_names():
    import labsupport

    assert len(labsupport.__all__) <= 12
