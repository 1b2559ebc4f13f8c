"""Fires the timers that are due."""

from __future__ import annotations

from noetl.engine.commands import TimerDue
from noetl.host.background import Send
from noetl.host.dispatcher import WorkSource


class Ticker:
    def __init__(self, source: WorkSource, send: Send) -> None:
        self.source, self.send = source, send

    async def tick_once(self, now: float) -> None:
        if due := await self.source.due(now):
            await self.send([(execution, TimerDue(timer)) for execution, timer in due])
