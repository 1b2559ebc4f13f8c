"""What a process gives up before it runs somebody's code: memory, files, rights. Nothing of it can be taken back."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
SECCOMP_FILTER = 2
INSTRUCTION_BYTES = 8
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls of Landlock; their numbers are the same on every architecture."""
PATH_BENEATH = 1
CAPABILITY_VERSION = 0x20080522
O_PATH = 0o10000000

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE = 16 | 32
MAKE = 64 | 128 | 256 | 512 | 1024 | 2048 | 4096
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1, 2
SCOPED = 1 | 2
"""No signals to processes outside, no abstract sockets of theirs."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> bool:
    """Be killed when the parent ends; False if it has ended already."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def adopt_orphans() -> None:
    """Become the parent of every process below whose own parent ends."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)


def volunteer_for_memory() -> None:
    """When memory runs out the kernel shall take this process, not the engine."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


def limit(what: int, wanted: int) -> None:
    """A limit for this process and those below it; a lower one from outside stays."""
    soft, hard = resource.getrlimit(what)
    if soft == resource.RLIM_INFINITY or wanted < soft:
        resource.setrlimit(what, (wanted, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)))


def forbid_core_dumps() -> None:
    """A dump would have the credentials of a call in a file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_address_space(more_bytes: int) -> None:
    """Let this process have so much memory beyond what it has."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or now + more_bytes < soft:
        resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, hard))


def limit_program(limits: dict[str, Any]) -> None:
    """The limits of a program. Address space that is only reserved is not counted: many programs reserve a lot."""
    forbid_core_dumps()
    for name, what in (
        ("memory_bytes", resource.RLIMIT_DATA),
        ("file_bytes", resource.RLIMIT_FSIZE),
        ("open_files", resource.RLIMIT_NOFILE),
    ):
        if limits.get(name) is not None:
            limit(what, limits[name])


# -- Landlock ---------------------------------------------------------------------------------------------------------


class Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_version() -> int:
    """Which version of Landlock the kernel has; 0 if none."""
    return int(max(0, LIBC.syscall(CREATE_RULESET, None, 0, 1)))


def drop_capabilities() -> None:
    """Give up the rights of root. With some of them the memory and the environment of any process can be read."""
    none = (ctypes.c_uint32 * 6)()
    checked(LIBC.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), none))


def landlock(read: list[str], write: list[str], network: bool, calls: str) -> None:
    """Restrict this process and those below it to reading `read` and writing `write`, and to the system calls that the
    filter `calls` (in hex, see `process/seccomp.py`) lets pass. OSError if that can't be."""
    version = landlock_version()
    writing = WRITE_FILE | REMOVE | MAKE | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    reading = EXECUTE | READ_FILE | READ_DIR
    devices = IOCTL_DEV if version >= 5 else 0
    rules = Ruleset(
        reading | writing | devices,
        0 if network or version < 4 else BIND_TCP | CONNECT_TCP,
        SCOPED if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = checked(LIBC.syscall(CREATE_RULESET, ctypes.byref(rules), size, 0))
    for path in read:
        allow(ruleset, path, reading)
    for path in write:
        allow(ruleset, path, reading | writing | devices)
    checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    drop_capabilities()
    checked(LIBC.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    filter_calls(bytes.fromhex(calls))


class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def filter_calls(program: bytes) -> None:
    """Have the kernel ask this filter before each system call of this process and those below it."""
    held = ctypes.create_string_buffer(program, len(program))
    found = Filter(len(program) // INSTRUCTION_BYTES, ctypes.addressof(held))
    checked(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_FILTER, ctypes.byref(found), 0, 0), "seccomp")


def allow(ruleset: int, path: str, rights: int) -> None:
    """Rights on a folder and what is in it, or on a file; what does not exist needs none."""
    try:
        fd = os.open(path, O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rule = Beneath(rights if os.path.isdir(path) else rights & OF_FILES, fd)
    try:
        checked(LIBC.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(fd)


def checked(answer: int, what: str = "Landlock") -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer
