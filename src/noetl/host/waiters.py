"""Callers that wait for the end of an execution."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from noetl.engine import events as e
from noetl.engine.state import Execution
from noetl.runtime.committer import Answer, Refresh
from noetl.runtime.runtime import Runtime


class Waiters:
    def __init__(self) -> None:
        self.ended: dict[str, asyncio.Event] = {}
        self.counts: Counter[str] = Counter()
        self.closing = False

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        if state.over and (ended := self.ended.get(state.id)) is not None:
            ended.set()

    async def wait(self, runtime: Runtime, execution: str, seconds: float) -> Execution:
        """The state when the execution has ended, at any server, or after the timeout."""
        ended = self.ended.setdefault(execution, asyncio.Event())
        self.counts[execution] += 1
        try:
            if not (await runtime.executions.state(execution)).over and not self.closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await ended.wait()
        finally:
            self.counts[execution] -= 1
            if not self.counts[execution]:
                del self.counts[execution], self.ended[execution]
        return await runtime.executions.state(execution)

    async def check_once(self, runtime: Runtime) -> None:
        """Notice executions that another server has ended."""
        names = list(self.ended)
        refreshed = (runtime.committer.handle(name, Refresh()) for name in names)
        for name, answer in zip(names, await asyncio.gather(*refreshed, return_exceptions=True), strict=True):
            if isinstance(answer, Answer) and answer.state.over and name in self.ended:
                self.ended[name].set()

    def close(self) -> None:
        self.closing = True
        for event in self.ended.values():
            event.set()
