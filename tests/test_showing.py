"""Messages as text and as HTML: programs in them."""

from labsupport.showing import Message, plain

QUESTION = "What does it give?\n\n```python\nif x:\n    y = `1`\n```\nWrite `None` for nothing."


def test_a_fenced_program_is_set_in_as_text():
    assert plain(QUESTION) == "What does it give?\n    if x:\n        y = `1`\nWrite `None` for nothing."
    assert str(Message("Question 1", [("question", QUESTION)])) == (
        "Question 1\n  question: What does it give?\n                if x:\n                    y = `1`\n"
        "            Write `None` for nothing."
    )


def test_a_fenced_program_is_a_block_of_html():
    shown = Message("Question 1", [("question", QUESTION)])._repr_html_()
    assert ">if x:\n    y = `1`</pre>" in shown
    assert "python" not in shown and "```" not in shown
    assert ">None</code>" in shown


def test_text_without_a_program_stays_as_it_is():
    assert plain("one\n\ntwo `three`\n") == "one\n\ntwo `three`\n"
