"""What the probes observe: values, aliasing, changed inputs, allocations, steps, vocabulary, released memory."""

import gc
import sys

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport.course import Limits, Probe
from labsupport.probing import Subject, observe
from labsupport.probing.plain import Opaque, fresh, identical, plain, plain_literal
from labsupport.probing.running import attempt
from labsupport.probing.vocabulary import words_used


def call(function, *inputs, source=None, call_s=5.0, **options):
    return observe(Probe("call", options), Subject(("f",), {"f": function}, source), inputs, Limits(call_s=call_s))


def drive(cls, *steps, **options):
    return observe(Probe("drive", options), Subject(("C",), {"C": cls}), (list(steps),), Limits())


# -- plain data ------------------------------------------------------------------------------------------------


class Always(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class Quiet(np.ndarray):
    pass


class Pretends(np.float64):
    __module__ = "numpy"

    def copy(self):
        return Always(3)


@pytest.mark.parametrize(
    "value", [Always(3), Pretends(3), np.zeros(3).view(Quiet), object(), {1, 2}, len, np.array([object()])]
)
def test_anything_that_is_not_plain_equals_nothing(value):
    copy = plain(value)
    assert isinstance(copy, Opaque)
    assert copy != copy


def test_a_type_that_borrows_a_name_is_told_apart():
    borrowed = type("tuple", (tuple,), {"__module__": "answers"})
    assert repr(plain(borrowed())) == "<answers.tuple>"


def test_plain_copies_share_nothing():
    x = np.arange(3)
    copy = plain({"a": [x, (x,)]})
    x[0] = 99
    assert copy["a"][0][0] == 0
    assert copy["a"][1][0][0] == 0


def test_nesting_without_end_is_cut():
    loop = []
    loop.append(loop)
    assert "Opaque" not in repr(plain(1))
    text = repr(plain(loop))
    assert "nested too deeply" in text


def test_literals_forgive_lists_and_numpy_scalars():
    assert plain_literal([8, np.int64(32)]) == (8, 32)
    assert type(plain_literal(np.int64(3))) is int
    assert plain_literal(np.array([1, 2])) == (1, 2)


layouts = st.sampled_from([
    lambda a: a,
    lambda a: a.T,
    lambda a: a[::-1],
    lambda a: a[1:],
    lambda a: a[:, ::2],
    lambda a: a.T[::-1, 1:],
    lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: np.asfortranarray(a),
])  # fmt: skip


@given(hnp.arrays(np.int32, hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=5)), layouts)
def test_fresh_inputs_keep_values_and_layout(base, layout):
    x = layout(base)
    (copy,) = fresh((x,))
    assert np.array_equal(copy, x)
    assert copy.strides == x.strides
    assert copy.dtype == x.dtype
    assert copy.flags.writeable == x.flags.writeable
    assert not np.shares_memory(copy, x)


def test_inputs_that_share_memory_still_do():
    base = np.arange(10)
    a, b, nested = fresh((base[2:6], base[4:8], [base]))
    a[:] = -1
    assert list(b) == [-1, -1, 6, 7]
    assert nested[0][2] == -1


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (float("nan"), float("nan"), True),
        (np.float32(1), np.float64(1), False),
        ([np.array([np.nan])], [np.array([np.nan])], True),
        ({"a": 1}, {"a": 1.0}, False),
        ((1, 2), [1, 2], False),
    ],
)
def test_identical_is_exact(a, b, same):
    assert identical(a, b) is same


# -- calling ---------------------------------------------------------------------------------------------------


def test_value_and_unchanged_inputs():
    seen = call(lambda x: x + 1, np.arange(3))
    assert list(seen.value) == [1, 2, 3]
    assert seen.facts["inputs changed"] == ()


def test_a_changed_input_is_seen_even_deep_inside():
    def spoil(x, options):
        options["rows"].append(1)
        return x

    assert call(spoil, np.arange(3), {"rows": []}).facts["inputs changed"] == (1,)


def test_each_measurement_gets_fresh_inputs():
    def pop(items):
        return items.pop()

    seen = call(pop, [1], max_allocated=10_000, max_steps=50, releases=0)
    assert seen.value == 1
    assert seen.raised is None


@pytest.mark.parametrize(
    ("function", "layout"),
    [
        (lambda x: x[1:], "view"),
        (lambda x: x.T, "view"),
        (lambda x: x[[0, 1]], "copy"),
        (lambda x: x + 0, "copy"),
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0), "view"),
        (lambda x: 3, None),
    ],
)
def test_layout_is_found_by_changing_the_input(function, layout):
    for x in (np.arange(12.0).reshape(4, 3), np.arange(24.0).reshape(8, 3)[::2], np.arange(12).reshape(3, 4).T):
        assert call(function, x, view_of=0).facts["layout"] == layout


def test_layout_of_a_read_only_input():
    x = np.arange(4)
    x.flags.writeable = False
    assert call(lambda x: x[1:], x, view_of=0).facts["layout"] == "view"
    assert x[0] == 0


