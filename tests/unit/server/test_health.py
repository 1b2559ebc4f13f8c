"""A database that goes away and comes back: the server says so, and goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from io import StringIO

import httpx2
import msgspec
import pytest
from api_server import HELLO, ApiServer, started
from exposition import parsed
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.postgres import PASSWORD, PostgresServer

from noetl.log import Log
from noetl.nats.connection import NatsConnection
from noetl.server.health import Health
from noetl.settings import NatsSettings
from noetl.store.postgres import PostgresStore


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    one = PostgresServer()
    yield one
    one.close()


def until(look: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def ready(client: httpx2.Client) -> tuple[int, dict[str, object]]:
    answer = client.get("/readyz")
    (store,) = answer.json()["dependencies"]
    return answer.status_code, store


def test_a_database_that_is_down_is_named_with_how_long(database: PostgresServer) -> None:
    url = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{database.port}/postgres?schema=health"
    server = ApiServer(PostgresStore(url))
    try:
        with server.client("admin") as client:
            started(client, {"playbook": HELLO})
            assert ready(client)[0] == 200
            database.stop()
            until(lambda: ready(client)[0] == 503)
            code, store = ready(client)
            assert (code, store["name"], store["status"], store["required"]) == (503, "store", "down", True)
            assert isinstance(store["seconds"], float)
            assert PASSWORD not in msgspec.json.encode(store).decode()
            assert client.get("/livez").status_code == 200
            numbers = parsed(client.get("/metrics").text)
            assert numbers["noetl_dependency_up"].value(dependency="store") == 0
            assert "noetl_ready" not in numbers
            later = float(str(ready(client)[1]["seconds"]))
            assert later >= store["seconds"]
            database.start()
            until(lambda: ready(client)[0] == 200)
            assert len(client.get("/api/v1/executions").json()["items"]) == 1
    finally:
        server.close()
    lines = [msgspec.json.decode(line) for line in server.log.getvalue().splitlines()]
    told = [(line["msg"], line["dependency"]) for line in lines if "dependency" in line]
    assert told[:2] == [("dependency down", "store"), ("dependency up", "store")]
    assert PASSWORD not in server.log.getvalue()


def test_nats_that_has_not_been_tried_yet_is_down_and_no_trouble() -> None:
    async def story() -> None:
        bus, written = NatsConnection(NatsSettings(("nats://127.0.0.1:1",)), lambda level, text: None), StringIO()

        async def in_store(ask: Callable[..., object], *arguments: object) -> object:
            return ask(*arguments)

        health = Health(MemoryStore(), bus, in_store, Log(stream=written))
        assert (await health.check())[-1].status == "down"
        assert written.getvalue() == ""
        bus.attempted.set()
        await health.check()
        await health.check()
        assert written.getvalue().count("dependency down") == 1

    asyncio.run(story())
