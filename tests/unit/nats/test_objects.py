"""Large values in buckets of NATS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext
from tests.servers.nats import NatsServer, nats_server
from tests.servers.patience import PATIENCE_SECONDS

from noetl.errors import NatsUnavailable
from noetl.nats import connection
from noetl.nats.connection import NatsConnection
from noetl.nats.objects import TTL_SECONDS, ObjectBuckets
from noetl.settings import NatsSettings

SECONDS = PATIENCE_SECONDS
CONTENT = os.urandom(700_001)
KEY = sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with nats_server() as running:
        yield running


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 30.0)


Story = Callable[[ObjectBuckets, JetStreamContext], Awaitable[None]]


def play(server: NatsServer, story: Story) -> None:
    async def whole() -> None:
        bus = NatsConnection(NatsSettings((server.url,)), lambda level, text: None)
        running = asyncio.create_task(bus.run())
        other = await nats.connect(server.url)
        try:
            async with asyncio.timeout(SECONDS):
                await story(ObjectBuckets(bus), other.jetstream())
        finally:
            await other.close()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(whole())


def test_content_is_an_object_that_every_client_can_read(server: NatsServer) -> None:
    bucket = server.name()

    async def story(shelf: ObjectBuckets, store: JetStreamContext) -> None:
        await shelf.put(bucket, KEY, CONTENT)
        result = await (await store.object_store(bucket)).get(KEY)
        assert result.data == CONTENT
        assert await shelf.get(bucket, KEY) == CONTENT
        assert (await store.stream_info(f"OBJ_{bucket}")).config.max_age == TTL_SECONDS

    play(server, story)


def test_what_is_there_is_not_sent_again(server: NatsServer) -> None:
    bucket = server.objects()

    async def story(shelf: ObjectBuckets, store: JetStreamContext) -> None:
        async def state() -> Any:
            return (await store.stream_info(f"OBJ_{bucket}")).state.last_seq

        await shelf.put(bucket, KEY, CONTENT)
        before = await state()
        await shelf.put(bucket, KEY, CONTENT)
        assert await state() == before
        await (await store.object_store(bucket)).put(KEY, b"something else")
        await shelf.put(bucket, KEY, CONTENT)
        assert await shelf.get(bucket, KEY) == CONTENT

    play(server, story)


def test_a_missing_deleted_or_other_key_does_not_exist(server: NatsServer) -> None:
    bucket = server.objects()

    async def story(shelf: ObjectBuckets, store: JetStreamContext) -> None:
        objects = await store.object_store(bucket)
        assert await shelf.get(server.name(), KEY) is None
        assert await shelf.get(bucket, KEY) is None
        await objects.put(KEY, b"something else")
        assert await shelf.get(bucket, KEY) is None
        await shelf.put(bucket, KEY, CONTENT)
        await objects.delete(KEY)
        assert await shelf.get(bucket, KEY) is None
        await shelf.put(bucket, KEY, CONTENT)
        info = await objects.get_info(KEY)
        await store.purge_stream(f"OBJ_{bucket}", subject=f"$O.{bucket}.C.{info.nuid}")
        assert await shelf.get(bucket, KEY) is None
        assert shelf.connection.status() == "ok"

    play(server, story)


def test_without_nats_both_say_so() -> None:
    async def whole() -> None:
        bus = NatsConnection(NatsSettings(("nats://127.0.0.1:9",)), lambda level, text: None)
        running = asyncio.create_task(bus.run())
        shelf = ObjectBuckets(bus)
        with pytest.raises(NatsUnavailable):
            await shelf.put("bucket", KEY, CONTENT)
        with pytest.raises(NatsUnavailable):
            await shelf.get("bucket", KEY)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(whole())
