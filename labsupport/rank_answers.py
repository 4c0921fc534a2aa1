"""The live check of answers that ranks run: what is judged is the text of the cell as it was last run."""

from labsupport import answering, catalog
from labsupport.course import Outcome, Verdict

__all__ = ["source_of_answer", "verdict_on_cell"]


def source_of_answer(exercise, objects, namespace):
    """Return the text of an answer, or None when there is none in this kernel.

    Args:
        exercise: the exercise.
        objects: what was handed to the check instead: a function or class, or a program's text; may be empty.
        namespace: the notebook's names, for an answer that was defined by a cell without the magic.
    """
    from labsupport.torchrun import cells

    if objects:
        return objects[0] if isinstance(objects[0], str) else answering.live_source(objects[0])
    text = cells.recall(exercise.id)
    if text is not None and text == answering.without_magic(text):
        return f"# %%torchrun\n{text}"  # lines are counted as in the cell
    if text is None and exercise.names[0] in namespace:
        text = answering.live_source(namespace[exercise.names[0]])
    return text


def verdict_on_cell(exercise, source, *, reveal=True):
    """Return the verdict on an answer's text (None: its cell was not run); `reveal`: expected values may be told."""
    from labsupport.observing import verdict_on
    from labsupport.probing import Subject

    if source is None:
        why = "The cell of this exercise has not been run in this kernel."
        return _not_yet(exercise, why, "Run the cell above, then run this check again.")
    mine = answering.definition_in(source, exercise.names[0])
    if mine is None and _is_program(source) and exercise.names[0] not in source:
        why = f"The cell does not define `{exercise.names[0]}`."
        return _not_yet(exercise, why, f"Name your answer `{exercise.names[0]}`, run the cell, then this check.")
    stub = answering.definition_in(catalog.stubs(exercise.slug).get(exercise.id, ""), exercise.names[0])
    untouched = mine is not None and stub is not None and answering.same_program(mine, stub)
    subject = Subject(exercise.names, {}, answering.without_magic(source), exercise.setup)
    return verdict_on(exercise, subject, untouched=untouched, reveal=reveal)


def _is_program(text):
    try:
        compile(answering.without_magic(text), "<cell>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _not_yet(exercise, why, step):
    return Verdict(exercise=exercise.id, outcome=Outcome.NOT_YET, why=why, next=step)
