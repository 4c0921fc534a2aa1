"""What lies in a folder an answer wrote into, however it was left: within limits, without following links."""

import os
from pathlib import Path

from labsupport.probing.driven import Unusable

__all__ = ["MOST_BYTES", "MOST_DEEP", "MOST_FILES", "MOST_FOLDERS", "TooMuch", "gather", "is_written", "written_alike"]

MOST_BYTES, MOST_FILES, MOST_FOLDERS, MOST_DEEP = 8_000_000, 2_000, 5_000, 40  # a chunk may have a folder of its own


class TooMuch(Exception):
    """More than is carried; the message goes on after "the answer was"."""


def gather(folder):
    """Return ({relative path: bytes}, [relative path]): the files and the folders in a folder, sorted.

    Links, pipes, sockets and devices are neither. A folder that is gone, or stands no longer where it stood, is empty.

    Raises:
        TooMuch: there are more files, folders, levels or bytes than are carried.
        Unusable: a name or a file that cannot be read.
    """
    if folder.is_symlink() or not folder.is_dir():
        return {}, []
    files, folders = _tree(folder)
    left, found = MOST_BYTES, {}
    for name in sorted(files):
        found[name] = _read(folder / name, name, left)
        left -= len(found[name])
        if left < 0:
            raise TooMuch(f"writing more than {MOST_BYTES:,} bytes")
    return found, sorted(folders)


def _tree(folder):
    files, folders, ahead = [], [], [("", 0)]
    while ahead:
        above, deep = ahead.pop()
        for name, is_folder in _entries(folder / above, above):
            (folders if is_folder else files).append(name)
            if is_folder:
                ahead.append((name, deep + 1))
        if len(files) > MOST_FILES:
            raise TooMuch(f"writing more than {MOST_FILES:,} files")
        if len(folders) > MOST_FOLDERS:
            raise TooMuch(f"making more than {MOST_FOLDERS:,} folders")
        if deep > MOST_DEEP:
            raise TooMuch(f"making folders in folders, more than {MOST_DEEP} deep")
    return files, folders


def _entries(place, above):
    """Yield (path from the top, whether it is a folder) of the files and folders in one folder."""
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or entry.is_file(follow_symlinks=False):
                    yield _text(f"{above}/{entry.name}" if above else entry.name), is_folder
    except OSError as error:
        raise Unusable(f"The folder `{above or '.'}` that was written cannot be read: {error.strerror}.") from None


def _text(name):
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        told = name.encode("utf-8", "backslashreplace").decode("utf-8")
        raise Unusable(f"A name that was written is not UTF-8: `{told}`.") from None
    return name


def _read(path, name, most):
    try:
        with Path(path).open("rb") as file:
            return file.read(most + 1)  # one more tells that there is more; a sparse file may say it has petabytes
    except OSError as error:
        raise Unusable(f"The file `{name}` that was written cannot be read: {error.strerror}.") from None


def is_written(value):
    """Return whether a value is what `files.run` gives; what is inside is looked at where it is unpacked."""
    if type(value) is not dict or set(value) != {"files", "folders"}:
        return False
    files, folders = value["files"], value["folders"]
    return (
        type(files) is dict
        and type(folders) is list
        and all(type(name) is str and type(raw) is bytes for name, raw in files.items())
        and all(type(name) is str for name in folders)
    )


def written_alike(a, b, name):
    """Return whether two calls wrote the same under a name, as far as one can tell without looking into files.

    Bytes may differ, for a file may hold the time it was made; names and sizes tell a call that wrote from one that
    did not.
    """
    if not (is_written(a) and is_written(b)):
        return False
    (one, other) = ({n: len(raw) for n, raw in x["files"].items() if n.split("/")[0] == name} for x in (a, b))
    return one.keys() == other.keys() and all(abs(one[n] - other[n]) <= _leeway(one[n]) for n in one)


def _leeway(size):
    return size // 10 + 256
