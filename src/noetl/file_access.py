"""Which files of a worker a playbook may name.

Tools and the provider `file` open paths from a playbook with the rights of the worker's user. They call `check` first,
which refuses

- virtual files of the kernel (`/proc`, `/sys`, `/dev`), which expose the environment of every process;
- noetl's own files: the databases that this process has open, the master key, and every file that a `NOETL_*_FILE` or
  NOETL_PROTECTED_FILES names. They are compared by device and inode as well, which also covers hard links;
- if the operator has set an allow-list (NOETL_SECRET_FILES, NOETL_TOOL_FILES), everything outside its folders.

This does not restrict code of tasks: the user and the sandbox decide which files it can open.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO, Literal

from noetl.errors import NoetlError
from noetl.settings import allowed_folders, own_files

KERNEL = ("/proc", "/sys", "/dev")
BESIDE = ("", "-wal", "-shm", "-journal", ".lock", ".new", ".revisions", ".dev")
"""Suffixes of the files that SQLite, the master key and `noetl dev` write next to a file."""

Use = Literal["secret", "tool"]
FilePath = str | os.PathLike[str]

_databases: set[str] = set()


class FileRefused(NoetlError):
    """A playbook names a file that it may not use."""


def protect(path: FilePath) -> None:
    """Protect this file from playbooks. The store calls this for every database file."""
    _databases.add(os.path.realpath(path))


def protected(environment: Mapping[str, str] = os.environ) -> list[str]:
    return sorted({*_databases, *map(os.path.realpath, own_files(environment))})


def check(path: FilePath, use: Use = "tool", environment: Mapping[str, str] = os.environ) -> str:
    """The real path of a file that a playbook may use; FileRefused otherwise. The file need not exist."""
    name = os.fspath(path)
    absolute = os.path.abspath(os.path.expanduser(name) if use == "secret" else name)
    _check_disk(name, absolute)  # before links are resolved: /proc/1/root leads back to a disk
    try:
        real = os.path.realpath(absolute)
    except OSError as error:
        raise FileRefused(f"cannot resolve {name!r}: {error.strerror}") from None
    _check_disk(name, real)
    variable, folders = allowed_folders(use, environment)
    if folders and not any(_is_in(real, os.path.realpath(folder)) for folder in folders):
        raise FileRefused(f"{name!r} is outside of the folders that {variable} allows: {', '.join(folders)}")
    own = [f"{file}{suffix}" for file in protected(environment) for suffix in BESIDE]
    if real in own or _identity(real) in {_identity(file) for file in own} - {None}:
        raise FileRefused(f"{name!r} belongs to noetl itself (a database, a key or a token); name another file")
    return real


def check_folder(path: FilePath, environment: Mapping[str, str] = os.environ) -> str:
    """The same for a folder, including everything in it."""
    real = check(path, "tool", environment)
    inside = OwnFiles(environment).inside(real)
    if inside is not None:
        raise FileRefused(
            f"{os.fspath(path)!r} contains {inside}, which belongs to noetl itself; name a folder that does not"
        )
    return real


class OwnFiles:
    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        identities = {file: _identity(file) for file in protected(environment)}
        self.identities = {file: identity for file, identity in identities.items() if identity is not None}

    def inside(self, path: str) -> str | None:
        """The first of them at the path or inside the folder at the path."""
        if not self.identities:
            return None
        real = os.path.realpath(path)
        inside = next((file for file in self.identities if _is_in(file, real)), None)
        return inside or (real if _identity(real) in self.identities.values() else None)


def open_checked(path: FilePath, use: Use = "tool", environment: Mapping[str, str] = os.environ) -> BinaryIO:
    """Open a file for a playbook. FileRefused if it is protected or not a regular file; OSError otherwise."""
    real = check(path, use, environment)
    if os.path.exists(real) and not os.path.isfile(real):  # reading a pipe could block for ever
        raise FileRefused(f"{os.fspath(path)!r} is not a file")
    return open(real, "rb")


def _check_disk(name: str, path: str) -> None:
    in_kernel = any(_is_in(path, folder) for folder in KERNEL)
    if not in_kernel:
        with suppress(OSError, ValueError):  # procfs and sysfs can be mounted at other paths too
            devices = {os.stat(folder).st_dev for folder in ("/proc", "/sys") if os.path.ismount(folder)}
            in_kernel = os.stat(path).st_dev in devices
    if in_kernel:
        raise FileRefused(f"{name!r} is not a file on a disk: /proc, /sys and /dev are closed to playbooks")


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
