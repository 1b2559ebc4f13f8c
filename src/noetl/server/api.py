"""The parts of a server that its endpoints use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from noetl.clock import Clock
from noetl.engine.state import Execution
from noetl.host.server_host import ServerHost
from noetl.keychain.safe import Safe
from noetl.log import Log
from noetl.runtime.store_thread import StoreThread
from noetl.server.auth import Authenticator
from noetl.server.call import BodyMemory
from noetl.server.health import Health
from noetl.server.metrics import Metrics
from noetl.server.observer import Observer
from noetl.server.options import ServerSettings
from noetl.server.playbooks import Playbooks
from noetl.server.problems import Refused
from noetl.server.scheduler import Scheduler
from noetl.server.sessions import Sessions
from noetl.server.sse import Streams
from noetl.server.start_once import start_once
from noetl.server.throttle import Throttle
from noetl.server.traces import Traces, open_traces
from noetl.server.upkeep import Upkeep
from noetl.store.store import Store, Summary
from noetl.triggers.hooks import Decoy

Result = TypeVar("Result")


class Api:
    def __init__(self, store: Store, clock: Clock, settings: ServerSettings) -> None:
        self.store, self.clock, self.settings = store, clock, settings
        self.thread = thread = StoreThread()
        self.log = settings.log or Log()
        self.metrics = Metrics()
        self.playbooks = Playbooks(store, thread, nats=settings.bus is not None)
        self.traces: Traces | None = None
        if settings.traces:
            self.traces = open_traces(settings.traces, store, thread.ask, settings.version)
        self.streams = Streams(store, thread.ask)
        observer = Observer(self.log, self.metrics, self.traces, self.streams.wake)
        self.host = ServerHost(
            self.playbooks.loaded,
            clock,
            self.playbooks.find,
            on_error=lambda message, execution: self.log.write("error", message, execution_id=execution),
            open_credential=settings.open_credential,
            connection=settings.bus,
            on_events=[observer.on_events],
            on_commit=[observer.on_commit],
        )
        self.runtime = self.host.runtime
        self.sessions = Sessions(store.access, thread.ask, settings.bus)
        self.authenticator = Authenticator(store.access, self.sessions, clock, thread.ask)
        self.throttle = Throttle(clock)
        self.hashing = asyncio.Semaphore(1)
        """Passwords are checked one at a time: each check takes a core and 19 MB."""
        self.anonymous_bodies = BodyMemory()
        self.decoy = Decoy()
        self.upkeep = Upkeep(store, thread.ask)
        self.health = Health(store, settings.bus, thread.ask, self.log)
        self.scheduler = Scheduler(store, thread, clock, self.log, partial(start_once, self))
        self.closing = asyncio.Event()
        """Set when the server is about to stop: long polls and event streams end."""

    async def in_store(self, query: Callable[..., Result], *arguments: Any) -> Result:
        """Run a store query in the store's thread."""
        return await self.thread.ask(query, *arguments)

    def safe(self) -> Safe:
        if self.settings.safe is None:
            raise Refused(503, "this server has no master key to encrypt credentials with")
        return self.settings.safe

    async def load(self, execution: str) -> tuple[Execution, Summary]:
        """An execution as it is stored now, also if another server has changed it; NotFound if there is none."""
        executions = self.runtime.executions
        loaded = executions.get(execution)
        seq = loaded.state.seq if loaded is not None and loaded.state.over else None
        if loaded is not None and seq is not None and await self.in_store(self.store.seq, execution) == seq:
            state = loaded.state  # it has ended, so nothing changes any more
        else:
            state = await self.runtime.committer.stored_state(execution)
            loaded = executions.get(execution)
        if loaded is not None and loaded.summary is not None:
            return state, loaded.summary
        (summary,) = await self.in_store(lambda: self.store.summaries(prefix=execution, limit=1))
        return state, summary

    async def load_ended(self, execution: str) -> tuple[Execution, Summary]:
        """The same after its end was awaited; without a store query if the end is known to be stored."""
        loaded = self.runtime.executions.get(execution)
        if loaded is not None and loaded.summary and loaded.state.over and loaded.stored_seq == loaded.state.seq:
            return loaded.state, loaded.summary
        return await self.load(execution)

    def stop(self) -> None:
        """End long polls and event streams, so that the server can stop."""
        self.closing.set()
        self.streams.wake_all()
        self.playbooks.stop()
        self.host.release_waiters()

    def close(self) -> None:
        self.stop()
        self.playbooks.close()
        self.upkeep.close()
        self.thread.shutdown()
