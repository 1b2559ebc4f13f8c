"""One program from its start to its end, as the engine sees it."""

from __future__ import annotations

import asyncio
import atexit
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

READ_BYTES = 65536
LAST_READS = 64
"""How often a stream is read after the program has ended: a pipe holds no more."""
DEATH_SECONDS = 5.0
"""How long a program may take to be gone after it was told to: longer than its supervisor is polite."""
BOOT = Boot(("supervisor",), "supervisor.serve(control, confine, descent)")


class Order(msgspec.Struct):
    """A program to run, as its supervisor reads it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    limits: dict[str, Any]
    landlock: dict[str, Any] | None = None


class Ending(NamedTuple):
    """How a program ended: its exit code, or the negative number of a signal; and the limit it broke."""

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


async def run_program(order: Order, stdin: bytes | None, output: Callable[[str, bytes], None]) -> Ending:
    """Run a program to its end, with all that it has started. Cancelling ends it.

    `output` takes `stdout` or `stderr` and what came. Failure if the program can't be started.
    """
    with Program(_spawner(asyncio.get_running_loop()), output) as program:
        try:
            await program.start(order, stdin)
            return program.ending(order, await program.answer())
        except asyncio.CancelledError:
            await program.end()
            raise
        finally:
            program.drain()


async def close() -> None:
    """End all programs of this event loop."""
    spawner = _SPAWNERS.pop(asyncio.get_running_loop(), None)
    if spawner is not None:
        spawner.close()


class Program:
    """A program and its three descriptors."""

    def __init__(self, spawner: Spawner, output: Callable[[str, bytes], None]) -> None:
        self.spawner, self.loop, self.output = spawner, spawner.loop, output
        self.gone: asyncio.Future[str] = self.loop.create_future()
        """How the supervisor has ended."""
        self.streams: dict[int, str] = {}
        self.number = 0
        self.line, self.their_line = socket.socketpair()
        self.line.setblocking(False)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in list(self.streams):
            self.close_stream(fd)
        self.line.close()
        self.their_line.close()
        if self.number and not self.gone.done():
            self.spawner.kill(self.number)

    async def start(self, order: Order, stdin: bytes | None) -> None:
        theirs = [self.their_line.fileno()]
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
            self.their_line.close()
        frame = msgspec.json.encode(order)
        with suppress(ConnectionError):  # it has died, which `answer` tells
            await self.loop.sock_sendall(self.line, len(frame).to_bytes(4, "little") + frame)

    async def answer(self) -> dict[str, Any]:
        """What the supervisor says when all is over."""
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            try:
                chunk = await self.loop.sock_recv(self.line, READ_BYTES)
            except ConnectionError:
                chunk = b""
            if not chunk:
                why = await self.gone
                raise Failure("internal", f"the process that ran the program {why}", retryable=True)
            data += chunk
        await asyncio.wait((self.gone,), timeout=DEATH_SECONDS)
        answer: dict[str, Any] = msgspec.json.decode(data[4:])
        return answer

    def ending(self, order: Order, answer: dict[str, Any]) -> Ending:
        if "refused" in answer:
            raise _refused(order, answer["refused"])
        return Ending(answer["code"], answer["broken"])

    async def end(self) -> None:
        """Have the program ended: by its supervisor, which is polite at first, else by the zygote."""
        if self.number == 0:
            return  # it was never started
        with suppress(OSError):
            self.line.send(b"T")
        await asyncio.wait((self.gone,), timeout=DEATH_SECONDS)
        if not self.gone.done():
            self.spawner.kill(self.number)
            await asyncio.wait((self.gone,), timeout=DEATH_SECONDS)

    def read(self, fd: int) -> bool:
        """Take what a stream has; whether there may be more."""
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
            for _ in range(LAST_READS):
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
        """Start a supervisor; its number."""
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

    def ended(self, number: int | None, why: str, *, killed: bool = False) -> None:
        """A supervisor is gone with all below it; without a number the zygote, and so all of them."""
        if number is None:
            self.launcher = None
        for one in list(self.programs) if number is None else [number]:
            program = self.programs.pop(one, None)
            if program is not None and not program.gone.done():
                program.gone.set_result(why)

    def close(self) -> None:
        """End every program. Needs no running loop."""
        launcher, self.launcher = self.launcher, None
        if launcher is not None:
            launcher.close()
        if not self.loop.is_closed():
            self.ended(None, "was closed")


_SPAWNERS: dict[asyncio.AbstractEventLoop, Spawner] = {}


def _spawner(loop: asyncio.AbstractEventLoop) -> Spawner:
    """The spawner of a loop. Those whose loops were closed without a word end here."""
    found = _SPAWNERS.get(loop)
    if found is None:
        for other in [other for other in _SPAWNERS if other.is_closed()]:
            _SPAWNERS.pop(other).close()
        found = _SPAWNERS[loop] = Spawner(loop)
    return found


_engine = os.getpid()


@atexit.register
def _close_all() -> None:
    """End what nobody has closed; a forked copy of the engine leaves the engine's programs alone."""
    if os.getpid() == _engine:
        for loop in list(_SPAWNERS):
            _SPAWNERS.pop(loop).close()


def _file_of(content: bytes) -> int:
    """A descriptor of a file in memory with this content, to be read from its beginning."""
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


def _refused(order: Order, why: str) -> Failure:
    """Why a program could not be started, in the words of a playbook's author."""
    file, number, text = why.split("\0")
    if number in (str(ENOENT), str(ENOTDIR)) and file == order.cwd:
        return Failure("not_found", f"the folder {order.cwd!r} does not exist on this worker")
    if number in (str(ENOENT), str(ENOTDIR)):
        return Failure(
            "not_found", f"there is no program {order.argv[0]!r} on this worker: give its path, or install it"
        )
    if number in (str(EACCES), str(ENOEXEC)):
        return Failure("input", f"{file or order.argv[0]!r} can't be run: {text.lower()}")
    if number == str(ENAMETOOLONG) or not order.argv[0]:
        return Failure("input", f"{order.argv[0][:60]!r} can't be the name of a program")
    if number == str(E2BIG):
        return Failure("too_large", "arguments and variables are larger than this system allows: use `stdin` or a file")
    return Failure("internal", f"the program could not be started: {text}")
