"""Starts what schedules want started.

Any number of servers do this on one store. Each looks only at schedules whose time has come. What is to be done is
decided in `schedules.py` and stored at the revision it was decided from, so of two servers one decides; then it is
started, and then it is noted that it was. Firings that are found decided and not settled are started again, which is
the same execution again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from noetl.errors import NoetlError, StoreError
from noetl.server.start_once import start_once
from noetl.store.triggers import Firing, Schedule
from noetl.triggers import schedules

if TYPE_CHECKING:
    from noetl.server.api import Api

LOOK_SECONDS = 0.5
AT_ONCE = 100


class Scheduler:
    """The schedules of a server."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def run(self) -> None:
        """Look at schedules when their time has come, until it is cancelled."""
        clock = self.api.clock
        while True:
            if await self.look_once(clock.now()) < AT_ONCE:
                await clock.sleep(LOOK_SECONDS)

    async def look_once(self, now: float) -> int:
        """Do what is due; how many schedules that were."""
        due = await self.api.in_store(self.api.store.triggers.due_schedules, now, AT_ONCE)
        await asyncio.gather(*(self._look_at(one, now) for one in due))
        return len(due)

    async def _look_at(self, one: Schedule, now: float) -> None:
        is_open = await self.api.in_store(schedules.open_of, self.api.store, one.running)
        try:
            decided = schedules.decided(one, is_open, now)
        except NoetlError as error:  # such as a time zone that this machine does not know
            decided = schedules.troubled(one, str(error), now)
        if await self.api.in_store(self.api.store.triggers.change_schedule, decided):  # else somebody else does it
            for firing in decided.starting:
                await self.start(decided, firing)

    async def start(self, one: Schedule, firing: Firing) -> NoetlError | None:
        """Start what was decided, and note what became of it: None, or why it could not be started."""
        refused: NoetlError | None = None
        try:
            payload = schedules.payload_of(one, firing)
            await start_once(self.api, firing.execution(one.id), one.path, one.version, payload, one.ctx)
        except StoreError:  # it stays decided, and is tried again
            raise
        except NoetlError as error:
            refused = error
        except Exception as error:  # one schedule that can't be started must not hold up the others
            self.api.log.defect(error, schedule=one.name)
            refused = NoetlError("a defect of the server: look into its log")
        await self._settle(one, firing, "" if refused is None else str(refused))
        return refused

    async def _settle(self, one: Schedule, firing: Firing, reason: str) -> None:
        triggers, now = self.api.store.triggers, self.api.clock.now()
        while True:
            found = await self.api.in_store(triggers.schedule, one.name)
            if found is None or found.id != one.id or firing not in found.starting:
                return  # it was deleted, or somebody else has noted it
            if await self.api.in_store(triggers.change_schedule, schedules.settled(found, firing, reason, now)):
                return
