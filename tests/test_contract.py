"""The author contract: every exercise proves that its checks are right about right and wrong answers."""

import ast
import functools
import gc
import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from labsupport import answering, catalog
from labsupport.comparing import differs
from labsupport.course import Answer, Outcome
from labsupport.observing import inputs_for, observe_subject, reference_observations, specimen_observations, verdict_on
from labsupport.probing import Subject

EXERCISES = catalog.exercises()
CODE = [e for e in EXERCISES if e.kind != "prediction"]
SEEDS = range(20)
FILE_SEEDS = range(5)  # an answer that writes files takes ten times as long
RANK_SEEDS = range(3)  # and one on ranks a hundred times
RANK_MUTANTS = 12  # of one exercise, spread over its reference
FLOOR = 0.9
ON_RANKS = [e for e in EXERCISES if e.on_ranks]


def named(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=lambda e: e.id)


def seeds_of(exercise):
    if exercise.on_ranks:
        return RANK_SEEDS
    return FILE_SEEDS if exercise.kind == "artifact" else SEEDS


@pytest.fixture(autouse=True)
def _what_is_kept_is_not_searched_for_garbage():
    """The observations of all exercises are kept here, and an exercise about released memory collects at each case."""
    gc.freeze()
    yield
    gc.unfreeze()


def subject_of(exercise, source, own=False):
    namespace = {} if exercise.on_ranks else answering.load(Answer(source, exercise.names))
    return Subject(exercise.names, namespace, source, own=own)


def verdict_of(exercise, source, seed=0, own=True):
    """Return the verdict on a program; those not `own` get ranks of their own, as a learner's answer does."""
    return verdict_on(exercise, subject_of(exercise, source, own), seed)


