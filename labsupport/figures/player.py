"""A film as a figure: first, back, play, next, last, a slider with words, prediction, code, table; see `film.py`."""

from html import escape

from labsupport.errors import LabError
from labsupport.figures.figure import Figure, whole_number
from labsupport.figures.film import reason_for, scene_at
from labsupport.figures.picture import PAD, paragraph, svg

__all__ = ["PlayerFigure"]

_WIDTH = 760
_PLAIN = {"step": 0, "seen": 0, "code": False, "table": False, "predict": False, "asked": 0, "right": 0}


class PlayerFigure(Figure):
    """A film that can be stepped through. Its state: step, code, table, predict, and how many predictions were right.

    `seen` is the last step that may be looked at while one predicts; `asked` and `right` count predictions.
    """

    kind = "player"

    def __init__(self, film, **state):
        if unknown := sorted(set(state) - set(_PLAIN)):
            raise LabError(f"this figure has no {unknown[0]!r}", next_step=f"set one of {', '.join(_PLAIN)}")
        super().__init__({"film": film}, {**_PLAIN, **state})

    @property
    def film(self):
        """The film as plain data."""
        return self.source["film"]

    @property
    def steps(self):
        """The number of the last step; the first is 0."""
        return len(self.film["frames"]) - 1

    def _checked(self, state):
        step = whole_number(state["step"], "step")
        if not 0 <= step <= self.steps:
            raise LabError(f"there is no step {step}", next_step=f"set a step from 0 to {self.steps}")
        if state["predict"] and self.film["ask"] is None:
            raise LabError("nothing can be predicted in this figure", next_step="leave predict at False")
        return {**state, "step": step, "seen": max(step, whole_number(state["seen"], "seen"))}

    def _after(self, state, changes):
        begins = bool(changes.get("predict"))
        return {**state, "seen": state["step"]} if begins or not state["predict"] else state

    def words(self):
        walk = self._walk(self.state["step"])
        title, note, summary = (self.film[key] for key in ("title", "note", "summary"))
        alt = f"{title}, {note}. {summary} {self._walk(self._pictured())}"
        return {"walk": walk, "summary": summary, "alt": alt}

    def _walk(self, step):
        frame = self.film["frames"][step]
        asks = self.state["predict"] and frame["verdicts"]
        return f"{_capital(frame['title'])}. {frame['words']}" + (f" {self.film['ask']['prompt']}" if asks else "")

    def _pictured(self):
        """Return the step of the still picture: the one shown, or the film's poster when nothing has been played."""
        untouched = self.state["step"] == 0 and not self.state["predict"]
        return self.film["poster"] if untouched else self.state["step"]

    def scene(self, width=_WIDTH):
        return scene_at(self.film, self.state["step"], width)

    def code(self):
        """Return code that does what the step shown does."""
        return self.film["frames"][self.state["step"]]["code"]

    def reason(self, *answer):
        """Return what is wrong with a prediction of the next step, "" when it is right.

        Args:
            answer: one option for each field, as it is written in the figure.

        Raises:
            LabError: nothing is asked at this step, or an option does not exist.
        """
        ask = self.film["ask"]
        if ask is None or not self.film["frames"][self.state["step"]]["verdicts"]:
            raise LabError("nothing is to be predicted at this step")
        fields = ask["fields"]
        if len(answer) != len(fields):
            raise LabError(f"got {len(answer)} answers", next_step=f"give {', '.join(f['label'] for f in fields)}")
        numbers = []
        for field, given in zip(fields, map(str, answer)):
            if given not in field["options"]:
                raise LabError(f"{field['label']} cannot be {given}", next_step=f"one of {', '.join(field['options'])}")
            numbers.append(field["options"].index(given))
        return reason_for(self.film, self.state["step"], numbers)

    def svg(self):
        """Return the picture with its sentences: the step shown, or the film's poster before the first."""
        step, width = self._pictured(), _WIDTH
        scene = scene_at(self.film, step, width)
        heading = f"{self.film['title']} ({self.film['note']})"
        y = scene["height"] + 8
        for sentence, style in ((heading, "title"), (self._walk(step), "words"), (self.film["summary"], "note")):
            y = paragraph(scene["marks"], PAD, y, style, sentence, width - 2 * PAD) + 22
        return svg({**scene, "width": width, "height": y - 8})

    def html(self):
        """Return the picture as an HTML image element with alt text, and the table in words below it."""
        return super().html() + self._table()

    def _table(self):
        table = self.film["table"]
        if table is None or self.state["predict"]:
            return ""
        head = "".join(f"<th>{escape(words)}</th>" for words in table["head"])
        rows = ("".join(f"<td>{escape(words)}</td>" for words in row) for row in table["rows"])
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return (
            f"<details><summary>{escape(table['caption'])}</summary><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></details>"
        )


def _capital(words):
    return words[:1].upper() + words[1:]
