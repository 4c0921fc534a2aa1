"""Whose a file is, told by names alone: the outermost level below a path decides, what lies deeper never."""

import hashlib
import re
import unicodedata
from pathlib import Path

from labsupport import catalog
from labsupport.grading import archives

__all__ = [
    "NO_LEARNER", "as_name", "learner_of", "lesson_of_file", "names_lesson", "nearest", "owner_of", "short_digest",
    "wrappers",
]  # fmt: skip

# Folders that say where in a learner's folder something lies, not whose it is.
NO_LEARNER = frozenset(("work", "notebooks", "source", "submission", "answers"))
_COPY = r"(?:[ _()-]|copy|\d)*"  # what systems append to the name of a second copy
_LONGEST_NAME = 100


def wrappers(all_parts, packed=False):
    """Return how many folders wrap a whole class: each the only thing at its level, with two learners or more inside.

    Args:
        all_parts: folders and name of every file.
        packed: whether they lie in an archive, where a folder of files named after learners is a wrapper too.
    """
    depth = 0
    while len({parts[depth : depth + 1] for parts in all_parts}) == 1 and all(len(p) > depth + 1 for p in all_parts):
        inside = [parts[-1] for parts in all_parts if len(parts) == depth + 2]
        if inside and (not packed or any(map(names_lesson, inside))):
            break
        depth += 1
    level = {parts[depth : depth + 1] for parts in all_parts}
    several = len({name for name in level if name and name[0].lower() not in NO_LEARNER}) > 1
    return depth if several else 0


def owner_of(rest, above):
    """Return (learner, where the name comes from) by the outermost level; "" stands for the folder that was given."""
    first = rest[0] if rest else ""
    if len(rest) < 2 and first and not names_lesson(first):
        return as_name(archives.stem_of(first)), str(Path(*above, first))
    if len(rest) > 1 and first.lower() not in NO_LEARNER:
        return as_name(first), str(Path(*above, first))
    return nearest(above, archives.stem_of(rest[-1]) if rest else "unnamed"), ""


def learner_of(name, above):
    """Return whose a file is: the nearest telling folder's for a lesson's file name, else the file's own stem."""
    return nearest(above, archives.stem_of(name)) if names_lesson(name) else as_name(archives.stem_of(name))


def nearest(above, otherwise):
    """Return the learner named by the nearest folder that tells one."""
    telling = [part for part in above if part.lower() not in NO_LEARNER and part.strip("./\\")]
    return as_name(telling[-1] if telling else otherwise)


def names_lesson(name):
    """Whether a file's name says what it is and not whose."""
    return archives.stem_of(name).lower() in NO_LEARNER or bool(lesson_of_file(name))


def lesson_of_file(name):
    """Return the slug of the lesson whose file name this is, perhaps with what marks a copy, or ""."""
    stem = unicodedata.normalize("NFC", archives.stem_of(name))
    slugs = (lesson.slug for lesson in catalog.lessons())
    return next((slug for slug in slugs if re.fullmatch(rf"\d\d_{slug}{_COPY}", stem, re.IGNORECASE)), "")


def as_name(text):
    """Return text as a learner's name: composed characters, nothing that does not show, one line, not endless.

    Where that changes more than the writing of a character, a few digits keep names apart that would look alike.
    """
    text = unicodedata.normalize("NFC", text)
    shown = "".join("?" if unicodedata.category(c)[0] == "C" else c for c in text)
    shown = " ".join(shown.split())[:_LONGEST_NAME] or "unnamed"
    return shown if shown == text else f"{shown} ~{short_digest(text)}"


def short_digest(text):
    """Return a few digits that tell texts apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
