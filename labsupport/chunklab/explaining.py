"""Why a file or store cannot be opened, in sentences: what lies there, the cause, and what to do.

The libraries' own errors name internals ("object header version", "GroupNotFoundError"), so what lies there is looked
at instead, and their text only serves to tell the causes apart.
"""

import difflib
import errno
import json
import re
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["DOCUMENTS", "explained", "first_line", "folder_of", "is_url", "listed", "zarr_words"]

DOCUMENTS = {"zarr.json": 3, ".zarray": 2, ".zgroup": 2}  # what a node's metadata are called, by format
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FEW = 6


def listed(names):
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(f"'{name}'" for name in list(names)[:_FEW]) + more


def explained(where, error, name=None):
    """Return the `LabError` that says why `where` cannot be opened; never raises.

    Args:
        where: a path, URL or store.
        error: what the library raised.
        name: the array that was asked for.
    """
    if isinstance(error, LabError):
        return error
    path = _path(where)
    if path is None:
        return _far_away(where, error)
    try:
        if not path.exists():
            return _nothing_there(path)
        if _refused(error):
            return _no_permission(path, error)
        if path.is_file() and _is_hdf5_file(path):
            return _hdf5_words(path, error)
        return zarr_words(where, path / (name or "").strip("/") if path.is_dir() else path, error)
    except PermissionError as refused:
        return _no_permission(path, refused)
    except OSError as second:
        return LabError(f"{where} cannot be read", why=first_line(second))


def _refused(error):
    return isinstance(error, PermissionError) or getattr(error, "errno", None) in (errno.EACCES, errno.EPERM)


def _no_permission(path, error):
    at = getattr(error, "filename", None) or path
    return LabError(
        f"{path} may not be read", why=f"the system refuses access to {at}",
        next_step="ask its owner for the right to read it, or read a copy",
    )  # fmt: skip


def _nothing_there(path):
    parent = next((p for p in path.parents if p.exists()), path.parent)
    beside = sorted(p.name for p in parent.iterdir()) if parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.7) if parent == path.parent else []
    why = None if parent == path.parent else f"its folder is not there either: the path ends at {parent}"
    step = f"did you mean {listed(near)}?" if near else f"look from where the path starts: {Path.cwd()}"
    return LabError(f"there is no file or folder {path}", why=why, next_step=step)


def _far_away(where, error):
    if isinstance(error, ImportError):
        return LabError(f"{where} needs a package that is not installed", why=first_line(error))
    if isinstance(error, FileNotFoundError):
        return LabError(f"there is no array or group at {where}", why="no metadata was found there")
    return LabError(f"{where} cannot be opened", why=first_line(error))


