"""The parts of a server that its endpoints use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from noetl.engine.state import Execution
from noetl.keychain.safe import Safe
from noetl.log import Log
from noetl.runtime.runtime import Refresh
from noetl.server.auth import Authenticator
from noetl.server.bodies import BodyMemory
from noetl.server.health import Health
from noetl.server.metrics import Metrics
from noetl.server.observer import Observer
from noetl.server.options import ServerSettings
from noetl.server.playbooks import Playbooks
from noetl.server.problems import Refused
from noetl.server.scheduler import Scheduler
from noetl.server.service import Service
from noetl.server.sessions import Sessions
from noetl.server.sse import Streams
from noetl.server.throttle import Throttle
from noetl.server.traces import Traces, open_traces
from noetl.server.upkeep import Upkeep
from noetl.store.ports import Summary
from noetl.triggers.hooks import Decoy

Result = TypeVar("Result")


class Api:
    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self.service, self.settings = service, settings
        self.runtime, self.store, self.clock = service.runtime, service.store, service.clock
        self.playbooks = Playbooks(service.runtime)
        service.family.find = self.playbooks.find
        self.sessions = Sessions(service.store.access, self.in_store, settings.bus)
        self.authenticator = Authenticator(service.store.access, self.sessions, service.clock, self.in_store)
        self.throttle = Throttle(service.clock)
        self.hashing = asyncio.Semaphore(1)
        """Passwords are checked one at a time: each check takes a core and 19 MB."""
        self.anonymous_bodies = BodyMemory()
        self.decoy = Decoy()
        self.metrics = Metrics()
        self.log = settings.log or Log()
        self.upkeep = Upkeep(service.store, self.in_store)
        self.health = Health(service.store, settings.bus, self.in_store, self.log)
        self.traces: Traces | None = None
        if settings.traces:
            self.traces = open_traces(settings.traces, service.store, self.in_store, settings.version)
        self.streams = Streams(service.store, self.in_store)
        observer = Observer(service.runtime.told, self.log, self.metrics, self.traces, self.streams.wake)
        service.runtime.told, service.runtime.committed = observer.on_events, observer.on_commit
        self.scheduler = Scheduler(self)
        self.closing = asyncio.Event()
        """Set when the server is about to stop: long polls and event streams end."""

    async def in_store(self, query: Callable[..., Result], *arguments: Any) -> Result:
        """Run a store query in the store's thread."""
        return await self.runtime.thread.ask(query, *arguments)

    def safe(self) -> Safe:
        if self.settings.safe is None:
            raise Refused(503, "this server has no master key to encrypt credentials with")
        return self.settings.safe

    async def load(self, execution: str) -> tuple[Execution, Summary]:
        """An execution as it is stored now, also if another server has changed it; NotFound if there is none."""
        cell = self.runtime.cells.get(execution)
        if cell is not None and cell.state.over and await self.in_store(self.store.seq, execution) == cell.state.seq:
            state = cell.state  # it has ended, so nothing changes any more
        else:
            state = (await self.runtime.handle(execution, Refresh())).state
            cell = self.runtime.cells.get(execution)
        if cell is not None and cell.summary is not None:
            return state, cell.summary
        (summary,) = await self.in_store(lambda: self.store.summaries(prefix=execution, limit=1))
        return state, summary

    async def load_ended(self, execution: str) -> tuple[Execution, Summary]:
        """The same after its end was awaited; without a store query if the end is known to be stored."""
        cell = self.runtime.cells.get(execution)
        if cell is not None and cell.summary is not None and cell.state.over and cell.stored == cell.state.seq:
            return cell.state, cell.summary
        return await self.load(execution)

    def stop(self) -> None:
        """End long polls and event streams, so that the server can stop."""
        self.closing.set()
        self.streams.wake_all()
        self.playbooks.stop()
        self.service.let_go()

    def close(self) -> None:
        self.stop()
        self.playbooks.close()
        self.upkeep.close()
