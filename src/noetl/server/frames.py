"""Live frames: what has changed in an execution since the last frame, at most ten times a second.

All clients of an execution share one feed. It makes each frame once, from the events that were stored since the one
before, and keeps the latest. A client that is slow, or comes back after a while, gets those that it has missed in one
frame, or is told to load everything again. So a client costs no memory, however slow it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.history.event_summaries import event_row
from noetl.engine.history.outline import Block, OutlineWriter, run_names
from noetl.engine.history.outline_fold import OutlineFold
from noetl.errors import NotFound
from noetl.reference import encode_json
from noetl.runtime.activity import Wait
from noetl.runtime.outlines import Outlines
from noetl.server.execution_lists import listed
from noetl.server.execution_views import Status
from noetl.server.outline_views import (
    ArcOutline,
    LoopOutline,
    Marker,
    ParkedColumns,
    Places,
    ProgressColumns,
    StepRunColumns,
    TokenColumns,
    loop_waits,
    parked_columns,
    shown_status,
    step_run_columns,
    token_columns,
)
from noetl.server.second_connection import SecondConnection
from noetl.server.sse import CHECK_SECONDS, KEEP_ALIVE_SECONDS, Followed, IsAuthorized, Streams
from noetl.store.codec import decode
from noetl.store.store import NO_LIMIT, Row, Store, Summary
from noetl.timestamps import optional_rfc3339, rfc3339

FRAME_SECONDS = 0.1  # minimum time between two frames of an execution
MAX_ROWS = 50  # the latest events
MAX_FRAME_BYTES = 64_000
MAX_FRAMES = 50
MAX_EVENTS_PER_FRAME = 5_000
NOWHERE = -2  # in place of the seq of a client that the log does not have, such as after a restore
HEAD = b": frames of an execution\nretry: 1000\n\n"
END = b"event: end\ndata: {}\n\n"


class OutlineChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rows of an outline that have changed. Step runs are known by `step` and `n`, tokens by `enqueued_seq`, loops
    by `run`; new ones follow the others in this order. An outline has the latest 100 loops: when the first ones make
    room for new ones, `loop` of other step runs falls by their number, down to -1. Places are those of the whole
    outline. A part that is missing has not changed."""

    seq: int
    status: Status
    ended: str | None = None
    steps: list[str] | None = None
    digests: list[list[int | str]] | None = None
    runs: StepRunColumns | None = None
    parked: ParkedColumns | None = None
    tokens: TokenColumns | None = None
    loops: list[LoopOutline] = []
    arcs: list[ArcOutline] = []
    markers: list[Marker] = []


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes since the previous frame. With `reload`, that is too much: load the outline and the state again.
    `rows` are the latest 50 events: seq, milliseconds since 1970, type, subject, status, summary. If `ctx_keys` and
    `waits` do not fit even into a frame without rows, they are left out."""

    seq: int
    timestamp: str
    status: Status
    activity: str
    new_events: int
    rows: list[list[Any]]
    outline: OutlineChange
    ctx_keys: list[str]
    waits: list[Wait]
    last_log_line: int
    reload: bool = False


class EncodedFrame(NamedTuple):
    after: int  # seq of the frame before
    seq: int
    message: bytes  # as streams send it

    @classmethod
    def of(cls, after: int, seq: int, data: bytes) -> EncodedFrame:
        return cls(after, seq, b"id: %d\ndata: %b\n\n" % (seq, data))


class LiveOutline:
    """The outline of a running execution, and its changes by new events."""

    def __init__(self, execution: str, fold: OutlineFold, last: Block | None) -> None:
        self.execution, self.fold = execution, fold
        self._writer = OutlineWriter(last)

    @property
    def seq(self) -> int:
        return self.fold.seq

    def add(self, events: Sequence[tuple[Row, e.Event]]) -> None:
        for row, event in events:
            for block in self._writer.extend((event,), row.at):
                self.fold.add(block)
        if self._writer.block.events:
            self.fold.add(self._writer.finish())

    def change(self, events: Sequence[tuple[Row, e.Event]], status: Status) -> OutlineChange:
        """The changes by these events, the latest ones of the log."""
        writer = OutlineWriter(first=events[0][0].seq)
        blocks = [block for row, event in events for block in writer.extend((event,), row.at)]
        blocks += [writer.finish()] if writer.block.events else []
        fold, first, places = self.fold, events[0][0].seq, Places(self.fold)
        stops = {block.first + offset for block in blocks for offset in block.stops}
        runs = {name for block in blocks for name in run_names(block)}
        runs |= {name for name, run in fold.runs.items() if run.ended_seq in stops}
        if any(block.forks for block in blocks):  # it ends the leases of all
            runs |= {name for name, run in fold.runs.items() if not run.ended_seq}
        rows = [run for name, run in fold.runs.items() if name in runs]
        touched = {number for block in blocks for number in _tokens(block)}
        tokens = [token for number, token in fold.tokens.items() if number in touched or token.consumed_seq in stops]
        arcs = {(block.steps[step], arc) for block in blocks for step, arc in _pairs(block.arcs)}
        loops = {run_names(block)[part.run] for block in blocks for part in block.loops}
        if stops:  # they end the items in flight of every loop
            loops |= {name for name, loop in fold.loops.items() if loop.points and loop.points[-1][0] >= first}
        waits = [wait for name in runs for wait in fold.waits.get(name, ())]
        digests: list[list[int | str]] = [[seq, digest] for seq, digest in fold.digests if seq >= first]
        return OutlineChange(
            fold.seq,
            status,
            optional_rfc3339(None if fold.ended_ms is None else fold.ended_ms / 1000),
            list(fold.step_names) if any(block.tokens or block.scheduled for block in blocks) else None,
            digests or None,
            step_run_columns(rows, fold, places) if rows and fold.has_rows else None,
            parked_columns(waits, places) if waits and fold.has_rows else None,
            token_columns(tokens, places) if tokens and fold.has_rows else None,
            [_progress(fold, name, first) for name in places.loops if name in loops],
            [ArcOutline(*arc, *fold.arcs[arc]) for arc in sorted(arcs)],
            [Marker(*marker) for marker in fold.markers if marker[0] >= first],
        )


def _tokens(block: Block) -> Iterator[int]:
    yield from block.tokens[::4]
    yield from block.held[::3]
    for _, _, tokens in block.scheduled:
        yield from tokens


def _pairs(arcs: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(arcs[::4], arcs[1::4], strict=True)


def _progress(fold: OutlineFold, name: str, first: int) -> LoopOutline:
    """The points of a loop since an event, the latest one at least; all of its waits."""
    loop = fold.loops[name]
    points = [point for point in loop.points if point[0] >= first] or loop.points[-1:]
    columns = ([point[place] for point in points] for place in range(4))
    return LoopOutline(name, loop.total, ProgressColumns(*columns), loop_waits(loop, fold))


def ctx_keys(events: Sequence[e.Event]) -> list[str]:
    """The keys of ctx that the events have changed."""
    patches = (getattr(event, name, ()) for event in events for name in ("set_ctx", "patch"))
    return sorted({key for patch in patches for key, *_ in patch})


class Feed:
    """The frames of one execution, while clients follow it."""

    def __init__(
        self, execution: str, clock: Clock, outlines: Outlines, reader: SecondConnection, followed: Followed
    ) -> None:
        self.execution, self._clock, self._outlines = execution, clock, outlines
        self._reader, self._followed = reader, followed
        self.clients = 0
        self.frames: deque[EncodedFrame] = deque(maxlen=MAX_FRAMES)
        self.ended = False
        self.changed = asyncio.Event()  # set when clients have something to do, and replaced by a new one
        self._missed: dict[int, asyncio.Future[EncodedFrame]] = {}  # up to the latest frame, by the seq of clients
        self._live: LiveOutline | None = None
        self.task = asyncio.create_task(self._run())

    @property
    def seq(self) -> int:
        return self.frames[-1].seq if self.frames else 0

    @property
    def has_failed(self) -> bool:
        """Whether the store was unavailable; there will be no more frames."""
        return self.task.done() and not self.task.cancelled() and self.task.exception() is not None

    async def _run(self) -> None:
        while not self.ended:
            changed = self._followed.changed
            frames, self.ended = await self._reader.do(self._make)
            if frames:
                self.frames += frames  # not in the thread: streams iterate over them
                self._missed = {}
                self.wake()
                await asyncio.sleep(FRAME_SECONDS)
            else:
                await changed.wait()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def next_frame(self, after: int) -> EncodedFrame:
        """The frame after a seq, or one for all that were missed. Clients at the same seq share it."""
        for frame in reversed(self.frames):
            if frame.after == after:
                return frame
            if frame.after < after:
                break
        missed = self._missed.get(after)
        if missed is None:
            missed = self._missed[after] = asyncio.ensure_future(
                self._reader.do(lambda store: self._make_missed(store, after))
            )
            missed.add_done_callback(lambda task: task.cancelled() or task.exception())  # clients may have left
        return await asyncio.shield(missed)

    def _make(self, store: Store) -> tuple[list[EncodedFrame], bool]:
        """The next frame, if anything has changed, and whether the execution has ended."""
        frames: list[EncodedFrame] = []
        if self._live is None:
            self._live = LiveOutline(self.execution, *self._outlines.fold_with_last(store, self.execution))
            frames.append(EncodedFrame(-1, self._live.seq, b""))  # clients of that outline continue here
        after = self._live.seq
        if events := _read(store, self.execution, after, MAX_EVENTS_PER_FRAME):
            self._live.add(events)
            frames.append(EncodedFrame.of(after, self._live.seq, self._encoded(store, events)))
        elif not frames and store.seq(self.execution) < max(1, after):
            raise NotFound(f"execution {self.execution!r} not found")  # it was pruned a moment ago
        return frames, self._live.fold.ended_ms is not None

    def _make_missed(self, store: Store, after: int) -> EncodedFrame:
        """One frame for everything after a seq."""
        assert self._live is not None
        seq = self._live.seq
        if after == NOWHERE or seq - after > MAX_EVENTS_PER_FRAME:
            return EncodedFrame.of(after, seq, self._encoded(store, [], seq - max(0, after)))
        return EncodedFrame.of(after, seq, self._encoded(store, _read(store, self.execution, after, seq - after)))

    def _encoded(self, store: Store, events: Sequence[tuple[Row, e.Event]], left_out: int = 0) -> bytes:
        assert self._live is not None
        fold = self._live.fold
        (summary,) = store.summaries(prefix=self.execution, limit=1) or [Summary(self.execution, "", "", "running", 0)]
        status, doing = shown_status(fold, summary), listed(store, summary, self._clock.now())

        def frame(rows: int, outline: OutlineChange, keys: list[str], waits: list[Wait], reload: bool) -> bytes:
            latest = [list(event_row(row.seq, row.at, event)) for row, event in events[-rows:]] if rows else []
            last_line = next((line[0] for line in store.output_before(self.execution, NO_LIMIT, 1)), 0)
            moment = rfc3339(fold.now_ms / 1000)
            about = doing.activity, len(events) or left_out
            return encode_json(Frame(fold.seq, moment, status, *about, latest, outline, keys, waits, last_line, reload))

        keys, waits = ctx_keys([event for _, event in events]), doing.details.waits
        if events:
            change = self._live.change(events, status)
            for rows in (MAX_ROWS, 10):
                data = frame(rows, change, keys, waits, reload=False)
                if len(data) <= MAX_FRAME_BYTES:
                    return data
        nothing = OutlineChange(fold.seq, status)
        data = frame(0, nothing, keys, waits, reload=True)
        return data if len(data) <= MAX_FRAME_BYTES else frame(0, nothing, [], [], reload=True)


def _read(store: Store, execution: str, after: int, limit: int) -> list[tuple[Row, e.Event]]:
    return [(row, decode(row.type, row.data)) for row in store.read(execution, after, limit)]


class Feeds:
    def __init__(self, streams: Streams, clock: Clock, outlines: Outlines, reader: SecondConnection) -> None:
        self._streams, self._clock, self._outlines, self._reader = streams, clock, outlines, reader
        self._feeds: dict[str, Feed] = {}
        self._waking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def _following(self, execution: str) -> AsyncIterator[Feed]:
        with self._streams.following(execution) as followed:
            feed = self._feeds.get(execution)
            if feed is None or feed.has_failed:
                feed = self._feeds[execution] = Feed(execution, self._clock, self._outlines, self._reader, followed)
            if self._waking is None or self._waking.done():
                self._waking = asyncio.create_task(self._wake_all())
            feed.clients += 1
            try:
                yield feed
            finally:
                feed.clients -= 1
                if not feed.clients:
                    if self._feeds.get(execution) is feed:
                        del self._feeds[execution]
                    feed.task.cancel()
                    await asyncio.wait([feed.task])

    async def _wake_all(self) -> None:
        """Wake the clients of all feeds periodically, so that none of them needs a timer."""
        while self._feeds and not self._streams.closing.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._streams.closing.wait()
            for feed in self._feeds.values():
                feed.wake()

    async def stream(self, execution: str, after: int, is_authorized: IsAuthorized) -> AsyncIterator[bytes]:
        """The frames after a seq, until the execution has ended or the client is not authorized any more."""
        now = asyncio.get_running_loop().time
        yield HEAD
        checked = last_sent = now()
        async with self._following(execution) as feed:
            while not self._streams.closing.is_set():
                changed = feed.changed
                while after < feed.seq:
                    frame = await feed.next_frame(after)
                    yield frame.message
                    after, last_sent = frame.seq, now()
                if feed.has_failed:
                    return  # the store is unavailable; the client reconnects
                if feed.ended and after >= feed.seq:
                    yield END
                    return
                await changed.wait()
                if now() - checked >= CHECK_SECONDS:
                    checked = now()
                    if not await is_authorized():
                        return
                if now() - last_sent >= KEEP_ALIVE_SECONDS:
                    yield b": keep-alive\n\n"
                    last_sent = now()
