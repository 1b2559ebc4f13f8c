"""The engine of a server: it serves all executions of a store, and any number of servers may share the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from noetl.clock import Clock
from noetl.engine.state import Execution
from noetl.host.background import BackgroundCommands, Backoff, OnError, keep_running
from noetl.host.children import ChildExecutions, ChildSyncer, Families, FindPlaybook
from noetl.host.dispatcher import Dispatcher, ReadyQueue, StoredWork
from noetl.host.heartbeats import Heartbeats, StallDetector
from noetl.host.reaper import Reaper
from noetl.host.recovery import Recovery
from noetl.host.sweeper import Sweeper
from noetl.host.ticker import Ticker
from noetl.host.waiters import Waiters
from noetl.runtime.committer import OnCommit, OnEvents
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import OpenCredential, Runtime, no_credentials

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

TICK_SECONDS = 0.1
"""Interval of the scans for due timers and for changes by other servers."""
REAP_SECONDS = 1.0
RECOVER_SECONDS = 1.5
SWEEP_SECONDS = 30.0
OBSERVE_SECONDS = 1.0


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
    ) -> None:
        hints = buckets = None
        if connection is not None:
            from noetl.nats.hints import ReadyHints
            from noetl.nats.objects import ObjectBuckets

            hints, buckets = ReadyHints(connection), ObjectBuckets(connection)
        queue = ReadyQueue(publish=None if hints is None else hints.publish)
        families, self.waiters = Families(), Waiters()
        self.runtime = runtime = Runtime(
            playbooks,
            clock,
            shared=True,
            open_credential=open_credential,
            buckets=buckets,
            on_events=(queue.on_events, families.on_events, self.waiters.on_events, *on_events),
            on_commit=on_commit,
        )
        self.on_error, self.stall = on_error, StallDetector()
        commands = BackgroundCommands(runtime.committer, Backoff(clock), on_error)
        source = StoredWork(runtime, commands.backoff)
        self.dispatcher = Dispatcher(runtime, queue, source, commands.backoff, commands.back_off, hints)
        self.heartbeats = Heartbeats(runtime, commands, self.stall)
        self.ticker = Ticker(source, commands.send)
        self.reaper = Reaper(runtime, commands, self.stall)
        self.children = ChildSyncer(ChildExecutions(runtime, find_playbook), families, commands)
        self.recovery = Recovery(runtime, self.dispatcher, families, commands)
        self.sweeper = Sweeper(self.dispatcher, self.waiters)

    async def run(self) -> None:
        loops: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (TICK_SECONDS, self.tick_once),
            (REAP_SECONDS, self.reap_once),
            (0.0, self.children.sync_once),
            (RECOVER_SECONDS, self.recovery.recover_once),
            (SWEEP_SECONDS, self.sweeper.sweep_once),
            (OBSERVE_SECONDS, self.observe_once),
        ]
        async with asyncio.TaskGroup() as group:
            for seconds, once in loops:
                group.create_task(keep_running(seconds, once, self.on_error))

    async def tick_once(self) -> None:
        await self.ticker.tick_once(self.runtime.clock.now())
        if await self.runtime.thread.ask(self.runtime.store.changed_elsewhere):
            for pool in list(self.dispatcher.queue.arrived):
                await self.dispatcher.find_ready(pool)
            await self.waiters.check_once(self.runtime)

    async def reap_once(self) -> None:
        """Expire lost leases, and notice ends that no notification has announced."""
        await self.reaper.reap_once()
        await self.waiters.check_once(self.runtime)

    async def observe_once(self) -> None:
        await self.runtime.thread.ask(self.runtime.store.next_due)
        self.stall.observe()

    async def wait(self, execution: str, seconds: float) -> Execution:
        return await self.waiters.wait(self.runtime, execution, seconds)

    def release_waiters(self) -> None:
        """Answer all callers that wait for an execution or for work: the server is about to stop."""
        self.waiters.close()
        self.dispatcher.close()
