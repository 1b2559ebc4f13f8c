"""How tests call the kinds that move rows: as the worker does, with the values of templates bound."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
from tests.servers.tool_call import SECONDS, context

from noetl.model.outcome import Error, Failure, Outcome
from noetl.sql import prepare_sql
from noetl.sql.lexing import SNOWFLAKE, STANDARD


class Calls:
    """Calls of one kind, each on a loop of its own. `given` are inputs that every call has."""

    def __init__(self, kind: Any, **given: Any) -> None:
        self.kind, self.given = kind, given
        self.lines: list[tuple[str, str]] = []
        """What calls have logged."""

    async def ask(self, sql: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        """One call inside a running loop. `call` among the inputs are fields of its context."""
        fields = inputs.pop("call", {})
        if sql is not None:
            inputs["command"] = sql
        inputs = {**self.given, **inputs}
        bound = {path: prepare_sql(text, self._dialect())(scope or {}) for path, text in _texts(inputs)}
        called = context(log=lambda *line: self.lines.append(line), bound=bound, **fields)
        try:
            outcome: Outcome = await self.kind.run(msgspec.convert(inputs, self.kind.Inputs, strict=False), called)
        except Failure as failure:
            return failure.outcome
        return outcome

    def _dialect(self) -> Any:
        return SNOWFLAKE if self.kind.KIND.name == "snowflake" else STANDARD

    def whole(self, work: Any) -> Any:
        async def main() -> Any:
            try:
                async with asyncio.timeout(SECONDS):
                    return await work
            finally:
                if hasattr(self.kind, "close"):
                    await self.kind.close()

        return asyncio.run(main())

    def outcome(self, sql: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        result: Outcome = self.whole(self.ask(sql, scope, **inputs))
        return result

    def result(self, sql: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Any:
        """The result of a call that goes well."""
        outcome = self.outcome(sql, scope, **inputs)
        assert outcome.error is None, outcome.error
        return outcome.result

    def rows(self, sql: str, scope: dict[str, Any] | None = None, **inputs: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.result(sql, scope, **inputs)["rows"]
        return rows

    def value(self, sql: str, scope: dict[str, Any] | None = None, **inputs: Any) -> Any:
        """The one value of a result of one row and column."""
        ((value,),) = (row.values() for row in self.rows(sql, scope, **inputs))
        return value

    def error(self, sql: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Error:
        """The error of a call that goes wrong."""
        outcome = self.outcome(sql, scope, **inputs)
        assert outcome.error is not None, outcome.result
        return outcome.error


def our_threads() -> list[str]:
    """Threads of calls that are still there. Those of servers and of pytest come and go as they like."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("noetl-")]


def _texts(inputs: dict[str, Any]) -> list[tuple[str, str]]:
    """The SQL among the inputs by its path."""
    result = [(name, inputs[name]) for name in ("command", "query") if inputs.get(name) is not None]
    source = inputs.get("source")
    if isinstance(source, dict) and source.get("query") is not None:
        result.append(("source.query", source["query"]))
    return result
