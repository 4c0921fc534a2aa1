"""The file system of a cage: a small root of its own in which only chosen folders of the host appear, read-only."""

from pathlib import Path

from labsupport.processes import kernel

__all__ = ["HOME", "VISIBLE", "build"]

HOME = "/tmp"  # the work folder
# What the root of a cage may hold beside the folders that were asked for.
VISIBLE = ("dev", "etc", "lab", "proc", "sealed", "tmp")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_ETC = {
    "passwd": "root:x:0:0::/:/bin/false\nlearner:x:{uid}:{uid}::/tmp:/bin/false\n",
    "group": "root:x:0:\nlearner:x:{uid}:\n",
    "hosts": "127.0.0.1 localhost cage\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def build(root, *, code, sealed, readable, hidden, work_bytes, shared_bytes, owner, uid, runs_programs=False):
    """Build the file system of a cage and make it this process's only one; call it in a mount namespace of its own.

    Args:
        root: an empty folder of the host, the place of work.
        code: the folder shown as /lab.
        sealed: a file that only Landlock keeps from being read.
        readable: folders and files shown where they are.
        hidden: folders inside them that are covered by an empty one.
        work_bytes, shared_bytes: sizes of the work folder and of /dev/shm.
        owner: uid (and gid) that owns both.
        uid: the number under which the learner's process knows itself.
        runs_programs: programs in the work folder may be started.
    """
    kernel.private_mounts()
    owned = f"uid={owner},gid={owner},mode=700"
    kernel.mount("tmpfs", root, "size=4m,nr_inodes=4096,mode=755")
    _folder(root + HOME)
    _folder(root + "/dev")
    kernel.mount("tmpfs", root + HOME, f"size={work_bytes},nr_inodes=16384,{owned}", runs_programs=runs_programs)
    _show(code, root + "/lab")
    _show(sealed, root + "/sealed")
    for path in readable:
        _show(path, root + path)
    for path in hidden:
        kernel.mount("tmpfs", root + path, "size=4k,nr_inodes=1,mode=000")
        kernel.read_only(root + path)
    _devices(root, f"size={shared_bytes},nr_inodes=1024,{owned}")
    _settings(root, uid)
    # Before the root is switched: inside a user namespace the kernel allows a new one only beside a visible old one.
    _folder(root + "/proc")
    kernel.mount("proc", root + "/proc")
    kernel.read_only(root, recursive=False)
    kernel.pivot_root(root)


def _folder(path):
    Path(path).mkdir(parents=True, exist_ok=True)


def _show(source, target):
    """Show a folder or file of the host at `target`, read-only; a symbolic link is copied as one."""
    source, target = Path(source), Path(target)
    if source.is_dir() and not source.is_symlink():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            return target.symlink_to(source.readlink())
        target.touch()
    kernel.bind(source, target)
    kernel.read_only(target)


def _devices(root, shared_options):
    for name in _DEVICES:
        place = f"{root}/dev/{name}"
        Path(place).touch()
        kernel.bind(f"/dev/{name}", place)
    _folder(root + "/dev/shm")
    kernel.mount("tmpfs", root + "/dev/shm", shared_options)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1")):
        Path(f"{root}/dev/{name}").symlink_to(target)


def _settings(root, uid):
    _folder(root + "/etc")
    for name, text in _ETC.items():
        place = Path(root + "/etc/" + name)
        place.write_text(text.format(uid=uid), encoding="utf-8")
        place.chmod(0o644)
