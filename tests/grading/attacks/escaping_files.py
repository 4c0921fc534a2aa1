# ruff: noqa: E501 - cells are kept as somebody would write them
"""Answers that try to leave their cage by rights, kernel settings, files, devices, and the judge's own wire."""

from .attack import SHAPE, SYSCALLS, Attack, escapes


def _escaping(id, tries, body, expect="wrong|crashed", **more):
    return Attack(id=id, kind="escaping", tries=tries, cells={SHAPE: escapes(body)}, expect=expect, **more)


ATTACKS = (
    # -- rights and kernel
    _escaping(
        "becomes-root",
        "takes other users' numbers and rights",
        SYSCALLS
        + """
def breaks_out():
    for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])):
        try:
            act()
        except OSError:
            continue
        if open("/proc/self/status").read().count("CapEff:\\t0000000000000000") == 0:
            return True
    return call(126, 91, (ctypes.c_uint * 2)(0x20080522, 0), (ctypes.c_uint * 6)(0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 0, 0)) == 0
""",
    ),
    _escaping(
        "new-namespaces",
        "makes namespaces of its own, joins those of others",
        SYSCALLS
        + """
def breaks_out():
    made = [flag for flag in (0x10000000, 0x20000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x20000000, 0x80)
            if libc.unshare(flag) == 0]
    for pid in ("1", "self", "@JUDGE@"):
        for name in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"):
            try:
                fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
                made += [name] if libc.setns(fd, 0) == 0 else []
            except OSError:
                pass
    return made
""",
    ),
    _escaping(
        "mounts",
        "mounts, unmounts and changes its root",
        SYSCALLS
        + """
def breaks_out():
    os.makedirs("m", exist_ok=True)
    done = [
        libc.mount(b"none", b"m", b"tmpfs", 0, None), libc.mount(b"/", b"m", None, 0x1000, None),
        libc.mount(b"none", b"m", b"proc", 0, None), libc.umount2(b"/", 2), libc.umount2(b"/tmp", 2), libc.umount2(b"/proc", 2),
        libc.chroot(b"m"), call(155, 41, b"m", b"m"), call(428, 428, -100, b"/", 1), call(430, 430, b"tmpfs", 0),
        call(442, 442, -100, b"/", 0x8000, (ctypes.c_ulong * 4)(0, 1, 0, 0), 32), call(429, 429, -100, b"/", -100, b"m", 0),
    ]
    return [result for result in done if result >= 0]
""",
    ),
    _escaping(
        "keys",
        "reads and makes keys of the kernel's key rings",
        SYSCALLS
        + """
def breaks_out():
    made = [call(248, 217, b"user", b"@MARK@", b"x", 1, ring) for ring in (-1, -2, -3, -4, -5)]
    made += [call(250, 219, 0, ring, 1, 0, 0) for ring in (-3, -4, -5)] + [call(249, 218, b"user", b"@MARK@", None, -4)]
    return [key for key in made if key > 0]
""",
    ),
    _escaping(
        "rare-calls",
        "calls what only administrators and debuggers need",
        SYSCALLS
        + """
def breaks_out():
    zeros = (ctypes.c_ubyte * 512)()
    calls = {
        "bpf": (321, 280, 5, zeros, 128), "perf_event_open": (298, 241, zeros, 0, -1, -1, 0), "userfaultfd": (323, 282, 0),
        "init_module": (175, 105, zeros, 0, b""), "kexec_load": (246, 104, 0, 0, zeros, 0), "syslog": (103, 116, 3, zeros, 512),
        "reboot": (169, 142, 0, 0, 0, 0), "swapon": (167, 224, b"/tmp/x", 0), "quotactl": (179, 60, 0, b"/", 0, zeros),
        "fanotify_init": (300, 262, 0, 0), "settimeofday": (164, 170, zeros, zeros), "acct": (163, 89, None),
        "sethostname": (170, 161, b"x", 1), "kcmp": (312, 272, @JUDGE@, @JUDGE@, 0, 0, 0), "memfd_secret": (447, 447, 0),
        "move_pages": (279, 239, @JUDGE@, 0, zeros, zeros, zeros, 0), "process_madvise": (440, 440, 3, zeros, 1, 21, 0),
        "landlock_create": (444, 444, zeros, 8, 0), "io_setup": (206, 0, 1, zeros), "vhangup": (153, 58), "lookup": (212, 18, 1, zeros, 10),
    }
    allowed = {name: result for name, args in calls.items() if (result := call(*args)) >= 0}
    allowed.pop("landlock_create", None)
    return allowed
""",
    ),
    _escaping(
        "other-tables-of-calls",
        "uses the call numbers of another architecture's table",
        SYSCALLS
        + """
def breaks_out():
    if platform.machine() != "x86_64":
        return False
    number = 0x40000000
    return [n for n in (41, 57, 101, 165, 272) if call(number | n, 0, 2, 1, 0) >= 0]
""",
    ),
    _escaping(
        "interprocess-objects",
        "makes shared memory, queues and semaphores that outlive it",
        SYSCALLS
        + """
def breaks_out():
    made = [call(29, 194, 0x1AB, 4096, 0o1666), call(64, 190, 0x1AB, 1, 0o1666), call(68, 186, 0x1AB, 0o1666)]
    left = [key for key in made if key >= 0]
    return [name for name in ("sysvipc/shm", "sysvipc/sem") if left and os.path.exists("/proc/1/root/proc/" + name)
            and str(0x1AB) in open("/proc/1/root/proc/" + name).read()]
""",
    ),
    # -- files
    _escaping(
        "writes-to-the-host",
        "writes, renames, removes and re-owns files of the host",
        """
import os, shutil
def breaks_out():
    done = []
    tries = (
        lambda: open("@HOST@/canary.txt", "a").write("x"), lambda: os.remove("@HOST@/canary.txt"),
        lambda: os.rename("@HOST@/canary.txt", "@HOST@/gone.txt"), lambda: os.chmod("@HOST@/canary.txt", 0o777),
        lambda: os.chown("@HOST@/canary.txt", os.getuid(), os.getgid()), lambda: os.truncate("@HOST@/canary.txt", 0),
        lambda: os.mkdir("@HOST@/new"), lambda: os.symlink("/etc/passwd", "@HOST@/link"), lambda: os.utime("@HOST@/canary.txt"),
        lambda: os.setxattr("@HOST@/canary.txt", "user.x", b"1"), lambda: shutil.rmtree("@HOST@"),
        lambda: open("@REPOSITORY@/labsupport/@MARK@.py", "w"), lambda: open("@SUBMISSION@", "a").write(" "),
    )
    for i, act in enumerate(tries):
        try:
            act()
            done.append(i)
        except OSError:
            pass
    return done
""",
    ),
    _escaping(
        "writes-around-its-folder",
        "writes into folders that every user may write to",
        """
import os
def breaks_out():
    made = []
    for folder in ("/var/tmp", "/dev", "/run", "/run/lock", "/var/lock", "/lab", "/", "/usr", "/proc", "/sys", "/sealed", "/etc", "/dev/mqueue"):
        try:
            with open(folder + "/@MARK@", "w"):
                made.append(folder)
        except OSError:
            pass
    return made
""",
    ),
    _escaping(
        "leaves-a-file-in-tmp",
        "leaves a file where the host keeps temporary ones",
        """
def breaks_out():
    for folder in ("/tmp", "/dev/shm"):
        try:
            open(folder + "/@MARK@", "w").write("x")
        except OSError:
            pass
""",
    ),
    _escaping(
        "changes-its-modules",
        "changes the modules and packages that later children will load",
        """
import glob, os, sys
def breaks_out():
    for folder in [*sys.path, "/lab/labsupport", os.path.dirname(os.__file__)]:
        for path in (folder + "/sitecustomize.py", folder + "/usercustomize.py", folder + "/numpy/__init__.py",
                     folder + "/labsupport/probing/call.py", folder + "/@MARK@.pth"):
            try:
                open(path, "a").write("\\n")
                return path
            except OSError:
                pass
""",
    ),
    _escaping(
        "devices",
        "makes and opens devices, writes to consoles and clocks",
        """
import fcntl, os
def breaks_out():
    done = []
    for number, name in ((os.makedev(1, 1), "mem"), (os.makedev(8, 0), "disk"), (os.makedev(5, 0), "tty"), (os.makedev(10, 200), "tun")):
        try:
            os.mknod("@MARK@-" + name, 0o20666, number)
            done.append(name)
        except OSError:
            pass
    for path in ("/dev/mem", "/dev/tty", "/dev/console", "/dev/kmsg", "/dev/ptmx", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/rtc", "/dev/loop-control"):
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
            done.append(path)
            fcntl.ioctl(fd, 0x5412, b"x")
        except OSError:
            pass
    return done
""",
    ),
    _escaping(
        "kernel-settings",
        "writes to the settings of the kernel and of its control groups",
        """
import glob
def breaks_out():
    done = []
    paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/self/oom_score_adj",
             "/proc/sys/vm/drop_caches", "/proc/self/uid_map", "/proc/1/oom_score_adj", "/proc/self/loginuid", "/sys/power/state"]
    for path in paths + glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)[:50] + glob.glob("/sys/fs/cgroup/**/memory.*limit*", recursive=True)[:20]:
        try:
            with open(path, "w") as file:
                file.write("0")
            done.append(path)
        except OSError:
            pass
    return [path for path in done if path != "/proc/self/oom_score_adj"]
""",
    ),
    _escaping(
        "links-out-of-its-folder",
        "makes links to the host and follows them",
        """
import os
def breaks_out():
    for i, target in enumerate(("/proc/1/root", "/proc/self/root/../../..", "@HOST@", "/", "/proc/@JUDGE@/cwd")):
        os.symlink(target, f"link{i}")
        for path in (f"link{i}@HOST@/canary.txt", f"link{i}/canary.txt", f"link{i}/etc/shadow"):
            try:
                return open(path).read()
            except OSError:
                pass
""",
    ),
    # -- the judge's memory and wire
    _escaping(
        "shrinks-the-inputs",
        "cuts off the memory file in which the judge keeps the inputs",
        """
import fcntl, os
def breaks_out():
    done = []
    for fd in range(3, 64):
        for act in (lambda: os.ftruncate(fd, 0), lambda: os.ftruncate(fd, 1 << 40), lambda: os.posix_fallocate(fd, 0, 1 << 33)):
            try:
                name = os.readlink(f"/proc/self/fd/{fd}")
                act()
                done.append(name)
            except (OSError, ValueError):
                pass
    return [name for name in done if "memfd" in name]
""",
    ),
    Attack(
        id="shrinks-the-inputs-of-a-view",
        kind="escaping",
        tries="cuts off, grows and unseals the shared inputs of an exercise that has some, and punches holes into them",
        cells={
            "strides/diagonal-view": SYSCALLS
            + """
import fcntl
def diagonal_view(m, k=0):
    for fd in range(3, 64):
        try:
            if "memfd" not in os.readlink(f"/proc/self/fd/{fd}"):
                continue
        except OSError:
            continue
        for act in (lambda: os.ftruncate(fd, 0), lambda: os.ftruncate(fd, 1 << 30), lambda: fcntl.fcntl(fd, 1033, 8),
                    lambda: libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(1 << 20)), lambda: libc.madvise(None, 0, 9)):
            try:
                act()
            except OSError:
                pass
    return m.diagonal(k).copy()
"""
        },
        expect="wrong|crashed",
    ),
    _escaping(
        "closes-the-wire",
        "closes every descriptor, the judge's connection included",
        """
import os
def breaks_out():
    os.closerange(3, 4096)
""",
        expect="crashed",
    ),
    _escaping(
        "keeps-the-wire",
        "copies the judge's connection and answers from a thread",
        """
import os, threading, time
def breaks_out():
    copies = [os.dup(fd) for fd in range(3, 32) if _is_open(fd)]
    def answers():
        for _ in range(2000):
            for fd in copies:
                try:
                    os.write(fd, bytes(16) + b"LAB" + bytes(64))
                except OSError:
                    return
            time.sleep(0.001)
    threading.Thread(target=answers, daemon=True).start()
def _is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
""",
    ),
    _escaping(
        "sends-descriptors",
        "sends its own descriptors over the judge's connection",
        """
import gc, os, socket
import importlib
wire = importlib.import_module("labsupport.grading.wire")
def breaks_out():
    for thing in gc.get_objects():
        if isinstance(thing, wire.Channel):
            for _ in range(50):
                socket.send_fds(thing.sock, [thing.nonce], [0, 1, 2] * 50)
""",
        expect="crashed|wrong",
    ),
    _escaping(
        "takes-the-questions",
        "reads the judge's next question itself and never answers",
        """
import gc, threading
import importlib
wire = importlib.import_module("labsupport.grading.wire")
def breaks_out():
    for thing in gc.get_objects():
        if isinstance(thing, wire.Channel):
            threading.Thread(target=lambda: [thing.sock.recv(65536) for _ in range(1000)], daemon=True).start()
""",
        expect="crashed|over limit|wrong",
        others="passed",
    ),
)
