"""A bare HTTP server on loopback, for what a framework would not let through, and how the tests of `kind: http` call.

Bodies that break off, endless ones, connections that are counted: the test writes the bytes of the answer itself.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from noetl.model.outcome import Outcome
from noetl.tools import http
from noetl.tools.base import Context

T = TypeVar("T")

ACTION = "0123456789abcdef0123456789abcdef"
NOW = 1_700_000_000.0
SECRET = "s3cret-value"


def context(**given: Any) -> Context:
    plain: dict[str, Any] = {
        "execution": "e1",
        "action": ACTION,
        "attempt": 1,
        "step": "fetch",
        "task": "get",
        "timeout": 300,
        "args": {},
        "prev": None,
        "log": lambda stream, line: None,
        "now": NOW,
    }
    return Context(**plain | given)


async def ask(url: str, *, given: Context | None = None, **inputs: Any) -> Outcome:
    """One call, its inputs converted as the worker does it."""
    return await http.run(msgspec.convert({"url": url, **inputs}, http.Inputs, strict=False), given or context())


def whole(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, connections closed. Nothing here may hang for ever."""

    async def main() -> T:
        try:
            async with asyncio.timeout(300):
                return await work
        finally:
            await http.close()

    return asyncio.run(main())


def call(url: str, *, given: Context | None = None, **inputs: Any) -> Outcome:
    return whole(ask(url, given=given, **inputs))


def failure(outcome: Outcome) -> Any:
    assert outcome.status == "error"
    assert outcome.result is None
    assert outcome.error is not None
    return outcome.error


class Asked(NamedTuple):
    """A request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class Wire:
    """Counts connections, keeps requests and leaves the bytes of the answer to the test."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        number = self.connections
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(Asked(lines[0], headers, body, number))
                await self.answer(self.asked[-1], writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()


@asynccontextmanager
async def wire(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    made = Wire(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await http.close()
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks)
        await server.wait_closed()


def reply(body: bytes = b"ok", status: str = "200 OK", **headers: str) -> Answer:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        if "Content_Length" not in headers:
            lines += f"Content-Length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)

    return answer


def from_wire(answer: Answer, path: str = "/", *, given: Context | None = None, **inputs: Any) -> tuple[Outcome, Wire]:
    async def main() -> tuple[Outcome, Wire]:
        async with wire(answer) as server:
            return await ask(server.url + path, given=given, **inputs), server

    return whole(main())


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a process that was killed does."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()
