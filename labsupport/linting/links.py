"""Rules on what a lesson points to: links, addresses, paths of one machine."""

import ast
import re

from labsupport.linting.lesson import Problem, prose_of, tree_of
from labsupport.places import NOTEBOOKS, ROOT

__all__ = ["RULES"]

_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|\b(?:src|href)=[\"']([^\"']+)[\"']|<(\w+:[^>\s]+)>")
_BARE = re.compile(r"(?<![(\"'<\w/])(http://[^\s)>\"']+)")
_CDN = re.compile(
    r"https?://(?:[\w.-]*\b(?:jsdelivr|unpkg|cdnjs|esm\.sh|skypack|jspm|googleapis|gstatic|bootstrapcdn)\b|cdn\.)[\w./@-]*"
)
_ABSOLUTE = re.compile(
    r"(?<![\w.:/~-])(?:/(?:home|Users|tmp|root|usr|opt|var|mnt|media|private|content|kaggle|workspace)/[\w.-]+|~/\w|[A-Za-z]:\\\w)"
)
_LOCAL = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])\b")


def links(text):
    """Every link leads to a file beside the notebook, to a heading of it, or to an https address."""
    anchors = _anchors(text)
    for index, cell in text.of_kind("markdown"):
        visible = re.sub(r"^(```|~~~).*?^\1|`[^`\n]+`", "", cell.text, flags=re.DOTALL | re.MULTILINE)
        targets = [next(part for part in match if part) for match in _LINK.findall(visible)]
        for target in targets + _BARE.findall(visible):
            if reason := _trouble(target, anchors):
                why, step = reason
                yield Problem("links", text.at(index, target), f"the link {target}", why, step, index)


def _trouble(target, anchors):
    if target.startswith("https://") or _LOCAL.match(target):
        return None
    if target.startswith("http://"):
        return "is not encrypted", "use https"
    if target.startswith("attachment:"):
        return "is an attachment, and notebooks are built without them", "put the picture below notebooks/"
    if re.match(r"[A-Za-z][\w+.-]*:", target):
        return "is neither https nor a file of the course", "use https"
    name, _, anchor = target.partition("#")
    if not name:
        return None if anchor in anchors else ("names no heading of this lesson", "spell the heading with hyphens")
    path = (NOTEBOOKS / name).resolve()
    if not path.is_relative_to(ROOT):
        return "leads out of the repository", "link to a file of the course, or to https"
    if not path.exists():
        return "leads to no file of the course", f"there is no {path.relative_to(ROOT).as_posix()}"
    if not path.is_relative_to(NOTEBOOKS.resolve()):
        why = "leads out of the notebooks' folder, and JupyterLab opened on work/ shows nothing outside it"
        return why, "name the file in words, or link to its https address"
    return None


def _anchors(text):
    """Return the anchors JupyterLab gives to the headings: the text with hyphens for blanks."""
    found = set()
    for _, cell in text.of_kind("markdown"):
        for heading in re.findall(r"^#{1,6} +(.+?)\s*$", cell.text, re.MULTILINE):
            found.add(re.sub(r"[`*_]", "", heading).replace(" ", "-"))
            found.add(heading.replace(" ", "-"))
    return found


def networks(text):
    """Nothing is loaded from somebody else's server at run time."""
    for index, cell in enumerate(text.cells):
        for match in _CDN.finditer(cell.text):
            why = "a lesson works without a network and tells no server who reads it"
            line = text.at(index, match[0])
            yield Problem("networks", line, f"the address {match[0]}", why, "ship the file with the course", index)


def paths(text):
    """No path that exists on one machine only."""
    for index, cell in enumerate(text.cells):
        if cell.kind == "code":
            values = [n.value for n in ast.walk(tree_of(cell.text)) if isinstance(n, ast.Constant)]
            texts = [value for value in values if isinstance(value, str)]
            texts += [cell.text] if cell.text.startswith("%%") else []
        else:
            texts = [prose_of(cell.text)]
        for match in (match for one in texts for match in _ABSOLUTE.finditer(one)):
            why = "other machines have no such folder"
            line = text.at(index, match[0])
            yield Problem("paths", line, f"the absolute path {match[0]}", why, "use lab.data or a relative path", index)


RULES = (links, networks, paths)
