"""A figure is two outputs: a picture that always shows, then the live figure, which hides the picture once drawn.

The picture is an `<img>` with an SVG data address and alt text: the one form that survives an untrusted notebook, an
offline page, a stopped kernel and a plain file viewer.
"""

import base64
import contextlib
import inspect
import re
import uuid
from functools import cache, wraps
from html import escape
from operator import index as as_int
from pathlib import Path

from labsupport.errors import LabError
from labsupport.figures.palette import css_variables
from labsupport.figures.picture import PAD, paragraph, svg
from labsupport.figures.words import repr_label

__all__ = ["Figure", "flag", "telling_index", "told", "whole", "whole_number"]

_ASSETS = Path(__file__).with_name("assets")
_AGAIN = "Run this cell in JupyterLab to operate the figure."
# After a restart Lab writes "Error displaying widget: model not found" below the picture, where nothing is wrong.
_LOST = ".jp-OutputArea-child:has(.lab-figure-still)+.jp-OutputArea-child .jupyter-widgets:not(:empty,:has(*))"
_CALM = (
    f"<style>{_LOST}{{font-size:0;visibility:hidden}}"  # neither seen nor read aloud
    f'{_LOST}::after{{content:"{_AGAIN}";visibility:visible;font-size:var(--jp-content-font-size1,14px)}}</style>'
)
_WIDTH = 760  # of the picture, in CSS pixels: what a notebook's output column holds on a small screen


class Figure:
    """A picture one can operate. Displayed as the last value of a cell; usable from Python as well.

    `figure.state` is what the learner has set, as a dict; `figure.set(offset=8)` changes it, in Python and on screen.
    """

    kind = ""  # names the script in assets/

    def __init__(self, source, state):
        self.source = {**source, "figure": uuid.uuid4().hex[:12]}
        self._state = self._checked(state)
        self._widget = None

    # what one kind of figure must say of itself

    def _checked(self, state):
        """Return `state` in its normal form (lists, plain ints). Raises LabError where it makes no sense."""
        raise NotImplementedError

    def words(self):
        """Return the figure in sentences: a dict with at least `walk`, `summary` and `alt`."""
        raise NotImplementedError

    def scene(self, width=_WIDTH):
        """Return the marks of the drawing, for a width in CSS pixels."""
        raise NotImplementedError

    # what every figure can do

    @property
    def state(self):
        """What is set now, on screen if the figure has been shown."""
        return dict(self._widget.state if self._widget is not None else self._state)

    def set(self, **changes):
        """Change parts of the state and return the figure. Raises LabError for a part it has not, or a wrong value."""
        now = self.state
        unknown = sorted(set(changes) - set(now))
        if unknown:
            raise LabError(f"this figure has no {unknown[0]!r}", next_step=f"set one of {', '.join(now)}")
        with _in_words("the figure cannot be set to this", f"set one of {', '.join(now)}"):
            self._state = self._checked(_settings(self._after({**now, **changes}, changes)))
        if self._widget is not None:
            self._widget.state = dict(self._state)
        return self

    def _after(self, state, changes):
        return state

    @property
    def alt(self):
        """The figure as text: what it shows and its numbers."""
        return self.words()["alt"]

    def svg(self):
        """Return the picture with its sentences as SVG text, light on an opaque ground."""
        scene, words = self.scene(), self.words()
        y = scene["height"] + 8
        for sentence, style in ((words["walk"], "words"), (words["summary"], "note")):
            y = paragraph(scene["marks"], PAD, y, style, sentence, _WIDTH - 2 * PAD) + 22
        return svg({**scene, "height": y - 8})

    def html(self):
        """Return the picture as an HTML image element with alt text."""
        data = base64.b64encode(self.svg().encode()).decode()
        return (
            f'<img class="lab-figure-still" data-figure="{self.source["figure"]}" alt="{escape(self.alt)}" '
            f'width="{_WIDTH}" style="max-width:100%;height:auto" src="data:image/svg+xml;base64,{data}">'
        )

    def widget(self):
        """Return the live figure, one per Figure however often it is shown."""
        if self._widget is None:
            self._widget = _widget_class()(
                _esm=script(self.kind), _css=style(self.kind), source=self.source, state=dict(self._state)
            )
        return self._widget

    def __repr__(self):
        return self.alt

    def _ipython_display_(self):
        from IPython.display import display

        self._state = self.state
        display({"text/html": self.html() + _CALM, "text/plain": self.alt}, raw=True)
        try:
            bundle = self.widget()._repr_mimebundle_()
        except ImportError:  # anywidget is not installed: the picture alone
            return
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        if data:
            words = {"text/plain": _AGAIN}
            display(data | words, metadata=metadata, raw=True)  # by name: else it would be an output of its own


