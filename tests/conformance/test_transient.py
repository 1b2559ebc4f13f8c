"""The variables of classic playbooks as SQL shows them: `transient` on SQLite, `noetl.transient` on Postgres."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.servers.postgres import Schema

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.host.embedded import Embedded
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store
from noetl.tools.registry import KINDS

EXECUTION = "0198c0de-0000-7000-8000-000000000042"
TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: vars, path: tests/vars}
workflow:
  - step: start
    tool: {kind: noop, result: {a: 1, b: "it's \\u0000 \\"b\\""}}
    vars: {a: "{{ result.a }}", b: "{{ result.b }}", none: null, deep: {x: ["{{ result.a }}"]}}
    next: again
  - step: again
    tool: {kind: noop, result: 2}
    case:
      - when: "{{ true }}"
        then: [{set: {a: "{{ result }}", late: true}}]
"""
EXPECTED = {"a": 2, "b": 'it\'s \0 "b"', "none": None, "deep": {"x": [1]}, "late": True}


def run_on(store: Store) -> None:
    async def whole() -> None:
        engine = Embedded(LoadedPlaybooks(store), KINDS, SystemClock(), lambda parent, request: "")
        book = load("vars.yaml", TEXT, KINDS).require()
        store.put_playbook(book.digest, "vars.yaml", TEXT.encode())
        digest = engine.runtime.playbooks.add(book)
        await engine.start(EXECUTION, digest, {}, {})
        state = await engine.drive(EXECUTION)
        assert state.ctx == {"vars": EXPECTED}
        await engine.close()

    asyncio.run(whole())


def row_values(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    assert {str(row[0]) for row in rows} == {EXECUTION}
    return {name: json.loads(value) if isinstance(value, str) else value for _, name, value in rows}


def test_sqlite_lists_the_last_value_of_each_variable(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vars.db")
    run_on(store)
    store.close()
    with sqlite3.connect(tmp_path / "vars.db") as looking:
        rows = looking.execute("SELECT execution_id, name, value FROM transient").fetchall()
    looking.close()
    assert row_values(rows) == EXPECTED


def test_postgres_lists_the_last_value_of_each_variable(database: str, schema: Schema) -> None:
    store = PostgresStore(database)
    run_on(store)
    store.close()
    rows = schema.rows(f"SELECT execution_id, name, value::text FROM {schema.name}.transient")
    assert row_values([tuple(row) if not isinstance(row, dict) else tuple(row.values()) for row in rows]) == {
        **EXPECTED,
        "b": 'it\'s \ufffd "b"',
    }
