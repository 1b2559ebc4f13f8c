"""The engine of this process on a database: runs executions to their end, and shows their progress."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.client.client import Json, ProgressView, Warn, print_warnings
from noetl.client.database import json_of, opener
from noetl.clock import SystemClock
from noetl.engine.signal_fields import signal_commands
from noetl.engine.state import Execution
from noetl.errors import Interrupted, StoreError
from noetl.host.embedded import FOREIGN_CHANGES_SECONDS, Embedded
from noetl.runtime.catalog import Catalog, PlaybookSource
from noetl.runtime.event_envelopes import EventEnvelopes
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.outlines import Outlines
from noetl.runtime.runtime import Runtime
from noetl.server.execution_views import execution_view
from noetl.server.stored_details import stored_details
from noetl.server.worker_views import missing_pools
from noetl.settings import NatsSettings, nats_settings
from noetl.store.store import Row, Store, Summary
from noetl.tools.registry import KINDS
from noetl.worker.playbook_cache import File

if TYPE_CHECKING:
    from noetl.nats.connection import WriteLog
    from noetl.nats.objects import ObjectBuckets

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FRAME_SECONDS = 1 / 15  # minimum time between two reads of the log, so that showing a fast run costs next to nothing
IDLE_FRAME_SECONDS = 0.25  # how often a view is updated while nothing happens


class Engine(NamedTuple):
    embedded: Embedded
    catalog: Catalog

    @property
    def runtime(self) -> Runtime:
        return self.embedded.runtime

    def run(self, state: Execution, summary: Summary | None = None) -> Json:
        """The body of `GET /executions/{id}`, and fields that only the database of a run has."""
        summary = summary or self.runtime.executions[state.id].summary
        assert summary is not None
        source = self.catalog.source(state.digest)
        now, missing = SystemClock().now(), []
        if state.ready and not summary.local:  # a server runs it
            missing = missing_pools(state, self.runtime.store.workers(), now)
        store, file = self.runtime.store, File(source.display_path, "", source.places)
        details = stored_details(store, state, summary.path, Outlines(), store.count_related(state.id))
        run = json_of(execution_view(state, summary, details, file, now, missing))
        return run | {"error_line": error_line(run["error"], source)}


def error_line(error: Json | None, source: PlaybookSource) -> str:
    """The line of the playbook with the error; empty if it is not known, or in another file."""
    elsewhere = error is None or "file" in error["details"].get("source", {})
    return "" if error is None or elsewhere or not error["line"] else source.line(error["line"])


@asynccontextmanager
async def engine(store: Store, warn: Warn) -> AsyncIterator[Engine]:
    """An engine that stops its work and closes the database when the block ends."""
    playbooks, clock = LoadedPlaybooks(store), SystemClock()
    async with object_buckets(nats_settings(), lambda level, text: warn(f"noetl: {text}")) as buckets:
        catalog = Catalog(playbooks, nats=buckets is not None)
        open_credential = opener(store)
        KINDS.join()  # the embedded engine closes it: another one in this loop may be using it
        embedded = Embedded(
            playbooks,
            KINDS,
            clock,
            catalog.find,
            open_credential=open_credential,
            buckets=buckets,
            on_warnings=lambda state: _print_warnings(state, warn),
        )
        try:
            yield Engine(embedded, catalog)
        finally:
            await embedded.close()


def _print_warnings(state: Execution, warn: Warn) -> None:
    """Print the warnings about the payload of a run or of one of its children."""
    child = f"{state.net.playbook.path}: " if state.parent is not None else ""
    print_warnings([f"{child}{warning}" for warning in state.warnings], warn)


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
    engine: Engine, state: Execution, view: ProgressView | None, resume_command: str, last_old: int
) -> Execution:
    """Drive an execution to its end. Events after `last_old` are new to the view."""
    follower = Follower(engine, state, view, last_old)
    showing = asyncio.create_task(follower.show_all()) if view is not None else None
    try:
        while not (state := await engine.embedded.drive(state.id)).over:
            # it is paused: another process may resume or cancel it
            await asyncio.sleep(FOREIGN_CHANGES_SECONDS)
            await engine.embedded.refresh(state.id)
        return state
    except StoreError as error:
        raise StoreError(f"{error}; once that is fixed, continue with `{resume_command}`") from error
    finally:
        if showing is not None:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
            await follower.close()


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

    def __init__(self, engine: Engine, state: Execution, view: ProgressView | None, last_old: int = 0) -> None:
        self.runtime, self.execution, self.view, self.seq = engine.runtime, state.id, view or ProgressView(), 0
        self.envelopes = EventEnvelopes(self.runtime.store, state.id)
        commands = partial(signal_commands, state.net, state.id)
        self.view.begin(state.net.playbook.name, state.id, last_old, commands)

    async def show_all(self) -> None:
        """Show new events of this process until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_FRAME_SECONDS):
                    await self.runtime.committer.committed.wait()
            await asyncio.sleep(FRAME_SECONDS)
            await self.show_new()

    async def show_new(self) -> list[Row]:
        rows = await self.runtime.thread.ask(self.runtime.store.read, self.execution, self.seq)
        self.seq = rows[-1].seq if rows else self.seq
        self.view.show(rows, lambda: self.envelopes.of(rows))
        return rows

    async def close(self) -> None:
        """Show the remaining events."""
        try:
            await self.show_new()
        finally:
            self.view.close()
