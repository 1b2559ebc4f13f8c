"""Linux: permanent restrictions of a process before it runs the code of a task, and the descendants of a process."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from contextlib import suppress
from struct import pack

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterator
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
"""No signals to processes outside, and no abstract sockets of theirs."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

LIMITS = {
    "memory_bytes": resource.RLIMIT_DATA,
    "file_bytes": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
}
PAGE_BYTES = resource.getpagesize()
STOP_SECONDS = 5.0
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> bool:
    """Be killed when the parent ends; False if it has ended already."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def adopt_orphans() -> None:
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)


def prefer_oom_kill() -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


def forbid_core_dumps() -> None:
    """A core dump would write the credentials of a call to a file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_address_space(more_bytes: int) -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * PAGE_BYTES
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or now + more_bytes < soft:
        resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, hard))


def limit_program(limits: dict[str, Any]) -> None:
    """Set the limits of a program and its descendants, unless lower ones exist. Reserved memory does not count."""
    forbid_core_dumps()
    for name, resource_id in LIMITS.items():
        value = limits.get(name)
        soft, hard = resource.getrlimit(resource_id)
        if value is not None and (soft == resource.RLIM_INFINITY or value < soft):
            resource.setrlimit(resource_id, (value, value if hard == resource.RLIM_INFINITY else min(value, hard)))


def landlock_version() -> int:
    return int(max(0, LIBC.syscall(CREATE_RULESET, None, 0, 1)))


def landlock(read: list[str], write: list[str], network: bool, calls: str) -> None:
    """Restrict this process and those below it to reading `read` and writing `write`, and to the system calls that the
    filter `calls` (in hex, see `process/seccomp.py`) lets pass. OSError if that fails."""
    version = landlock_version()
    writing = WRITE_FILE | REMOVE | MAKE | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    reading = EXECUTE | READ_FILE | READ_DIR
    devices = IOCTL_DEV if version >= 5 else 0
    ports = 0 if network else BIND_TCP | CONNECT_TCP
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = pack("=QQQ", reading | writing | devices, ports, SCOPED)[:size]  # struct landlock_ruleset_attr
    ruleset = checked(LIBC.syscall(CREATE_RULESET, attributes, size, 0))
    for path in read:
        allow(ruleset, path, reading)
    for path in write:
        allow(ruleset, path, reading | writing | devices)
    checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Drop the capabilities of root: with some of them the memory of any process can be read.
    checked(LIBC.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()))
    checked(LIBC.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    program = bytes.fromhex(calls)
    buffer = ctypes.create_string_buffer(program, len(program))
    descriptor = pack("HP", len(program) // INSTRUCTION_BYTES, ctypes.addressof(buffer))
    checked(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_FILTER, descriptor, 0, 0), "seccomp")


def allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rule = pack("=Qi", rights if os.path.isdir(path) else rights & OF_FILES, fd)
    try:
        checked(LIBC.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0))
    finally:
        os.close(fd)


def checked(result: int, feature: str = "Landlock") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{feature}: {os.strerror(number)}")
    return result


def children(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{task}/children") as file:
                pids += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return pids


def below(pid: int) -> Iterator[int]:
    visited = {pid}
    level = children(pid)
    while level:
        new = [child for child in dict.fromkeys(level) if child not in visited]
        visited.update(new)
        yield from new
        level = [grandchild for child in new for grandchild in children(child)]


def memory_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(resident) - int(shared)) * PAGE_BYTES


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # ended, or of another user
        os.kill(pid, number)


def end_below(pid: int) -> None:
    """Stop all descendants until no new ones appear, then kill them. A stopped process cannot fork."""
    stopped: set[int] = set()
    until = time.monotonic() + STOP_SECONDS
    while time.monotonic() < until:
        before = len(stopped)
        for descendant in below(pid):
            if descendant not in stopped:
                send(descendant, signal.SIGSTOP)
                stopped.add(descendant)
        if len(stopped) == before:
            break
    for descendant in stopped:
        send(descendant, signal.SIGKILL)


def end(pid: int) -> None:
    send(pid, signal.SIGSTOP)
    end_below(pid)
    send(pid, signal.SIGKILL)
