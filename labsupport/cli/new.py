"""lab new: the skeleton of a lesson or of an exercise, ready to be filled and already clean for `lab lint`."""

import re

from labsupport.errors import UsageError
from labsupport.places import ROOT, SOURCE

__all__ = ["add_arguments", "run"]

EXERCISES = ROOT / "labsupport" / "exercises"

_LESSON = """\
# %% [markdown]
# # Say what this lesson does, with a verb
# One sentence: what the reader can do afterwards that they could not do before.
#
# **30 minutes (core), any laptop.** You will be able to
# name a first thing, a second and a third, each of which can be checked.
# You need: what comes before. Not here: what comes later.

# %%
from labsupport import lesson

lab = lesson("{slug}")

# %% [markdown]
# ## The obvious way
# Show the naive version first, with what it costs on screen.
"""

_MODULE = '''\
"""Lesson {number}: {subject}."""

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["EXERCISES"]

EXERCISES = ()
'''

_CELLS = '''
# %% [markdown]
# ## Your turn: `{name}`
# - **in**: shapes, dtype, unit
# - **out**: shape, dtype, unit
# - **done when** the result can be counted or compared
# - **not allowed**: what would miss the point

# %%
# exercise: {id}
def {name}(x):
    """Return what the task asks for."""
    raise NotImplementedError


# %%
lab.check("{short}")
'''

_DEFINITION = """

# -- {id} {rule}


def {name}(x):
    return x


def _{name}_specimen(x):
    return None


{constant} = Exercise(
    id="{id}",
    kind="function",
    task="Say what the function returns.",
    names=("{name}",),
    setup="import numpy as np",
    reference={name},
    probe=Probe("call"),
    cases=(Case("what is special about this case", lambda rng: (rng.integers(0, 9, size=4),)),),
    misconceptions=(
        Misconception(
            id="what-the-person-believes",
            specimen=_{name}_specimen,
            says="Say in one sentence what is wrong with an answer like this one.",
            next="Name one thing to look at.",
        ),
    ),
    hints=("Ask a question that points to the next step without giving the answer away.",),
    core=True,
    level=2,
    minutes=5,
    source="the document and section this is based on, and the month it was read",
)
EXERCISES += ({constant},)
"""


def add_arguments(parser):
    """Declare what is made and its name."""
    parser.add_argument("kind", choices=["lesson", "exercise"], help="what to make")
    parser.add_argument("name", help="07_vectorizing for a lesson, vectorizing/sum-rows for an exercise")


def run(args):
    """Return 0 once the skeleton is written; existing files are never replaced."""
    return _lesson(args.name) if args.kind == "lesson" else _exercise(args.name)


def _lesson(name):
    match = re.fullmatch(r"(\d\d)_([a-z][a-z0-9_]*)", name)
    if not match:
        raise UsageError(f"{name!r} is not a lesson's file name", next_step="lab new lesson 07_vectorizing")
    number, slug = match.groups()
    source, module = SOURCE / f"{name}.py", EXERCISES / f"{slug}.py"
    taken = [*SOURCE.glob(f"{number}_*.py"), *SOURCE.glob(f"[0-9][0-9]_{slug}.py")]
    if taken or module.exists():
        raise UsageError(f"{(taken or [module])[0].name} is there already", next_step="take a free number and name")
    from labsupport.catalog import PLAN

    subject = next((text for _, planned, text in PLAN if planned == slug), slug.replace("_", " "))
    _write(source, _LESSON.format(slug=slug))
    _write(module, _MODULE.format(number=number, subject=subject))
    print(f"next: fill them in, then lab new exercise {slug.replace('_', '-')}/verb-noun and lab build {slug}")
    return 0


def _exercise(name):
    from labsupport.catalog import exercises, find_lesson

    match = re.fullmatch(r"([a-z0-9-]+)/([a-z0-9]+(?:-[a-z0-9]+)+)", name)
    if not match:
        raise UsageError(f"{name!r} is not lesson/verb-noun", next_step="lab new exercise vectorizing/sum-rows")
    lesson = find_lesson(match[1])
    exercise_id = f"{lesson.prefix}/{match[2]}"
    if exercise_id in {known.id for known in exercises(lesson.slug)}:
        raise UsageError(f"{exercise_id} is there already", next_step="choose another verb and noun")
    words = match[2].replace("-", "_")
    fields = {"id": exercise_id, "short": match[2], "name": words, "constant": words.upper()}
    fields["rule"] = "-" * (110 - len(exercise_id))
    source, module = SOURCE / f"{lesson.notebook.removesuffix('.ipynb')}.py", EXERCISES / f"{lesson.slug}.py"
    start = module.read_text(encoding="utf-8") if module.exists() else _fresh_module(lesson)
    _write(source, source.read_text(encoding="utf-8").rstrip("\n") + "\n" + _CELLS.format(**fields))
    _write(module, start.rstrip("\n") + "\n" + _DEFINITION.format(**fields))
    print(f"next: fill both in, move the cells to their place, then lab build {lesson.slug} and lab lint {lesson.slug}")
    return 0


def _fresh_module(lesson):
    return _MODULE.format(number=f"{lesson.number:02d}", subject=lesson.title)


def _write(path, text):
    from labsupport.workspace.atomic import write_atomic

    made = "added to" if path.exists() else "made"
    write_atomic(path, text.encode("utf-8"))
    print(f"{made} {path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path}")
