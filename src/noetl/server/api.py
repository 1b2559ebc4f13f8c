"""What all endpoints share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from noetl.engine.state import Execution
from noetl.log import Log
from noetl.runtime.runtime import Refresh
from noetl.server.auth import Doors
from noetl.server.bodies import BodyMemory
from noetl.server.health import Health
from noetl.server.hooks import Decoy
from noetl.server.metrics import Metrics
from noetl.server.options import ServerSettings
from noetl.server.playbooks import Playbooks
from noetl.server.scheduler import Scheduler
from noetl.server.service import Service
from noetl.server.sessions import Sessions
from noetl.server.sse import Streams
from noetl.server.throttle import Throttle
from noetl.server.traces import Traces, open_traces
from noetl.server.upkeep import Upkeep
from noetl.server.watch import Watch
from noetl.store.ports import Summary

Answer = TypeVar("Answer")


class Api:
    """A server's engine with what stands around it."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self.service, self.settings = service, settings
        self.runtime, self.store, self.clock = service.runtime, service.store, service.clock
        self.playbooks = Playbooks(service.runtime)
        service.family.find = self.playbooks.find
        self.sessions = Sessions(service.store.access, self.in_store, settings.bus)
        self.doors = Doors(service.store.access, self.sessions, service.clock, self.in_store)
        self.throttle = Throttle(service.clock)
        self.hashing = asyncio.Semaphore(1)
        """Passwords are checked one at a time: each takes a core and 19 MB."""
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
        watch = Watch(service.runtime.told, self.log, self.metrics, self.traces, self.streams.moved)
        service.runtime.told, service.runtime.committed = watch.told, watch.committed
        self.scheduler = Scheduler(self)
        self.closing = asyncio.Event()
        """Set when the server is about to stop: who waits or follows is sent away."""

    async def in_store(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        """Ask the store, in its own thread."""
        return await self.runtime.thread.ask(ask, *arguments)

    async def look(self, execution: str) -> tuple[Execution, Summary]:
        """An execution as it is stored at this moment, whoever has written to it; NotFound if there is none."""
        cell = self.runtime.cells.get(execution)
        if cell is not None and cell.state.over and await self.in_store(self.store.seq, execution) == cell.state.seq:
            state = cell.state  # the end is stored: nothing will change any more
        else:
            state = (await self.runtime.handle(execution, Refresh())).state
            cell = self.runtime.cells.get(execution)
        if cell is not None and cell.summary is not None:
            return state, cell.summary
        (summary,) = await self.in_store(lambda: self.store.summaries(prefix=execution, limit=1))
        return state, summary

    async def look_at_end(self, execution: str) -> tuple[Execution, Summary]:
        """The same for who has just waited for the end: if it is known to be stored, nobody has to be asked."""
        cell = self.runtime.cells.get(execution)
        if cell is not None and cell.summary is not None and cell.state.over and cell.stored == cell.state.seq:
            return cell.state, cell.summary
        return await self.look(execution)

    def stop(self) -> None:
        """Send away who waits or follows, so that the server can end."""
        self.closing.set()
        self.streams.wake_all()
        self.playbooks.stop()
        self.service.let_go()

    def close(self) -> None:
        self.stop()
        self.playbooks.close()
        self.upkeep.close()
