"""One program from its start to its end, as the engine sees it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.process.launcher import READ_BYTES, ForkedChild, Launcher, PerLoop, ending

END_SECONDS = 5.0
"""How long a program may take to end: longer than the grace period of its supervisor."""


class ProgramRequest(msgspec.Struct):
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
        return ending(self.code) if self.broken is None else f"was ended: {self.broken}"


async def run_program(request: ProgramRequest, stdin: bytes | None, output: Callable[[str, bytes], None]) -> Ending:
    """Run a program to its end, with all that it has started. Cancelling ends it.

    `output` takes `stdout` or `stderr` and what came. Failure if the program cannot be started.
    """
    program = Program(_LAUNCHERS.get(), output)
    try:
        program.start(stdin)
        response = await program.response(request)
    except asyncio.CancelledError:
        await program.end()
        raise
    finally:
        try:
            program.drain()
        finally:
            program.close()
            if not program.end_reason.done():
                program.launcher.kill(program)
    if "start_error" in response:
        raise _start_failure(request, response["start_error"])
    return Ending(response["code"], response["broken"])


async def close() -> None:
    _LAUNCHERS.close()


class Program(ForkedChild):
    def __init__(self, launcher: Launcher, on_output: Callable[[str, bytes], None]) -> None:
        super().__init__(launcher)
        self.on_output = on_output
        self.end_reason: asyncio.Future[str] = self.loop.create_future()

    def output(self, name: str, data: bytes) -> None:
        if data:
            self.on_output(name, data)

    def ended(self, reason: str, *, killed: bool) -> None:
        if not self.end_reason.done() and not self.loop.is_closed():
            self.end_reason.set_result(reason)

    def start(self, stdin: bytes | None) -> None:
        try:
            with ExitStack() as stack:
                files: list[int] = []
                if stdin is not None:
                    file = stack.enter_context(open(os.memfd_create("stdin"), "wb"))
                    file.write(stdin)
                    file.seek(0)
                    files.append(file.fileno())
                self.launcher.fork(self, {}, *files)
        except OSError as error:
            raise Failure("internal", f"no process could be started: {error}", retryable=True) from None

    async def response(self, request: ProgramRequest) -> dict[str, Any]:
        """The response of the supervisor, which it sends when the program has ended."""
        frame = msgspec.json.encode(request)
        with suppress(ConnectionError):  # it has died, which is reported below
            await self.loop.sock_sendall(self.channel, len(frame).to_bytes(4, "little") + frame)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            try:
                chunk = await self.loop.sock_recv(self.channel, READ_BYTES)
            except ConnectionError:
                chunk = b""
            if not chunk:
                reason = await self.end_reason
                raise Failure("internal", f"the process that ran the program {reason}", retryable=True)
            data += chunk
        await asyncio.wait((self.end_reason,), timeout=END_SECONDS)
        response: dict[str, Any] = msgspec.json.decode(data[4:])
        return response

    async def end(self) -> None:
        """End the program: through its supervisor, which terminates it gracefully, or else through the zygote."""
        if self.number is None:
            return
        with suppress(OSError):
            self.channel.send(b"T")
        await asyncio.wait((self.end_reason,), timeout=END_SECONDS)
        if not self.end_reason.done():
            self.launcher.kill(self)
            await asyncio.wait((self.end_reason,), timeout=END_SECONDS)


_LAUNCHERS = PerLoop(lambda loop: Launcher(loop, ("supervisor",), "supervisor.serve(control, confine, descent)"))


def _start_failure(request: ProgramRequest, error: str) -> Failure:
    file, number, text = error.split("\0")
    program = request.argv[0]
    match int(number or 0):
        case errno.ENOENT | errno.ENOTDIR if file == request.cwd:
            return Failure("not_found", f"the folder {file!r} does not exist on this worker")
        case errno.ENOENT | errno.ENOTDIR:
            return Failure("not_found", f"the program {program!r} is not on this worker: give its path, or install it")
        case errno.EACCES | errno.ENOEXEC:
            return Failure("input", f"{file or program!r} cannot be run: {text.lower()}")
        case errno.E2BIG:
            message = "arguments and variables are larger than this system allows: use `stdin` or a file"
            return Failure("too_large", message)
        case code if code == errno.ENAMETOOLONG or not program:
            return Failure("input", f"{program[:60]!r} cannot be the name of a program")
    return Failure("internal", f"the program could not be started: {text}")
