"""Which system calls an answer may make: a seccomp filter, built by libseccomp on the judge's side.

What computing needs is allowed by name, everything else is refused as "Operation not permitted", so that an exception
says what happened. A few calls "do not exist" (ENOSYS) instead: `clone3`, whose arguments a filter cannot see, and
calls newer than the tables. Libraries then take the older way.
"""

import errno
import tempfile
from dataclasses import dataclass

__all__ = ["Policy", "SeccompUnavailable", "build"]

_FILES = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 open openat openat2 creat close close_range
stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 lseek readlink readlinkat getdents
getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink
symlinkat truncate ftruncate fallocate fsync fdatasync sync_file_range dup dup2 dup3 fcntl flock umask copy_file_range
sendfile splice pipe pipe2 fadvise64 readahead
"""
_WAITING = """
poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4 pause nanosleep clock_nanosleep alarm setitimer
getitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete
"""
_MEMORY = """
mmap munmap mremap mprotect madvise msync mincore brk mlock mlock2 munlock mbind get_mempolicy set_mempolicy
membarrier
"""
_SELF = """
futex futex_waitv futex_wait futex_wake futex_requeue set_robust_list get_robust_list rseq set_tid_address arch_prctl
getpid gettid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgid getpgrp getsid setsid setpgid
getrlimit setrlimit getrusage sysinfo times uname getcpu gettimeofday clock_gettime clock_getres time getrandom
sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr
sched_get_priority_max sched_get_priority_min getpriority rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending
rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo sigaltstack restart_syscall kill tkill tgkill exit exit_group wait4 waitid
"""
_CONNECTED = """
sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockopt setsockopt getsockname getpeername
"""
_SERVING = "bind listen accept accept4 connect"
_ATTRIBUTES = " getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr"
_SCHEDULING = " sched_setaffinity sched_setscheduler sched_setparam sched_setattr setpriority"
_MODES = """
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat setxattr fsetxattr
lsetxattr
"""
# prctl: names of threads, sizes asked by libraries; not death signals, seccomp, or where memory begins.
_PRCTL = {"PDEATHSIG?": 2, "DUMPABLE?": 3, "NAME": 15, "NAME?": 16, "CAPBSET?": 23, "TIMERSLACK": 29, "TIMERSLACK?": 30}
_PRCTL |= {"NO_NEW_PRIVS?": 39, "THP_DISABLE": 41, "THP_DISABLE?": 42, "VMA": 0x53564D41}
# ioctl: is it a terminal and how wide, how much is there to read, blocking, close on exec.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)

_CLONE_THREAD = 0x0001_0000
_CLONE_NAMESPACES = 0x7E02_0080  # every CLONE_NEW... flag
# Calls added since Linux 6.5 have the same numbers on every architecture.
_NEWER = range(451, 512)
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_KIND = 1, 0xF


@dataclass(frozen=True)
class Policy:
    """What a filter lets through beyond computing.

    Args:
        fork, exec: starting processes, and other programs.
        loopback: sockets, for a process in a network namespace of its own.
        memfd: files in memory, for a process whose memory a control group counts.
        alone: the process sees no file and no process of the host: it may change modes and owners, and schedule.
    """

    fork: bool = False
    exec: bool = False
    loopback: bool = False
    memfd: bool = False
    alone: bool = False


class SeccompUnavailable(OSError):
    """libseccomp or its binding is missing."""


_BUILT = {}


def build(policy):
    """Return the filter as BPF instructions (bytes), built once per policy.

    Raises:
        SeccompUnavailable: libseccomp cannot be loaded.
    """
    if policy not in _BUILT:
        _BUILT[policy] = _Builder(policy).program()
    return _BUILT[policy]


def _binding():
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise SeccompUnavailable(errno.ENOENT, f"{error} (it is in the system's package libseccomp2)") from None
    return pyseccomp


class _Builder:
    def __init__(self, policy):
        self.lib = _binding()
        self.filter = self.lib.SyscallFilter(self.lib.ERRNO(errno.EPERM))
        self.filter.set_attr(self.lib.Attr.CTL_OPTIMIZE, 2)  # a tree instead of a list: a few steps per call
        self.decided = set()
        self.add_plain(policy)
        self.add_checked(policy)
        self.add_unknown()

    def program(self):
        with tempfile.TemporaryFile() as file:
            self.filter.export_bpf(file)
            file.seek(0)
            return file.read()

    def add_plain(self, policy):
        groups = [_FILES, _WAITING, _MEMORY, _SELF, _CONNECTED]
        for wanted, names in (
            (policy.fork, "fork vfork"),
            (policy.exec, "execve execveat"),
            (policy.memfd, "memfd_create"),
            (policy.alone, _MODES + _ATTRIBUTES + _SCHEDULING),
            (policy.loopback, _SERVING),
        ):
            groups += [names] if wanted else []
        for name in " ".join(groups).split():
            self.allow(name)

    def add_checked(self, policy):
        masked, equal = self.lib.MASKED_EQ, self.lib.EQ
        if policy.fork:
            self.allow("clone", (0, masked, _CLONE_NAMESPACES, 0))
        else:
            self.allow("clone", (0, masked, _CLONE_THREAD, _CLONE_THREAD))
        self.allow("prlimit64", (0, equal, 0))  # of this process
        # Only connected pairs: with an address, a datagram socket could reach services of the host.
        self.allow("socketpair", (0, equal, _AF_UNIX), (1, masked, _SOCK_KIND, _SOCK_STREAM))
        if policy.loopback:
            for family in (_AF_UNIX, _AF_INET, _AF_INET6):
                self.allow("socket", (0, equal, family))
            self.allow("socket", (0, equal, _AF_NETLINK), (2, equal, 0))  # which interfaces there are
        for option in _PRCTL.values():
            self.allow("prctl", (0, equal, option))
        for request in _IOCTL:
            self.allow("ioctl", (1, equal, request))

    def add_unknown(self):
        for number in [self._number("clone3"), *_NEWER]:
            if number not in self.decided:
                self.filter.add_rule(self.lib.ERRNO(errno.ENOSYS), number)

    def allow(self, name, *conditions):
        number = self._number(name)
        if number is not None:
            self.decided.add(number)
            self.filter.add_rule(self.lib.ALLOW, number, *(self.lib.Arg(*condition) for condition in conditions))

    def _number(self, name):
        """Return a call's number, or None when this libseccomp or this architecture does not know it."""
        try:
            number = self.lib.resolve_syscall(self.lib.Arch.NATIVE, name)
        except (OSError, ValueError):
            return None
        return number if number >= 0 else None
