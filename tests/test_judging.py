"""The judge: pure, eight outcomes, in the order it promises."""

import dataclasses

import pytest

from labsupport.course import Case, Exercise, Misconception, Observation, Outcome, Probe, Raised
from labsupport.judging import Observed, judge

HALF = Misconception("halves", None, "You halve.", "Do not.")
CRASHES = Misconception("divides-by-zero", None, "You divide by zero.", "Guard it.")


def exercise(**changes):
    base = Exercise(
        id="toy/do-it",
        kind="function",
        task="",
        names=("f",),
        reference=None,
        cases=(Case("one", None), Case("two", None)),
        misconceptions=(HALF, CRASHES),
        hints=("a",),
        core=True,
        level=1,
        minutes=1,
        source="",
    )
    return dataclasses.replace(base, **changes)


def values(*seen):
    return tuple(s if isinstance(s, Observation) else Observation(value=s) for s in seen)


def boom(name="ZeroDivisionError"):
    return Observation(raised=Raised(type=name, message="no", line="x / 0"))


RIGHT = values(2, 4)
SPECIMENS = {"halves": values(1, 2), "divides-by-zero": (boom(), boom())}


def verdict(*answer, ex=None, reference=RIGHT, specimens=SPECIMENS, reveal=False, untouched=False):
    seen = Observed(answer=values(*answer), reference=reference, specimens=specimens, untouched=untouched)
    return judge(ex or exercise(), seen, reveal=reveal)


def test_passed():
    assert verdict(2, 4).outcome is Outcome.PASSED
    assert verdict(2, 4).points == 1


def test_a_misconception_is_told_in_its_own_words():
    told = verdict(1, 2)
    assert (told.outcome, told.misconception, told.why, told.case) == (Outcome.WRONG, "halves", "You halve.", "one")
    assert told.points == 0


def test_an_answer_that_is_right_on_some_cases_still_matches():
    assert verdict(2, 2).misconception == "halves"
    assert verdict(2, 2).case == "two"


def test_an_answer_that_goes_wrong_once_is_not_told_about_a_mistake_that_shows_everywhere():
    everywhere = Misconception("everywhere", None, "Always.", "Look.")
    corner = Misconception("corner", None, "Only there.", "Look.")
    cases = tuple(Case(str(i), None) for i in range(5))
    right, specimens = values(1, 2, 3, 4, 5), {"everywhere": values(0, 0, 0, 0, 0), "corner": values(1, 2, 3, 4, 0)}
    ex = exercise(cases=cases, misconceptions=(everywhere,))
    assert verdict(1, 2, 3, 4, 0, ex=ex, reference=right, specimens=specimens).misconception is None
    assert verdict(1, 2, 0, 0, 0, ex=ex, reference=right, specimens=specimens).misconception == "everywhere"
    ex = exercise(cases=cases, misconceptions=(everywhere, corner))
    assert verdict(1, 2, 3, 4, 0, ex=ex, reference=right, specimens=specimens).misconception == "corner"
    assert verdict(0, 0, 0, 0, 0, ex=ex, reference=right, specimens=specimens).misconception == "everywhere"


def test_a_subclass_of_the_exception_asked_for_is_right():
    ex = exercise(cases=(Case("one", None), Case("two", None, raises="ValueError")))
    mine = Observation(raised=Raised(type="ShapeError", message="no", bases=("ValueError", "Exception")))
    right = (Observation(value=2), boom("ValueError"))
    assert verdict(2, mine, ex=ex, reference=right, specimens={}).passed


def test_a_wrong_prediction_is_told_about_the_prediction():
    ex = exercise(kind="prediction", names=("a", "b"))
    told = verdict(5, 4, ex=ex, specimens={})
    assert told.why == "You wrote 5, which is not what happens."
    assert "predict again" in told.next
    assert (
        verdict((1, 2), 4, ex=ex, specimens={}).why
        == "You wrote several values in brackets; asked for is a whole number."
    )
    told = verdict((1, 2), 4, ex=ex, reference=values(None, 4), specimens={})
    assert told.why == "You wrote (1, 2), which is not what happens."  # the kind of None is None


def test_runtime_errors_are_alike_when_they_say_the_same():
    def torch_says(message):
        return Observation(raised=Raised(type="RuntimeError", message=message))

    sizes = "The size of tensor a (3) must match the size of tensor b (2)"
    specimens = {"divides-by-zero": (torch_says(sizes), RIGHT[1])}
    same, other = torch_says(sizes.replace("3", "5")), torch_says("Can't call numpy() on Tensor that requires grad.")
    assert verdict(same, 4, specimens=specimens).misconception == "divides-by-zero"
    assert verdict(other, 4, specimens=specimens).misconception is None


def test_an_answer_wrong_in_two_ways_matches_nothing():
    assert verdict(1, 99).misconception is None
    assert verdict(99, 2).misconception is None


def test_a_difference_without_the_expected_value():
    told = verdict(5, 4)
    assert told.why == "Got 5."
    assert "expected 2" in verdict(5, 4, reveal=True).why


def test_a_crash_names_the_line_and_a_known_one_gets_its_text():
    told = verdict(boom(), boom())
    assert (told.outcome, told.why) == (Outcome.CRASHED, "You divide by zero.")
    assert "`x / 0` raised ZeroDivisionError: no" in told.seen
    told = verdict(boom("KeyError"), 4)
    assert told.outcome is Outcome.CRASHED
    assert "`x / 0` raised KeyError" in told.why


