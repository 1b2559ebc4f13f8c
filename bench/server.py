"""Servers and workers: short runs, a distributed loop, claims among many, fairness and idle memory.

Every part is a process of its own, as people run it, on a database that waits for its disk. Beside the figures stand
the machine's own limits in the same minutes: what the client can send, what the disk and Postgres can commit.
`python -m bench.server` runs it alone.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests.acceptance.modes import stage
from tests.servers import postgres

from bench.client import RequestTimes, timed_requests
from bench.engine import HEAD, NOOP, commit_rates, loop
from bench.http import served as desk
from bench.measure import Figure, print_figures, resident_megabytes
from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Claim
from noetl.engine.state import Execution
from noetl.host.server_host import ServerHost
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store, WorkerSession
from noetl.tools.registry import KINDS

RUNS = 300
TRIES = 5
ITEMS = 10_000
SHORT = f"""{HEAD}  - {{step: one, tool: [{{t: {{kind: noop}}}}], next: {{arcs: [{{step: two}}]}}}}
  - {{step: two, tool: [{{t: {{kind: noop}}}}], next: {{arcs: [{{step: three}}]}}}}
  - {{step: three, tool: [{{t: {{kind: noop, result: hello}}}}]}}
"""
HELLO = f"{HEAD}  - {{step: start, tool: [{{t: {{kind: noop, result: hello}}}}]}}\n"
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
SLOTS = "64"


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as text:
        folder = Path(text)
        busy = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        yield Figure("machine: others that want to run, before anything is measured", busy)
        with desk() as url:
            limit = max(
                (timed_requests(url, "x", "/", RUNS, "{}") for _ in range(TRIES)), key=lambda one: RUNS / one.seconds
            )
        yield Figure(f"client: {RUNS} requests at once, answered at once", f"{RUNS / limit.seconds:,.0f} /s")
        yield Figure("disk: single-row commits (synchronous=FULL)", f"{commit_rates()[0]:,.0f} /s")
        yield from _idle_figures(_new(folder, "idle"))
        with stage.dev(_new(folder, "dev")) as mode:
            yield from _short_figures("noetl dev, SQLite", mode, 300)
            yield from _fair_figures("noetl dev, SQLite", mode)
        yield from _postgres_figures(folder)
        store = SqliteStore(_new(folder, "claims") / "noetl.db")
        yield from _claim_figures("SQLite", store)


def _postgres_figures(folder: Path) -> Iterator[Figure]:
    with _server() as server:
        with server.connect() as connection:
            yield Figure("Postgres: single-row commits", f"{_commit_rate(connection):,.0f} /s")
        with _served(_new(folder, "one"), stage.database(server, "one"), 1) as mode:
            yield from _short_figures("server + 1 worker, Postgres", mode, 200)
        with _served(_new(folder, "two"), stage.database(server, "two"), 2) as mode:
            yield from _loop_figures(mode)
            yield from _fair_figures("server + 2 workers, Postgres", mode)
        yield from _claim_figures("Postgres", PostgresStore(stage.database(server, "claims")))


# -- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def _server() -> Iterator[postgres.PostgresServer]:
    """A Postgres that waits for its disk."""
    before = dict(postgres.SETTINGS)
    postgres.SETTINGS.update(DURABLE)
    try:
        server = postgres.PostgresServer()
    finally:
        postgres.SETTINGS.update(before)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def _served(folder: Path, db: str, workers: int) -> Iterator[stage.Served]:
    """A server, and workers with as many slots as `noetl dev` has."""
    with ExitStack() as stack:
        mode = stack.enter_context(stage.served(folder, db, 1, 0))
        for number in range(workers):
            one = stage.worker(folder, db, f"worker{number}", mode.client.urls[0], "--slots", SLOTS).start()
            stack.callback(one.stop)
            mode.workers.append(one)
            one.until_said("takes work of pool")
        yield mode


def _new(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


# -- W3 ---------------------------------------------------------------------------------------------------------------


def _short_figures(name: str, mode: stage.Served, bar: int) -> Iterator[Figure]:
    """300 short runs at once by one client, which waits for each of them to end."""
    mode.register(SHORT)
    tries = [_posted(mode) for _ in range(TRIES)]
    best = min(tries, key=lambda attempt: attempt.seconds)
    rate, slow = RUNS / best.seconds, best.at(0.95)
    yield Figure(f"W3 {RUNS} short runs at once, {name}", f"{rate:,.0f} runs/s", f"at least {bar}", rate >= bar)
    yield Figure("  95 of 100 are answered within", f"{slow * 1000:,.0f} ms", "under 1,500 ms", slow < 1.5)
    yield Figure("  beside Restate on such a machine (360 runs/s)", f"{rate / 360:.0%}")


def _posted(mode: stage.Served) -> RequestTimes:
    result = timed_requests(
        mode.client.urls[0], mode.client.token, "/api/v1/executions", RUNS, '{"path": "bench/engine"}'
    )
    assert result.good == RUNS, f"{RUNS - result.good} runs went wrong"
    return result


# -- W2 ---------------------------------------------------------------------------------------------------------------


def _loop_figures(mode: stage.Served) -> Iterator[Figure]:
    rates = []
    for _ in range(TRIES):
        result = mode.client.ended(mode.client.start({"playbook": loop(ITEMS, NOOP)}))
        assert result["status"] == "succeeded", result["error"]
        rates.append(ITEMS / result["duration_ms"] * 1000)
    rate = max(rates)
    name = f"W2 {ITEMS:,} noop items, 2 workers, Postgres"
    yield Figure(name, f"{rate:,.0f} items/s", "at least 2,000", rate >= 2_000)


# -- fairness ---------------------------------------------------------------------------------------------------------


def _fair_figures(name: str, mode: stage.Served) -> Iterator[Figure]:
    """How much longer a run of one step takes while a loop of 100,000 items is going on."""
    alone = _hello_seconds(mode, 10)
    long = mode.client.start({"playbook": loop(100_000, NOOP)})
    time.sleep(1)
    beside = _hello_seconds(mode, 20)
    still = mode.client.show(long)["status"] == "running"
    mode.client.ask("POST", f"/executions/{long}/cancel", {})
    mode.client.ended(long)
    assert still, "the loop has ended too early to be in the way"
    delay = max(beside) - min(alone)
    yield Figure(f"hello world alone, {name}", f"{min(alone) * 1000:,.0f} ms")
    yield Figure(
        "  delayed by a loop of 100,000 items, at most", f"{delay * 1000:,.0f} ms", "under 1,000 ms", delay < 1
    )


def _hello_seconds(mode: stage.Served, count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        result = mode.client.ask("POST", "/executions", {"playbook": HELLO}, Prefer="wait=60")
        times.append(time.perf_counter() - start)
        assert result["result"] == "hello"
    return times


# -- memory -----------------------------------------------------------------------------------------------------------


def _idle_figures(folder: Path) -> Iterator[Figure]:
    with stage.dev(folder) as mode:
        mode.client.ask("POST", "/executions", {"playbook": HELLO}, Prefer="wait=60")
        time.sleep(2)
        process = mode.servers[0].process
        assert process is not None
        memory = resident_megabytes(process.pid)
    yield Figure("idle noetl dev after a run: memory", f"{memory:,} MB", "under 120 MB", memory < 120)


# -- claims -----------------------------------------------------------------------------------------------------------

READY, WORKERS, CLAIMS = 10_000, 100, 300


def _claim_figures(name: str, store: Store) -> Iterator[Figure]:
    """10,000 ready runs in the store, 100 workers whose hearts beat every 10 s, and claims of a server between them."""
    slow, rate = asyncio.run(_claims(store))
    yield Figure(
        f"claim among {READY:,} ready runs, {WORKERS} workers' beats, {name}: p99",
        f"{slow * 1000:,.1f} ms",
        "under 50 ms",
        slow < 0.05,
    )
    yield Figure("  claims one after the other", f"{rate:,.0f} /s")


async def _claims(store: Store) -> tuple[float, float]:
    host = ServerHost(LoadedPlaybooks(store), SystemClock(), _no_children, on_error=_fail)
    playbook = load("bench.yaml", SHORT, KINDS).require()
    await host.runtime.thread.ask(store.put_playbook, playbook.digest, "bench.yaml", SHORT.encode())
    digest = host.runtime.playbooks.add(playbook)
    for _ in range(READY // 500):
        await asyncio.gather(*(host.runtime.start(digest, {}, {}) for _ in range(500)))
    running = [asyncio.create_task(host.run()), asyncio.create_task(_beats(host))]
    times = []
    for number in range(CLAIMS):
        start = time.perf_counter()
        works = await host.dispatcher.claim(Claim(f"w{number % WORKERS}", 1, "default", f"c{number}"))
        times.append(time.perf_counter() - start)
        assert len(works) == 1
        await asyncio.sleep(0.005)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    host.runtime.close()
    return sorted(times)[int(CLAIMS * 0.99) - 1], CLAIMS / sum(times)


def _fail(message: str, execution: str | None) -> None:
    raise AssertionError(message)


async def _beats(host: ServerHost) -> None:
    """Ten beats a second: those of 100 workers."""
    held: dict[str, dict[str, list[int]]] = {}
    number = 0
    while True:
        worker = f"w{number % WORKERS}"
        for execution, fence, *_ in await host.runtime.thread.ask(host.runtime.store.leases_of, worker):
            held.setdefault(worker, {})[execution] = [fence]
        await host.heartbeats.record(WorkerSession(worker, "default", 16, leases=held.get(worker, {}), started=1.0))
        number += 1
        await asyncio.sleep(10 / WORKERS)


async def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    raise AssertionError("there are no children in a benchmark")


# -- limits -----------------------------------------------------------------------------------------------------------


def _commit_rate(connection: psycopg.Connection[Any]) -> float:
    """Rows a second of Postgres itself, each with a commit of its own."""
    connection.execute("CREATE TABLE IF NOT EXISTS raw (a bigint GENERATED ALWAYS AS IDENTITY, b bytea)")
    start, count = time.perf_counter(), 1_000
    for _ in range(count):
        connection.execute("INSERT INTO raw (b) VALUES (%s)", (b"x" * 150,), prepare=True)
    return count / (time.perf_counter() - start)


if __name__ == "__main__":
    print_figures(figures())
