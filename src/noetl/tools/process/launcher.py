"""The zygote from the engine's side: starts and kills children, and receives their end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from json import dumps
from typing import Any, NamedTuple, Protocol

from noetl.tools.process.environment import start_python

CLOSE_SECONDS = 5.0
INSIDE = os.path.join(os.path.dirname(__file__), "inside")


class Boot(NamedTuple):
    """The modules and folders that a zygote loads, and what its children do with their channel `control`."""

    modules: tuple[str, ...]
    serve: str
    folders: tuple[str, ...] = ()

    def code(self) -> str:
        """Removes the modules by name: code in a child may have a `program` of its own."""
        forget = "".join(f"del sys.modules[{name!r}]\n" for name in ("zygote", "confine", "descent", *self.modules))
        return (
            f"import sys\nsys.path[:0] = folders = sys.argv.pop(1).split(':')\n"
            f"import {', '.join(('zygote', 'confine', 'descent', *self.modules))}\n"
            f"del sys.path[:len(folders)]\n{forget}"
            f"zygote.main(lambda control: {self.serve}, confine, descent)\n"
        )


class Ended(Protocol):
    def __call__(self, number: int | None, reason: str, *, killed: bool = False) -> None:
        """A child has ended, or without a number all of them."""


class Launcher:
    """One zygote. `started` receives the number and process id of a child."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        started: Callable[[int, int], None],
        ended: Ended,
        boot: Boot,
    ) -> None:
        self.loop, self.started, self.ended = loop, started, ended
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(CLOSE_SECONDS)
        folders = ":".join((INSIDE, *boot.folders))
        self.process = start_python(["-c", boot.code(), folders], self.channel, theirs)
        loop.add_reader(self.channel, self._receive)

    def fork(self, number: int, fds: list[int], settings: dict[str, Any]) -> None:
        """Start a child with these descriptors for its channel, stdout, stderr and stdin."""
        socket.send_fds(self.channel, [b"F" + number.to_bytes(8, "little") + dumps(settings).encode()], fds)

    def kill(self, number: int) -> None:
        """Kill a child and all its descendants; `ended` follows."""
        with suppress(OSError):  # the zygote has ended, and its children with it
            self.channel.send(b"K" + number.to_bytes(8, "little"))

    def close(self) -> None:
        """End the zygote and all its descendants. Needs no running loop."""
        if not self.loop.is_closed():
            self.loop.remove_reader(self.channel)
        self.channel.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _receive(self) -> None:
        try:
            message = self.channel.recv(4096)
        except OSError:
            message = b""
        number = int.from_bytes(message[1:9], "little")
        match message[:1]:
            case b"S":
                self.started(number, int.from_bytes(message[9:], "little"))
            case b"X":
                code = int.from_bytes(message[9:17], "little", signed=True)
                broken = message[17:].decode()
                self.ended(number, broken or ending(code), killed=code == -signal.SIGKILL and not broken)
            case b"E":
                self.ended(number, f"no process could be started: {message[9:].decode(errors='replace')}")
            case _:
                self.close()
                self.ended(None, ending(self.process.returncode))


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