def test_writeable():
    assert call(lambda x: x, np.arange(3), writeable=True).facts["writeable"] is True
    assert call(lambda x: np.broadcast_to(x, (2, 3)), np.arange(3), writeable=True).facts["writeable"] is False


def test_allocations_are_counted():
    lean, fat = (call(f, np.zeros(100_000), max_allocated=50_000) for f in (lambda x: x.sum(), lambda x: (x + 1).sum()))
    assert lean.facts["allocation"] == "within 50,000"
    assert fat.facts["allocation"] == "over 50,000"
    assert fat.notes["allocated_bytes"] >= 800_000


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: sum(v * 2 for v in x),
        lambda x: [v for v in x][0],  # noqa: C416, RUF015
        lambda x: np.vectorize(lambda v: v * 2)(x),
        lambda x: list(map(lambda v: v * 2, x)),  # noqa: C417
    ],
)
def test_python_loops_are_counted_wherever_they_hide(loop):
    assert call(loop, np.arange(500.0), max_steps=200).facts["steps"] == "over 200"


def test_vectorised_code_takes_few_steps():
    assert call(lambda x: (x * 2).sum(), np.arange(500.0), max_steps=200).facts["steps"] == "within 200"


def test_a_debugger_or_tracer_is_put_back():
    def tracer(*_):
        return None

    sys.settrace(tracer)
    try:
        call(lambda x: x, np.arange(3), max_steps=10)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)


def test_released_memory():
    assert call(lambda x: x[-3:].copy(), np.zeros(1000), releases=0).facts["released"] is True
    assert call(lambda x: x[-3:], np.zeros(1000), releases=0).facts["released"] is False


def test_an_exception_carries_the_answers_own_line():
    def f(x):
        return np.concatenate([x, x[0]])

    raised = call(f, np.arange(3)).raised
    assert raised.type == "ValueError"
    assert raised.line == "return np.concatenate([x, x[0]])"


def test_an_answer_cannot_end_the_check():
    assert call(lambda: sys.exit(0)).raised.type == "SystemExit"

    class Rude(Exception):
        def __str__(self):
            raise RuntimeError

    def rude():
        raise Rude

    assert "cannot be shown" in call(rude).raised.message


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="a hang can only be interrupted on Unix")
def test_an_endless_loop_ends_even_when_it_swallows_everything():
    def stubborn():
        while True:
            try:
                while True:
                    pass
            except Exception:
                pass

    assert "still running" in call(stubborn, call_s=0.2).over


def test_prints_and_warnings_stay_inside(capsys):
    import warnings

    def chatty(x):
        print("hello")
        warnings.warn("careful", stacklevel=1)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = call(chatty, 1, max_allocated=100_000, max_steps=100)
    assert seen.value == 1
    assert seen.notes["printed"] == "hello\n"
    assert capsys.readouterr() == ("", "")


def test_vocabulary():
    source = "def f(x):\n    import numpy as n\n    for v in x:\n        pass\n    return n.lib.stride.as_strided(x)\n"
    assert words_used(source, ("for", "while", "as_strided", "sliding_window_view")) == ("for", "as_strided")
    assert words_used("f = lambda x: [i for i in x]", ("for", "comprehension", "lambda")) == ("comprehension", "lambda")
    assert words_used("from numpy import repeat as r", ("repeat",)) == ("repeat",)


def test_a_forbidden_function_is_known_under_any_name():
    from numpy.lib.stride_tricks import sliding_window_view as windows

    subject = Subject(("f",), {"f": lambda x: windows(x, 2), "windows": windows}, "f = lambda x: windows(x, 2)")
    seen = observe(Probe("call", {"forbid": ("sliding_window_view",)}), subject, (np.arange(4),), Limits())
    assert seen.facts["vocabulary"] == ("sliding_window_view",)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: setattr(x.flags, "writeable", False),
        lambda x: setattr(x, "shape", (3, 2)),
        lambda x: np.ndarray.resize(x, (6,), refcheck=False),
    ],
)
def test_an_array_that_comes_back_frozen_or_reshaped_has_changed(spoil):
    def f(x):
        spoil(x)
        return 1

    assert call(f, np.arange(6).reshape(2, 3)).facts["inputs changed"] == (0,)


def test_predictions_forgive_how_a_value_is_written():
    assert plain_literal(29.0) == 29
    assert type(plain_literal(29.0)) is int
    assert plain_literal(" View") == "view"
    assert plain_literal(np.array([1.6, 0.5], np.float32)) == (1.6, 0.5)  # as one would write it
    assert plain_literal(np.float32(1.6)) == 1.6
    assert plain_literal(0.5) == 0.5


def test_an_exception_knows_what_would_catch_it():
    class Shape(ValueError):
        pass

    def f():
        raise Shape("no")

    raised = call(f).raised
    assert raised.type.endswith("Shape")
    assert raised.is_a("ValueError")
    assert not raised.is_a("TypeError")


def later(first, then):
    """Return an answer that does `first` on its first call and `then` on every later one."""
    calls = []

    def f(x):
        calls.append(1)
        return first(x) if len(calls) == 1 else then(x)

    return f


