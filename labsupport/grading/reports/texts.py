"""Text that a learner may have written, made harmless for the place it is put in.

Every report goes through `plain` first: what could move a cursor, end a line early or turn the direction of reading
becomes visible (`\\x1b`, `\\u202e`). Each place then escapes for itself.
"""

import html
import re

__all__ = [
    "annotation", "csv_cell", "harmless", "line", "markdown", "marked_up", "plain", "quiet_commands", "xml",
]  # fmt: skip

# Control characters (tab and newline are kept), marks and overrides of direction, invisible separators, the tag
# characters, lone surrogates and code points that are no characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
_LONG = 4000


def plain(text):
    """Return text of one or more lines in which nothing is invisible; line ends are `\\n`, very long text is cut."""
    text = str(text).replace("\r\n", "\n")
    if len(text) > _LONG:
        text = f"{text[:_LONG]} ... ({len(text) - _LONG:,} more characters)"
    return _UNSEEN.sub(_spelled, text)


def _spelled(match):
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def line(text):
    """Return text as one line: line ends and tabs become spaces."""
    return " ".join(plain(text).split())


def harmless(text):
    """Return text for a terminal and for a log of GitHub's runner: nothing in it moves a cursor or is a command."""
    return quiet_commands(plain(text))


def csv_cell(value):
    """Return a value for a cell of a table: numbers as they are, and no text that a spreadsheet would calculate."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    text = plain("" if value is None else value)
    # A spreadsheet skips leading blanks and quotes before it looks for a formula.
    return f"'{text}" if text.lstrip(" \u00a0\u3000\"'").startswith(_FORMULA) or text.startswith(_FORMULA) else text


def xml(text):
    """Return text without the characters that XML cannot hold; the XML writer escapes the rest."""
    return plain(text)


def marked_up(text):
    """Return text as HTML; words in backticks become code."""
    parts = plain(text).split("`")
    if len(parts) % 2 == 0:  # an odd backtick belongs to the text
        return html.escape("`".join(parts))
    return "".join(f"<code>{html.escape(p)}</code>" if i % 2 else html.escape(p) for i, p in enumerate(parts))


def markdown(text):
    """Return one line for GitHub's Markdown, tables included: no mark in it means anything; backticks become code."""
    parts = line(text).split("`")
    if len(parts) % 2 == 0:
        return _literal("`".join(parts))
    return "".join(f"<code>{_literal(part)}</code>" if i % 2 else _literal(part) for i, part in enumerate(parts))


def _literal(text):
    # Numeric references are text to a Markdown reader, never structure: no link, mention, table or tag can arise.
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: match[0] if match[0] in ",;'" else f"&#{ord(match[0])};", text)


def annotation(level, text, **properties):
    """Return a workflow command that GitHub shows as an annotation.

    Args:
        level: error, warning or notice.
        text: the message; line ends are kept, as GitHub writes them.
        properties: title, file, line.
    """
    told = ",".join(f"{name}={_escaped(value, inside=True)}" for name, value in properties.items() if value)
    return f"::{level} {told}::{_escaped(text)}"


def _escaped(text, inside=False):
    text = plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if inside else text


def quiet_commands(text):
    """Return text without workflow commands: GitHub's runner looks for `::` at a line's start and `##[` anywhere."""
    return re.sub(r"(?m)^(\s*):(?=:)", r"\1: ", text).replace("##[", "## [")