def test_over_limit_beats_everything_after_it():
    slow = Observation(over="still running after 5 s")
    assert verdict(slow, slow).outcome is Outcome.OVER_LIMIT
    hangs = {"halves": (slow, slow)}
    told = verdict(slow, slow, specimens=hangs)
    assert (told.outcome, told.misconception) == (Outcome.OVER_LIMIT, "halves")


@pytest.mark.parametrize(
    "reference", [(boom(), Observation(value=4)), (Observation(over="slow"), Observation(value=4))]
)
def test_a_failing_reference_is_our_fault_and_never_a_zero(reference):
    told = verdict(2, 4, reference=reference)
    assert told.outcome is Outcome.GRADER_FAULT
    assert "course's own solution" in told.why


def test_a_reference_over_its_own_budget_is_our_fault():
    over = tuple(Observation(value=v, facts={"allocation": "over 10"}) for v in (2, 4))
    assert verdict(2, 4, reference=over).outcome is Outcome.GRADER_FAULT


def test_not_implemented_on_every_case_is_not_yet_and_on_some_a_crash():
    nothing = boom("NotImplementedError")
    assert verdict(nothing, nothing).outcome is Outcome.NOT_YET
    half = verdict(2, nothing)
    assert (half.outcome, half.case) == (Outcome.CRASHED, "two")
    assert verdict(2, 4, untouched=True).outcome is Outcome.NOT_YET
    assert "still the stub" in verdict(2, 4, untouched=True).why
    assert "still raises NotImplementedError" in verdict(*[boom("NotImplementedError")] * 2).why
    assert "is unchanged" in verdict(2, 4, ex=exercise(kind="debug"), untouched=True).why


def test_an_exception_that_is_asked_for():
    ex = exercise(cases=(Case("one", None), Case("two", None, raises="ValueError")))
    right = (Observation(value=2), boom("ValueError"))
    assert verdict(*right, ex=ex, reference=right).passed
    told = verdict(2, boom("TypeError"), ex=ex, reference=right, specimens={})
    assert told.outcome is Outcome.WRONG
    assert "expected ValueError" in told.why
    assert verdict(2, 7, ex=ex, reference=right, specimens={}).outcome is Outcome.WRONG


@pytest.mark.parametrize("wrote", ["workers", 1, None, ("loading", "order")])
def test_a_word_that_is_no_answer_at_all_is_told_which_are(wrote):
    ex = exercise(kind="prediction", names=("a",), cases=(Case("one", None),))
    ex = dataclasses.replace(ex, probe=Probe("literal", {"one_of": ("loading", "order")}), misconceptions=())
    told = verdict(wrote, ex=ex, reference=values("loading"), specimens={})
    assert told.why.endswith("asked for is one of loading, order.")
    told = verdict("order", ex=ex, reference=values("loading"), specimens={})
    assert told.why == "You wrote 'order', which is not what happens."


def test_predictions_are_separate_questions():
    ex = exercise(kind="prediction", names=("a", "b"))
    specimens = {"halves": values(1, 2), "divides-by-zero": values(7, 7)}
    assert verdict(1, 99, ex=ex, specimens=specimens).misconception == "halves"
    open_one = verdict(2, boom("NotImplementedError"), ex=ex)
    assert open_one.outcome is Outcome.NOT_YET
    assert open_one.why == "`b` is still `...`."


def test_points_in_groups_are_earned_apart():
    ex = exercise(
        points={"easy": 1, "hard": 2}, cases=(Case("one", None, group="easy"), Case("two", None, group="hard"))
    )
    told = verdict(2, 99, ex=ex)
    assert (told.points, told.points_of) == (1, 3)
    assert verdict(2, 4, ex=ex).points == 3


def test_counts_are_told_when_a_budget_is_what_failed():
    fat = tuple(Observation(value=v, facts={"allocation": "over 9"}, notes={"allocated_bytes": 5000}) for v in (2, 4))
    fine = tuple(Observation(value=v, facts={"allocation": "within 9"}) for v in (2, 4))
    told = verdict(*fat, reference=fine, specimens={})
    assert told.measured == "5,000 bytes allocated at the peak"
    assert verdict(5, 4).measured == ""


def test_values_that_equal_nothing_are_alike_by_their_type():
    from labsupport.probing.plain import Opaque

    lazy = Misconception("lazy", None, "A generator.", "Return a list.")
    ex = exercise(misconceptions=(lazy,))
    generators = {"lazy": values(Opaque("generator"), Opaque("generator"))}
    assert verdict(Opaque("generator"), Opaque("generator"), ex=ex, specimens=generators).misconception == "lazy"
    assert verdict(Opaque("filter"), Opaque("filter"), ex=ex, specimens=generators).misconception is None


def test_a_message_about_printing_is_for_those_who_print():
    prints = Misconception("prints", None, "You print.", "Return.")
    ex = exercise(misconceptions=(prints,))
    printed = tuple(Observation(value=None, notes={"printed": "2"}) for _ in range(2))
    assert verdict(*printed, ex=ex, specimens={"prints": printed}).misconception == "prints"
    assert verdict(None, None, ex=ex, specimens={"prints": printed}).misconception is None


def test_what_was_printed_is_told():
    printed = tuple(Observation(value=None, notes={"printed": "2\n"}) for _ in range(2))
    assert verdict(*printed, specimens={}).measured == "printed '2'"


def test_the_judge_changes_nothing_and_repeats_itself():
    seen = Observed(answer=values(1, 2), reference=RIGHT, specimens=SPECIMENS)
    assert judge(exercise(), seen) == judge(exercise(), seen)
