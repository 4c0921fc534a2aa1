"""Answers that course code drives, and answers that write files: what is seen live, and the same in a cage."""

import re
import sys
from textwrap import dedent

import numpy as np
import pytest

from labsupport.comparing import compare
from labsupport.course import Case, Exercise, Limits, Misconception, Outcome, Probe
from labsupport.describing import describe
from labsupport.grading.expected import Asked
from labsupport.grading.programs import Children, Program, observe_course, observe_program
from labsupport.inputs import inputs_for
from labsupport.judging import Observed, judge
from labsupport.probing import Subject, driven, observe


def exercise(probe, *makes, setup="", names=("f",), **more):
    """Return an exercise that asks for `f`; its reference is handed in where it is needed."""
    return Exercise(
        id="demo/drive-it", kind="function", task="Write f.", names=names, reference=lambda: None,
        cases=tuple(Case(f"case {i}", make) for i, make in enumerate(makes)),
        misconceptions=(Misconception("wrong", "x", "It is wrong.", "Look again."),), hints=("Think.",),
        core=True, level=1, minutes=1, source="arithmetic", setup=setup, probe=probe, **more,
    )  # fmt: skip


def three(rng):
    return np.arange(3.0), np.array([1.0, 10.0, 100.0])


GRADIENTS = exercise(Probe("through", {"driver": "tensors:gradients"}), three, setup="import torch")
COUNTED = exercise(
    Probe("through", {"driver": "tensors:call", "requires_grad": True, "max_steps": 6, "max_allocated": 60_000}),
    lambda rng: (np.ones((2, 3), np.float32).T,),
    setup="import torch",
)
TEXTS = exercise(
    Probe("artifact", {"file": "out.txt", "inspect": "texts:read"}),
    lambda rng: ("first",),
    lambda rng: ("second",),
    limits=Limits(call_s=20.0),
)


def live(one, source):
    namespace = {}
    exec(f"{one.setup}\n{dedent(source)}", namespace)
    subject = Subject(one.names, namespace, dedent(source), one.setup)
    return tuple(observe(one.probe, subject, inputs, one.limits) for inputs in inputs_for(one))


@pytest.fixture(scope="module")
def cage():
    if sys.platform != "linux":
        pytest.skip("cages need Linux")
    from labsupport.grading.runner import Runner

    with Runner(feedback=True) as runner:
        yield runner


def caged(runner, one, source, *, course=False):
    program = Program(one.setup, (), dedent(source), one.names)
    inputs = Asked(one, 0).inputs
    with Children(runner) as children:
        if course:
            return observe_course(one, [program], inputs, children)[0]
        return observe_program(one, program, inputs, children, "answer")


