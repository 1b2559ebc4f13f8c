"""Callers that wait for the end of an execution."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakValueDictionary

from noetl.engine import events as e
from noetl.engine.state import Execution
from noetl.runtime.committer import CommandResult, Refresh
from noetl.runtime.runtime import Runtime


class Waiters:
    def __init__(self) -> None:
        self.ended: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()  # as long as a caller waits
        self.closing = False

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        if state.over and (ended := self.ended.get(state.id)) is not None:
            ended.set()

    async def wait(self, runtime: Runtime, execution: str, seconds: float) -> Execution:
        """The state when the execution has ended, at any server, or after the timeout."""
        ended = self.ended.setdefault(execution, asyncio.Event())
        if not (await runtime.executions.state(execution)).over and not self.closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
        return await runtime.executions.state(execution)

    async def check_once(self, runtime: Runtime) -> None:
        """Notice executions that another server has ended."""
        refreshed = (runtime.committer.handle(execution, Refresh()) for execution in list(self.ended))
        for result in await asyncio.gather(*refreshed, return_exceptions=True):
            if isinstance(result, CommandResult):
                self.on_events(result.state, [])

    def close(self) -> None:
        self.closing = True
        for event in self.ended.values():
            event.set()
