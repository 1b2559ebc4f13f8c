"""kind: http: what a request through the engine costs beyond the same request from a bare client.

`python -m bench.http` runs it alone. The server is a process of its own, so that the CPU of this one is the client's.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import httpx2

from bench.engine import HEAD, run
from bench.measure import Figure, print_figures

REQUESTS = 1_000
IN_FLIGHT = 50
TRIES = 5
BODY = b'{"id": 7, "name": "x", "tags": ["a", "b"], "total": 12.5}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Desk(asyncio.Protocol):
    """Answers every request with the same bytes: no framework takes time of the machine that is measured."""

    opened = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Desk.opened += 1
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /opened "):
            count = b"%d" % Desk.opened
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(count), count))
        else:
            self.transport.write(ANSWER * data.count(b"\r\n\r\n"))


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Desk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def served() -> Iterator[str]:
    """The address of a server in another process."""
    command = [sys.executable, "-c", "import asyncio; from bench.http import serve; asyncio.run(serve())"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


class Cost(NamedTuple):
    """What the requests took."""

    seconds: float
    cpu: float
    connections: int


def through_engine(url: str) -> Cost:
    """A playbook whose loop makes the requests; every outcome is on the disk before the next task."""
    loop = f'{{in: "{{{{ range({REQUESTS}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {IN_FLIGHT}}}}}'
    task = f'{{kind: http, url: "{url}/items", params: {{n: "{{{{ iter.n }}}}"}}}}'
    ran = run(f"{HEAD}  - step: start\n    loop: {loop}\n    tool: [{{get: {task}}}]\n")
    return Cost(ran.seconds, ran.cpu, 0)


def bare(url: str) -> Cost:
    """The client alone, with as many in flight; bodies are read and decoded too."""
    start, cpu = time.perf_counter(), time.process_time()
    asyncio.run(_bare(url))
    return Cost(time.perf_counter() - start, time.process_time() - cpu, 0)


async def _bare(url: str) -> None:
    numbers = iter(range(REQUESTS))

    async def lane(client: httpx2.AsyncClient) -> None:
        for number in numbers:
            answer = await client.get(f"{url}/items", params={"n": number})
            assert answer.json()["id"] == 7

    async with httpx2.AsyncClient(timeout=60) as client:
        await asyncio.gather(*(lane(client) for _ in range(IN_FLIGHT)))


def figures() -> Iterator[Figure]:
    with served() as url:
        costs = {ask: _best(ask, url) for ask in (bare, through_engine)}
    client, engine = costs[bare], costs[through_engine]
    extra = (engine.cpu - client.cpu) / REQUESTS
    yield Figure(f"{REQUESTS:,} requests, {IN_FLIGHT} in flight, bare httpx2", f"{REQUESTS / client.seconds:,.0f} /s")
    yield Figure("  CPU a request", f"{client.cpu / REQUESTS * 1e6:,.0f} us")
    yield Figure("  the same as kind: http in a loop", f"{REQUESTS / engine.seconds:,.0f} /s")
    yield Figure("  CPU a request", f"{engine.cpu / REQUESTS * 1e6:,.0f} us")
    yield Figure("  CPU a request above the bare client", f"{extra * 1e6:,.0f} us", "at most 1,000 us", extra <= 0.001)
    yield Figure(
        "  connections opened", f"{engine.connections}", f"at most {IN_FLIGHT}", engine.connections <= IN_FLIGHT
    )


def _best(ask: Callable[[str], Cost], url: str) -> Cost:
    """The cheapest of several tries; connections are those of the one that opened most."""
    tried = [_counted(ask, url) for _ in range(TRIES)]
    return min(tried, key=lambda cost: cost.cpu)._replace(connections=max(cost.connections for cost in tried))


def _counted(ask: Callable[[str], Cost], url: str) -> Cost:
    before = int(httpx2.get(f"{url}/opened").text)
    cost = ask(url)
    return cost._replace(connections=int(httpx2.get(f"{url}/opened").text) - before - 1)  # one was this question's


if __name__ == "__main__":
    print_figures(figures())
