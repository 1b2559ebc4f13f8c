"""How the tests of a tool call it: as the worker does, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context

T = TypeVar("T")

ACTION = "0123456789abcdef0123456789abcdef"
NOW = 1_700_000_000.0
SECONDS = 300


def context(**given: Any) -> Context:
    plain: dict[str, Any] = {
        "execution": "e1",
        "action": ACTION,
        "attempt": 1,
        "step": "step",
        "task": "task",
        "timeout": SECONDS,
        "args": {},
        "prev": None,
        "log": lambda stream, line: None,
        "now": NOW,
    }
    return Context(**plain | given)


class Caller:
    """Calls one kind. `defaults` are inputs that every call has."""

    def __init__(self, tool: Any, **defaults: Any) -> None:
        self.tool, self.defaults = tool, defaults

    async def ask(self, given: Context | None = None, **inputs: Any) -> Outcome:
        """One call inside a running loop, its inputs converted as the worker does it."""
        converted = msgspec.convert({**self.defaults, **inputs}, self.tool.Inputs, strict=False)
        try:
            outcome: Outcome = await self.tool.run(converted, given or context())
        except Failure as failure:
            return failure.outcome
        return outcome

    def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end, and close what the kind has opened."""

        async def main() -> T:
            try:
                async with asyncio.timeout(SECONDS):
                    return await work
            finally:
                await self.tool.close()

        return asyncio.run(main())

    def outcome(self, given: Context | None = None, **inputs: Any) -> Outcome:
        return self.whole(self.ask(given, **inputs))

    def result(self, given: Context | None = None, **inputs: Any) -> Any:
        """The result of a call that goes well."""
        outcome = self.outcome(given, **inputs)
        assert outcome.error is None, outcome.error
        return outcome.result

    def error(self, given: Context | None = None, **inputs: Any) -> tuple[str, str, bool]:
        """Kind and message of a call that goes wrong, and whether it may be tried again."""
        error = self.outcome(given, **inputs).error
        assert error is not None
        return error.kind, error.message, error.retryable
