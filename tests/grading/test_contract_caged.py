"""The author contract through the grader: what a check says in the kernel is what a caged one says."""

import sys

import pytest

from labsupport import answering, catalog
from labsupport.course import Outcome
from labsupport.grading.engine import check_answers
from labsupport.grading.finding import Taken
from labsupport.grading.runner import Runner

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux")]


@pytest.fixture(scope="module")
def runner():
    with Runner(feedback=True) as runner:
        yield runner


@pytest.mark.parametrize("exercise", catalog.exercises(), ids=lambda e: e.id)
def test_references_and_specimens_get_what_the_live_check_says(runner, exercise):
    programs = {None: answering.reference_answer(exercise).source}
    programs |= {m.id: answering.specimen_answer(exercise, m).source for m in exercise.misconceptions}
    taken = [Taken(exercise.id, source, (), "") for source in programs.values()]
    told = dict(zip(programs, check_answers(taken, runner), strict=True))
    assert told.pop(None).outcome is Outcome.PASSED
    stub = catalog.stubs(exercise.slug)[exercise.id] if exercise.kind == "debug" else ""
    for name, verdict in told.items():
        if stub and is_stub(exercise, programs[name], stub):  # the mistake that the lesson ships to be repaired
            assert verdict.outcome is Outcome.NOT_YET
            continue
        assert not verdict.passed
        # The cases of a prediction are separate questions: a specimen's first wrong one may be another belief's too.
        assert exercise.kind == "prediction" or verdict.misconception == name, verdict


def is_stub(exercise, *sources):
    one, other = (answering.definition_in(source, exercise.names[0]) for source in sources)
    return answering.same_program(one, other)
