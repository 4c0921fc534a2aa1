"""lab new: the skeleton of a lesson or of an exercise, ready to be filled and already clean for `lab lint`."""

import ast
import keyword
import re

from labsupport.errors import LabError, UsageError
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

_DEFINITION = '''\
"""Lesson {number}: `{name}`."""

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["{constant}"]


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
'''


_LONGEST = 40  # letters of a name: it becomes part of file names and of cell ids


def add_arguments(parser):
    """Declare what is made and its name."""
    parser.add_argument("kind", choices=["lesson", "exercise"], help="what to make")
    parser.add_argument("name", help="07_vectorizing for a lesson, vectorizing/sum-rows for an exercise")
    parser.epilog = (
        "An exercise gets a file of its own, a place in the lesson's EXERCISES, and its cells at the lesson's end."
    )


def run(args):
    """Return 0 once the skeleton is written; existing files are added to, never replaced."""
    return _lesson(args.name) if args.kind == "lesson" else _exercise(args.name)


def _lesson(name):
    match = re.fullmatch(r"([0-9]{2})_([a-z][a-z0-9]*(?:_[a-z0-9]+)*)", name)
    if not match:
        raise UsageError(f"{name!r} is not a lesson's file name", next_step="lab new lesson 07_vectorizing")
    number, slug = match.groups()
    _refuse_odd(slug)
    source, module = SOURCE / f"{name}.py", EXERCISES / f"{slug}.py"
    taken = [*SOURCE.glob(f"{number}_*.py"), *SOURCE.glob(f"[0-9][0-9]_{slug}.py")]
    if taken or module.exists():
        raise UsageError(f"{(taken or [module])[0].name} is there already", next_step="take a free number and name")
    from labsupport.catalog import PLAN

    subject = next((text for _, planned, text in PLAN if planned == slug), slug.replace("_", " "))
    _write({source: _LESSON.format(slug=slug), module: _MODULE.format(number=number, subject=subject)})
    print(f"next: fill them in, then lab new exercise {slug.replace('_', '-')}/verb-noun and lab build {slug}")
    return 0


def _refuse_odd(name):
    if len(name) > _LONGEST:
        raise UsageError(f"the name has {len(name)} letters", why=f"{_LONGEST} are the most", next_step="shorten it")
    if keyword.iskeyword(name):
        raise UsageError(f"{name!r} is a word of Python itself", next_step="take another name")


def _exercise(name):
    from labsupport.catalog import exercises, find_lesson

    match = re.fullmatch(r"([a-z0-9-]+)/([a-z][a-z0-9]*(?:-[a-z0-9]+)+)", name)
    if not match:
        raise UsageError(f"{name!r} is not lesson/verb-noun", next_step="lab new exercise vectorizing/sum-rows")
    lesson, short = find_lesson(match[1]), match[2]
    _refuse_odd(short)
    words = short.replace("-", "_")
    fields = {"id": f"{lesson.prefix}/{short}", "short": short, "name": words, "constant": words.upper()}
    fields |= {"number": f"{lesson.number:02d}", "subject": lesson.title.replace("\\", "").replace('"', "'")}
    part = EXERCISES / f"_{lesson.slug}_{words}.py"
    source, module = SOURCE / f"{lesson.notebook.removesuffix('.ipynb')}.py", EXERCISES / f"{lesson.slug}.py"
    listed = _text(module) if module.exists() else _MODULE.format(**fields)
    shown = _text(source)
    bound = {known for one in exercises(lesson.slug) for known in one.names}
    bound |= _names(listed, module) | _names(shown, source)
    definition = _DEFINITION.format(**fields)
    # The part alone, and untouched, is what a full disk left of this very command.
    if bound & {words, fields["constant"]} or (part.exists() and _text(part) != definition):
        what = f"{words} is a name that {lesson.slug} has already"
        raise UsageError(what, next_step="choose another verb and noun")
    _write({
        part: definition,
        module: _registered(listed, f"labsupport.exercises.{part.stem}", fields["constant"]),
        source: shown.rstrip("\n") + "\n" + _CELLS.format(**fields),
    })  # fmt: skip
    print("next: fill both in, move the cells and the line in EXERCISES to their place,")
    print(f"      then lab build {lesson.slug} and lab lint {lesson.slug}")
    return 0


def _text(path):
    from labsupport.reading import text_of_source

    return text_of_source(path)


def _names(text, path):
    """Return every name that a file defines, assigns or imports."""
    names = set()
    for node in ast.walk(_tree(text, path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def _tree(text, path):
    """Return the syntax tree of a module or of a lesson, whose cells may wait for things at their top level."""
    try:
        return compile(text, str(path), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, RecursionError) as error:
        why = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        what = f"{_shown(path)} is not Python"
        raise LabError(what, why=why, next_step="mend it first; nothing was written") from None


def _registered(text, module, constant):
    """Return a lesson's module with one exercise more: imported, and last in the tuple EXERCISES."""
    tree = ast.parse(text)
    value = next((node.value for node in tree.body if isinstance(node, ast.Assign) and _is_list(node)), None)
    if value is None:
        why = "an exercise is added to the line that says EXERCISES = (...)"
        raise LabError("the lesson's module has no tuple EXERCISES", why=why, next_step="write EXERCISES = ()")
    lines = text.encode().splitlines(keepends=True)  # ast counts columns in bytes
    if value.elts:
        row, column = value.elts[-1].end_lineno - 1, value.elts[-1].end_col_offset
        added = f", {constant}" if value.lineno == value.end_lineno else f",\n    {constant}"
    else:
        row, column, added = value.lineno - 1, value.col_offset + 1, f"{constant},"
    lines[row] = lines[row][:column] + added.encode() + lines[row][column:]
    place, before = _place_of_import(tree, module)
    lines.insert(place, f"{before}from {module} import {constant}\n".encode())
    return b"".join(lines).decode()


def _is_list(node):
    named = any(isinstance(target, ast.Name) and target.id == "EXERCISES" for target in node.targets)
    return named and isinstance(node.value, ast.Tuple)


def _place_of_import(tree, module):
    """Return (how many lines stand before an import of `module`, the blank line it needs before it or "")."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        of = getattr(node, "module", None) or ""
        if of.startswith("labsupport.exercises.") and of > module:
            return node.lineno - 1, ""
    if imports:
        return imports[-1].end_lineno, ""
    return (tree.body[0].end_lineno, "\n") if ast.get_docstring(tree) else (0, "")


def _write(texts):
    """Write the files of {path: text}, once it is sure that all of them are Python."""
    from labsupport.workspace.atomic import write_atomic

    for path, text in texts.items():
        _tree(text, path)
    for path, text in texts.items():
        made = "added to" if path.exists() else "made"
        write_atomic(path, text.encode("utf-8"))
        print(f"{made} {_shown(path)}")


def _shown(path):
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
