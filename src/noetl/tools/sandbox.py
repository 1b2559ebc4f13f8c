"""How child processes are confined: `spec.sandbox` of a task.

`none` is the default: a process has the rights of the worker's user. With `landlock` the kernel keeps the process and
its descendants from reading anything but the system and the declared paths, writing outside its own folder, changing
metadata of files, and using the network (Landlock for files, `process/seccomp.py` for the rest). `bubblewrap` runs them
in namespaces without other processes, the network and most of the disk. All three limit memory and processes.

If the sandbox is not available on the worker, the call fails. Nothing ever runs with a weaker one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from noetl.model.outcome import Failure

if TYPE_CHECKING:
    from noetl.file_access import OwnFiles

PROCESSES = 512
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/nix/store")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
NAMES = "/run/systemd/resolve"
"""Where /etc/resolv.conf often leads."""


class Sandbox(Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """`spec.sandbox`, as layered."""

    kind: Literal["none", "bubblewrap", "landlock"] = "none"
    network: bool = False
    read: list[str] = []
    write: list[str] = []
    memory_bytes: int | None = None
    processes: int = PROCESSES
    file_bytes: int | None = None
    open_files: int | None = None

    def limits(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in ("memory_bytes", "processes", "file_bytes", "open_files")}


def sandbox_of(spec: Mapping[str, Any]) -> Sandbox:
    """The sandbox of a task; Failure if it is invalid or not available here."""
    value = spec.get("sandbox") or {}
    try:
        sandbox = msgspec.convert({"kind": value} if isinstance(value, str) else value, Sandbox)
    except msgspec.ValidationError as error:
        raise Failure("input", f"spec.sandbox: {error}") from None
    if sandbox.kind == "landlock":
        from noetl.tools.process.inside.linux import landlock_version
        from noetl.tools.process.seccomp import is_supported

        if landlock_version() == 0:
            message = "the sandbox `landlock` is not available: the kernel of this worker has no Landlock, or it is off"
            raise Failure("not_found", message)
        if not is_supported():
            reason = "supports x86_64 and aarch64 only, and this worker has another architecture"
            raise Failure("not_found", f"the sandbox `landlock` {reason}: use bubblewrap")
    return sandbox


def confined(sandbox: Sandbox, argv: list[str], cwd: str, folders: Iterable[str]) -> list[str]:
    if sandbox.kind != "bubblewrap":
        return argv
    return [*_bubblewrap(sandbox, read=(), write=folders), "--chdir", cwd, "--", *argv]


def landlock(sandbox: Sandbox, folders: Iterable[str], *, read: Iterable[str] = ()) -> dict[str, Any] | None:
    """The rules for Landlock, if it is the sandbox. `folders` are writable, `read` has the files that the task always
    needs. Failure if a declared path contains noetl's own files."""
    if sandbox.kind != "landlock":
        return None
    from noetl.file_access import OwnFiles
    from noetl.tools.process.seccomp import filter_program

    write = [*folders, *sandbox.write]
    own = OwnFiles()
    for path in (*sandbox.read, *write):
        if own_file := own.inside(path):
            contained = f"{path!r}, which contains {own_file} of noetl itself"
            raise Failure("input", f"the sandbox must not include {contained}; list narrower folders")
    needed = [*SYSTEM, NAMES, sys.prefix, sys.base_prefix, *read]
    readable = ["/proc", *DEVICES, "/dev/urandom", "/dev/random"]
    readable += [part for path in dict.fromkeys(needed) for part in _without_own_files(path, own)]
    return {
        "read": [*readable, *sandbox.read],
        "write": [*write, *DEVICES],
        "network": sandbox.network,
        "calls": filter_program(network=sandbox.network).hex(),
    }


def _without_own_files(path: str, own: OwnFiles) -> list[str]:
    own_file = own.inside(path)
    if own_file is None:
        return [path]
    if not os.path.isdir(path) or os.path.dirname(own_file) == os.path.realpath(path):
        return []
    return [part for name in os.listdir(path) for part in _without_own_files(os.path.join(path, name), own)]


def confined_python(sandbox: Sandbox, argv: list[str], folders: Iterable[str]) -> list[str] | None:
    """The command line of an interpreter for python calls in bubblewrap; None if a fork of the zygote will do."""
    if sandbox.kind != "bubblewrap":
        return None
    needed = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path[1:], *folders]
    outermost: list[str] = []  # folders without those inside another one, or inside the system folders
    for path in sorted({os.path.abspath(path) for path in needed if path.startswith("/")}):
        if os.path.isdir(path) and not any(f"{path}/".startswith(f"{outer}/") for outer in (*SYSTEM, *outermost)):
            outermost.append(path)
    return [*_bubblewrap(sandbox, read=outermost, write=()), "--chdir", "/tmp", "--", *argv]


def _bubblewrap(sandbox: Sandbox, read: Iterable[str], write: Iterable[str]) -> list[str]:
    """The program and its options. Later mounts cover earlier ones."""
    from shutil import which

    if (program := which("bwrap")) is None:
        message = "the sandbox `bubblewrap` needs the program bwrap, which is not on this worker: install bubblewrap"
        raise Failure("not_found", message)
    words = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    if sandbox.network:
        words += ["--share-net", "--ro-bind-try", NAMES, NAMES]
    for path in SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in (*read, *sandbox.read):
        words += ["--ro-bind-try", path, path]
    for path in (*write, *sandbox.write):
        words += ["--bind", path, path]
    return words
