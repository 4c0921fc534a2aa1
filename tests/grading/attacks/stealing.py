# ruff: noqa: E501 - cells are kept as somebody would write them
"""Answers that look for what they must not have: the secret, references, other people's work, the machine's state."""

from .attack import SHAPE, SYSCALLS, Attack, escapes, steals

ADDRESS = "strides/address-of"


def _stealing(id, tries, body, **more):
    return Attack(id=id, kind="stealing", tries=tries, cells={SHAPE: steals(body)}, **more)


def _referring(id, tries, body, **more):
    return Attack(id=id, kind="stealing", tries=tries, cells={SHAPE: escapes(body)}, **more)


ATTACKS = (
    _stealing(
        "environment",
        "reads the environment",
        """
import os
def finds():
    return dict(os.environ), os.popen
""",
    ),
    _stealing(
        "environment-of-all-processes",
        "reads the environment of every process that is shown",
        """
import glob
def finds():
    found = []
    for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ"):
        try:
            with open(path, "rb") as file:
                found.append(file.read())
        except OSError:
            pass
    return found
""",
    ),
    _stealing(
        "environment-of-the-judge",
        "reads what the judge's process shows",
        """
def finds():
    found = []
    for name in ("environ", "cmdline", "cwd/.git/config", "root/etc/passwd", "maps", "fd/3", "stack"):
        try:
            with open("/proc/@JUDGE@/" + name, "rb") as file:
                found.append(file.read(4096))
        except OSError as error:
            found.append(error.errno)
    return found
""",
    ),
    _stealing(
        "secret-by-path",
        "opens the instructor's secret, whose path it knows",
        """
def finds():
    return open("@SECRET@").read()
""",
    ),
    _stealing(
        "secret-by-link",
        "links to the secret from its own folder",
        """
import os
def finds():
    for make in (os.symlink, os.link):
        try:
            make("@SECRET@", "here-" + make.__name__)
            return open("here-" + make.__name__).read()
        except OSError:
            pass
""",
    ),
    _stealing(
        "secret-through-proc",
        "goes to the secret over the links in /proc",
        """
import os
def finds():
    found = []
    for start in ("/proc/self/root", "/proc/self/cwd", "/proc/1/root", "/proc/1/cwd", "/proc/@JUDGE@/root"):
        for middle in ("", "/..", "/../..", "/../../.."):
            try:
                with open(start + middle + "@SECRET@") as file:
                    found.append(file.read())
            except OSError:
                pass
    return found
""",
    ),
    _stealing(
        "secret-by-descriptor",
        "looks for a descriptor left open and goes on from there",
        """
import os
def finds():
    found = []
    for fd in range(1024):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        for path in ("@SECRET@", "../" * 12 + "@SECRET@"[1:]):
            try:
                inner = os.open(path, os.O_RDONLY, dir_fd=fd)
                found.append(os.read(inner, 100))
            except OSError:
                pass
    return found
""",
    ),
    _stealing(
        "secret-by-handle",
        "opens files by handle, around every path",
        SYSCALLS
        + """
def finds():
    handle = (ctypes.c_ubyte * 136)()
    handle[0] = 128
    mount = ctypes.c_int()
    found = call(303, 264, -100, b"@SECRET@", handle, ctypes.byref(mount), 0)
    fd = call(304, 265, -100, handle, os.O_RDONLY)
    return os.read(fd, 100) if fd >= 0 else (found, fd)
""",
    ),
    _stealing(
        "own-memory",
        "searches its own memory for the secret's first letters",
        """
import re
def finds():
    found = []
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            if " rw" not in line:
                continue
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if high - low > 1 << 26:
                continue
            try:
                memory.seek(low)
                raw = memory.read(high - low)
            except (OSError, ValueError):
                continue
            found += [raw[m.start() : m.start() + 40] for m in re.finditer(b"can" b"ary-", raw)]
    return found
""",
    ),
    _stealing(
        "memory-of-others",
        "reads the memory of other processes",
        SYSCALLS
        + """
class Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))
def finds():
    found, buffer = [], ctypes.create_string_buffer(4096)
    local = Span(ctypes.addressof(buffer), 4096)
    for pid in (1, os.getppid(), @JUDGE@, os.getpid() - 1, os.getpid() + 1):
        for name in ("maps", "mem", "auxv", "syscall"):
            try:
                open(f"/proc/{pid}/{name}", "rb").read(100)
                found.append((pid, name)) if pid != os.getpid() else None
            except OSError:
                pass
        far = Span(id(found), 16)
        if call(310, 270, pid, ctypes.byref(local), 1, ctypes.byref(far), 1, 0) > 0:
            found.append((pid, "process_vm_readv", buffer.raw[:16]))
    return found
""",
    ),
    _stealing(
        "home-folders",
        "lists homes, keys and histories",
        """
import glob, os
def finds():
    found = []
    for pattern in ("~", "~root", "/root/.*", "/root/*", "/home/*/*", "/home/*/.ssh/*", "/etc/shadow", "/etc/ssh/*",
                    "/var/spool/*", "/var/run/*", "/run/*"):
        for path in glob.glob(os.path.expanduser(pattern)):
            try:
                found.append(open(path).read(100))
            except OSError:
                pass
    return found
""",
    ),
    _referring(
        "other-submission",
        "opens another learner's notebook",
        """
import os
def breaks_out():
    return open("@SUBMISSION@").read() or os.listdir(os.path.dirname("@SUBMISSION@"))
""",
    ),
    _referring(
        "other-submissions-by-search",
        "walks through the file system for notebooks that are not part of a package",
        """
import os
def breaks_out():
    for folder, inside, names in os.walk("/"):
        inside[:] = [n for n in inside if n not in ("proc", "sys", "usr", "lib", "lib64", "site-packages", "nix", "opt")]
        if any(name.endswith(".ipynb") for name in names):
            return folder
""",
    ),
    _referring(
        "reference-by-import",
        "imports the course's own solutions",
        """
import importlib
def breaks_out():
    for name in ("labsupport.exercises.start_here", "labsupport.exercises", "labsupport.catalog", "labsupport.judging",
                 "labsupport.answering", "labsupport.comparing", "labsupport.observing", "labsupport.live", "exercises"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
""",
    ),
    _referring(
        "reference-by-module-table",
        "looks for the course's solutions among loaded modules and objects",
        """
import gc, sys
def breaks_out():
    if any(".exercises" in name or name.endswith((".catalog", ".judging", ".comparing")) for name in sys.modules):
        return True
    return [t for t in gc.get_objects() if type(t).__name__ in ("Exercise", "Misconception", "Verdict", "Secret")]
""",
    ),
    _referring(
        "reference-by-files",
        "looks for the course's files from where its modules lie",
        """
import glob, os, sys
def breaks_out():
    here = os.path.dirname(os.path.abspath(sys.modules["labsupport"].__file__))
    for folder in (here, os.path.dirname(here), *sys.path, "@REPOSITORY@", "@REPOSITORY@/labsupport", os.getcwd()):
        for pattern in ("exercises", "catalog.py", "exercises/*.py", "notebooks", "notebooks/*.ipynb", "tests/answers"):
            found = glob.glob(os.path.join(folder, pattern))
            for path in found:
                try:
                    if os.listdir(path) if os.path.isdir(path) else open(path).read():
                        return path
                except OSError:
                    pass
""",
    ),
    _referring(
        "reference-by-install-record",
        "follows the records of an editable installation to the course's folder",
        """
import glob, os, re, sys
def breaks_out():
    for folder in sys.path:
        for path in glob.glob(folder + "/*.pth") + glob.glob(folder + "/*.dist-info/direct_url.json"):
            for place in re.findall(r"/[\\w/.-]+", open(path).read()):
                if os.path.exists(place + "/labsupport/exercises/start_here.py"):
                    return open(place + "/labsupport/exercises/start_here.py").read()
""",
    ),
    _referring(
        "reference-in-bytecode",
        "looks for the course's solutions in compiled files and caches",
        """
import glob
def breaks_out():
    return [p for root in ("/lab", "@REPOSITORY@", "/tmp") for p in glob.glob(root + "/**/*.pyc", recursive=True)
            if "exercises" in p or "catalog" in p]
""",
    ),
    Attack(
        id="expected-value-in-the-frames",
        kind="stealing",
        tries="searches every frame and object of its process for the value that is expected",
        cells={
            ADDRESS: """
import gc, sys
def address_of(index, shape, strides, itemsize, offset):
    frame, found = sys._getframe(1), []
    while frame is not None:
        found += [frame.f_locals.get(name) for name in ("expected", "reference", "answer", "wanted", "right")]
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) is dict and ("expected" in thing or "reference" in thing):
            found += [thing.get("expected"), thing.get("reference")]
    return next((value for value in found if type(value) is int), -1)
"""
        },
        expect="wrong",
    ),
    Attack(
        id="question-says-too-much",
        kind="stealing",
        tries="hands back what the question says about seeds and secrets",
        cells={
            SHAPE: """
import sys
def batch_shape(samples, batch_rows):
    frame, found = sys._getframe(1), []
    while frame is not None:
        found += [repr(value)[:500] for value in frame.f_locals.values()]
        frame = frame.f_back
    return " ".join(found)[:20_000]
"""
        },
    ),
    _referring(
        "process-list",
        "reads the list of the host's processes",
        """
import os
def breaks_out():
    try:
        others = [name for name in os.listdir("/proc") if name.isdecimal() and int(name) not in (1, os.getpid(), os.getppid())]
    except OSError:
        return False
    return [pid for pid in others if open(f"/proc/{pid}/cmdline").read()]
""",
    ),
    _referring(
        "machine-files",
        "reads the machine's disks, memory and logs",
        """
import os
def breaks_out():
    for path in ("/dev/mem", "/dev/kmem", "/proc/kcore", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/proc/kmsg",
                 "/sys/kernel/security/lockdown", "/var/log/syslog", "/proc/1/environ", "/etc/shadow"):
        try:
            with open(path, "rb") as file:
                if file.read(10):
                    return path
        except OSError:
            pass
""",
    ),
)
