"""A client that posts many requests at once: one process, one connection a request, and nothing else in its way.

`python -m bench.client HOST PORT TOKEN PATH COUNT BODY` opens COUNT connections, then sends on all of them, and prints
as JSON how long it took in all, how long each request took, and how many answers were what they should be. A framework
for HTTP would need more time of the machine than the server that is measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import NamedTuple


class Asking(asyncio.Protocol):
    """One request on a connection of its own."""

    def __init__(self, count: list[int], done: asyncio.Event) -> None:
        self.count, self.done = count, done
        self.received = b""
        self.length = -1
        self.began = self.seconds = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, request: bytes) -> None:
        self.received, self.length, self.seconds = b"", -1, 0.0
        self.began = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.length < 0 and b"\r\n\r\n" in self.received:
            head = self.received.partition(b"\r\n\r\n")[0]
            lines = head.lower().split(b"\r\n")
            (length,) = (int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            self.length = len(head) + 4 + length
        if 0 <= self.length <= len(self.received) and not self.seconds:
            self.seconds = time.perf_counter() - self.began
            self.left()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.seconds:
            self.left()

    def left(self) -> None:
        self.count[0] -= 1
        if not self.count[0]:
            self.done.set()


class RequestTimes(NamedTuple):
    """What came of the requests."""

    seconds: float
    good: int
    times: list[float]

    def at(self, share: float) -> float:
        """The time within which this share of the requests was answered."""
        return sorted(self.times)[min(len(self.times) - 1, int(len(self.times) * share))]


async def ask(host: str, port: int, token: str, path: str, count: int, body: bytes) -> RequestTimes:
    """Post the body so many times at once."""
    left, done = [count], asyncio.Event()
    loop = asyncio.get_running_loop()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\nPrefer: wait=60\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    connections = []
    for _ in range(count):
        _, asking = await loop.create_connection(lambda: Asking(left, done), host, port)
        connections.append(asking)
    start = time.perf_counter()
    for connection in connections:
        connection.send(request)
    await done.wait()
    took = time.perf_counter() - start
    good = sum(connection.received.startswith(b"HTTP/1.1 200") for connection in connections)
    for connection in connections:
        connection.transport.close()
    return RequestTimes(took, good, [connection.seconds for connection in connections])


def timed_requests(url: str, token: str, path: str, count: int, body: str) -> RequestTimes:
    """The same from a process of its own."""
    host, _, port = url.removeprefix("http://").partition(":")
    command = [sys.executable, "-m", "bench.client", host, port, token, path, str(count), body]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return RequestTimes(*json.loads(done.stdout))


if __name__ == "__main__":
    host, port, token, path, count, body = sys.argv[1:]
    print(json.dumps(asyncio.run(ask(host, int(port), token, path, int(count), body.encode()))))
