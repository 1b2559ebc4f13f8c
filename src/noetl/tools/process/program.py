"""One program from its start to its end, as the engine sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from errno import E2BIG, EACCES, ENAMETOOLONG, ENOENT, ENOEXEC, ENOTDIR
from typing import Any, NamedTuple

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.process.launcher import Boot, Launcher
from noetl.tools.process.per_loop import PerLoop

READ_BYTES = 65536
DRAIN_READS = 64
"""Reads of a stream after the program has ended: a pipe holds no more."""
END_SECONDS = 5.0
"""How long a program may take to end: longer than the grace period of its supervisor."""
BOOT = Boot(("supervisor",), "supervisor.serve(control, confine, descent)")


class ProgramRequest(msgspec.Struct):
    """A program to run, as its supervisor reads it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    limits: dict[str, Any]
    landlock: dict[str, Any] | None = None


class Ending(NamedTuple):
    """The exit code of a program, or the negative number of a signal, and the limit it exceeded."""

    code: int
    broken: str | None

    def __str__(self) -> str:
        if self.broken is not None:
            return f"was ended: {self.broken}"
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"was killed by signal {-self.code}"


async def run_program(request: ProgramRequest, stdin: bytes | None, output: Callable[[str, bytes], None]) -> Ending:
    """Run a program to its end, with all that it has started. Cancelling ends it.

    `output` takes `stdout` or `stderr` and what came. Failure if the program can't be started.
    """
    with Program(_SPAWNERS.get(asyncio.get_running_loop()), output) as program:
        try:
            await program.start(request, stdin)
            return program.ending(request, await program.response())
        except asyncio.CancelledError:
            await program.end()
            raise
        finally:
            program.drain()


async def close() -> None:
    """End all programs of this event loop."""
    _SPAWNERS.close(asyncio.get_running_loop())


class Program:
    """A program and its descriptors."""

    def __init__(self, spawner: Spawner, output: Callable[[str, bytes], None]) -> None:
        self.spawner, self.loop, self.output = spawner, spawner.loop, output
        self.ended_with: asyncio.Future[str] = self.loop.create_future()
        """How the supervisor ended."""
        self.streams: dict[int, str] = {}
        self.number = 0
        self.channel, self.their_channel = socket.socketpair()
        self.channel.setblocking(False)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in list(self.streams):
            self.close_stream(fd)
        self.channel.close()
        self.their_channel.close()
        if self.number and not self.ended_with.done():
            self.spawner.kill(self.number)

    async def start(self, request: ProgramRequest, stdin: bytes | None) -> None:
        theirs = [self.their_channel.fileno()]
        opened: list[int] = []
        try:
            for name in ("stdout", "stderr"):
                end, write_end = os.pipe2(os.O_CLOEXEC)
                self.streams[end] = name
                opened.append(write_end)
                os.set_blocking(end, False)
                self.loop.add_reader(end, self.read, end)
            if stdin is not None:
                opened.append(_file_of(stdin))
            self.number = self.spawner.fork(self, theirs + opened)
        except OSError as error:
            raise Failure("internal", f"no process could be started: {error}", retryable=True) from None
        finally:
            for fd in opened:
                os.close(fd)
            self.their_channel.close()
        frame = msgspec.json.encode(request)
        with suppress(ConnectionError):  # it has died, which `response` reports
            await self.loop.sock_sendall(self.channel, len(frame).to_bytes(4, "little") + frame)

    async def response(self) -> dict[str, Any]:
        """The response of the supervisor at the end."""
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            try:
                chunk = await self.loop.sock_recv(self.channel, READ_BYTES)
            except ConnectionError:
                chunk = b""
            if not chunk:
                reason = await self.ended_with
                raise Failure("internal", f"the process that ran the program {reason}", retryable=True)
            data += chunk
        await asyncio.wait((self.ended_with,), timeout=END_SECONDS)
        response: dict[str, Any] = msgspec.json.decode(data[4:])
        return response

    def ending(self, request: ProgramRequest, response: dict[str, Any]) -> Ending:
        if "start_error" in response:
            raise _start_failure(request, response["start_error"])
        return Ending(response["code"], response["broken"])

    async def end(self) -> None:
        """End the program: through its supervisor, which terminates it gracefully, or else through the zygote."""
        if self.number == 0:
            return  # it was never started
        with suppress(OSError):
            self.channel.send(b"T")
        await asyncio.wait((self.ended_with,), timeout=END_SECONDS)
        if not self.ended_with.done():
            self.spawner.kill(self.number)
            await asyncio.wait((self.ended_with,), timeout=END_SECONDS)

    def read(self, fd: int) -> bool:
        """Read from a stream; return whether there may be more."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close_stream(fd)
            return False
        self.output(self.streams[fd], data)
        return True

    def drain(self) -> None:
        for fd in list(self.streams):
            for _ in range(DRAIN_READS):
                if not self.read(fd):
                    break

    def close_stream(self, fd: int) -> None:
        del self.streams[fd]
        if not self.loop.is_closed():
            self.loop.remove_reader(fd)
        os.close(fd)


class Spawner:
    """The programs of one event loop, and the zygote that forks their supervisors."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.launcher: Launcher | None = None
        self.programs: dict[int, Program] = {}
        self.numbers = 0

    def fork(self, program: Program, fds: list[int]) -> int:
        """Start a supervisor; return its number."""
        self.numbers += 1
        self.programs[self.numbers] = program
        if self.launcher is None:
            self.launcher = Launcher(self.loop, lambda number, pid: None, self.ended, BOOT)
        try:
            self.launcher.fork(self.numbers, fds, {})
        except OSError:
            del self.programs[self.numbers]
            raise
        return self.numbers

    def kill(self, number: int) -> None:
        if self.launcher is not None:
            self.launcher.kill(number)

    def ended(self, number: int | None, reason: str, *, killed: bool = False) -> None:
        """A supervisor has ended with all its descendants; without a number the zygote has, and so all of them."""
        if number is None:
            self.launcher = None
        for program_number in list(self.programs) if number is None else [number]:
            program = self.programs.pop(program_number, None)
            if program is not None and not program.ended_with.done():
                program.ended_with.set_result(reason)

    def close(self) -> None:
        """End all programs of this event loop."""
        launcher, self.launcher = self.launcher, None
        if launcher is not None:
            launcher.close()
        if not self.loop.is_closed():
            self.ended(None, "was closed")


_SPAWNERS = PerLoop(Spawner)


def _file_of(content: bytes) -> int:
    """A descriptor of a file in memory with this content."""
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd


def _start_failure(request: ProgramRequest, why: str) -> Failure:
    """Why a program could not be started."""
    file, number, text = why.split("\0")
    if number in (str(ENOENT), str(ENOTDIR)) and file == request.cwd:
        return Failure("not_found", f"the folder {request.cwd!r} does not exist on this worker")
    if number in (str(ENOENT), str(ENOTDIR)):
        return Failure(
            "not_found", f"the program {request.argv[0]!r} is not on this worker: give its path, or install it"
        )
    if number in (str(EACCES), str(ENOEXEC)):
        return Failure("input", f"{file or request.argv[0]!r} can't be run: {text.lower()}")
    if number == str(ENAMETOOLONG) or not request.argv[0]:
        return Failure("input", f"{request.argv[0][:60]!r} can't be the name of a program")
    if number == str(E2BIG):
        return Failure("too_large", "arguments and variables are larger than this system allows: use `stdin` or a file")
    return Failure("internal", f"the program could not be started: {text}")
