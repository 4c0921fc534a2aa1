"""What a child can see: an interpreter, installed packages, system libraries, and a copy of the few modules it needs.

The copy holds no exercise, no reference and no notebook. Wherever `labsupport` itself, or the course, would come into
view with something else (installed beside NumPy, say), it is covered.
"""

import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from labsupport import places
from labsupport.processes.scratch import Scratch

__all__ = ["IN_CAGE", "Runtime", "outermost"]

_MODULES = (
    "__init__", "errors", "course", "scalars",
    "processes/__init__", "processes/kernel", "processes/limits", "processes/groups", "processes/messages",
    "processes/reaping", "processes/removing", "processes/serving",
    "grading/__init__", "grading/allowance", "grading/cage", "grading/child", "grading/codec", "grading/decoding",
    "grading/landlock", "grading/layouts", "grading/mounts", "grading/nanny", "grading/shared", "grading/tiers",
    "grading/wire",
)  # fmt: skip
_FOLDERS = ("probing", "ranks", "chunklab", "loading")  # as a whole: what drives answers, and what that leans on
_SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
_COURSE = ("labsupport", "notebooks", "tests", "work", "benchmarks", "docs", "data", ".git", ".lab")
_PREFIX = "lab-grading-"
IN_CAGE = "/lab"  # where the copy lies in a cage of its own


class Runtime:
    """A temporary folder with the copy, and the lists of what may be seen. Close it (or use `with`) to remove it.

    Attributes:
        folder: the temporary folder; `code` in it holds the copy, `root` is where a cage is built, `sealed` is a file
            that everybody may read by its mode and no child by its cage.
        path: folders for `sys.path`, the copy first.
        readable: folders and files a child may read.
        programs: what it may see in addition when it may start programs.
        hidden: what must not be seen although it lies inside a readable folder.
    """

    def __init__(self):
        self._scratch = Scratch(_PREFIX)
        self.folder = self._scratch.folder
        self.folder.chmod(0o755)  # a child runs as another user
        self.code, self.root, self.sealed = (self.folder / name for name in ("code", "root", "sealed"))
        self.root.mkdir()
        self.sealed.write_text("Nobody in a cage reads this.\n", encoding="utf-8")
        _copy_modules(self.code)
        self.packages = _package_folders()
        self.path = [self.code, *self.packages]
        self.readable = outermost([*_interpreter(), *self.packages, *_existing(_SYSTEM)])
        self.programs = outermost(_existing([Path(sys.base_prefix) / "bin", "/usr/bin", "/bin"]))
        self.hidden = _hidden(self.readable, self.packages)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._scratch.close()

    def new_folder(self):
        """Return a new empty folder for a child that has no file system of its own."""
        return tempfile.mkdtemp(prefix="work-", dir=self.folder)

    @property
    def python(self):
        """The interpreter itself, not the link to it in a virtual environment: the link is not part of the cage."""
        return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()

    def fenced(self):
        """Return the readable paths without the hidden ones, for rules that can only allow."""
        return [path for root in self.readable for path in _without(root, self.hidden)]


def _copy_modules(target):
    source = places.ROOT / "labsupport"
    whole = [path for folder in _FOLDERS for path in (source / folder).rglob("*.py")]
    for name in [*_MODULES, *(path.relative_to(source).with_suffix("").as_posix() for path in whole)]:
        copy = target / "labsupport" / f"{name}.py"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / f"{name}.py", copy)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the umask or the checkout says


def _package_folders():
    import numpy

    beside_numpy = Path(numpy.__file__).resolve().parent.parent
    named = [Path(entry).resolve() for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    return outermost([beside_numpy, *_existing(named)])


def _interpreter():
    paths = sysconfig.get_paths()
    folders = [Path(paths["stdlib"]), Path(sys.base_prefix) / "lib", Path(sys.base_prefix) / "lib64"]
    folders += [Path("/nix/store")] if sys.base_prefix.startswith("/nix/") else []
    return _existing(folders)


def _hidden(readable, packages):
    wanted = [places.ROOT / name for name in _COURSE] if places.ROOT not in packages else []
    wanted += [folder / "labsupport" for folder in packages]
    found = _existing(wanted)
    # A folder that *holds* something readable (a virtual environment inside the checkout) is not visible by itself.
    return [path for path in found if any(path.is_relative_to(root) for root in readable)]


def _existing(paths):
    return [Path(path) for path in paths if Path(path).exists()]


def outermost(paths):
    """Return the paths without those inside another one, symlinked folders (such as /lib) kept as they are."""
    kept = []
    for path in sorted(dict.fromkeys(paths), key=lambda p: len(p.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _without(root, hidden):
    """Return paths that together cover `root` except the hidden ones."""
    inside = [path for path in hidden if path.is_relative_to(root)]
    if not inside:
        return [root]
    if root in inside:
        return []
    return [path for entry in root.iterdir() for path in _without(entry, inside)]
