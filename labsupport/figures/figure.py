"""A figure is two outputs: a picture that always shows, then the live figure, which hides the picture once drawn.

The picture is an `<img>` with an SVG data address and alt text: the one form that survives an untrusted notebook, an
offline page, a stopped kernel and a plain file viewer.
"""

import base64
import uuid
from functools import cache
from html import escape
from pathlib import Path

from labsupport.errors import LabError
from labsupport.figures.palette import css_variables
from labsupport.figures.picture import PAD, paragraph, svg

__all__ = ["Figure", "telling_index"]

_ASSETS = Path(__file__).with_name("assets")
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
        self._state = self._checked(self._after({**now, **changes}, changes))
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
                _esm=script(self.kind), _css=style(), source=self.source, state=dict(self._state)
            )
        return self._widget

    def __repr__(self):
        return self.alt

    def _ipython_display_(self):
        from IPython.display import display

        self._state = self.state
        display({"text/html": self.html(), "text/plain": self.alt}, raw=True)
        try:
            bundle = self.widget()._repr_mimebundle_()
        except ImportError:  # anywidget is not installed: the picture alone
            return
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        if data:
            display({**data, "text/plain": "Run this cell in JupyterLab to operate the figure."}, metadata, raw=True)


def telling_index(shape):
    """Return an index of `shape` that takes a step along every axis, two along the last, where there is room."""
    steps = [1] * (len(shape) - 1) + [2]
    return [max(0, min(step, (n or 1) - 1)) for step, n in zip(steps, shape)]


def script(kind):
    """Return the module a figure of this kind runs: the shared part, then its own."""
    return "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in ("common.js", f"{kind}.js"))


def style():
    """Return the style sheet of every figure: the palette as variables, then the rules."""
    return css_variables() + (_ASSETS / "figure.css").read_text(encoding="utf-8")


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