@functools.cache
def answers_module(slug):
    path = Path(__file__).parent / "answers" / f"{slug}.py"
    spec = importlib.util.spec_from_file_location(f"answers_{slug}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where `inspect` looks for the source of a class
    spec.loader.exec_module(module)
    return module


def other_answers(exercise):
    return answers_module(exercise.slug).ANSWERS.get(exercise.id, [])


def equivalent_mutants(slug):
    return getattr(answers_module(slug), "EQUIVALENT_MUTANTS", {})


@named(EXERCISES)
def test_stub_is_not_yet(exercise):
    stub = catalog.stubs(exercise.slug)[exercise.id]
    if exercise.kind == "prediction":
        verdict = verdict_of(exercise, stub)
    else:
        source = answering.definition_in(stub, exercise.names[0])
        untouched = answering.same_program(source, answering.definition_in(stub, exercise.names[0]))
        verdict = verdict_on(exercise, None, untouched=untouched)
        if exercise.kind != "debug":  # a broken program runs; only the comparison with the shipped text tells it apart
            program = f"{exercise.setup}\n{answering.without_magic(stub)}"
            assert verdict_of(exercise, program).outcome is Outcome.NOT_YET
    assert verdict.outcome is Outcome.NOT_YET


@named(EXERCISES)
def test_reference_passes_on_many_seeds(exercise):
    source = answering.reference_answer(exercise).source
    for seed in seeds_of(exercise):
        verdict = verdict_of(exercise, source, seed)
        assert verdict.outcome is Outcome.PASSED, (seed, verdict)


@named(CODE)
def test_other_right_answers_pass(exercise):
    answers = other_answers(exercise)
    assert answers, f"{exercise.id}: write another right answer in tests/answers/{exercise.slug}.py"
    for answer in answers:
        source = answering.source_of(answer, exercise.names[0], exercise.setup)
        for seed in range(1 if exercise.on_ranks else 3):
            verdict = verdict_of(exercise, source, seed, own=False)
            assert verdict.outcome is Outcome.PASSED, (source, verdict)


@named(EXERCISES)
def test_every_specimen_gets_its_own_message(exercise):
    for seed in seeds_of(exercise):
        reference = reference_observations(exercise, seed)
        observed = specimen_observations(exercise, seed)
        for misconception in exercise.misconceptions:
            seen = observed[misconception.id]
            assert any(differs(a, r) for a, r in zip(seen, reference, strict=True)), f"{misconception.id} is right"
            if exercise.kind != "prediction":
                assert _message_for(exercise, seen, reference, observed) == misconception.id, seed


def _message_for(exercise, seen, reference, observed):
    from labsupport.judging import Observed, judge

    return judge(exercise, Observed(answer=seen, reference=reference, specimens=observed)).misconception


@named(CODE)
def test_specimen_messages_end_to_end(exercise):
    """The specimens' own text, executed and checked as a learner's answer would be."""
    for misconception in exercise.misconceptions:
        verdict = verdict_of(exercise, answering.specimen_answer(exercise, misconception).source)
        assert verdict.misconception == misconception.id, verdict
        assert verdict.why == misconception.says


@named([e for e in EXERCISES if e.kind == "prediction"])
def test_wrong_predictions_get_their_message(exercise):
    for misconception in exercise.misconceptions:
        told = set()
        for index, (name, seen) in enumerate(
            zip(exercise.names, specimen_observations(exercise)[misconception.id], strict=True)
        ):
            if not differs(seen, reference_observations(exercise)[index]):
                continue
            right = answering.load(answering.reference_answer(exercise))
            told.add(verdict_on(exercise, Subject(exercise.names, {**right, name: seen.value})).misconception)
        assert misconception.id in told, f"{misconception.id} is never told"


@named([e for e in CODE if {"max_allocated", "max_kept", "max_steps"} & set(e.probe.options)])
def test_reference_keeps_well_within_its_budgets(exercise):
    """A budget that the reference nearly fills would fail a right answer on another version of NumPy or Python."""
    keys = {"allocated_bytes": "max_allocated", "kept_bytes": "max_kept", "steps": "max_steps"}
    for seen in reference_observations(exercise):
        for note, option in keys.items():
            if note in seen.notes:
                assert seen.notes[note] <= 0.6 * exercise.probe.options[option], (note, seen.notes[note])


@named([e for e in CODE if {"max_allocated", "max_kept", "max_steps", "releases"} & set(e.probe.options)])
def test_what_is_counted_depends_on_shapes_and_not_on_contents(exercise):
    """A grader counts the course's own programs once, on the public inputs, for everybody's."""
    public = specimen_observations(exercise) | {None: reference_observations(exercise)}
    for seed in range(1, 6):
        seen = specimen_observations(exercise, seed) | {None: reference_observations(exercise, seed)}
        for name, observations in public.items():
            assert [_counts(one) for one in seen[name]] == [_counts(one) for one in observations], (name, seed)


def _counts(seen):
    told = {key: seen.facts.get(key) for key in ("allocation", "kept", "steps", "released")}
    return told, seen.raised and seen.raised.type, bool(seen.over)


@named(EXERCISES)
def test_inputs_are_reproducible(exercise):
    """Two calls of `make` with one seed give the same inputs: contents may vary with the seed only."""
    from labsupport.probing.plain import identical, plain

    for a, b in zip(inputs_for(exercise), inputs_for(exercise), strict=True):
        assert identical(plain(a), plain(b))


@named(CODE)
def test_a_table_of_constants_does_not_pass(exercise):
    """What is right must depend on the seed, or a submission could hold the public seed's values as literals."""
    public = reference_observations(exercise)
    others = [reference_observations(exercise, seed) for seed in range(1, 6)]
    changes = [sum(differs(other[i], seen) for other in others) for i, seen in enumerate(public)]
    moving = sum(count >= 2 for count in changes)
    assert 3 * moving >= len(public), f"only {moving} of {len(public)} cases have other values on other seeds"


@named(EXERCISES)
def test_texts_have_a_readable_length(exercise):
    texts = [(m.id, f"{m.says} {m.next}") for m in exercise.misconceptions]
    texts += [(f"hint {i}", hint) for i, hint in enumerate(exercise.hints, 1)]
    for name, text in texts:
        assert 8 <= len(text.split()) <= 60, f"{exercise.id} {name}: {len(text.split())} words"


@named(EXERCISES)
def test_enough_wrong_answers(exercise):
    least = 2 if exercise.kind == "prediction" else 3
    assert len(exercise.misconceptions) >= least
    assert len({m.id for m in exercise.misconceptions}) == len(exercise.misconceptions)
    assert 1 <= len(exercise.hints) <= 3


@named([e for e in EXERCISES if e.drill])
def test_drill_questions_are_fresh_and_answerable(exercise):
    from labsupport.drilling import Question

    question, texts = Question(exercise, 7), set()
    for _ in range(20):
        texts.add(question.text)
        assert question.judge(exercise.reference(*question._inputs)).outcome is Outcome.PASSED
        question = question.next()
    assert len(texts) > 10


# -- mutants ---------------------------------------------------------------------------------------------------


class _Mutations(ast.NodeTransformer):
    """Makes the `wanted`-th small change to a tree; `count` says how many there are."""

    OPERATORS: ClassVar = {
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Add,
        ast.FloorDiv: ast.Mult,
        ast.Mod: ast.Mult,
        ast.Div: ast.Mult,
    }
    COMPARISONS: ClassVar = {
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
    }

    def __init__(self, wanted):
        self.wanted, self.count, self.changed = wanted, 0, None

    def _turn(self, node, change):
        self.count += 1
        if self.count - 1 == self.wanted:
            self.changed = f"{type(node).__name__}: {ast.unparse(node)}"
            change()

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if type(node.op) in self.OPERATORS:
            self._turn(node, lambda: setattr(node, "op", self.OPERATORS[type(node.op)]()))
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 and type(node.ops[0]) in self.COMPARISONS:
            self._turn(node, lambda: setattr(node, "ops", [self.COMPARISONS[type(node.ops[0])]()]))
        return node

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self._turn(node, lambda: setattr(node, "value", not node.value))
        elif isinstance(node.value, int):
            self._turn(node, lambda: setattr(node, "value", node.value + 1))
        elif isinstance(node.value, float):
            self._turn(node, lambda: setattr(node, "value", node.value + 1.0))
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._turn(node, lambda: setattr(node, "op", ast.UAdd()))
        return node


def mutants(source):
    wanted = 0
    while True:
        maker = _Mutations(wanted)
        tree = maker.visit(ast.parse(source))
        if maker.changed is None:
            return
        yield maker.changed, ast.unparse(ast.fix_missing_locations(tree))
        wanted += 1


def sampled(exercise, changes):
    """Return the changes of a reference that are tried: all, or for ranks some, spread over its text."""
    changes = list(changes)
    if not exercise.on_ranks or len(changes) <= RANK_MUTANTS:
        return changes
    return [changes[i * len(changes) // RANK_MUTANTS] for i in range(RANK_MUTANTS)]


def test_mutants_of_references_are_killed(record_property):
    """Survivors need a reason in `EQUIVALENT_MUTANTS` of tests/answers/<lesson>.py: {(exercise id, change): reason}."""
    killed, survivors = 0, []
    for exercise in CODE:
        source = answering.reference_answer(exercise).source
        reference = reference_observations(exercise)
        for change, mutant in sampled(exercise, mutants(source)):
            try:
                seen = observe_subject(exercise, subject_of(exercise, mutant, own=True))
            except Exception:
                killed += 1  # it does not even load
                continue
            if any(differs(a, r) for a, r in zip(seen, reference, strict=True)):
                killed += 1
            else:
                survivors.append((exercise.id, change))
    reasons = {key: why for e in CODE for key, why in equivalent_mutants(e.slug).items()}
    unexplained = [s for s in survivors if not reasons.get(s)]
    share = killed / max(1, killed + len(survivors))
    print(f"mutants: {killed} of {killed + len(survivors)} killed ({share:.1%})")
    record_property("mutants_killed", share)
    assert share >= FLOOR, survivors
    assert not unexplained, f"surviving mutants without a reason: {unexplained}"
