"""Which files of a worker a playbook may name.

Tools and the provider `file` open the paths that a playbook gives, with the rights of the worker's user. Each of these
paths passes through `check` first, which refuses

- the files that the kernel makes up (`/proc`, `/sys`, `/dev`), where the environment of every process can be read;
- noetl's own files: the databases that this process has open, the master key, and every file that a `NOETL_*_FILE` or
  NOETL_PROTECTED_FILES names. They are compared by device and inode as well, so a hard link does not help;
- where the operator has set an allow-list (NOETL_SECRET_FILES, NOETL_TOOL_FILES), everything outside of its folders.

Code that a task runs is not a path: what it may open is decided by its user and its sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import BinaryIO, Literal

from noetl.errors import NoetlError
from noetl.settings import allowed_folders, own_files

KERNEL = ("/proc", "/sys", "/dev")
BESIDE = ("", "-wal", "-shm", "-journal", ".lock", ".new", ".revisions")
"""What SQLite and the master key write beside a file."""

Use = Literal["secret", "tool"]

_databases: set[str] = set()


class FileRefused(NoetlError):
    """A playbook names a file that it may not use."""


def protect(path: str | os.PathLike[str]) -> None:
    """Refuse this file to playbooks from now on. The store calls it for every database file."""
    _databases.add(os.path.realpath(path))


def protected(environment: Mapping[str, str] = os.environ) -> list[str]:
    """noetl's own files on this machine, as real paths."""
    return sorted({*_databases, *map(os.path.realpath, own_files(environment))})


def check(path: str | os.PathLike[str], use: Use = "tool", environment: Mapping[str, str] = os.environ) -> str:
    """The real path of a file that a playbook may use; FileRefused otherwise. The file need not exist."""
    given = os.fspath(path)
    named = os.path.abspath(os.path.expanduser(given) if use == "secret" else given)
    _check_disk(given, named)  # before it is followed: /proc/1/root leads to a disk again
    try:
        real = os.path.realpath(named)
    except OSError as error:
        raise FileRefused(f"{given!r} can't be followed: {error.strerror}") from None
    _check_disk(given, real)
    _check_allowed(given, real, use, environment)
    own = [f"{one}{suffix}" for one in protected(environment) for suffix in BESIDE]
    if real in own or _identity(real) in {_identity(one) for one in own} - {None}:
        raise FileRefused(f"{given!r} belongs to noetl itself (a database, a key or a token); name another file")
    return real


def check_folder(path: str | os.PathLike[str], environment: Mapping[str, str] = os.environ) -> str:
    """The same for a folder that is handed over with everything in it."""
    real = check(path, "tool", environment)
    inside = own_file_in(real, environment)
    if inside is not None:
        raise FileRefused(
            f"{os.fspath(path)!r} contains {inside}, which belongs to noetl itself; name a folder that does not"
        )
    return real


def own_file_in(path: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """A file of noetl itself that a folder contains, or that the path is; None if there is none."""
    return OwnFiles(environment).inside(path)


class OwnFiles:
    """noetl's own files that exist at this moment, for many questions in a row."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        found = {one: _identity(one) for one in protected(environment)}
        self.identities = {one: identity for one, identity in found.items() if identity is not None}

    def inside(self, path: str) -> str | None:
        """The first of them that a folder contains, or that the path is."""
        if not self.identities:
            return None
        real = os.path.realpath(path)
        found = next((one for one in self.identities if _is_in(one, real)), None)
        return found or (real if _identity(real) in self.identities.values() else None)


def open_checked(
    path: str | os.PathLike[str], use: Use = "tool", environment: Mapping[str, str] = os.environ
) -> BinaryIO:
    """A file that a playbook may read, opened. FileRefused if it may not, or if it is no regular file; OSError else."""
    real = check(path, use, environment)
    if os.path.exists(real) and not os.path.isfile(real):  # reading a pipe could take for ever
        raise FileRefused(f"{os.fspath(path)!r} is not a file")
    return open(real, "rb")


def _check_disk(given: str, path: str) -> None:
    if any(_is_in(path, folder) for folder in KERNEL) or _on_kernel_device(path):
        raise FileRefused(f"{given!r} is not a file on a disk: /proc, /sys and /dev are closed to playbooks")


def _check_allowed(given: str, real: str, use: Use, environment: Mapping[str, str]) -> None:
    variable, folders = allowed_folders(use, environment)
    if folders and not any(_is_in(real, os.path.realpath(folder)) for folder in folders):
        raise FileRefused(f"{given!r} is outside of the folders that {variable} allows: {', '.join(folders)}")


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _on_kernel_device(real: str) -> bool:
    """Whether the file is of /proc or /sys although its path says otherwise: these can be mounted elsewhere, too."""
    try:
        device = os.stat(real).st_dev
        return device in {os.stat(folder).st_dev for folder in ("/proc", "/sys") if os.path.ismount(folder)}
    except (OSError, ValueError):
        return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