ANSWERS = {
    "gradients of a square": (GRADIENTS, "def f(x): return x * x"),
    "a result without a graph": (GRADIENTS, "def f(x): return x.detach()"),
    "a result of another shape": (GRADIENTS, "def f(x): return x.sum()"),
    "no tensor": (GRADIENTS, "def f(x): return 3"),
    "an exception": (GRADIENTS, "def f(x): return x.nothing"),
    "counted": (COUNTED, "def f(x): return x * 2"),
    "too many lines": (COUNTED, "def f(x):\n    for _ in range(9):\n        y = x * 2\n    return y"),
    "a changed input": (COUNTED, "def f(x):\n    with torch.no_grad():\n        x += 1\n    return x * 2"),
    "a file": (TEXTS, "def f(path, text): path.write_text(text, encoding='utf-8')"),
    "files in a folder": (
        TEXTS,
        "def f(path, text):\n    path.mkdir()\n    (path / 'b').mkdir()\n    (path / 'b/c').write_text(text)",
    ),
    "no file": (TEXTS, "def f(path, text): pass"),
    "no text": (TEXTS, "def f(path, text): path.write_bytes(b'\\xff')"),
    "a second case that fails": (TEXTS, "def f(path, text): path.write_text(text[:5 // (text == 'first')])"),
    "too large": (TEXTS, "def f(path, text): path.write_bytes(bytes(8_000_001))"),
    "a link": (TEXTS, "def f(path, text): path.symlink_to('/etc/passwd')"),
    "another folder in place of the folder": (
        TEXTS,
        "def f(path, text):\n    path.parent.rmdir()\n    path.parent.symlink_to('/etc')",
    ),
    "a file in place of the folder": (TEXTS, "def f(path, text):\n    path.parent.rmdir()\n    path.parent.touch()"),
    "its folder removed": (TEXTS, "def f(path, text): path.parent.rmdir()"),
    "a link to its own folder": (
        TEXTS,
        "def f(path, text):\n    path.write_text(text)\n    (path.parent / 'a').symlink_to('.')",
    ),
    "very deep folders": (
        TEXTS,
        "import os\ndef f(path, text):\n    os.chdir(path.parent)\n    for _ in range(1100):\n        os.mkdir('d')\n"
        "        os.chdir('d')\n    os.chdir('/')",
    ),
    "a name that is no text": (
        TEXTS,
        "import os\ndef f(path, text): os.mkdir(os.fsencode(path.parent) + b'/\\xff')",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_live_and_caged_see_the_same(cage, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, source = ANSWERS[name]
    here = live(one, source)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("lab-answer")] == []
    for seen in (caged(cage, one, source), caged(cage, one, source, course=True)):
        for a, b in zip(seen, here, strict=True):
            # A crash inside the judge's child has a name of its own for the answer's file; the rest is the same.
            assert (a.value is None) == (b.value is None)
            assert a.over == b.over
            assert (a.raised and (a.raised.type, a.raised.message)) == (b.raised and (b.raised.type, b.raised.message))
            assert dict(a.facts) == dict(b.facts)
            assert a.raised or a.over or compare(a, b) is None


def test_gradients_come_back_by_input():
    (seen,) = live(GRADIENTS, "def f(x): return x * x")
    assert seen.value["gradient of input 1"].tolist() == [0.0, 20.0, 400.0]
    (wrong,) = live(GRADIENTS, "def f(x): return x * x.detach()")
    assert "gradient of input 1" in describe(compare(wrong, seen), reveal=True)


def test_a_result_that_cannot_be_looked_at_is_wrong_and_no_crash():
    (right,), (cut,) = live(GRADIENTS, "def f(x): return x * x"), live(GRADIENTS, "def f(x): return x.detach()")
    verdict = judge(GRADIENTS, Observed(answer=(cut,), reference=(right,)))
    assert verdict.outcome is Outcome.WRONG
    assert verdict.why == "No gradient can flow back from the result: it has no `grad_fn`."


def test_two_unusable_results_are_alike_by_their_sentence():
    (cut,), (number,) = live(GRADIENTS, "def f(x): return x.detach()"), live(GRADIENTS, "def f(x): return 3")
    assert compare(cut, number) is not None
    assert compare(cut, cut) is None


def test_a_fact_of_a_driver_is_told_by_its_name():
    (right,), (cut,) = live(COUNTED, "def f(x): return x * 2"), live(COUNTED, "def f(x): return (x * 2).detach()")
    told = describe(compare(cut, right), reveal=True)
    assert told == "Right values, but graph behind the result: no, expected yes."


def test_given_files_are_not_what_the_answer_wrote(monkeypatch, tmp_path):
    def given(folder, text):
        (folder / "given.txt").write_text("given", encoding="utf-8")
        return folder / "given.txt", text

    real = driven.find
    monkeypatch.setattr(
        "labsupport.probing.files.find", lambda folder, name: given if name == "x:given" else real(folder, name)
    )
    one = exercise(Probe("files", {"file": "out.txt", "prepare": "x:given"}), lambda rng: ("told",))
    (kept,) = live(one, "def f(path, source, text): path.write_text(source.read_text() + text)")
    assert kept.value == {"files": {"out.txt": b"giventold"}, "folders": []}
    (changed,) = live(one, "def f(path, source, text): source.write_text(text)")
    assert changed.value["files"] == {"given.txt": b"told"}
    assert changed.facts["given files that are gone"] == 0
    (deleted,) = live(one, "def f(path, source, text): source.rename(path)")
    assert deleted.facts["given files that are gone"] == 1


def test_names_that_lead_out_of_the_folder_are_refused(tmp_path):
    from labsupport.probing.inspecting import inspect

    options = {"file": "out.txt", "inspect": "texts:read"}
    for name in ("../out.txt", "/etc/out.txt"):
        seen = inspect({"files": {name: b"x"}, "folders": []}, (), options, 5.0)
        assert "leads out of the folder" in seen.raised.message
    assert not (tmp_path.parent / "out.txt").exists()


def test_the_inspector_is_started_again_when_it_was_ended():
    from labsupport.probing import inspecting

    one, source = ANSWERS["a file"]
    before = live(one, source)
    (inspector,) = inspecting._inspectors.values()
    inspector._program.kill()
    inspector._program.wait()
    assert compare(live(one, source)[0], before[0]) is None
    inspecting.close()


def test_a_driver_that_is_not_there_is_the_authors_mistake():
    with pytest.raises(ValueError, match="has no"):
        driven.find("drivers", "tensors:nothing")
    with pytest.raises(ValueError, match="not 'module:function'"):
        driven.find("drivers", "tensors")


def test_what_the_course_lets_answers_import_is_there_in_a_cage():
    from labsupport import catalog
    from labsupport.grading import runtime

    given = {name for one in catalog.exercises() for name in re.findall(r"labsupport\.(\w+)", one.setup)}
    assert given <= {*runtime._MODULES, *runtime._FOLDERS}
    assert given  # or this test says nothing
