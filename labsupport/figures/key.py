"""The key under a picture: a sample of each colour or stroke beside what it means."""

from labsupport.figures.film import named
from labsupport.figures.picture import PAD, cell, path, text

__all__ = ["key"]

_LINE_H = 22


def key(marks, entries, y, width, *, strokes=False):
    """Add samples and their words to `marks`, on as many lines as `width` needs, and return the y below them.

    Args:
        marks: of the scene.
        entries: (role, what it means), in order.
        y: where the first line begins.
        width: of the picture.
        strokes: roles are those of paths, not of cells.
    """
    indent, around = (24, 30) if strokes else (22, 26)
    x = PAD
    for n, (role, words) in enumerate(entries):
        room = around + len(words) * 13 // 2
        if x > PAD and x + room > width - PAD:
            x, y = PAD, y + _LINE_H
        if strokes:
            marks.append(named(f"key{n}", path(role, f"M{x} {y + 8}h16")))
        else:
            marks.append(cell(f"key{n}", x + 1, y, 14, 14, role, [""]))
        marks.append(named(f"means{n}", text(x + indent, y + 12, "note", words)))
        x += room + 12
    return y + _LINE_H
