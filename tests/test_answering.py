"""Answers as text: renaming, comparing, executing, finding the live source."""

import pytest

from labsupport import answering
from labsupport.course import Answer


def countdown(n):
    """Count down."""
    countdown_text = "countdown"  # a name that merely contains the old one
    return [] if n == 0 else [n, *countdown(n - 1), countdown_text][:n]


class Pile:
    def grow(self):
        return Pile()


def test_a_function_is_renamed_at_its_names_only():
    source = answering.source_of(countdown, "down", "import math")
    assert source.startswith("import math\n\n\ndef down(n):")
    assert 'countdown_text = "countdown"  # a name' in source
    assert answering.load(Answer(source, ("down",)))["down"](2) == [2, 1]


def test_a_class_is_renamed_where_it_names_itself():
    namespace = answering.load(Answer(answering.source_of(Pile, "Stack"), ("Stack",)))
    assert type(namespace["Stack"]().grow()).__name__ == "Stack"


def test_characters_beyond_ascii_before_a_name_do_not_shift_it():
    text = 'def mean(x):\n    "größe"\n    return "ä", mean, x\n'
    namespace = answering.load(Answer(text, ("mean",)))
    namespace["mean"].__module__ = __name__
    source = answering.source_of(namespace["mean"], "average")
    assert 'return "ä", average, x' in source


def test_a_lambda_is_refused():
    with pytest.raises(ValueError, match="def or class"):
        answering.source_of(lambda x: x, "f")


def test_a_nested_definition_is_found_and_dedented():
    text = "if True:\n    def f(x):\n        return x\n"
    assert answering.definition_in(text, "f") == "def f(x):\n    return x\n"


def test_of_two_definitions_the_last_one_counts():
    assert "2" in answering.definition_in("def f():\n    return 1\n\n\ndef f():\n    return 2\n", "f")


def test_definition_in_broken_text_is_none():
    assert answering.definition_in("def f(:\n", "f") is None


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("def f(x):\n    return x\n", "def f( x ):  # note\n    return x\n", True),
        ("def f(x):\n    'doc'\n    return x\n", "def f(x):\n    return x\n", True),
        ("def f(x):\n    return x\n", "def f(x):\n    return -x\n", False),
        ("a = ...\n", "a = 3\n", False),
        ("a = [", "a = [", True),
    ],
)
def test_same_program(a, b, same):
    assert answering.same_program(a, b) is same


def test_live_source_of_functions_and_classes():
    namespace = answering.load(
        Answer("class C:\n    def m(self):\n        return 1\n\n\ndef f():\n    return 2\n", ("C", "f"))
    )
    assert answering.live_source(namespace["C"]).startswith("class C:")
    assert answering.live_source(namespace["f"]) == "def f():\n    return 2\n"
    assert answering.live_source(len) is None
    assert answering.live_source(3) is None


def test_errors_inside_an_answer_can_show_its_line():
    import linecache

    namespace = answering.load(Answer("def f():\n    return 1 / 0\n", ("f",)))
    assert linecache.getline(namespace["f"].__code__.co_filename, 2) == "    return 1 / 0\n"
