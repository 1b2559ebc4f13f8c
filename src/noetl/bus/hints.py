"""Hints between servers: there is work for a pool.

A server that makes work ready says so at `noetl.ready.<pool>`, after it is stored. Servers at which a worker waits for
work of that pool listen as one queue group, so the broker gives each hint to one of them, which then looks into the
store. The hint itself says nothing that would have to be believed, and a lost one is made good by the next look that
every server takes by itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from noetl.bus.connection import Bus
from noetl.errors import Away

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

SUBJECT = "noetl.ready."
GROUP = "noetl"
PAUSE_SECONDS = 0.02
"""A pool is spoken of once in this time, however much of its work becomes ready."""

Look = Callable[[str], Awaitable[bool]]
"""Look for work of a pool; False if nobody waits for any."""


class Hints:
    """Gives and takes hints."""

    def __init__(self, bus: Bus, look: Look) -> None:
        self.bus, self.look = bus, look
        self._due: set[str] = set()
        self._sending: asyncio.Task[None] | None = None
        self._wanted: dict[str, Subscription | None] = {}
        """Pools that a worker waits for; None where we are not heard of yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        bus.on_connect.append(self._subscribe_again)

    def ready(self, pool: str) -> None:
        """There is work for the pool."""
        self._due.add(pool)
        if self._sending is None or self._sending.done():
            self._sending = self._do(self._send())

    def want(self, pool: str) -> None:
        """Somebody here waits for work of the pool."""
        if pool not in self._wanted:
            self._wanted[pool] = None
            self._do(self._subscribe(pool))

    async def _send(self) -> None:
        while self._due:
            pools, self._due = self._due, set()
            await self._try(self._publish(pools))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _publish(self, pools: set[str]) -> None:
        for pool in pools:
            await self.bus.client.publish(subject(pool))

    async def _subscribe(self, pool: str) -> None:
        async def heard(message: Any) -> None:
            if not await self.look(pool):  # it is for those who have time: without us, the broker finds them
                await self._leave(pool)
                self.ready(pool)

        async def subscribe() -> None:
            self._wanted[pool] = await self.bus.client.subscribe(subject(pool), GROUP, heard)

        await self._try(subscribe())

    async def _leave(self, pool: str) -> None:
        if (subscription := self._wanted.pop(pool, None)) is not None:
            await self._try(subscription.unsubscribe())

    async def _subscribe_again(self) -> None:
        for pool in list(self._wanted):
            await self._subscribe(pool)

    async def _try(self, work: Awaitable[None]) -> None:
        """What does not work out now is done when the connection is back, or not needed any more."""
        from nats.errors import Error

        with suppress(Away, Error, OSError):  # the connection tells of it
            await work

    def _do(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def subject(pool: str) -> str:
    """Where hints for a pool are given. What can't be a subject is quoted as in an address."""
    if re.fullmatch(r"[\w-]+(\.[\w-]+)*", pool, re.ASCII):
        return SUBJECT + pool
    return SUBJECT + quote(pool, safe="").replace(".", "%2E")
