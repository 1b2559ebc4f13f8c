"""The engine of this process on a database: runs executions to their end, and shows them on the way."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.client.database import opener
from noetl.client.ports import Json, ProgressView, Warn
from noetl.client.run_views import event_view, run_view
from noetl.clock import SystemClock
from noetl.engine.state import Execution
from noetl.errors import Interrupted, StoreError
from noetl.host.embedded import FOREIGN_CHANGES_SECONDS, Embedded
from noetl.runtime.catalog import Catalog
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.settings import NatsSettings, nats_settings
from noetl.store.store import Row, Store, Summary
from noetl.tools.registry import KINDS

if TYPE_CHECKING:
    from noetl.nats.connection import WriteLog
    from noetl.nats.objects import ObjectBuckets

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FRAME_SECONDS = 1 / 15
"""Minimum time between two looks at the log, so that showing a fast run costs next to nothing."""
IDLE_FRAME_SECONDS = 0.25
"""How often a view is updated while nothing happens."""


class Engine(NamedTuple):
    """The engine on a database, and the playbooks it has loaded."""

    embedded: Embedded
    catalog: Catalog

    @property
    def runtime(self) -> Runtime:
        return self.embedded.runtime

    def run(self, state: Execution, summary: Summary | None = None) -> Json:
        summary = summary or self.runtime.executions[state.id].summary
        assert summary is not None
        return run_view(state, summary, self.catalog.source(state.digest))


@asynccontextmanager
async def engine(store: Store, warn: Warn) -> AsyncIterator[Engine]:
    """An engine that stops its work when the block ends; the database stays open."""
    playbooks, clock = LoadedPlaybooks(store), SystemClock()
    async with object_buckets(nats_settings(), lambda level, text: warn(f"noetl: {text}")) as buckets:
        catalog = Catalog(playbooks, nats=buckets is not None)
        open_credential = opener(store)
        embedded = Embedded(playbooks, KINDS, clock, catalog.find, open_credential=open_credential, buckets=buckets)
        try:
            yield Engine(embedded, catalog)
        finally:
            await embedded.close()


@asynccontextmanager
async def object_buckets(nats: NatsSettings | None, write_log: WriteLog) -> AsyncIterator[ObjectBuckets | None]:
    """Buckets of NATS for large values; None without NATS."""
    if nats is None:
        yield None
        return
    from noetl.nats.connection import NatsConnection
    from noetl.nats.objects import ObjectBuckets

    connection = NatsConnection(nats, write_log)
    running = asyncio.create_task(connection.run())
    try:
        yield ObjectBuckets(connection)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def run_to_end(
    engine: Engine,
    execution: str,
    view: ProgressView | None,
    resume_command: str,
    begin: Awaitable[Execution],
    seen: int = 0,
) -> Execution:
    """Begin and drive to the end. Interrupted after a signal; `resume_command` continues the run then."""
    with interruptible(f"interrupted; continue with `{resume_command}`"):
        state = await begin
        follower = Follower(engine, state, view, seen) if view is not None else None
        try:
            if follower is not None:
                follower.start()
            return await _drive(engine.embedded, execution)
        except StoreError as error:
            raise StoreError(f"{error}; once that is fixed, continue with `{resume_command}`") from error
        finally:
            if follower is not None:
                await follower.close()


async def _drive(embedded: Embedded, execution: str) -> Execution:
    """While the run is paused, check whether another process resumes or cancels it."""
    while True:
        state = await embedded.drive(execution)
        if state.over:
            return state
        await asyncio.sleep(FOREIGN_CHANGES_SECONDS)
        await embedded.refresh(execution)


_interruptible: set[asyncio.Task[Any]] = set()


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block, and such blocks of other tasks, with Interrupted; a second signal kills the
    process."""
    loop, current = asyncio.get_running_loop(), asyncio.current_task()
    assert current is not None

    def stop() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        for task in _interruptible:
            task.cancel()

    if not _interruptible:
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
    _interruptible.add(current)
    try:
        yield
    except asyncio.CancelledError:
        raise Interrupted(message) from None
    finally:
        _interruptible.discard(current)
        if not _interruptible:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


class Follower:
    """Reads new events of a log, and hands them to a view. It reads the log and not the engine, so that a run of
    another process is shown in the same way."""

    def __init__(self, engine: Engine, state: Execution, view: ProgressView | None, seen: int = 0) -> None:
        self.runtime, self.execution, self.view = engine.runtime, state.id, view
        self.seq = 0
        self.task: asyncio.Task[None] | None = None
        if view is not None:
            view.begin(state.net.playbook.name, state.id, seen)

    def start(self) -> None:
        """Show new events in the background."""
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_FRAME_SECONDS):
                    await self.runtime.committer.committed.wait()
            await asyncio.sleep(FRAME_SECONDS)
            await self.show_new()

    async def show_new(self) -> list[Row]:
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self.runtime.thread, self.runtime.store.read, self.execution, self.seq)
        self.seq = rows[-1].seq if rows else self.seq
        if self.view is not None:
            self.view.show(rows, lambda: [event_view(self.execution, row) for row in rows])
        return rows

    async def close(self) -> None:
        """Show the remaining events."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        try:
            await self.show_new()
        finally:
            self.close_view()

    def close_view(self) -> None:
        if self.view is not None:
            self.view.close()
