"""Requests to servers, through a load balancer that picks any server: lost, repeated, delayed and reordered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from itertools import count
from random import Random
from typing import Any, NamedTuple, Protocol

import httpx2
from tests.sim.faults import Faults, Record
from tests.sim.virtual import Node, VirtualLoop

MAX_LATENCY, MAX_DELAY_SECONDS = 0.01, 20.0
OUTSIDE = Context()  # of no node


class HttpReply(NamedTuple):
    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300


class HttpRequest(NamedTuple):
    sender: Node
    number: int
    method: str
    path: str
    content: bytes
    key: str  # its Idempotency-Key
    answer: asyncio.Future[HttpReply]
    given_up: asyncio.Future[None]
    """Done when the sender no longer waits: the server sees a closed connection."""


class Receiver(Protocol):
    name: str
    is_dead: bool

    def receive(self, request: HttpRequest) -> None: ...


class Network:
    def __init__(
        self, loop: VirtualLoop, random: Random, faults: Faults, record: Record, is_faulty: Callable[[], bool]
    ) -> None:
        self.loop, self.random, self.faults, self.record, self.is_faulty = loop, random, faults, record, is_faulty
        self.servers: Sequence[Receiver] = ()
        self._numbers = count(1)
        self._arrived: dict[str, int] = {}  # the latest request of each sender

    async def request(
        self, sender: Node, method: str, path: str, content: bytes, seconds: float, key: str = ""
    ) -> HttpReply:
        """The response of a server; TransportError if there is none in time."""
        answer: asyncio.Future[HttpReply] = self.loop.create_future()
        given_up: asyncio.Future[None] = self.loop.create_future()
        request = HttpRequest(sender, next(self._numbers), method, path, content, key, answer, given_up)
        self._send(request)
        if self.is_faulty() and self.faults.happens("repeated request"):
            self._note(request, "FAULT repeated request")
            self._send(request)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no response in {seconds:g} s") from None
        finally:
            if not given_up.done():
                given_up.set_result(None)

    def _send(self, request: HttpRequest) -> None:
        if self.is_faulty() and self.faults.happens("lost request"):
            self._note(request, "FAULT lost request")
            return
        self._outside(self._delay(request), self._arrive, request, self.random.choice(self.servers))

    def _arrive(self, request: HttpRequest, server: Receiver) -> None:
        if server.is_dead:
            self._outside(MAX_LATENCY, _fail, request.answer, httpx2.ConnectError("connection refused"))
            return
        latest = self._arrived.get(request.sender.name, 0)
        if request.number < latest and self.faults.allows("reordered message"):
            self._note(request, "FAULT reordered message")
        self._arrived[request.sender.name] = max(latest, request.number)
        server.receive(request)

    def respond(self, request: HttpRequest, server: str, reply: HttpReply) -> None:
        """Send a response back."""
        self.record(server, f"answers {request.sender.name}'s request {request.number}: {reply.status_code}")
        if self.is_faulty() and self.faults.happens("lost response"):
            self._note(request, "FAULT lost response")
            return
        self._outside(self._delay(request), _settle, request.answer, reply)

    def reset(self, request: HttpRequest) -> None:
        """Close the connection of a request: its server has died."""
        self._outside(MAX_LATENCY, _fail, request.answer, httpx2.ReadError("connection reset"))

    def _delay(self, request: HttpRequest) -> float:
        if self.is_faulty() and self.faults.happens("delayed message"):
            seconds = self.faults.random("delayed message").random() * MAX_DELAY_SECONDS
            self._note(request, f"FAULT delayed message: {seconds:.1f} s")
            return seconds
        return self.random.random() * MAX_LATENCY

    def _outside(self, seconds: float, call: Callable[..., Any], *arguments: Any) -> None:
        """Call a function that belongs to no node."""
        OUTSIDE.run(self.loop.call_later, seconds, call, *arguments)

    def _note(self, request: HttpRequest, text: str) -> None:
        line = f"{request.method} {request.path}"
        self.record("network", f"{text}: {request.sender.name}'s request {request.number}, {line}")


class NodeHttp:
    """The HTTP client of a node. Its requests have the Idempotency-Key, if there is one."""

    def __init__(self, network: Network, node: Node, key: str = "") -> None:
        self.network, self.node, self.key = network, node, key

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes = b"",
        headers: Any = None,
        timeout: httpx2.Timeout,  # noqa: ASYNC109 - as httpx2 names it
    ) -> HttpReply:
        prefix = "/api/v1" if path.startswith("/executions") else "/api/v1/worker"
        return await self.network.request(self.node, method, prefix + path, content, timeout.read or 15.0, self.key)


def _settle(answer: asyncio.Future[HttpReply], reply: HttpReply) -> None:
    if not answer.done():
        answer.set_result(reply)


def _fail(answer: asyncio.Future[HttpReply], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
