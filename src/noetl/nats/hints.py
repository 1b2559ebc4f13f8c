"""Hints between servers: a pool has ready work.

A server that stored ready work publishes to `noetl.ready.<pool>`. Servers at which a worker waits for work of that pool
subscribe as one queue group, so the broker delivers each hint to one of them, which then looks into the store. A hint
carries no data that would have to be trusted, and the next periodic scan of a server makes up for a lost one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from noetl.errors import NatsUnavailable
from noetl.nats.connection import NatsConnection

SUBJECT = "noetl.ready."
GROUP = "noetl"
PUBLISH_INTERVAL_SECONDS = 0.02  # at most one hint for a pool in this time, however much of its work becomes ready

UNAVAILABLE = (NatsUnavailable, Error, OSError)
"""The connection logs these errors; `_resubscribe` and the scans of the servers make up for them."""

OnHint = Callable[[str], Awaitable[bool]]  # looks for work of a pool; False if no worker waits for it


class ReadyHints:
    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection
        self._unpublished: set[str] = set()
        self._publishing: asyncio.Task[None] | None = None
        self._handlers: dict[str, OnHint] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        connection.on_connect.append(self._resubscribe)

    def publish(self, pool: str) -> None:
        self._unpublished.add(pool)
        if self._publishing is None or self._publishing.done():
            self._publishing = self._start(self._publish())

    def subscribe(self, pool: str, on_hint: OnHint) -> None:
        if pool not in self._handlers:
            self._handlers[pool] = on_hint
            self._start(self._subscribe(pool))

    async def _publish(self) -> None:
        while self._unpublished:
            pools, self._unpublished = self._unpublished, set()
            with suppress(*UNAVAILABLE):
                for pool in pools:
                    await self.connection.client.publish(subject(pool))
            await asyncio.sleep(PUBLISH_INTERVAL_SECONDS)

    async def _subscribe(self, pool: str) -> None:
        async def receive(message: Msg) -> None:
            on_hint = self._handlers.get(pool)
            if on_hint is None or not await on_hint(pool):  # no worker waits here: let the broker choose another server
                self._handlers.pop(pool, None)
                if (subscription := self._subscriptions.pop(pool, None)) is not None:
                    with suppress(*UNAVAILABLE):
                        await subscription.unsubscribe()
                self.publish(pool)

        with suppress(*UNAVAILABLE):
            if pool not in self._subscriptions:
                self._subscriptions[pool] = await self.connection.client.subscribe(subject(pool), GROUP, receive)

    async def _resubscribe(self) -> None:
        self._subscriptions.clear()  # those of the connection that broke
        for pool in list(self._handlers):
            await self._subscribe(pool)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def subject(pool: str) -> str:
    """The subject of hints for a pool, whose name is percent-encoded if it is not a valid one."""
    if re.fullmatch(r"[\w-]+(\.[\w-]+)*", pool, re.ASCII):
        return SUBJECT + pool
    return SUBJECT + quote(pool, safe="").replace(".", "%2E")
