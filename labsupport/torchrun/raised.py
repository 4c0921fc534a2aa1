"""What a rank wrote of its exception, cut to what can be told: a message may hold megabytes."""

import json

__all__ = ["LONGEST", "cut_text", "error_of"]

LONGEST = 20_000  # characters of an exception's message or traceback that are looked at


def error_of(folder):
    """Return what a rank wrote of its exception into its folder, as a dict; {} when there was none."""
    try:
        error = json.loads((folder / "error.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: cut_text(value) if type(value) is str else value for key, value in error.items()}


def cut_text(text, room=LONGEST):
    """Return a text; one longer than `room` without its middle, with a word on how much that was."""
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters left out) ... {text[-half:]}"
