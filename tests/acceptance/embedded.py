"""Runs a playbook on the embedded engine with a SQLite store; waits between attempts take no time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.state import Execution
from noetl.host.embedded import Embedded
from noetl.runtime.audit import Audit
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.codec import decode
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Row
from noetl.tools.registry import KINDS

EXECUTION = "0198a000-0000-7000-8000-000000000001"
MAX_EVENT_BYTES = 64 * 1024


class HurriedClock(SystemClock):
    """Keeps how long it was to wait, and does not."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


class Ended(NamedTuple):
    """A finished run."""

    state: Execution
    rows: list[Row]
    waits: list[float]
    blobs: dict[str, bytes]

    def of(self, name: str) -> list[Any]:
        return [decode(row.type, row.data) for row in self.rows if row.type == name]


def run(folder: Path, playbook: str, payload: dict[str, Any] | None = None, seconds: float = 60) -> Ended:
    """Run to the end; every promise of `noetl verify` must hold."""
    return asyncio.run(_run(folder, dedent(playbook), payload or {}, seconds))


async def _run(folder: Path, text: str, payload: dict[str, Any], seconds: float) -> Ended:
    store, clock = SqliteStore(folder / "noetl.db", synchronous="normal"), HurriedClock()
    engine = Embedded(LoadedPlaybooks(store), KINDS, clock, _no_children)
    try:
        digest = engine.runtime.playbooks.add(load("acceptance.yaml", text, KINDS).require())
        store.put_playbook(digest, "acceptance.yaml", text.encode())
        async with asyncio.timeout(seconds):
            await engine.start(EXECUTION, digest, payload, {})
            state = await engine.drive(EXECUTION)
        rows = store.read(EXECUTION)
        assert Audit(store).of(store.summaries()[0]) == []
        keys = {reference["key"] for row in rows for reference in _references(row)}
        return Ended(state, rows, clock.waits, {key: store.blob(key) or b"" for key in keys})
    finally:
        await engine.close()


def _references(row: Row) -> list[dict[str, Any]]:
    from msgspec.json import decode as from_json

    result: list[dict[str, Any]] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if set(value) == {"$ref"}:
                result.append(value["$ref"])
            for item in value.values():
                visit(item)
        elif isinstance(value, list):
            for item in value:
                visit(item)

    visit(from_json(row.data))
    return result


async def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    raise AssertionError("no children here")
