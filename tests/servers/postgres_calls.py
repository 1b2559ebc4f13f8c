"""How tests call `kind: postgres`: as the worker does, with the values of templates bound, on one event loop a test."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import msgspec
import pytest
from tests.servers.postgres import Schema

from noetl.model.outcome import Error, Outcome
from noetl.sql import prepare_sql
from noetl.tools import postgres as kind
from noetl.tools.base import Context

T = TypeVar("T")
SECONDS = 300


class Database:
    """A schema, and calls that sign in to it."""

    def __init__(self, schema: Schema, runner: asyncio.Runner) -> None:
        self.schema, self.runner = schema, runner
        self.lines: list[tuple[str, str]] = []
        """What calls have logged."""

    async def ask(
        self, command: str | None = None, scope: dict[str, Any] | None = None, *, call: Any = None, **inputs: Any
    ) -> Outcome:
        """One call inside the loop. `call` are fields of its context."""
        bound = {} if command is None else {"command": prepare_sql(command)(scope or {})}
        plain: dict[str, Any] = {"execution": "e1", "action": "a1", "attempt": 1, "step": "s", "task": "t", "args": {}}
        told = {"timeout": SECONDS, "prev": None, "log": lambda *line: self.lines.append(line), "bound": bound}
        context = Context(**plain | told | (call or {}))
        given = {"auth": self.schema.fields()} if "dsn" not in inputs else {}
        if command is not None:
            given["command"] = command
        return await kind.run(msgspec.convert({**given, **inputs}, kind.Inputs), context)

    def whole(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(SECONDS):
                return await work

        return self.runner.run(bounded())

    def outcome(self, command: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        return self.whole(self.ask(command, scope, **inputs))

    def result(self, command: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Any:
        """The result of a call that goes well."""
        outcome = self.outcome(command, scope, **inputs)
        assert outcome.error is None, outcome.error
        assert outcome.extra["pg"]["code"] is None
        assert outcome.extra["pg"]["sqlstate"] is None
        return outcome.result

    def rows(self, command: str, scope: dict[str, Any] | None = None, **inputs: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.result(command, scope, **inputs)["rows"]
        return rows

    def value(self, command: str, scope: dict[str, Any] | None = None, **inputs: Any) -> Any:
        """The one value of a result of one row and column."""
        ((value,),) = (row.values() for row in self.rows(command, scope, **inputs))
        return value

    def error(self, command: str | None = None, scope: dict[str, Any] | None = None, **inputs: Any) -> Error:
        """The error of a call that goes wrong."""
        outcome = self.outcome(command, scope, **inputs)
        assert outcome.error is not None, outcome.result
        assert outcome.extra["pg"].keys() >= {"code", "sqlstate"}
        assert outcome.extra["pg"]["code"] == outcome.extra["pg"]["sqlstate"]
        return outcome.error


@pytest.fixture(name="database")
def database_fixture(schema: Schema) -> Iterator[Database]:
    with asyncio.Runner() as runner:
        yield Database(schema, runner)
        runner.run(kind.close())
