"""The parts of a server that its endpoints use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from noetl.clock import Clock
from noetl.engine.state import Execution
from noetl.host.server_host import ServerHost
from noetl.model.actor import Actor
from noetl.runtime.store_thread import StoreThread
from noetl.server.auth import Authenticator
from noetl.server.graphs import Graphs
from noetl.server.health import Health
from noetl.server.histories import Histories
from noetl.server.language import LanguageDescription
from noetl.server.maintenance import Maintenance
from noetl.server.page_files import PageFolder
from noetl.server.playbooks import Playbooks
from noetl.server.problems import Refused
from noetl.server.record_views import stored_summary
from noetl.server.scheduler import Scheduler
from noetl.server.server_settings import ServerSettings
from noetl.server.sessions import Sessions
from noetl.server.sse import Streams
from noetl.server.telemetry import Telemetry
from noetl.server.traces import Traces
from noetl.store.store import Store, Summary

if TYPE_CHECKING:
    from noetl.keychain.safe import Safe


class Api:
    def __init__(self, store: Store, clock: Clock, settings: ServerSettings) -> None:
        self.store, self.clock, self.settings, self.started = store, clock, settings, clock.now()
        self.page = PageFolder(settings.page)
        self.stop_requested = asyncio.Event()  # the runner of the server shuts it down then
        self.thread = StoreThread()
        in_store, log = self.thread.ask, settings.log
        traces = Traces(settings.traces, store, in_store, settings.version) if settings.traces else None
        self.telemetry = Telemetry(log, traces)
        self.playbooks = Playbooks(store, self.thread, nats=settings.bus is not None)
        self.graphs = Graphs(store, self.thread, self.playbooks.compiler)
        self.language = LanguageDescription(self.playbooks.compiler)
        self.streams = Streams(store, in_store)
        self.histories = Histories(store, clock, in_store, self.streams)
        self.host = ServerHost(
            self.playbooks.loaded,
            clock,
            self.playbooks.find,
            on_error=lambda message, execution: log.write("error", message, execution_id=execution),
            open_credential=settings.open_credential,
            connection=settings.bus,
            on_events=[self.streams.on_events, self.telemetry.on_events],
            on_commit=[self.telemetry.on_commit],
        )
        sessions = Sessions(store.access, in_store, settings.bus)
        self.authenticator = Authenticator(store.access, sessions, clock, in_store)
        self.maintenance = Maintenance(store, in_store)
        self.health = Health(store, settings.bus, in_store, log)
        self.scheduler = Scheduler(store, self.thread, clock, log, self.start_once)

    def safe(self) -> Safe:
        if self.settings.safe is None:
            raise Refused(503, "this server has no master key to encrypt credentials with")
        return self.settings.safe

    async def load(self, execution: str) -> tuple[Execution, Summary]:
        """An execution as it is stored now, also if another server has changed it; NotFound if there is none."""
        runtime = self.host.runtime
        loaded = runtime.executions.get(execution)
        seq = loaded.state.seq if loaded is not None and loaded.state.over else None
        if loaded is not None and seq is not None and await self.thread.ask(self.store.seq, execution) == seq:
            state = loaded.state  # it has ended, so nothing changes any more
        else:
            state = await runtime.committer.stored_state(execution)
            loaded = runtime.executions.get(execution)
        if loaded is not None and loaded.summary is not None:
            return state, loaded.summary
        return state, await self.thread.ask(stored_summary, self.store, execution)

    async def load_ended(self, execution: str) -> tuple[Execution, Summary]:
        """The same after its end was awaited; without a store query if the end is known to be stored."""
        loaded = self.host.runtime.executions.get(execution)
        if loaded is not None and loaded.summary and loaded.state.over and loaded.stored_seq == loaded.state.seq:
            return loaded.state, loaded.summary
        return await self.load(execution)

    async def is_started(self, execution: str) -> bool:
        return execution in self.host.runtime.executions or bool(await self.thread.ask(self.store.seq, execution))

    async def start_once(
        self, execution: str, path: str, version: int | None, payload: dict[str, Any], ctx: dict[str, Any], actor: Actor
    ) -> list[str]:
        """Start an execution of a registered playbook, unless it was started before; NoetlError if it cannot start.
        Returns the warnings about its payload."""
        if await self.is_started(execution):
            return list((await self.load(execution))[0].warnings)
        runtime, digest = self.host.runtime, await self.playbooks.registered(path, version)
        await self.playbooks.check_keychain(runtime.playbooks.get(digest).playbook)
        if execution not in runtime.executions:  # else it was started in the meantime
            await runtime.start(digest, payload, ctx, execution, actor=actor)
        return list((await runtime.executions.state(execution)).warnings)

    def stop(self) -> None:
        self.streams.stop()
        self.playbooks.compiler.stop()
        self.host.release_waiters()

    def close(self) -> None:
        self.stop()
        self.playbooks.compiler.close()
        self.maintenance.close()
        self.host.runtime.past.close()
        self.histories.close()
        self.thread.shutdown()
