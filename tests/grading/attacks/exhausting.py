"""Answers that use up something: time, memory, processes, descriptors, disk."""

from .attack import SHAPE, SYSCALLS, Attack


def _exhausting(id, tries, source, exercise=SHAPE, expect="over limit", **more):
    return Attack(id=id, kind="exhausting", tries=tries, cells={exercise: source}, expect=expect, **more)


def _fills(id, tries, body, **more):
    """An answer that takes all it can get inside `fills()`; whatever stops it, it is no right answer."""
    call = "\ndef batch_shape(samples, batch_rows):\n    fills()\n    return 'had everything it asked for'\n"
    return _exhausting(id, tries, body + call, **({"expect": "over limit|crashed"} | more))


ATTACKS = (
    # -- time
    _exhausting(
        "endless-loop",
        "loops without end",
        """
def batch_shape(samples, batch_rows):
    while True:
        pass
""",
    ),
    _exhausting(
        "endless-loop-catching-everything",
        "loops without end and catches what would interrupt it",
        """
def batch_shape(samples, batch_rows):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
""",
    ),
    _exhausting(
        "endless-loop-ignoring-signals",
        "loops without end with every signal ignored, blocked and its timer off",
        """
import signal
def batch_shape(samples, batch_rows):
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass
""",
    ),
    _exhausting(
        "endless-power",
        "raises a number to a huge power, inside C",
        """
def batch_shape(samples, batch_rows):
    return pow(7, 10**10)
""",
    ),
    _exhausting(
        "endless-regular-expression",
        "matches a pattern that backtracks for years, inside C",
        """
import re
def batch_shape(samples, batch_rows):
    return re.match(r"(a*)*b", "a" * 60)
""",
    ),
    _exhausting(
        "sleep",
        "sleeps for days and wakes up for nobody",
        """
import time
def batch_shape(samples, batch_rows):
    while True:
        try:
            time.sleep(1e8)
        except BaseException:
            pass
""",
        expect="over limit",
    ),
    _exhausting(
        "waits-for-a-lock",
        "takes a lock twice",
        """
import threading
lock = threading.Lock()
def batch_shape(samples, batch_rows):
    lock.acquire()
    lock.acquire()
""",
    ),
    _exhausting(
        "hangs-while-loading",
        "never comes to the end of its cell",
        """
while True:
    pass
def batch_shape(samples, batch_rows):
    return (batch_rows, *samples.shape[1:])
""",
    ),
    _exhausting(
        "hangs-when-freed",
        "returns an object whose clean-up never ends",
        """
class Sticky:
    def __del__(self):
        while True:
            pass
def batch_shape(samples, batch_rows):
    return Sticky()
""",
        expect="over limit|wrong",
    ),
    _exhausting(
        "spinning-threads",
        "leaves threads that use the processor for ever, and answers rightly",
        """
import threading
def spin():
    while True:
        pass
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
def batch_shape(samples, batch_rows):
    return (batch_rows, *samples.shape[1:])
""",
        expect="passed|over limit|crashed",
    ),
    _exhausting(
        "pauses-itself",
        "stops its own process",
        """
import os, signal
def batch_shape(samples, batch_rows):
    os.kill(os.getpid(), signal.SIGSTOP)
    return (batch_rows, *samples.shape[1:])
""",
        expect="over limit|crashed",
    ),
    # -- memory
    _fills(
        "hundred-gigabytes",
        "asks NumPy for 100 GB and writes to them",
        """
def fills():
    np.ones(100 << 30, np.uint8)
""",
    ),
    _fills(
        "six-gigabytes-of-bytes",
        "asks for 6 GB in one bytearray",
        """
def fills():
    bytearray(6 << 30)
""",
    ),
    _fills(
        "six-gigabytes-in-pieces",
        "takes 6 GB in small pieces",
        """
def fills():
    kept = []
    while len(kept) < 6 << 10:
        kept.append(np.ones(1 << 20, np.uint8))
""",
    ),
    _fills(
        "anonymous-memory-file",
        "fills a file in memory, which is no address space",
        """
import os
def fills():
    fd = os.memfd_create("more")
    for _ in range(6 << 10):
        os.write(fd, b"x" * (1 << 20))
""",
    ),
    _fills(
        "shared-mapping",
        "maps shared memory and writes to every page",
        """
import mmap
def fills():
    held = [mmap.mmap(-1, 1 << 26) for _ in range(96)]
    for one in held:
        one[:] = b"x" * (1 << 26)
""",
    ),
    _fills(
        "shared-memory-folder",
        "fills /dev/shm and /run/shm",
        """
import os
def fills():
    for folder in ("/dev/shm", "/run/shm"):
        if os.path.isdir(folder):
            with open(folder + "/@MARK@", "wb", 0) as file:
                for _ in range(6 << 10):
                    file.write(b"x" * (1 << 20))
    raise OSError("No space left on device")
""",
    ),
    _fills(
        "pipes",
        "fills pipes, whose contents lie in the kernel",
        """
import fcntl, os
def fills():
    kept = []
    for _ in range(20_000):
        kept.append(os.pipe())
        fcntl.fcntl(kept[-1][1], 1031, 1 << 20)
        os.set_blocking(kept[-1][1], False)
        os.write(kept[-1][1], b"x" * (1 << 20))
""",
    ),
    _fills(
        "list-of-objects",
        "builds a list that never ends",
        """
def fills():
    kept = [0]
    while True:
        kept += kept
""",
    ),
    _fills(
        "unpacked-bomb",
        "unpacks a small thing that becomes a large one",
        """
import zlib
def fills():
    small = zlib.compress(bytes(1 << 22), 9)
    kept = []
    for _ in range(1 << 12):
        kept.append(zlib.decompress(small))
""",
    ),
    _fills(
        "six-forks-with-a-gigabyte-each",
        "spreads its memory over processes",
        """
import os
def fills():
    children = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            kept = bytearray(1 << 30)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
""",
    ),
    # -- processes, threads, descriptors, disk
    _fills(
        "fork-bomb",
        "forks for ever",
        """
import os
def fills():
    while True:
        os.fork()
""",
    ),
    _fills(
        "raw-fork-bomb",
        "forks by the system call, around Python",
        SYSCALLS
        + """
def fills():
    for _ in range(1000):
        result = call(56, 220, 17, 0, 0, 0, 0)
        if result < 0:
            raise BlockingIOError(ctypes.get_errno(), "Resource temporarily unavailable")
        result = call(435, 435, (ctypes.c_ulong * 11)(), 88)
""",
    ),
    _fills(
        "thread-bomb",
        "starts threads for ever",
        """
import threading, time
def fills():
    for _ in range(20_000):
        threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
""",
    ),
    _fills(
        "descriptors",
        "opens files until none is left",
        """
import os
def fills():
    for _ in range(100_000):
        os.dup(0)
""",
    ),
    _fills(
        "disk",
        "writes a file until the disk is full",
        """
import os
def fills():
    with open("@MARK@", "wb", 0) as file:
        for _ in range(4 << 10):
            file.write(os.urandom(1 << 20))
""",
    ),
    _fills(
        "files",
        "makes files until there is no room for names",
        """
import os
def fills():
    for i in range(300_000):
        open(f"@MARK@-{i}", "w").close()
""",
        expect="over limit|crashed|wrong",
    ),
    _fills(
        "nested-folders",
        "makes folders in folders, too deep to remove simply",
        """
import os
def fills():
    for _ in range(3000):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
""",
        expect="over limit|crashed|wrong",
    ),
)