def told(accepts):
    """Return a decorator for `draw`: whatever it is given, a learner is told what it takes, never shown our code.

    Args:
        accepts: what can be passed, as the next step of an error.
    """

    def decorate(draw):
        @wraps(draw)
        def drawn(*args, **options):
            try:
                inspect.signature(draw).bind(*args, **options)
            except TypeError as error:
                raise LabError("the figure cannot be drawn from this", why=str(error), next_step=accepts) from None
            with _in_words("the figure cannot be drawn from this", accepts):
                return draw(*args, **options)

        return drawn

    return decorate


@contextlib.contextmanager
def _in_words(what, step):
    """Turn any exception inside into a `LabError`: objects of every kind come here, and run code of their own."""
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:200]
        raise LabError(what, why=f"{type(error).__name__}: {said}", next_step=step) from error


def whole(values, what):
    """Return numbers as a list of plain ints.

    Raises:
        LabError: not a tuple, list or array of whole numbers; `what` says which were.
    """
    try:
        return [as_int(v) for v in values]
    except TypeError:
        step = f"pass a tuple such as {what}=(3, 4)"
        raise LabError(f"{what} must be whole numbers, got {repr_label(values, 40)}", next_step=step) from None


def whole_number(value, what):
    """Return a number as a plain int. Raises LabError when it is not a whole one."""
    try:
        return as_int(value)
    except TypeError:
        raise LabError(f"{what} must be a whole number, got {repr_label(value, 40)}") from None


def flag(value, what):
    """Return True or False. Raises LabError for anything else."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise LabError(f"{what} must be True or False, got {repr_label(value, 40)}")
    return bool(value)


_FLAGS = ("code", "table", "predict", "revealed")
_COUNTS = ("asked", "right", "step", "seen")


def _settings(state):
    """Return `state` with what every figure has in its normal form, so that it can always be sent as JSON."""
    flags = {name: flag(state[name], name) for name in _FLAGS if name in state}
    return state | flags | {name: whole_number(state[name], name) for name in _COUNTS if name in state}


def telling_index(shape):
    """Return an index of `shape` that takes a step along every axis, two along the last, where there is room."""
    steps = [1] * (len(shape) - 1) + [2]
    return [max(0, min(step, (n or 1) - 1)) for step, n in zip(steps, shape)]


@cache
def script(kind):
    """Return the module a figure of this kind runs: what it uses of the shared part, then its own.

    Indentation and comments stay here as well: every figure of a notebook carries the script, a fifth of it less.
    """
    shared, own = ((_ASSETS / name).read_text(encoding="utf-8") for name in ("common.js", f"{kind}.js"))
    lines = [line.strip() for line in (_used(shared, own) + own).splitlines()]
    return "\n".join(re.sub(r"; // .*$", ";", line) for line in lines if line and not line.startswith("//"))


def _used(shared, own):
    """Return those declarations of `shared` that `own` names, or that one of these names, in their order.

    A declaration begins at the start of a line with `const` or `function`, and ends where the next one begins.
    """
    parts = re.split(r"^(?=const |function )", shared, flags=re.MULTILINE)[1:]
    names = [re.match(r"\w+ (\w+)", part)[1] for part in parts]
    seen, words = set(), _words_in(own)
    while new := {k for k, name in enumerate(names) if name in words} - seen:
        seen |= new
        words = words.union(*(_words_in(parts[k]) for k in new))
    return "".join(part for k, part in enumerate(parts) if k in seen)


def _words_in(text):
    return set(re.findall(r"\w+", re.sub(r"//.*", "", text)))


@cache
def style(kind=""):
    """Return the style sheet: the palette as variables, the rules of every figure, and those of this kind alone."""
    files = [_ASSETS / "figure.css", *(file for file in [_ASSETS / f"{kind}.css"] if kind and file.exists())]
    rules = re.sub(r"/\*.*?\*/", "", "".join(file.read_text(encoding="utf-8") for file in files), flags=re.DOTALL)
    rules = re.sub(r"\s+", " ", rules)
    return css_variables() + re.sub(r";? ?([{};]) ?", r"\1", rules).replace("}", "}\n").replace(": ", ":")


@cache
def _widget_class():
    import anywidget
    import traitlets

    class LabFigure(anywidget.AnyWidget):
        """The browser's half of a Figure."""

        _esm = traitlets.Unicode().tag(sync=True)
        _css = traitlets.Unicode().tag(sync=True)
        source = traitlets.Dict().tag(sync=True)
        state = traitlets.Dict().tag(sync=True)
        said = traitlets.Unicode().tag(sync=True)

    return LabFigure
