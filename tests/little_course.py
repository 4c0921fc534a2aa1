"""A course of one lesson in a folder of its own, in two releases, for tests of building, linting and copies."""

from pathlib import Path
from textwrap import dedent

from labsupport import building, catalog, reading, workspace
from labsupport.course import Case, Exercise, Misconception
from labsupport.linting import links

HOME = """\
# %% [markdown]
# # Begin here
# Open [the lesson](05_demo.ipynb).
"""

LESSON = '''\
# %% [markdown]
# # Look twice
# One promise.
#
# **20 minutes (core), any laptop.** You will be able to look twice.

# %%
from labsupport import lesson

lab = lesson("demo")

# %% [markdown]
# ## Your turn: `double_up`

# %%
# exercise: demo/double-up
def double_up(x):
    """Return twice x."""
    raise NotImplementedError


# %%
lab.check("double-up")

# %%
# exercise: demo/predict-sum
total = ...

# %%
lab.check("predict-sum")

# %% [markdown]
# ## Close
# That was it.
'''

SECOND_RELEASE = LESSON.replace("That was it.", "That was all.").replace("One promise.", "One better promise.")


def _double(x):
    return 2 * x


EXERCISES = tuple(
    Exercise(
        id=name,
        kind=kind,
        task="Return twice x.",
        names=(defined,),
        reference=reference,
        cases=(Case("three", lambda rng: (3,)),),
        misconceptions=(Misconception("keeps-it", "x", "It is kept as it was, once and not twice.", "Look again."),),
        hints=("What is twice three, and what does the answer give back?",),
        core=True,
        level=1,
        minutes=5,
        source="arithmetic, read 2026-11",
    )
    for name, kind, defined, reference in (
        ("demo/double-up", "function", "double_up", _double),
        ("demo/predict-sum", "prediction", "total", lambda x: x + x),
    )
)


def exercises(slug=None):
    """Stand in for `catalog.exercises`."""
    return EXERCISES if slug in (None, "demo") else ()


exercises.cache_clear = lambda: None


def use(root, put=setattr):
    """Make the little course below `root` the one that the project's modules see; returns its notebooks' folder."""
    notebooks = Path(root) / "notebooks"
    source = notebooks / "source"
    source.mkdir(parents=True, exist_ok=True)
    for module in (catalog, links, reading):
        put(module, "ROOT", Path(root))
    for module in (building, catalog, links):
        put(module, "NOTEBOOKS", notebooks)
    for module in (building, catalog):
        put(module, "SOURCE", source)
    put(workspace, "NOTEBOOKS", notebooks)
    put(catalog, "exercises", exercises)
    # Without their memory: releases change during a test, and the real course must not remember this one.
    uncached = getattr(catalog.lessons, "__wrapped__", catalog.lessons)
    put(catalog, "lessons", uncached)
    put(workspace, "lessons", uncached)
    put(catalog, "PLAN", ())
    put(catalog, "stubs", catalog.stubs.__wrapped__)
    return notebooks


def release(root, lesson=LESSON, home=HOME):
    """Write and build one release of the little course."""
    notebooks = Path(root) / "notebooks"
    for name, text in (("05_demo", lesson), ("home", home)):
        source = notebooks / "source" / f"{name}.py"
        source.write_text(dedent(text), encoding="utf-8")
        (notebooks / f"{name}.ipynb").write_bytes(building.dump(building.build(source)).encode("utf-8"))
