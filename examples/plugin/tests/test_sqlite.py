"""kind: sqlite: the conformance suite for tools, and its own tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import noetl_sqlite
import pytest
from noetl_sqlite import MAX_ROWS

from noetl.testing import Example, ToolSuite, call_tool, run_playbook

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


class TestSqlite(ToolSuite):
    tool = noetl_sqlite
    examples = (
        Example(inputs={"database": ":memory:", "query": "SELECT ? + 1 AS n, x'ff' AS b", "params": [1]}),
        Example(inputs={"database": ":memory:", "query": "SELECT * FROM nowhere"}, error="sql"),
        Example(inputs={"database": "no/such.db", "query": "SELECT 1"}, error="not_found"),
        Example(inputs={"database": ":memory:", "query": ENDLESS}, lasts=True),
    )


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "shop.db")
    call_tool(noetl_sqlite, {"database": path, "create": True, "query": "CREATE TABLE t (a, b)"})
    return path


def test_rows_are_maps(database: str) -> None:
    made = call_tool(noetl_sqlite, {"database": database, "query": "INSERT INTO t VALUES (1, 'x'), (2, NULL)"})
    assert made.result == {"rows": [], "row_count": 2, "columns": []}
    found = call_tool(noetl_sqlite, {"database": database, "query": "SELECT * FROM t ORDER BY a"})
    assert found.result["rows"] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_value_is_never_sql(database: str) -> None:
    query = "SELECT :name AS name"
    evil = "x'; DROP TABLE t; --"
    assert call_tool(noetl_sqlite, {"database": database, "query": query, "params": {"name": evil}}).result["rows"] == [
        {"name": evil}
    ]


def test_locked_database_may_be_free_later(database: str) -> None:
    with sqlite3.connect(database, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        outcome = call_tool(noetl_sqlite, {"database": database, "query": "INSERT INTO t VALUES (1, 1)"})
        other.execute("ROLLBACK")
    other.close()
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("sql", True)
    assert outcome.extra["sqlite"]["code"] == "SQLITE_BUSY"


def test_too_many_rows_are_refused() -> None:
    query = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {MAX_ROWS + 1}) SELECT i FROM n"
    outcome = call_tool(noetl_sqlite, {"database": ":memory:", "query": query})
    assert outcome.error is not None
    assert outcome.error.kind == "too_large"


def test_playbook_runs(tmp_path: Path) -> None:
    ended = run_playbook(Path(__file__).parents[1] / "orders.yaml", {"database": str(tmp_path / "orders.db")})
    assert ended.status == "succeeded", ended.error
    assert ended.result["rows"] == [{"id": 2, "total": 30.0}, {"id": 3, "total": 99.0}]
