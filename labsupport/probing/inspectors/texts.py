"""Text files, as they are."""

from labsupport.probing.inspectors import Unusable

__all__ = ["read"]

_LONGEST = 10_000  # characters of one file


def read(folder, *_):
    """Return {"file NAME": text} of every file in the folder."""
    return {
        f"file {path.relative_to(folder).as_posix()}": _text(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _text(path):
    try:
        return path.read_text(encoding="utf-8")[:_LONGEST]
    except UnicodeDecodeError as error:
        raise Unusable(f"is not UTF-8 text (byte {error.start})") from None
