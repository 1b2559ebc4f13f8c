"""Following an execution: its events as server-sent events, each with its seq as the id.

Who was cut off sends the id it saw last and misses nothing, at this server or another. Events are read from the store
by their seq, so it does not matter which server wrote them. A stream reads when its execution has moved: this server's
commits say so at once, and for those of others one task asks for the last seq of every execution that is followed. So
a stream costs next to nothing while its execution stands still, however busy the others are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from noetl.engine.events import PlaybookProcessed
from noetl.errors import NoetlError
from noetl.server import show
from noetl.server.problems import Refused
from noetl.store.ports import Row, Store

if TYPE_CHECKING:
    from noetl.server.api import Api

LOOK_SECONDS = 0.5
"""How often the store is asked for what others have written."""
LOOKED_AT_ONCE = 50
"""Number of executions per store query, so that other queries are not delayed."""
PAUSE_SECONDS = 0.02
"""The least time between two looks: what happens in between comes together."""
BEAT_SECONDS = 15.0
"""Interval of keep-alive comments on an idle stream."""
CHECK_SECONDS = 2.0
"""How often an idle stream checks the authorization of its client. Sending events always checks it."""
PAGE = 500
STREAMS, STREAMS_PER_CALLER = 1_000, 50
RETRY_SECONDS = 5

Ask = Callable[[], Awaitable[bool]]
InStore = Callable[..., Awaitable[Any]]


class Followed:
    """An execution with open streams."""

    def __init__(self) -> None:
        self.streams = 0
        self.seq = 0
        """The last seq that its streams were notified of."""
        self.moved = asyncio.Event()

    def wake(self, seq: int) -> None:
        self.seq = max(self.seq, seq)
        self.moved.set()
        self.moved = asyncio.Event()


class Streams:
    """The event streams of a server: how many each caller has, and which execution each of them follows."""

    def __init__(self, store: Store, in_store: InStore) -> None:
        self.store, self.in_store = store, in_store
        self.limit, self.limit_per_caller = STREAMS, STREAMS_PER_CALLER
        self.by_caller: Counter[str] = Counter()
        self.followed: dict[str, Followed] = {}
        self._looking: asyncio.Task[None] | None = None

    def open(self, caller: str) -> None:
        """Count a stream; Refused if there are too many."""
        wait = {"Retry-After": str(RETRY_SECONDS)}
        if self.by_caller[caller] >= self.limit_per_caller:
            detail = f"this caller has {self.limit_per_caller} event streams open, the maximum; close one of them first"
            raise Refused(429, detail, headers=wait)
        if self.by_caller.total() >= self.limit:
            raise Refused(
                503, f"this server has {self.limit:,} event streams open, the maximum; try again later", headers=wait
            )
        self.by_caller[caller] += 1

    def close(self, caller: str) -> None:
        self.by_caller[caller] -= 1
        if not self.by_caller[caller]:
            del self.by_caller[caller]

    def follow(self, execution: str) -> Followed:
        found = self.followed.setdefault(execution, Followed())
        found.streams += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return found

    def leave(self, execution: str) -> None:
        found = self.followed[execution]
        found.streams -= 1
        if not found.streams:
            del self.followed[execution]

    def moved(self, execution: str, seq: int) -> None:
        """Wake the streams of an execution after a commit on this server."""
        if (found := self.followed.get(execution)) is not None:
            found.wake(seq)

    def wake_all(self) -> None:
        for found in self.followed.values():
            found.wake(0)

    async def _look(self) -> None:
        """Wake streams of executions that another server has changed, while streams are open."""
        while self.followed:
            names = list(self.followed)
            for start in range(0, len(names), LOOKED_AT_ONCE):
                with suppress(NoetlError):  # the store is unavailable; retried later
                    seqs = await self.in_store(_seqs, self.store, names[start : start + LOOKED_AT_ONCE])
                    for name, seq in seqs:
                        if (found := self.followed.get(name)) is not None and seq > found.seq:
                            found.wake(seq)
            await asyncio.sleep(LOOK_SECONDS)


def _seqs(store: Store, executions: Sequence[str]) -> list[tuple[str, int]]:
    return [(execution, store.seq(execution)) for execution in executions]


class EventStream(StreamingResponse):
    """A streaming response. It counts toward the limit of its caller until it ends."""

    def __init__(self, api: Api, caller: str, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")
        self.api, self.caller = api, caller
        api.streams.open(caller)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.api.streams.close(self.caller)


async def stream(api: Api, execution: str, after: int, may_go_on: Ask) -> AsyncIterator[bytes]:
    """The events behind a seq as they come, until the execution has ended, or who reads them may not any more."""
    followed, loop = api.streams.follow(execution), asyncio.get_running_loop()
    api.metrics.streams += 1
    beat = loop.time() + BEAT_SECONDS
    try:
        yield b": events of an execution\nretry: 1000\n\n"
        while not api.closing.is_set():
            moved = followed.moved
            rows = await api.in_store(api.store.read, execution, after, PAGE)
            if rows:
                if not await may_go_on():
                    return
                yield b"".join(_written(execution, row) for row in rows)
                after, beat = rows[-1].seq, loop.time() + BEAT_SECONDS
                if rows[-1].type == PlaybookProcessed.name:
                    yield b"event: end\ndata: {}\n\n"
                    return
            if len(rows) == PAGE:
                continue
            await asyncio.sleep(PAUSE_SECONDS)
            while not moved.is_set() and not api.closing.is_set():
                await _wait(moved, min(CHECK_SECONDS, BEAT_SECONDS))
                if not await may_go_on():
                    return
                if loop.time() > beat:
                    yield b": still here\n\n"
                    beat = loop.time() + BEAT_SECONDS
    finally:
        api.metrics.streams -= 1
        api.streams.leave(execution)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _written(execution: str, row: Row) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (
        row.seq,
        msgspec.json.encode(show.event(execution, row), enc_hook=show.plain),
    )
