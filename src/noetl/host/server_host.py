"""The engine of a server: it serves all executions of a store, and any number of servers may share the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from noetl.clock import Clock
from noetl.engine.commands import TimerDue
from noetl.engine.state import Execution
from noetl.host.background import BackgroundCommands, Backoff, OnError, keep_running
from noetl.host.children import ChildExecutions, Families, FindPlaybook
from noetl.host.dispatcher import MAX_QUEUED, Dispatcher, ReadyQueue, StoredWork
from noetl.host.heartbeats import Heartbeats, StallDetector
from noetl.host.recovery import Recovery
from noetl.host.waiters import Waiters
from noetl.runtime.committer import OnCommit, OnEvents
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.past import Past
from noetl.runtime.runtime import OpenCredential, Runtime, no_credentials

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

TICK_SECONDS = 0.1  # interval of the scans for due timers and for changes by other servers
REAP_SECONDS = 1.0
RECOVER_SECONDS = 1.5
SWEEP_SECONDS = 30.0
OBSERVE_SECONDS = 1.0
MAX_IDLE_EXECUTIONS = 1_000  # executions without leases that stay in memory; others are loaded when they are needed


class ServerHost:
    """A runtime, a dispatcher for workers, and the background loops."""

    def __init__(
        self,
        playbooks: LoadedPlaybooks,
        clock: Clock,
        find_playbook: FindPlaybook,
        *,
        on_error: OnError,
        open_credential: OpenCredential = no_credentials,
        connection: NatsConnection | None = None,
        on_events: Sequence[OnEvents] = (),
        on_commit: Sequence[OnCommit] = (),
        past: Past | None = None,
    ) -> None:
        hints = buckets = None
        if connection is not None:
            from noetl.nats.hints import ReadyHints
            from noetl.nats.objects import ObjectBuckets

            hints, buckets = ReadyHints(connection), ObjectBuckets(connection)
        queue = ReadyQueue(publish=None if hints is None else hints.publish)
        self.families, self.waiters = Families(), Waiters()
        self.runtime = runtime = Runtime(
            playbooks,
            clock,
            shared=True,
            open_credential=open_credential,
            buckets=buckets,
            on_events=(queue.on_events, self.families.on_events, self.waiters.on_events, *on_events),
            on_commit=on_commit,
            past=past,
        )
        self.on_error, self.stall = on_error, StallDetector()
        self.commands = commands = BackgroundCommands(runtime.committer, Backoff(clock), on_error)
        self.source = StoredWork(runtime, commands.backoff)
        self.dispatcher = Dispatcher(runtime, queue, self.source, commands.backoff, commands.back_off, hints)
        self.heartbeats = Heartbeats(runtime, commands, self.stall)
        self.children = ChildExecutions(runtime, find_playbook)
        self.recovery = Recovery(runtime, self.dispatcher, self.families, commands)

    @property
    def loops(self) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
        """The background work, each with the pause after it."""
        return [
            (TICK_SECONDS, self.tick_once),
            (REAP_SECONDS, self.reap_once),
            (0.0, self.sync_once),
            (RECOVER_SECONDS, self.recovery.recover_once),
            (SWEEP_SECONDS, self.sweep_once),
            (OBSERVE_SECONDS, self.observe_once),
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for seconds, once in self.loops:
                group.create_task(keep_running(seconds, once, self.on_error))

    async def tick_once(self) -> None:
        """Fire due timers, and detect changes by other servers."""
        due = await self.source.due(self.runtime.clock.now())
        await self.commands.send((execution, TimerDue(timer)) for execution, timer in due)
        if await self.runtime.thread.ask(self.runtime.store.changed_elsewhere):
            for pool in list(self.dispatcher.queue.arrived):
                await self.dispatcher.find_ready(pool)
            await self.waiters.check_once(self.runtime)

    async def reap_once(self) -> None:
        """Expire lost leases, and notice ends that no notification has announced."""
        await self.heartbeats.expire_once()
        await self.waiters.check_once(self.runtime)

    async def sync_once(self) -> None:
        """Sync families of executions that have changed. A family that fails does not delay the others."""
        await self.families.changed.wait()
        for execution in self.families.take():
            try:
                await self.children.sync(execution)
                self.commands.backoff.succeed(execution)
                self.families.failed.pop(execution, None)
            except Exception as error:
                self.commands.back_off(execution, error)
                self.families.failed[execution] = None

    async def sweep_once(self) -> None:
        """Queue ready work that other scans have missed, and unload idle executions."""
        queue, executions = self.dispatcher.queue, self.runtime.executions
        for pool in {queue.default_pool, *queue.arrived}:
            await self.dispatcher.find_ready(pool, MAX_QUEUED)
        idle = [id for id, loaded in executions.items() if not loaded.state.leases and id not in self.waiters.ended]
        for id in idle[:-MAX_IDLE_EXECUTIONS]:
            executions.pop(id, None)
        started = self.dispatcher.turn_started_at
        self.dispatcher.turn_started_at = {id: at for id, at in started.items() if id in executions}

    async def observe_once(self) -> None:
        self.stall.observe(await self.runtime.thread.ask(self.runtime.store.clock))

    async def wait(self, execution: str, seconds: float) -> Execution:
        return await self.waiters.wait(self.runtime, execution, seconds)

    def release_waiters(self) -> None:
        """Answer all callers that wait for an execution or for work: the server is about to stop."""
        self.waiters.close()
        self.dispatcher.close()
