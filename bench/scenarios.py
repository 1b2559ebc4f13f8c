"""The scenarios of `bench.cost`, in the process that counts them. Prints the counts of one unit of each as JSON."""

# ruff: noqa: E402
from __future__ import annotations

from bench.counting import Counters, Counts

COUNTERS = Counters()
COUNTERS.install()

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import httpx2

from bench.engine import HEAD, NOOP, chain, loop, no_children
from noetl.access import new_token
from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.host.embedded import Embedded
from noetl.log import Log
from noetl.model.identity import uuid7
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.server.api import ServerSettings
from noetl.server.app import create_app
from noetl.store.access import Role
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS
from noetl.worker.http_link import HttpLink
from noetl.worker.output import OutputBuffer
from noetl.worker.server_client import http_client
from noetl.worker.wire import HeartbeatRequest, encode
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import WorkerLoop

URL, NAME = "http://127.0.0.1", "cost"
SHORT = f"""{HEAD}  - {{step: one, tool: [{{t: {{kind: noop}}}}], next: {{arcs: [{{step: two}}]}}}}
  - {{step: two, tool: [{{t: {{kind: noop}}}}], next: {{arcs: [{{step: three}}]}}}}
  - {{step: three, tool: [{{t: {{kind: noop, result: hello}}}}]}}
"""

Run = Callable[[], Awaitable[None]]
"""Runs an execution to its end."""
Prepare = Callable[[str], Run]
"""Makes a playbook ready, which is not counted."""
Place = Callable[[Path], AbstractAsyncContextManager[Prepare]]


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Prepare]:
    """The engine in one process, as `noetl run` has it."""
    engine = Embedded(LoadedPlaybooks(SqliteStore(folder / "cost.db")), KINDS, SystemClock(), no_children)

    def prepare(text: str) -> Run:
        digest = engine.runtime.playbooks.add(load("cost.yaml", text, KINDS).require())

        async def run() -> None:
            execution = uuid7(time.time(), os.urandom(8))
            await engine.start(execution, digest, {}, {})
            state = await engine.drive(execution)
            assert state.status == "succeeded", state.error

        return run

    yield prepare
    await engine.close()


class CountingTransport(httpx2.ASGITransport):
    """Hands requests to the application in this process, and counts them."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        COUNTERS.counts["messages"] += 1
        return await super().handle_async_request(request)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Prepare]:
    """A server with a worker that speaks to it over HTTP, without sockets between them."""
    store, clock = SqliteStore(folder / "cost.db"), SystemClock()
    app = create_app(store, clock, ServerSettings(log=Log(stream=StringIO())))
    host = app.api.host
    transport = CountingTransport(app=app)
    link = await connected(store, transport)
    loop = WorkerLoop(Worker(NAME, link, KINDS, clock, 1, link.output.write), lambda message: None)
    engine, working = asyncio.create_task(host.run()), asyncio.create_task(loop.run())
    client = httpx2.AsyncClient(
        base_url=URL, headers={"Authorization": f"Bearer {token(store, 'admin')}"}, transport=transport
    )

    def prepare(text: str) -> Run:
        playbook = load("cost.yaml", text, KINDS).require()
        store.put_playbook(playbook.digest, "cost.yaml", text.encode())
        store.register(playbook.path, playbook.digest)
        host.runtime.playbooks.add(playbook)

        async def run() -> None:
            request = {"path": playbook.path}
            response = await client.post("/api/v1/executions", json=request, headers={"Prefer": "wait=60"})
            assert response.json()["status"] == "succeeded", response.text

        return run

    yield prepare
    loop.stop()
    await working
    engine.cancel()
    await asyncio.gather(engine, return_exceptions=True)
    await client.aclose()
    await link.close()
    app.api.close()
    store.close()


async def connected(store: SqliteStore, transport: httpx2.AsyncBaseTransport) -> HttpLink:
    """The link of a worker that the server has heard of."""
    secret, clock = token(store, "worker"), SystemClock()
    link = HttpLink(http_client(URL, secret), NAME, "default", OutputBuffer(clock))
    await link.server.http.aclose()
    http = link.server.http
    link.server.http = httpx2.AsyncClient(base_url=http.base_url, headers=http.headers, transport=transport)
    await link.server.call(
        "POST", "/heartbeat", encode(HeartbeatRequest(NAME, "default", 1, {}, "localhost", clock.now(), "0"))
    )
    link.terms.registered.set()
    return link


def token(store: SqliteStore, role: Role) -> str:
    secret, stored = new_token(role, role, SystemClock().now())
    store.access.add_token(stored)
    return secret


class Scenario(NamedTuple):
    """Work whose amount is a number of units."""

    place: Place
    size: int
    """The smaller of the two sizes it is run at. Chosen so that SQLite makes no checkpoint."""
    text: Callable[[int], str]
    """The playbook of a size."""
    repeats: Callable[[int], int] = lambda size: 1
    """How often it runs."""


SCENARIOS = {
    "step": Scenario(embedded, 40, chain),
    "item": Scenario(embedded, 500, lambda size: loop(size, NOOP)),
    "short run of three steps": Scenario(served, 8, lambda size: SHORT, lambda size: size),
    "report over HTTP": Scenario(served, 40, chain),
}


async def counts_of(scenario: Scenario) -> dict[str, float]:
    """The counts of one unit."""
    small, large = [await _at(scenario, size) for size in (scenario.size, 2 * scenario.size)]
    return {name: round((large[name] - small.get(name, 0)) / scenario.size, 3) for name in sorted(large)}


async def _at(scenario: Scenario, size: int) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        async with scenario.place(Path(folder)) as prepare:
            await prepare(scenario.text(1))()  # what is done once is not counted
            run = prepare(scenario.text(size))
            return await COUNTERS.of(_repeated(run, scenario.repeats(size)))


async def _repeated(run: Run, repeats: int) -> None:
    for _ in range(repeats):
        await run()


def main() -> None:
    print(json.dumps({name: COUNTERS.run(counts_of(scenario)) for name, scenario in SCENARIOS.items()}))


if __name__ == "__main__":
    main()