def _leave(x):
    sys.exit(1)


@pytest.mark.parametrize("options", [{"max_allocated": 10_000}, {"max_steps": 100}])
def test_an_answer_that_does_something_else_when_measured_is_told_so(options):
    assert call(later(lambda x: x, _leave), 1, **options).raised.type == "SystemExit"


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="a hang can only be interrupted on Unix")
@pytest.mark.parametrize("options", [{"max_allocated": 10_000}, {"max_steps": 100}])
def test_a_measured_call_has_a_deadline_too(options):
    def forever(x):
        while True:
            pass

    over = call(later(lambda x: x, forever), 1, call_s=0.1, **options).over
    assert over.endswith("when it was called a second time")


@pytest.mark.parametrize(
    ("options", "measured"),
    [({"max_allocated": 10_000}, lambda: __import__("tracemalloc").is_tracing()), ({"max_steps": 100}, sys.gettrace)],
)
def test_what_is_measured_must_be_what_is_judged(options, measured):
    """An answer that spares itself the work while it is measured returns something else then."""

    def f(x):
        return None if measured() else x + 1

    assert call(f, np.zeros(1000), **options).raised.type == "AnotherResult"
    assert call(lambda x: x + 1, np.zeros(1000), max_allocated=100_000, max_steps=100).raised is None


def test_an_answer_that_stops_the_counting_does_not_count_as_frugal():
    import tracemalloc

    def f(x):
        tracemalloc.stop()
        return x + 1

    assert call(f, np.zeros(1000), max_allocated=100).raised.type == "MeasurementStopped"
    assert not tracemalloc.is_tracing()


def test_printing_without_end_fills_nothing():
    def f():
        for _ in range(2000):
            print("x" * 10_000)
        sys.stdout.close()

    import tracemalloc

    tracemalloc.start()
    try:
        seen = call(f)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert len(seen.notes["printed"]) == 200


def test_results_too_large_to_copy_are_named_not_copied():
    knot = [0]
    for _ in range(40):
        knot = [knot, knot]
    assert "parts" in repr(plain(knot)) or "deeply" in repr(plain(knot))
    assert "would fill" in repr(plain(np.broadcast_to(np.zeros(1), (10**8, 1))))
    assert "together" in repr(plain([np.broadcast_to(np.zeros(1), (25_000_000,))] * 2))


def test_values_that_cannot_be_shown_are_still_values():
    class Rude:
        __hash__ = object.__hash__

        def __repr__(self):
            raise RuntimeError

    assert list(plain({Rude(): 1})) == ["<Rude as a key>"]
    loop = []
    loop.append(loop)
    assert "deeply" in repr(plain_literal(loop))


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="only Unix has this timer")
def test_an_alarm_of_the_learner_goes_on():
    import signal

    signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        call(lambda: 1)
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_garbage_collection_is_left_as_it_was():
    gc.disable()
    try:
        call(lambda x: x, 1, max_allocated=100_000)
        assert not gc.isenabled()
    finally:
        gc.enable()


# -- driving ---------------------------------------------------------------------------------------------------


class Keeper:
    def __init__(self, n):
        self.n, self.kept = n, []

    def add(self, x):
        self.kept.append(x[-self.n :])
        return len(self.kept)


class Copier(Keeper):
    def add(self, x):
        return super().add(x[-self.n :].copy())


def test_driving_returns_what_each_step_gave():
    seen = drive(Keeper, ("C", (2,)), ("add", (np.arange(4),)), (".n", ()))
    assert seen.value == {"step 1: add()": 1, "step 2: .n": 2}


def test_what_an_object_keeps_alive_is_counted():
    steps = (("C", (2,)), ("add", (np.zeros(100_000),)), ("add", (np.zeros(100_000),)))
    keeps, copies = (drive(c, *steps, releases=True, max_kept=50_000) for c in (Keeper, Copier))
    assert (keeps.facts["released"], copies.facts["released"]) == (False, True)
    assert copies.facts["kept"] == "within 50,000"


def test_a_step_is_gone_once_it_is_done():
    """Only what the object itself keeps may be alive when it is asked."""
    import weakref

    class Cheat:
        def __init__(self, n):
            self.seen = []

        def add(self, x):
            self.seen.append(weakref.ref(x))

        def alive(self):
            return sum(ref() is not None for ref in self.seen)

    seen = drive(Cheat, ("C", (1,)), ("add", (np.zeros(3),)), ("add", (np.zeros(3),)), ("alive", ()))
    assert seen.value["step 3: alive()"] == 0


def test_a_step_that_does_not_exist_is_an_exception():
    assert drive(Keeper, ("C", (2,)), ("remove", ())).raised.type == "AttributeError"


def test_predictions_are_read_not_run():
    probe, limits = Probe("literal"), Limits()
    assert observe(probe, Subject(("a",), {"a": [8, 32]}), (), limits).value == (8, 32)
    assert observe(probe, Subject(("a",), {"a": ...}), (), limits).raised.type == "NotImplementedError"


def test_attempt_lets_the_learner_interrupt():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupted, (), 5)
