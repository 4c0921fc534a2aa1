"""Notebooks inside archives, read where they lie: nothing is unpacked, followed, or written anywhere.

An archive is somebody else's bytes. So names are only ever compared and shown, links and devices are passed over, and
what a member says about its size is not believed: reading stops at the caps.
"""

import gzip
import io
import re
import tarfile
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from labsupport.grading.notebooks import MAX_BYTES, Unreadable, open_file

__all__ = ["Member", "is_archive", "is_ignored", "members_of", "stem_of"]

MAX_MEMBERS = 20_000
MAX_TOTAL = 2 * 1024**3  # bytes read out of one archive
MAX_RATIO = 100  # bytes out per byte in, once more than FREE have come out
FREE = 64 * 1024**2
_AT_ONCE = 4 * 1024**2  # one read of an archive's own records
_CHUNK = 64 * 1024
_ZIP = (".zip",)
_TAR = (".tar", ".tar.gz", ".tgz")
_OTHER = (".7z", ".rar", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".gz", ".bz2", ".xz")
_TOO_LARGE = f"it is larger than the {MAX_BYTES // 1024**2} MB a notebook may have"
_REPACK = "Pack the notebooks again as one `.zip`."


@dataclass(frozen=True)
class Member:
    """One notebook of an archive: its name with `/` between folders, and its bytes; or why it was not read."""

    name: str
    data: bytes | None = None
    problem: str = ""


def is_archive(name):
    """Return whether a file's name is an archive's, readable here or not."""
    return name.lower().endswith((*_ZIP, *_TAR, *_OTHER))


def stem_of(path):
    """Return an archive's or a notebook's name without its ending."""
    name = Path(path).name
    ending = next(
        (e for e in sorted((*_ZIP, *_TAR, *_OTHER, ".ipynb"), key=len, reverse=True) if name.lower().endswith(e)), ""
    )
    return name[: len(name) - len(ending)] if ending else name


def members_of(path, *, follow=False):
    """Yield a `Member` per notebook, and one for each that was not read.

    Folders that no learner writes to (`__MACOSX`, `.ipynb_checkpoints`, all that begin with a dot) are passed over.

    Raises:
        Unreadable: the archive is damaged, of a kind not read here, or unpacks to more than an archive may.
    """
    name = path.name.lower()
    try:
        with open_file(path, follow=follow) as file:
            if name.endswith(_ZIP):
                yield from _zip_members(_Bounded(file))
            elif name.endswith(_TAR):
                yield from _tar_members(io.BufferedReader(file))
            else:
                raise Unreadable("It is an archive of a kind that is not opened here.", _REPACK)
    except Unreadable:
        raise
    except OSError as error:
        if error.errno is not None:
            raise Unreadable(f"It cannot be opened ({error.strerror}).", "Make the file readable.") from None
        raise _damaged(error) from None
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        OverflowError,
        LookupError,
    ) as error:
        raise _damaged(error) from None
    except (RuntimeError, NotImplementedError, RecursionError, MemoryError, AttributeError, TypeError) as error:
        raise _damaged(error) from None


def _damaged(error):
    return Unreadable(f"The archive is damaged ({type(error).__name__}).", _REPACK)


# -- names --------------------------------------------------------------------------------------------------------


def _parts(name):
    """Return a member's folders and file name, or None when the name leads out of the archive."""
    name = unicodedata.normalize("NFC", name.replace("\\", "/"))
    parts = [part for part in name.split("/") if part not in ("", ".")]
    leads_out = name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name) or "\0" in name
    return None if leads_out or not parts else parts


def is_ignored(parts):
    """Return whether a path lies in a folder that no learner writes answers to."""
    return any(
        part.startswith(".") or part in ("__MACOSX", "__pycache__", "site-packages", "node_modules") for part in parts
    )


def _look_at(name, problem):
    """Return (name, None) to read a member, (name, reason) to say why not, or None to pass over it in silence."""
    parts = _parts(name)
    if parts is None:
        return name[:200], "its name leads out of the archive"
    shown = "/".join(parts)
    if is_ignored(parts):
        return None
    if is_archive(parts[-1]):
        return shown, "it is an archive inside an archive, which is not opened"
    if not parts[-1].lower().endswith(".ipynb"):
        return None
    return shown, problem


