"""The events of an execution as server-sent events, each with its seq as the id.

A client that reconnects sends the last id it has received and misses nothing, on this server or another. A stream reads
events from the store when its execution has changed: commits of this server wake it at once, and one task polls the
store for those of other servers. So a stream of an execution that does not change costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from noetl.engine.events import PlaybookProcessed
from noetl.errors import NoetlError
from noetl.server.execution_views import EventView, encode_reference
from noetl.server.problems import Refused
from noetl.store.store import Row, Store

if TYPE_CHECKING:
    from noetl.server.api import Api

POLL_SECONDS = 0.5
"""How often the store is polled for commits of other servers."""
EXECUTIONS_PER_QUERY = 50
"""Number of executions per store query, so that other queries are not delayed."""
MIN_READ_SECONDS = 0.02
"""Minimum time between two reads; events in between are sent together."""
KEEP_ALIVE_SECONDS = 15.0
"""Interval of keep-alive comments on an idle stream."""
CHECK_SECONDS = 2.0
"""How often an idle stream checks the authorization of its client. Sending events always checks it."""
EVENTS_PER_READ = 500
MAX_STREAMS, MAX_STREAMS_PER_CALLER = 1_000, 50
STREAM_RETRY_SECONDS = 5

InStore = Callable[..., Awaitable[Any]]


class Followed:
    def __init__(self) -> None:
        self.streams = 0
        self.seq = 0
        """The last seq that its streams know of."""
        self.changed = asyncio.Event()

    def wake(self, seq: int) -> None:
        self.seq = max(self.seq, seq)
        self.changed.set()
        self.changed = asyncio.Event()


class Streams:
    def __init__(self, store: Store, in_store: InStore) -> None:
        self.store, self.in_store = store, in_store
        self.limit, self.limit_per_caller = MAX_STREAMS, MAX_STREAMS_PER_CALLER
        self.by_caller: Counter[str] = Counter()
        self.followed: dict[str, Followed] = {}
        self._polling: asyncio.Task[None] | None = None

    def open(self, caller: str) -> None:
        """Count a stream; Refused if there are too many."""
        wait = {"Retry-After": str(STREAM_RETRY_SECONDS)}
        if self.by_caller[caller] >= self.limit_per_caller:
            detail = f"this caller has {self.limit_per_caller} event streams open, the maximum; close one of them first"
            raise Refused(429, detail, headers=wait)
        if self.by_caller.total() >= self.limit:
            detail = f"this server has {self.limit:,} event streams open, the maximum; try again later"
            raise Refused(503, detail, headers=wait)
        self.by_caller[caller] += 1

    def close(self, caller: str) -> None:
        self.by_caller[caller] -= 1
        if not self.by_caller[caller]:
            del self.by_caller[caller]

    @contextmanager
    def following(self, execution: str) -> Iterator[Followed]:
        followed = self.followed.setdefault(execution, Followed())
        followed.streams += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            yield followed
        finally:
            followed.streams -= 1
            if not followed.streams:
                del self.followed[execution]

    def wake(self, execution: str, seq: int) -> None:
        """Wake the streams of an execution after a commit on this server."""
        if (followed := self.followed.get(execution)) is not None:
            followed.wake(seq)

    def wake_all(self) -> None:
        for followed in self.followed.values():
            followed.wake(0)

    async def _poll(self) -> None:
        """Wake streams of executions that another server has changed, while streams are open."""
        while self.followed:
            names = list(self.followed)
            for start in range(0, len(names), EXECUTIONS_PER_QUERY):
                with suppress(NoetlError):  # the store is unavailable; retried later
                    some = names[start : start + EXECUTIONS_PER_QUERY]
                    seqs = await self.in_store(lambda some=some: list(map(self.store.seq, some)))
                    for name, seq in zip(some, seqs, strict=True):
                        if (followed := self.followed.get(name)) is not None and seq > followed.seq:
                            followed.wake(seq)
            await asyncio.sleep(POLL_SECONDS)


class EventStream(StreamingResponse):
    """A response that counts toward the limit of its caller until it ends."""

    def __init__(self, api: Api, caller: str, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")
        self.api, self.caller = api, caller
        api.streams.open(caller)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.api.streams.close(self.caller)


async def stream(
    api: Api, execution: str, after: int, is_authorized: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """The events after a seq as they are stored, until the execution has ended or the client is not authorized."""
    loop = asyncio.get_running_loop()
    next_comment = loop.time() + KEEP_ALIVE_SECONDS
    with api.streams.following(execution) as followed:
        yield b": events of an execution\nretry: 1000\n\n"
        while not api.closing.is_set():
            changed = followed.changed
            rows = await api.in_store(api.store.read, execution, after, EVENTS_PER_READ)
            if rows:
                if not await is_authorized():
                    return
                yield b"".join(_encoded(execution, row) for row in rows)
                after, next_comment = rows[-1].seq, loop.time() + KEEP_ALIVE_SECONDS
                if rows[-1].type == PlaybookProcessed.name:
                    yield b"event: end\ndata: {}\n\n"
                    return
            if len(rows) == EVENTS_PER_READ:
                continue
            await asyncio.sleep(MIN_READ_SECONDS)
            while not changed.is_set() and not api.closing.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(CHECK_SECONDS, KEEP_ALIVE_SECONDS)):
                        await changed.wait()
                if not await is_authorized():
                    return
                if loop.time() > next_comment:
                    yield b": still here\n\n"
                    next_comment = loop.time() + KEEP_ALIVE_SECONDS


def _encoded(execution: str, row: Row) -> bytes:
    data = msgspec.json.encode(EventView.of(execution, row), enc_hook=encode_reference)
    return b"id: %d\ndata: %b\n\n" % (row.seq, data)