def first_line(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


# -- HDF5


def _is_hdf5_file(path):
    with path.open("rb") as file:
        begins = file.read(8) == _SIGNATURE
    return begins or path.suffix.lower() in (".h5", ".hdf5", ".hdf", ".he5", ".nc")


def _hdf5_words(path, error):
    said, size = str(error), path.stat().st_size
    if size == 0:
        return LabError(
            f"{path} is empty: it has 0 bytes",
            why="it was made and never filled, or a copy of it stopped at once",
            next_step="make or copy it again",
        )
    if "signature not found" in said:
        with path.open("rb") as file:
            begins = file.read(16)
        return LabError(
            f"{path} is no HDF5 file", why=f"it begins with {begins!r}", next_step="check what wrote it, and its name"
        )
    if ends := re.search(r"stored_eof = (\d+)", said):
        return LabError(
            f"{path} ends too early", why=f"it has {size:,} of {int(ends[1]):,} bytes: a copy stopped, or its writer "
            "was stopped before closing it", next_step="copy it again, or write it again",
        )  # fmt: skip
    return next((words(path, error) for text, words in _HDF5_SAID if text in said), None) or _damaged_file(path, error)


def _superblock(path, error):
    import h5py

    with path.open("rb") as file:
        version = file.read(9)[8]
    return LabError(
        f"{path} has an HDF5 superblock of version {version}",
        why=f"the HDF5 library here, {h5py.version.hdf5_version}, knows 0 to 3: a newer one wrote it, or it is damaged",
        next_step="update h5py; if the version stays unknown, restore the file from a copy",
    )


def _locked(path, error):
    return LabError(
        f"{path} is locked by another program", why="HDF5 lets nobody read a file while it is open for writing",
        next_step="close it there; if nobody writes to it, as on some network disks, open it with locking=False",
    )  # fmt: skip


def _marked(path, error):
    return LabError(
        f"{path} is marked as open for writing", why="it is being written, or its writer ended without closing it",
        next_step=f"wait for the writer; if there is none any more, run `h5clear -s {path.name}` on a copy",
    )  # fmt: skip


def _damaged_file(path, error):
    return LabError(
        f"{path} is an HDF5 file with damaged structures",
        why=f"a writer stopped before flushing leaves such a file, a bad copy too ({first_line(error)})",
        next_step="restore it from a copy, or write it again",
    )


_HDF5_SAID = (
    ("superblock version", _superblock),
    ("unable to lock file", _locked),
    ("already open for write", _marked),
)
# -- Zarr


def zarr_words(where, node, error):
    if node.is_file():
        if node.suffix == ".zip":
            return LabError(
                f"{node} is no ZIP file, or a damaged one", why=first_line(error), next_step="copy it again"
            )
        return LabError(
            f"{node} is a file, and no HDF5 file", why="a Zarr store is a folder, or a ZIP file called .zip"
        )
    here = [name for name in DOCUMENTS if (node / name).exists()]
    if not here:
        return _without_metadata(node)
    return _bad_document(node / here[0], error)


def _without_metadata(node):
    if not node.exists():
        return LabError(f"there is nothing at {node}")
    names = sorted(path.name for path in node.iterdir())
    chunks = [name for name in names if name == "c" or re.fullmatch(r"\d+(\.\d+)*", name)]
    if chunks:
        return LabError(
            f"{node} has chunks and no metadata",
            why="zarr.json, or .zarray in format 2, says shape, type and codecs; without it chunks are bytes",
            next_step="restore that small file from a copy, or write it anew if you know how the array was made",
        )
    stores = [name for name in names if any((node / name / document).exists() for document in DOCUMENTS)]
    if stores:
        return LabError(f"{node} is a plain folder", why="no zarr.json lies in it", next_step=f"open {listed(stores)}")
    inside = f"it holds {listed(names)}" if names else "it is empty"
    return LabError(
        f"{node} is a folder and no Zarr store", why=f"no zarr.json, .zarray or .zgroup lies in it; {inside}"
    )


def _bad_document(document, error):
    raw = document.read_bytes()
    if not raw:
        return LabError(
            f"{document} is empty: it has 0 bytes", why="its writer was stopped", next_step="restore it from a copy"
        )
    try:
        meta = json.loads(raw)
    except ValueError as wrong:
        why = f"it is no JSON: {wrong}"
        return LabError(f"{document} is damaged or cut off", why=why, next_step="restore it from a copy")
    if not isinstance(meta, dict):
        return LabError(f"{document} is no Zarr metadata", why="it holds no JSON object")
    return _unknown_kind(document, meta, error)


def _unknown_kind(document, meta, error):
    import zarr

    number, expected = meta.get("zarr_format"), DOCUMENTS[document.name]
    if number != expected:
        why = f"zarr {zarr.__version__} reads formats 2 and 3" if number else "the document does not say its format"
        return LabError(
            f"{document} is of Zarr format {number}", why=why, next_step="update zarr, or check what wrote it"
        )
    if "consolidated metadata" in str(error):
        return LabError(
            f"{document.parent} is not in the consolidated metadata",
            why="it was added after they were written",
            next_step="consolidate the metadata again, or open with use_consolidated=False",
        )
    if "NotFound" in type(error).__name__ and (number == 2 or meta.get("node_type") in ("array", "group")):
        return LabError(
            f"{document.parent} is of Zarr format {number}", why="it was asked for as the other format",
            next_step="leave `zarr_format` out: both are found by themselves",
        )  # fmt: skip
    return LabError(
        f"{document} describes what zarr {zarr.__version__} cannot read",
        why=_first_unknown(meta) or first_line(error),
        next_step="update zarr, or install the codec it names; if both are new, the document is damaged",
    )


def _path(where):
    if isinstance(where, Path):
        return where
    return None if not isinstance(where, str) or is_url(where) else Path(where)


def _first_unknown(meta):
    kind = meta.get("node_type", "array")
    return None if kind in ("array", "group") else f"it is of node type {kind!r}"


def folder_of(where):
    path = _path(where)
    return path if path is not None and path.is_dir() else None


def is_url(where):
    return isinstance(where, str) and ("://" in where or "::" in where)
