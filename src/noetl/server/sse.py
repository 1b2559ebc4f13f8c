"""The events of an execution as server-sent events, each with its seq as the id.

A client that reconnects sends the last id it has received and misses nothing, on this server or another. A stream reads
events from the store when its execution has changed: commits of this server wake it at once, and one task polls the
store for those of other servers. So a stream of an execution that does not change costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from noetl.engine.events import Event, PlaybookProcessed
from noetl.engine.state import Execution
from noetl.errors import NoetlError
from noetl.reference import encode_json
from noetl.runtime.event_envelopes import EventEnvelopes
from noetl.runtime.store_thread import InStore
from noetl.server.execution_views import EventView
from noetl.server.problems import Refused
from noetl.store.store import Row, Store

POLL_SECONDS = 0.5  # how often the store is polled for commits of other servers
EXECUTIONS_PER_QUERY = 50  # number of executions per store query, so that other queries are not delayed
MIN_READ_SECONDS = 0.02  # minimum time between two reads; events in between are sent together
KEEP_ALIVE_SECONDS = 15.0  # interval of keep-alive comments on an idle stream
CHECK_SECONDS = 2.0  # how often an idle stream checks the authorization of its client; each sending does, too
EVENTS_PER_READ = 500
MAX_STREAMS, MAX_STREAMS_PER_CALLER = 1_000, 50

IsAuthorized = Callable[[], Awaitable[bool]]


def last_event_id(headers: Mapping[str, str]) -> int | None:
    """The seq of the last event that a client has received; None if it has none."""
    text = headers.get("last-event-id")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Refused(422, "Last-Event-ID must be the seq of an event")
    return int(text)


class Followed:
    def __init__(self) -> None:
        self.streams = 0
        self.seq = 0  # the last seq that its streams know of
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
        self.closing = asyncio.Event()  # set when the server is about to stop
        self._polling: asyncio.Task[None] | None = None

    def on_events(self, state: Execution, events: list[Event]) -> None:
        if (followed := self.followed.get(state.id)) is not None:
            followed.wake(state.seq)

    def stop(self) -> None:
        self.closing.set()
        for followed in self.followed.values():
            followed.wake(0)

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

    async def _poll(self) -> None:
        """Wake streams of executions that another server has changed, while streams are open."""
        while self.followed:
            names = list(self.followed)
            for start in range(0, len(names), EXECUTIONS_PER_QUERY):
                with suppress(NoetlError):  # the store is unavailable; retried later
                    batch = names[start : start + EXECUTIONS_PER_QUERY]
                    seqs = await self.in_store(lambda batch=batch: list(map(self.store.seq, batch)))
                    for name, seq in zip(batch, seqs, strict=True):
                        if (followed := self.followed.get(name)) is not None and seq > followed.seq:
                            followed.wake(seq)
            await asyncio.sleep(POLL_SECONDS)

    async def events(
        self, execution: str, after: int, types: Collection[str], is_authorized: IsAuthorized
    ) -> AsyncIterator[bytes]:
        """The events after a seq as they are stored, until the execution has ended or the client is not authorized.

        `types` are their names; empty for all.
        """
        loop = asyncio.get_running_loop()
        next_comment = loop.time() + KEEP_ALIVE_SECONDS
        envelopes = EventEnvelopes(self.store, execution)

        def read(after: int) -> tuple[list[Row], list[EventView]]:
            rows = self.store.read(execution, after, EVENTS_PER_READ)
            return rows, [EventView(**envelope) for envelope in envelopes.of(rows, types)]

        with self.following(execution) as followed:
            yield b": events of an execution\nretry: 1000\n\n"
            while not self.closing.is_set():
                changed = followed.changed
                rows, views = await self.in_store(read, after)
                if rows:
                    if not await is_authorized():
                        return
                    yield b"".join(b"id: %d\ndata: %b\n\n" % (view.seq, encode_json(view)) for view in views)
                    after, next_comment = rows[-1].seq, loop.time() + KEEP_ALIVE_SECONDS
                    if rows[-1].type == PlaybookProcessed.name:
                        yield b"event: end\ndata: {}\n\n"
                        return
                if len(rows) == EVENTS_PER_READ:
                    continue
                await asyncio.sleep(MIN_READ_SECONDS)
                while not changed.is_set() and not self.closing.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(min(CHECK_SECONDS, KEEP_ALIVE_SECONDS)):
                            await changed.wait()
                    if not await is_authorized():
                        return
                    if loop.time() > next_comment:
                        yield b": keep-alive\n\n"
                        next_comment = loop.time() + KEEP_ALIVE_SECONDS


class EventStream(StreamingResponse):
    """A response that counts toward the limit of its caller until it ends; Refused if there are too many."""

    def __init__(self, streams: Streams, caller: str, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")
        self.open, self.caller = streams.by_caller, caller
        if self.open[caller] >= streams.limit_per_caller:
            limit = streams.limit_per_caller
            detail = f"this caller has {limit} event streams open, the maximum; close one of them first"
            raise Refused(429, detail, headers={"Retry-After": "5"})
        if self.open.total() >= streams.limit:
            detail = f"this server has {streams.limit:,} event streams open, the maximum; try again later"
            raise Refused(503, detail, headers={"Retry-After": "5"})
        self.open[caller] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.open -= Counter([self.caller])
