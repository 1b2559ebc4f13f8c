"""The seccomp filter of the sandbox `landlock`: the kernel runs it before each system call.

Landlock controls which files can be opened, and TCP. This filter refuses calls that Landlock does not cover with EPERM:

- mode, owner, extended attributes and times of files, by path and by descriptor. Only the times of a file that the
  program has open can be set, as `touch` does;
- memory, descriptors and keys of other processes, tracing, kernel programs, and `io_uring`, which bypasses the filter;
- namespaces and mounts;
- without `network`, sockets of any family but local ones and netlink, which cannot reach other machines.

`clone3` returns ENOSYS, as on an older kernel: its flags are in memory, which a filter cannot read, and the C library
then uses `clone`. Every call of another architecture (32 bit, x32) is refused, because its numbers mean other calls.

A filter is an array of instructions of classic BPF, eight bytes each: see seccomp(2) and <linux/filter.h>.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from errno import ENOSYS, EPERM

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the table below, and the architecture constant of the kernel (AUDIT_ARCH_*)."""

# fmt: off
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # metadata of files
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469), "utime": (132, None),
    "utimes": (235, None), "futimesat": (261, None),
    # other processes, keys, kernel programs
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_by_handle_at": (304, 265), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
}
# fmt: on
"""Numbers of calls that are refused for all arguments. None: the architecture has no such call."""
FILTERED = {"clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "utimensat": (280, 88)}
"""Numbers of calls that are filtered by arguments, or return another error."""

NEW_NAMESPACES = 0x7E020000
AF_UNIX, AF_NETLINK = 1, 16
X32 = 0x40000000

LOAD, EQUAL, ABOVE, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data. Both architectures are little-endian."""
ALLOW, ERROR = 0x7FFF0000, 0x00050000

Instruction = tuple[int, int, int, int]
"""Operation, how many instructions to skip if true and if false, and a number."""


def is_supported() -> bool:
    return platform.machine() in MACHINES


def filter_program(*, network: bool, machine: str | None = None) -> bytes:
    column, architecture = MACHINES[machine or platform.machine()]
    code = _instructions(column, architecture, network)
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _instructions(column: int, architecture: int, network: bool) -> Iterator[Instruction]:
    refuse, allow = (RETURN, 0, 0, ERROR | EPERM), (RETURN, 0, 0, ALLOW)
    clone, clone3, socket, utimensat = (FILTERED[name][column] for name in ("clone", "clone3", "socket", "utimensat"))
    yield from ((LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), refuse)
    yield (LOAD, 0, 0, NUMBER)
    yield from ((ABOVE, 0, 1, X32), refuse)
    for row in REFUSED.values():
        if (number := row[column]) is not None:
            yield from ((EQUAL, 0, 1, number), refuse)
    yield from ((EQUAL, 0, 1, clone3), (RETURN, 0, 0, ERROR | ENOSYS))
    yield from ((EQUAL, 0, 4, clone), (LOAD, 0, 0, ARGUMENTS), (ANY_BIT, 0, 1, NEW_NAMESPACES))
    yield from (refuse, allow)
    path = ARGUMENTS + 8  # null: the descriptor in front of it is meant
    yield from ((EQUAL, 0, 6, utimensat), (LOAD, 0, 0, path), (EQUAL, 0, 3, 0))
    yield from ((LOAD, 0, 0, path + 4), (EQUAL, 0, 1, 0), allow, refuse)
    if not network:
        yield from ((EQUAL, 0, 5, socket), (LOAD, 0, 0, ARGUMENTS))
        yield from ((EQUAL, 2, 0, AF_UNIX), (EQUAL, 1, 0, AF_NETLINK), refuse, allow)
    yield allow
