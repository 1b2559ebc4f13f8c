"""How child processes are confined: `spec.sandbox` of a task.

`none` is the default: a process has the rights of the worker's user. `landlock` asks the kernel to forbid the process
and all below it to write outside its own folder, and to use TCP. `bubblewrap` gives them a world of their own: other
processes, the network and most of the disk are not there. Limits of memory and processes hold in all three.

A sandbox that this machine does not have fails the call. Nothing ever runs with less than what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from noetl.tools.base import Failure

PROCESSES = 512
"""How many processes a call may have at once if nothing is said."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/nix/store")
"""What a program needs to run at all, beside /proc and /dev."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
NAMES = "/run/systemd/resolve"
"""Where /etc/resolv.conf often leads."""
TCP_VERSION = 4
"""Of Landlock: the first that can forbid TCP."""


class Sandbox(Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """`spec.sandbox`, as layered."""

    kind: Literal["none", "bubblewrap", "landlock"] = "none"
    network: bool = False
    read: list[str] | None = None
    write: list[str] = []
    memory_bytes: int | None = None
    processes: int = PROCESSES
    file_bytes: int | None = None
    open_files: int | None = None

    def limits(self) -> dict[str, int | None]:
        names = ("memory_bytes", "processes", "file_bytes", "open_files")
        return {name: getattr(self, name) for name in names}


def sandbox_of(spec: Mapping[str, Any]) -> Sandbox:
    """The sandbox that a task asks for. Failure if it makes no sense or is not to be had here."""
    given = spec.get("sandbox") or {}
    try:
        found = msgspec.convert({"kind": given} if isinstance(given, str) else given, Sandbox)
    except msgspec.ValidationError as error:
        raise Failure("input", f"spec.sandbox: {error}") from None
    if found.kind == "landlock":
        _check_landlock(found)
    return found


def confined(sandbox: Sandbox, argv: list[str], cwd: str, folders: Iterable[str]) -> list[str]:
    """The command line that runs a program in the sandbox. It may write into `folders`."""
    if sandbox.kind != "bubblewrap":
        return argv
    return [*_bubblewrap(sandbox, read=(), write=folders), "--chdir", cwd, "--", *argv]


def landlock(sandbox: Sandbox, folders: Iterable[str], *, read: Iterable[str] = ()) -> dict[str, Any] | None:
    """What Landlock is told, if it is asked for."""
    if sandbox.kind != "landlock":
        return None
    readable = ["/"] if sandbox.read is None else [*SYSTEM, "/proc", "/dev", NAMES, *sandbox.read, *read]
    return {"read": readable, "write": [*folders, *sandbox.write, *DEVICES], "network": sandbox.network}


def confined_python(sandbox: Sandbox, argv: list[str], folders: Iterable[str]) -> list[str] | None:
    """The command line of an interpreter that serves python calls in a bubble; None if the zygote's own will do."""
    import sys

    if sandbox.kind != "bubblewrap":
        return None
    read = _outermost([sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path[1:], *folders])
    return [*_bubblewrap(sandbox, read=read, write=()), "--chdir", "/tmp", "--", *argv]


def _outermost(paths: Iterable[str]) -> list[str]:
    """Folders without those that lie in another one, or in what is there anyway."""
    import os

    found: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths if path.startswith("/")}):
        if os.path.isdir(path) and not any(f"{path}/".startswith(f"{outer}/") for outer in (*SYSTEM, *found)):
            found.append(path)
    return found


def _check_landlock(sandbox: Sandbox) -> None:
    from noetl.tools.process.inside.confine import landlock_version

    version = landlock_version()
    if version == 0:
        message = "the sandbox `landlock` is not to be had: the kernel of this worker has no Landlock, or it is off"
        raise Failure("not_found", message)
    if not sandbox.network and version < TCP_VERSION:
        message = "the kernel of this worker can't forbid the network by Landlock: use bubblewrap, or `network: true`"
        raise Failure("not_found", message)


def _bubblewrap(sandbox: Sandbox, read: Iterable[str], write: Iterable[str]) -> list[str]:
    """The program and its options. What comes later lies over what came before."""
    import os
    from shutil import which

    program = which("bwrap")
    if program is None:
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
    for path in (*read, *(sandbox.read or ())):
        words += ["--ro-bind-try", path, path]
    for path in (*write, *sandbox.write):
        words += ["--bind", path, path]
    return words
