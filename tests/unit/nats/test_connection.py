"""The connection to NATS: kept, sought again, and never in anybody's way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from tests.servers.nats import LIMITED, TOKEN, RestartedNats, nats_server, restarted_nats
from tests.servers.patience import PATIENCE_SECONDS

from noetl.errors import NatsUnavailable, UsageError
from noetl.nats import connection
from noetl.nats.connection import NatsConnection
from noetl.settings import NatsSettings

SECONDS = PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 10.0)  # a busy machine is not what is tested


class Told:
    """What a bus says."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, level: str, text: str) -> None:
        self.lines.append((level, text))

    @property
    def levels(self) -> list[str]:
        return [level for level, _ in self.lines]


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not look():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)


def play(settings: NatsSettings, story: Callable[[NatsConnection, Told], Awaitable[None]]) -> None:
    async def whole() -> None:
        told = Told()
        bus = NatsConnection(settings, told)
        running = asyncio.create_task(bus.run())
        try:
            await story(bus, told)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(whole())


async def streams(store: JetStreamContext) -> int:
    return len(await store.streams_info())


def test_it_connects_and_asks(tmp_path: Path) -> None:
    with nats_server() as server:

        async def story(bus: NatsConnection, told: Told) -> None:
            await until(lambda: bus.status() == "ok")
            assert await bus.jetstream("streams", streams) == 0
            assert told.lines == []

        play(NatsSettings((server.url,)), story)


def test_a_server_that_comes_later_is_found(tmp_path: Path) -> None:
    server = RestartedNats(tmp_path).start()
    server.stop()

    async def story(bus: NatsConnection, told: Told) -> None:
        await until(lambda: told.levels == ["warning"])
        with pytest.raises(NatsUnavailable):
            await bus.jetstream("streams", streams)
        server.start()
        await until(lambda: bus.status() == "ok")
        assert told.levels == ["warning", "info"]
        assert await bus.jetstream("streams", streams) == 0

    try:
        play(NatsSettings((f"nats://127.0.0.1:{server.port}",)), story)
    finally:
        server.stop()


def test_a_server_that_is_restarted_is_told_of_once_and_found_again(tmp_path: Path) -> None:
    with restarted_nats(tmp_path) as server:

        async def story(bus: NatsConnection, told: Told) -> None:
            connections: list[int] = []

            async def connected() -> None:
                connections.append(1)

            bus.on_connect.append(connected)
            await until(lambda: bus.status() == "ok")
            for number in (1, 2):
                server.stop()
                await until(lambda: bus.status() != "ok")
                with pytest.raises(NatsUnavailable, match=r"127\.0\.0\.1"):
                    await bus.jetstream("streams", streams)
                server.start()
                await until(lambda: bus.status() == "ok")
                assert told.levels == ["warning", "info"] * number
            assert len(connections) == 3

        play(NatsSettings((server.url,)), story)


def test_a_refused_login_is_reported_without_the_secret(tmp_path: Path) -> None:
    with nats_server(TOKEN) as server:

        async def story(bus: NatsConnection, told: Told) -> None:
            await until(lambda: told.lines)
            assert "rejected the login" in told.lines[0][1]
            assert "rejected the login" in bus.status()
            assert "wrong-token" not in str(told.lines) + bus.status()

        play(NatsSettings((server.url,), token="wrong-token"), story)

        async def good(bus: NatsConnection, told: Told) -> None:
            await until(lambda: bus.status() == "ok")

        play(NatsSettings((server.url,), token="s3cret-token"), good)


def test_without_the_driver_the_command_that_installs_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats.errors", None)
    for name in ("noetl.nats.connection", "noetl.nats.client"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UsageError, match=r"pip install 'noetl-engine\[nats\]'"):
        import_module("noetl.nats.connection")


def test_a_password_in_the_address_is_never_shown() -> None:
    with nats_server() as server:
        address = server.url.replace("nats://", "nats://ada:hidden-word@")

        async def story(bus: NatsConnection, told: Told) -> None:
            await until(lambda: told.lines)
            assert "hidden-word" not in str(told.lines) + bus.status()
            with pytest.raises(NatsUnavailable) as caught:
                await bus.jetstream("streams", streams)
            assert "hidden-word" not in str(caught.value)

        play(NatsSettings((address,)), story)


def test_what_the_login_may_not_do_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with nats_server() as server:

        async def story(bus: NatsConnection, told: Told) -> None:
            await until(lambda: bus.status() == "ok")
            with pytest.raises(NatsUnavailable):
                await bus.jetstream("streams", streams)
            assert "permission" in bus.status()
            assert told.levels == ["warning"]

        play(NatsSettings((server.url,), user=LIMITED["user"], password=LIMITED["password"]), story)


def stands_still(pid: int) -> bool:
    """Whether all threads of a process are stopped: until the last one is, it may answer."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


def test_a_server_that_hangs_is_asked_once_and_then_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "COOLDOWN_SECONDS", 3600.0)
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 2.0)
    with restarted_nats(tmp_path) as server:
        assert server.process is not None
        pid = server.process.pid

        async def story(bus: NatsConnection, told: Told) -> None:
            await until(lambda: bus.status() == "ok")
            os.kill(pid, signal.SIGSTOP)
            await until(lambda: stands_still(pid))
            try:
                with pytest.raises(NatsUnavailable, match="no response within"):
                    await bus.jetstream("streams", streams)
                monkeypatch.setattr(connection, "RESPONSE_SECONDS", 3600.0)  # a second question would hang the test
                with pytest.raises(NatsUnavailable):
                    await bus.jetstream("streams", streams)
            finally:
                os.kill(pid, signal.SIGCONT)
            assert told.levels == ["warning"]

        play(NatsSettings((server.url,)), story)
