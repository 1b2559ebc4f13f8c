"""Forks of stories, with every promise checked at their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from stage import EXECUTION, Stage
from tests.verifying import verify

from noetl.dsl.compile import load
from noetl.engine.commands import Command
from noetl.engine.events import Event
from noetl.engine.state import Execution
from noetl.runtime import history
from noetl.runtime.history import Edit, ForkView, RetryPoint
from noetl.store import codec

FORK = "00000000-0000-7000-8000-00000000000f"
FAILURE = RetryPoint()
Value = TypeVar("Value")


def again(stage: Stage, work: Callable[[], Awaitable[Value]], limit: float = 30) -> Value:
    """Work with a stage that has been played, in an engine of its own."""

    async def whole() -> Value:
        stage.engine = stage._engine()
        try:
            async with asyncio.timeout(limit):
                return await work()
        finally:
            await stage.engine.worker.stop()
            stage.engine.runtime.thread.shutdown()

    return asyncio.run(whole())


def forked(
    stage: Stage,
    at: int | None = None,
    *,
    text: str | None = None,
    ctx: dict[str, Any] | None = None,
    name: str = FORK,
    source: str = EXECUTION,
    retry: RetryPoint | None = None,
    payload: dict[str, Any] | None = None,
    then: Command | None = None,
) -> tuple[ForkView, Execution]:
    """Fork the story, or try it again, and play it to its end."""

    async def work() -> tuple[ForkView, Execution]:
        runtime = stage.engine.runtime
        edit = Edit(_added(stage, text) if text else "", ctx or {}, payload or {})
        if retry is not None:
            result = await history.retry(runtime, source, name, edit, retry)
        else:
            result = await history.fork(runtime, source, name, at, edit)
        if then is not None:
            await stage.handle(then, execution=name)
        return result, await stage.engine.drive(name)

    result, state = again(stage, work)
    check(stage, name)
    return result, state


def _added(stage: Stage, text: str) -> str:
    playbook = load("edited.yaml", text, stage.registry).require()
    stage.store.put_playbook(playbook.digest, "edited.yaml", text.encode())
    return stage.engine.runtime.playbooks.add(playbook)


def events_of(stage: Stage, execution: str = FORK) -> list[Event]:
    return [codec.decode(row.type, row.data) for row in stage.store.read(execution)]


def check(stage: Stage, execution: str) -> None:
    """All that `noetl verify` looks at."""
    playbook_of = stage.engine.runtime.playbooks.get
    rows = stage.store.read(execution)
    live = stage.engine.runtime.executions[execution].state
    begun = codec.decode(rows[0].type, rows[0].data)
    violations = verify(
        execution,
        rows,
        playbook_of(begun.playbook),  # type: ignore[attr-defined]
        lambda store, key: stage.store.blob(key),
        live.shown_status,
        derived=stage.store.derived(execution),
        net_of=playbook_of,
    )
    assert violations == []