# -- zip ----------------------------------------------------------------------------------------------------------


class _Bounded(io.BufferedReader):
    """A file that refuses one enormous read: an index of millions of members is read in one go."""

    def read(self, size=-1):
        if size is not None and size > _AT_ONCE:
            raise Unreadable("The archive's index is too large.", _REPACK)
        return super().read(size)


def _zip_members(file):
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if len(infos) > MAX_MEMBERS:
            raise Unreadable(f"It holds more than {MAX_MEMBERS:,} files.", _REPACK)
        total = 0
        for info in infos:
            if info.is_dir() or (seen := _look_at(_zip_name(info), _why_not_read(info))) is None:
                continue
            name, problem = seen
            data, problem = (None, problem) if problem else _zip_data(archive, info)
            total += len(data or b"")
            if total > MAX_TOTAL:
                raise Unreadable(f"It unpacks to more than {MAX_TOTAL // 1024**3} GB.", _REPACK)
            yield Member(name, data, problem or "")


def _zip_name(info):
    if info.flag_bits & 0x800:
        return info.filename
    try:  # macOS writes UTF-8 without saying so
        return info.orig_filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _why_not_read(info):
    kind = (info.external_attr >> 16) & 0o170000
    if kind not in (0, 0o100000):
        return "it is a link or a device, not a file"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is compressed in a way that is not read here"
    if info.file_size > MAX_BYTES:
        return _TOO_LARGE
    return None


def _zip_data(archive, info):
    """Return (bytes, None), or (None, why not); one bad member does not cost the others."""
    data = bytearray()
    try:
        with archive.open(info) as member:
            while len(data) <= MAX_BYTES and (chunk := member.read(_CHUNK)):
                data += chunk
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError):
        return None, "it is damaged"
    if len(data) > FREE // 4 and len(data) > MAX_RATIO * max(info.compress_size, 1):
        return None, "it unpacks to far more than it holds, as nothing real does"
    return bytes(data), None


# -- tar ----------------------------------------------------------------------------------------------------------


class _Counted(io.RawIOBase):
    """What comes out of a (compressed) tar, read forward only and counted."""

    def __init__(self, file):
        self.file, self.at = file, 0
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        self.stream = gzip.GzipFile(fileobj=file) if packed else file

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, to, whence=io.SEEK_SET):
        if whence != io.SEEK_SET or to < self.at:
            raise ValueError("an archive is read forward only")
        while self.at < to and self.read(min(_CHUNK, to - self.at)):
            pass
        return self.at

    def read(self, size=-1):
        if size < 0 or size > _AT_ONCE:
            raise Unreadable("A record of the archive is too large.", _REPACK)
        data = self.stream.read(size)
        self.at += len(data)
        if self.at > MAX_TOTAL or (self.at > FREE and self.at > MAX_RATIO * max(self.file.tell(), 1)):
            raise Unreadable("It unpacks to far more than an archive of notebooks holds.", _REPACK)
        return data


def _tar_members(file):
    counted = _Counted(file)
    with tarfile.open(fileobj=counted, mode="r:", errorlevel=2) as archive:
        for number, info in enumerate(archive):
            if number >= MAX_MEMBERS:
                raise Unreadable(f"It holds more than {MAX_MEMBERS:,} files.", _REPACK)
            archive.members = []  # a list of every member is of no use here
            problem = None if info.isreg() and not info.issparse() else "it is a link or a device, not a file"
            problem = problem or (_TOO_LARGE if info.size > MAX_BYTES else None)
            if info.isdir() or (seen := _look_at(info.name, problem)) is None:
                continue
            name, problem = seen
            yield Member(name, None if problem else _tar_data(archive, info), problem or "")


def _tar_data(archive, info):
    data, member = bytearray(), archive.extractfile(info)
    while len(data) <= MAX_BYTES and (chunk := member.read(_CHUNK)):
        data += chunk
    if len(data) < min(info.size, MAX_BYTES):
        raise tarfile.ReadError("the archive ends inside a member")
    return bytes(data)
