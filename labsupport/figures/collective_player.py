"""The player of a planned collective, and of the moves that somebody has made."""

from labsupport.figures.collective_model import REDUCING
from labsupport.figures.collective_scene import draw_lanes, widths_for
from labsupport.figures.collective_words import ask_of, frames_of, name_in_words, summary_of, table_of
from labsupport.figures.film import film
from labsupport.figures.player import PlayerFigure

__all__ = ["player_of"]


def player_of(plan, made_up, note="simulated", **state):
    """Return the player of a plan; `note` says where it comes from."""
    frames = frames_of(plan)
    op = f" · {plan.op}" if plan.name in REDUCING else ""
    dtype = next(str(p.values.dtype) for lane in plan.held for p in lane if p is not None)
    middle = [k for k, step in enumerate(plan.steps, 1) if step.phase == plan.steps[0].phase]
    played = film(
        kind="collective", title=name_in_words(plan), note=f"{note} · {plan.ranks} ranks{op} · {dtype}",
        summary=summary_of(plan, made_up), frames=frames, widths=widths_for(plan), table=table_of(plan),
        ask=None if plan.algorithm == "yours" else ask_of(plan),
        draw=lambda k, width: draw_lanes(plan, k, width), poster=middle[-1] if middle else 0,
    )  # fmt: skip
    return PlayerFigure(played, **state)
