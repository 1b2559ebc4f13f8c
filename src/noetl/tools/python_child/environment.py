"""Environments for `requirements` of `kind: python`: a virtual environment per list, built once and shared by all
processes of the machine.

An environment is a folder of the cache, named by a hash of the list, the interpreter, and the size and time of local
files in the list. The process that holds the lock of the folder builds it, with `uv` if that is installed, else with
`venv` and `pip`; a folder without the mark `ready` is left over from a build that did not end.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shlex
import signal
import sys
import sysconfig
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

from noetl.model.outcome import Failure
from noetl.model.requirement import fault, package_name
from noetl.settings import cache_folder, installer_variables
from noetl.tools.process.launcher import inherited

READY = "ready"
LAST_LINES = 12
POLL_SECONDS = 0.2


class _InstallerFailed(Exception):
    """With its last lines."""


async def packages_of(requirements: Sequence[str], folder: str, log: Callable[[str], None]) -> str:
    """The folder with the installed packages, built if it does not exist; `log` gets a line before that. Relative paths
    in the list are relative to `folder`. Failure with the last lines of the installer, whose detail `input` names the
    requirement to blame."""
    words = list(_arguments(requirements))
    home = _home(requirements, folder)
    if not _is_ready(home):
        try:
            async with _lock(home):
                if not _is_ready(home):
                    log(f"installing {without_logins(', '.join(requirements))} into {home}")
                    try:
                        await _build(home, words, folder or None)
                    except _InstallerFailed as error:
                        message = f"the requirements cannot be installed; the output of the installer:\n{error}"
                        raise Failure("python", message, input=_blamed(requirements, str(error))) from None
        except OSError as error:
            advice = "set NOETL_CACHE to a folder that this process can write"
            message = f"the requirements cannot be installed into {home}: {error}; {advice}"
            raise Failure("python", message, input="requirements/0") from None
    return sysconfig.get_path("purelib", "venv", {"base": home, "platbase": home})


def without_logins(text: str) -> str:
    """A text whose URLs have no user and password, as pip prints them."""
    return re.sub(r"://[^\s/]*@", "://****@", text)


def _is_ready(home: str) -> bool:
    return os.path.exists(os.path.join(home, READY))


def _mark_ready(home: str) -> None:
    with open(os.path.join(home, READY), "w"):
        pass


def _arguments(requirements: Sequence[str]) -> Iterator[str]:
    """The list as arguments of an installer: options are split into words."""
    for place, requirement in enumerate(requirements):
        if problem := fault(requirement):
            raise Failure("input", f"`requirements`: {problem}", input=f"requirements/{place}")
        if requirement.startswith("-"):
            yield from shlex.split(requirement.replace("=", " ", 1))
        else:
            yield requirement


def _blamed(requirements: Sequence[str], output: str) -> str:
    """The requirement that the installer names; the first one if it names none."""
    named = re.sub(r"[-_.]+", "-", output).lower()
    names = [
        (place, package_name(requirement) or requirement.lower()) for place, requirement in enumerate(requirements)
    ]
    place = next((place for place, name in names if re.search(rf"\b{re.escape(name)}\b", named)), 0)
    return f"requirements/{place}"


def _home(requirements: Sequence[str], folder: str) -> str:
    """The folder of an environment."""
    from hashlib import sha256

    parts = [sys.executable, sys.implementation.cache_tag or "", *requirements]
    for requirement in requirements:
        if os.sep in requirement and os.path.exists(path := os.path.join(folder, requirement)):
            parts += [f"{name} {size} {time}" for name, size, time in sorted(_files(path))]
    name = sha256("\n".join(parts).encode()).hexdigest()[:32]
    return os.path.join(cache_folder(), "python", name)


def _files(path: str) -> Iterator[tuple[str, int, int]]:
    status = os.stat(path)
    if not os.path.isdir(path):
        yield path, status.st_size, status.st_mtime_ns
    for folder, _, files in os.walk(path):
        for file in files:
            with suppress(FileNotFoundError):
                status = os.stat(name := os.path.join(folder, file))
                yield name, status.st_size, status.st_mtime_ns


@asynccontextmanager
async def _lock(home: str) -> AsyncIterator[None]:
    """Hold the lock of an environment, which other processes may hold meanwhile."""
    os.makedirs(home, exist_ok=True)
    lock = os.open(f"{home}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(lock)


async def _build(home: str, words: list[str], folder: str | None) -> None:
    from importlib.util import find_spec
    from shutil import rmtree, which

    rmtree(home, ignore_errors=True)
    python = os.path.join(home, "bin", "python")
    if uv := which("uv"):
        await _install([uv, "venv", "--quiet", "--python", sys.executable, home], folder)
        await _install([uv, "pip", "install", "--quiet", "--python", python, *words], folder)
    else:
        own = find_spec("pip") is not None  # then the environment needs none, which takes most of the time
        await _install([sys.executable, "-m", "venv", *(["--without-pip"] if own else []), home], folder)
        pip = [sys.executable, "-m", "pip", "--python", python] if own else [python, "-m", "pip"]
        options = ["--quiet", "--no-input", "--disable-pip-version-check", "--retries", "1"]
        await _install([*pip, "install", *options, *words], folder)
    _mark_ready(home)


async def _install(argv: list[str], folder: str | None) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=inherited("TMPDIR") | installer_variables(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines: deque[str] = deque(maxlen=LAST_LINES)
    try:
        while line := await process.stdout.readline():
            lines.append(line.decode("utf-8", "replace").rstrip())
        code = await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        raise _InstallerFailed("\n".join(filter(None, lines)) or "it printed nothing")
