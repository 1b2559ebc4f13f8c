"""Hints between servers, as nobody else can wake them: their own looks into the store are switched off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.servers.nats import RestartedNats, restarted_nats
from tests.servers.patience import PATIENCE_SECONDS

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Claim
from noetl.engine.state import Execution
from noetl.errors import NotFound
from noetl.host import dispatcher, server_host
from noetl.host.server_host import ServerHost
from noetl.nats.client import flush
from noetl.nats.connection import NatsConnection
from noetl.nats.hints import GROUP, ReadyHints, subject
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.settings import NatsSettings
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS
from noetl.worker.work import Work

SECONDS = PATIENCE_SECONDS
HOUR = 3600.0
TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: story, path: tests/story}
workflow:
  - {step: start, tool: {kind: noop, result: 1}}
"""


@pytest.fixture(autouse=True)
def _only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_host, "TICK_SECONDS", HOUR)
    monkeypatch.setattr(server_host, "SWEEP_SECONDS", HOUR)
    monkeypatch.setattr(dispatcher, "SCAN_SECONDS", HOUR)


async def _nothing(parent: Execution, request: dict[str, Any]) -> str:
    raise NotFound("nothing")


class Server:
    """A host with its connection to NATS."""

    def __init__(self, db: Path, url: str) -> None:
        self.bus = NatsConnection(NatsSettings((url,)), lambda level, text: None)
        playbooks = LoadedPlaybooks(SqliteStore(db))
        self.host = ServerHost(
            playbooks, SystemClock(), _nothing, on_error=lambda message, execution: None, connection=self.bus
        )
        hints = self.host.dispatcher.hints
        assert isinstance(hints, ReadyHints)
        self.hints = hints

    def add(self) -> str:
        playbook = load("story.yaml", TEXT, KINDS).require()
        self.host.runtime.store.put_playbook(playbook.digest, "story.yaml", TEXT.encode())
        return self.host.runtime.playbooks.add(playbook)

    async def start(self) -> str:
        return (await self.host.runtime.start(self.add(), {}, {})).id

    def claim(self, worker: str) -> asyncio.Task[list[Work]]:
        return asyncio.create_task(self.host.dispatcher.claim(Claim(worker, 1, "default"), HOUR))

    async def until(self, look: Callable[[], Any]) -> None:
        async with asyncio.timeout(SECONDS):
            while not look():  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)

    async def heard_of(self) -> None:
        """The broker knows that somebody waits here."""
        await self.until(lambda: self.hints._subscriptions.get("default") is not None)
        await flush(self.bus.client, SECONDS)


@asynccontextmanager
async def server(db: Path, url: str) -> Any:
    one = Server(db, url)
    tasks = [asyncio.create_task(one.host.run()), asyncio.create_task(one.bus.run())]
    try:
        await one.until(lambda: one.bus.status() == "ok")
        yield one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        one.host.runtime.close()


def play(folder: Path, broker: RestartedNats, story: Callable[..., Awaitable[None]], servers: int = 2) -> None:
    async def whole() -> None:
        async with AsyncExitStack() as stack, asyncio.timeout(SECONDS):
            opened = [await stack.enter_async_context(server(folder / "noetl.db", broker.url)) for _ in range(servers)]
            await story(*opened)

    asyncio.run(whole())


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    folder = tmp_path / "nats"
    folder.mkdir()
    with restarted_nats(folder) as running:
        yield running


def test_work_made_ready_at_one_server_wakes_a_worker_of_another(tmp_path: Path, broker: RestartedNats) -> None:
    async def story(a: Server, b: Server) -> None:
        waiting = b.claim("w")
        await b.heard_of()
        execution = await a.start()
        assert [work.execution for work in await waiting] == [execution]

    play(tmp_path, broker, story)


def test_each_hint_goes_to_one_of_the_servers_where_somebody_waits(tmp_path: Path, broker: RestartedNats) -> None:
    async def story(a: Server, b: Server, c: Server) -> None:
        looks: list[str] = []
        for one in (b, c):
            inner = one.host.dispatcher.on_hint

            async def look(pool: str, inner: Any = inner) -> bool:
                looks.append(pool)
                return bool(await inner(pool))

            one.host.dispatcher.on_hint = look  # type: ignore[method-assign]
        waiting = [b.claim("wb"), c.claim("wc")]
        await b.heard_of()
        await c.heard_of()
        execution = await a.start()
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [work.execution for task in done for work in task.result()] == [execution]
        other = await a.start()
        done, _ = await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
        assert [work.execution for task in done for work in task.result()] == [other]
        assert set(looks) == {"default"}

    play(tmp_path, broker, story, servers=3)


def test_a_server_where_nobody_waits_any_more_passes_a_hint_on(tmp_path: Path, broker: RestartedNats) -> None:
    async def story(a: Server, b: Server, c: Server) -> None:
        gone = b.claim("gone")
        await b.heard_of()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        waiting = c.claim("w")
        await c.heard_of()
        execution = await a.start()
        assert [work.execution for work in await waiting] == [execution]

    play(tmp_path, broker, story, servers=3)


def test_after_the_broker_was_away_hints_come_again(tmp_path: Path, broker: RestartedNats) -> None:
    async def story(a: Server, b: Server) -> None:
        waiting = b.claim("w")
        await b.heard_of()
        broker.stop()
        await a.until(lambda: a.bus.status() != "ok" and b.bus.status() != "ok")
        await a.start()  # nobody hears of it, and nothing breaks
        broker.start()
        await a.until(lambda: a.bus.status() == "ok" and b.bus.status() == "ok")
        await b.heard_of()
        await a.start()
        assert len(await waiting) == 1

    play(tmp_path, broker, story)


def test_a_pool_is_subscribed_once_if_the_connection_comes_up_meanwhile(tmp_path: Path, broker: RestartedNats) -> None:
    """A second subscription would stay when the worker is gone, and pass hints between servers for ever."""

    async def story(a: Server) -> None:
        a.hints.subscribe("default", a.host.dispatcher.on_hint)
        await a.hints._resubscribe()  # before the task runs that subscribes
        await flush(a.bus.client, SECONDS)
        assert len(a.bus.client._subs) == 1

    play(tmp_path, broker, story, servers=1)


def test_hints_are_few_however_much_becomes_ready(tmp_path: Path, broker: RestartedNats) -> None:
    async def story(a: Server) -> None:
        heard: list[Any] = []

        async def hear(message: Any) -> None:
            heard.append(message)

        async with await nats.connect(broker.url) as listener:
            await listener.subscribe("noetl.ready.>", cb=hear)
            await flush(listener, SECONDS)
            for _ in range(1000):
                a.hints.publish("default")
            await a.until(lambda: heard)
            await a.until(lambda: a.hints._publishing is not None and a.hints._publishing.done())
            await flush(a.bus.client, SECONDS)
            await flush(listener, SECONDS)
            assert [(one.subject, one.data) for one in heard] == [("noetl.ready.default", b"")]

    play(tmp_path, broker, story, servers=1)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("default", "noetl.ready.default"),
        ("gpu.large_1", "noetl.ready.gpu.large_1"),
        ("two words", "noetl.ready.two%20words"),
        (">", "noetl.ready.%3E"),
        ("a..b", "noetl.ready.a%2E%2Eb"),
        ("grün", "noetl.ready.gr%C3%BCn"),
    ],
)
def test_a_pool_has_a_subject(pool: str, expected: str) -> None:
    assert subject(pool) == expected


def test_the_group_has_one_name_for_all_servers() -> None:
    assert GROUP == "noetl"
