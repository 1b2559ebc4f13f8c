"""The zygote from the engine's side: forks and kills children, and receives their end."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from json import dumps
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from noetl.tools.process.environment import start_python

if TYPE_CHECKING:
    from noetl.tools.process.forked import ForkedChild

CLOSE_SECONDS = 5.0
INSIDE = os.path.join(os.path.dirname(__file__), "inside")


def program_of(modules: tuple[str, ...], code: str) -> str:
    """A program that imports modules from the folders in its first argument, and then runs code.

    The modules are removed by name: code in a child may have a `program` of its own.
    """
    return "\n".join(
        [
            "import sys",
            "sys.path[:0] = folders = sys.argv.pop(1).split(':')",
            f"import {', '.join(modules)}",
            "del sys.path[:len(folders)]",
            *(f"del sys.modules[{name!r}]" for name in modules),
            code,
        ]
    )


class ZygoteProcess(NamedTuple):
    channel: socket.socket
    process: subprocess.Popen[bytes]


class Launcher:
    """Forks the children of one event loop from a zygote, which is started when it is needed.

    The zygote loads `modules` from `folders`; its children run `serve`, an expression, with their channel `control`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, modules: tuple[str, ...], serve: str, folders: tuple[str, ...] = ()
    ) -> None:
        code = f"zygote.main(lambda control: {serve}, confine, descent)"
        program = program_of(("zygote", "confine", "descent", *modules), code)
        self.loop, self.arguments = loop, ["-c", program, ":".join((INSIDE, *folders))]
        self.zygote: ZygoteProcess | None = None
        self.children: dict[int, ForkedChild] = {}
        """All children, also those being killed."""
        self.last_number = 0

    def start(self) -> ZygoteProcess:
        """The zygote, started if it does not run."""
        if self.zygote is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(CLOSE_SECONDS)
            self.zygote = ZygoteProcess(ours, start_python(self.arguments, ours, theirs))
            self.loop.add_reader(ours, self._receive)
        return self.zygote

    def fork(self, child: ForkedChild, fds: list[int], settings: dict[str, Any]) -> int:
        """Start a child with these descriptors for its channel, stdout, stderr and stdin; return its number."""
        number = self.last_number + 1
        message = b"F" + number.to_bytes(8, "little") + dumps(settings).encode()
        socket.send_fds(self.start().channel, [message], fds)
        self.last_number, self.children[number] = number, child
        return number

    def kill(self, number: int) -> None:
        """Kill a child and all its descendants; its `ended` is called then."""
        if self.zygote is not None:
            with suppress(OSError):  # the zygote has ended, and its children with it
                self.zygote.channel.send(b"K" + number.to_bytes(8, "little"))

    def close(self) -> None:
        """End the zygote and all its descendants. Needs no running loop."""
        self._end_zygote()
        children, self.children = self.children, {}
        for child in children.values():
            child.ended("was closed", killed=False)

    def _end_zygote(self) -> int:
        """End the zygote, if it runs; return its exit code."""
        if self.zygote is None:
            return 0
        (channel, process), self.zygote = self.zygote, None
        if not self.loop.is_closed():
            self.loop.remove_reader(channel)
        channel.close()
        try:
            return process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _receive(self) -> None:
        assert self.zygote is not None
        try:
            message = self.zygote.channel.recv(4096)
        except OSError:
            message = b""
        number = int.from_bytes(message[1:9], "little")
        match message[:1]:
            case b"S":
                if child := self.children.get(number):
                    child.started(int.from_bytes(message[9:], "little"))
            case b"X":
                code = int.from_bytes(message[9:17], "little", signed=True)
                broken = message[17:].decode()
                self._ended(number, broken or ending(code), killed=code == -signal.SIGKILL and not broken)
            case b"E":
                self._ended(number, f"no process could be started: {message[9:].decode(errors='replace')}")
            case _:
                self._lost(ending(self._end_zygote()))

    def _ended(self, number: int, reason: str, *, killed: bool = False) -> None:
        if child := self.children.pop(number, None):
            child.ended(reason, killed=killed)

    def _lost(self, reason: str) -> None:
        for number, child in list(self.children.items()):
            if child.pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
            self._ended(number, f"ended with the zygote, which {reason}")


def ending(code: int) -> str:
    """How a process ended, from its exit code or negative signal number."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "a signal"
    why = ": out of memory, or killed from outside" if -code == signal.SIGKILL else ""
    return f"was killed by {name} (signal {-code}){why}"


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class PerLoop(Generic[T]):
    """One object for each event loop, closed with the loop, or at the latest with this process."""

    def __init__(self, create: Callable[[asyncio.AbstractEventLoop], T]) -> None:
        self._create, self._process = create, os.getpid()
        self._objects: dict[asyncio.AbstractEventLoop, T] = {}
        atexit.register(self._close_all)

    def get(self) -> T:
        """The object of the running loop. Closes those of loops that were closed before."""
        loop = asyncio.get_running_loop()
        if loop not in self._objects:
            for other in [other for other in self._objects if other.is_closed()]:
                self._objects.pop(other).close()
            self._objects[loop] = self._create(loop)
        return self._objects[loop]

    def close(self) -> None:
        if (closable := self._objects.pop(asyncio.get_running_loop(), None)) is not None:
            closable.close()

    def _close_all(self) -> None:
        if os.getpid() == self._process:  # a forked copy must not end the processes of the original
            while self._objects:
                self._objects.popitem()[1].close()
