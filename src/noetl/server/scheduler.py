"""Starts the executions of schedules.

Any number of servers do this on one store. A firing is decided in `triggers/schedules.py` and stored at the revision it
was decided from, so of two servers one decides; then its execution is started, and then the firing is settled. A firing
that was decided and not settled is started again, under the same execution id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from noetl.clock import Clock
from noetl.errors import NoetlError, StoreError
from noetl.log import Log
from noetl.model.actor import Actor
from noetl.runtime.store_thread import StoreThread
from noetl.store.store import Store
from noetl.store.triggers import Firing, Schedule
from noetl.triggers import schedules

SCAN_SECONDS = 0.5
SCHEDULES_PER_SCAN = 100

StartOnce = Callable[[str, str, int | None, dict[str, Any], dict[str, Any], Actor], Awaitable[Any]]
"""Starts an execution by id, path, version, payload, ctx and actor, unless it was started before."""


class Scheduler:
    def __init__(self, store: Store, thread: StoreThread, clock: Clock, log: Log, start_once: StartOnce) -> None:
        self.store, self.ask, self.clock, self.log, self.start_once = store, thread.ask, clock, log, start_once

    async def run(self) -> None:
        while True:
            if await self.fire_once(self.clock.now()) < SCHEDULES_PER_SCAN:
                await self.clock.sleep(SCAN_SECONDS)

    async def fire_once(self, now: float) -> int:
        """Fire the schedules that are due; returns how many there were."""
        due = await self.ask(self.store.triggers.due_schedules, now, SCHEDULES_PER_SCAN)
        await asyncio.gather(*(self._fire(schedule, now) for schedule in due))
        return len(due)

    async def _fire(self, schedule: Schedule, now: float) -> None:
        is_open = await self.ask(schedules.open_of, self.store, schedule.running)
        try:
            decided = schedules.decided(schedule, is_open, now)
        except NoetlError as error:  # such as a time zone that this machine does not know
            decided = schedules.postponed(schedule, str(error), now)
        if await self.ask(self.store.triggers.change_schedule, decided):  # else another server fires it
            for firing in decided.starting:
                await self.start(decided, firing)

    async def start(self, schedule: Schedule, firing: Firing) -> NoetlError | None:
        """Start the execution of a firing and settle the firing; returns the error if it could not be started."""
        refused: NoetlError | None = None
        try:
            payload = schedules.payload_of(schedule, firing)
            execution = firing.execution(schedule.id)
            actor = firing.actor or Actor("schedule", schedule.name)
            await self.start_once(execution, schedule.path, schedule.version, payload, schedule.ctx, actor)
        except StoreError:  # the firing stays decided, and is started again
            raise
        except NoetlError as error:
            refused = error
        except Exception as error:  # one failing schedule must not delay the others
            self.log.defect(error, schedule=schedule.name)
            refused = NoetlError("internal error: see the log of the server")
        await self._settle(schedule, firing, "" if refused is None else str(refused))
        return refused

    async def _settle(self, schedule: Schedule, firing: Firing, reason: str) -> None:
        triggers, now = self.store.triggers, self.clock.now()
        while True:
            stored = await self.ask(triggers.schedule, schedule.name)
            if stored is None or stored.id != schedule.id or firing not in stored.starting:
                return  # it was deleted, or settled by another server
            if await self.ask(triggers.change_schedule, schedules.settled(stored, firing, reason, now)):
                return
