"""Rows that are written into a table of DuckDB, and calls that take effect once. Both inside a transaction."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from noetl.model.outcome import Failure
from noetl.sql.statements import quoted
from noetl.tools.rows.duckdb_database import as_json, sql_errors, table_name
from noetl.tools.rows.tables import (
    Load,
    check_exact,
    create_table,
    duplicate_key,
    duplicate_keys,
    insert_or_update,
    no_unique_index,
)
from noetl.tools.rows.values import changed, from_json, ledger_text

INSERT_ROWS = 10_000
STAGED = "temp.noetl_load"
COLUMNS = """SELECT column_name, data_type FROM duckdb_columns() WHERE lower(table_name) = $1 AND (
    (lower(schema_name) = $2 AND database_name = current_database())
    OR (lower(database_name) = $3 AND lower(schema_name) IN ('main', $2))) ORDER BY column_index"""
WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(\d+,0\)")
TYPES = {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "large": "HUGEINT",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "binary": "BLOB",
    "json": "JSON",
}


def load_rows(
    connection: DuckDBPyConnection, load: Load, database: str | None, log: Callable[[str], None]
) -> dict[str, Any]:
    name = table_name(load.table)
    with sql_errors():
        types = _types(connection, load.table)
        if types and load.mode == "replace":
            connection.execute(f"DELETE FROM {name}")
        if not load.rows:
            return changed(0)
        if not types:
            if database is None:
                message = f"{load.table} would be created in memory and lost when the task ends: set `database`"
                raise Failure("input", message)
            types = load.types(TYPES)
            connection.execute(create_table(name, types, load.key))
            columns = ", ".join(f"{column} {kind}" for column, kind in types.items())
            log(f"created the table {load.table} ({columns})")
        kinds = {column.lower(): kind for column, kind in types.items()}
        for column in load.columns:
            if column.lower() not in kinds:
                raise Failure("input", f"{load.table} has no column {column!r}; it has {', '.join(types)}")
        column_kinds = [kinds[column.lower()] for column in load.columns]
        whole = [kind if WHOLE.fullmatch(kind) else "" for kind in column_kinds]
        check_exact(load, whole, [kind if kind == "DATE" else "" for kind in column_kinds])
        if not load.upserts:
            _insert(connection, name, load, column_kinds)
            return changed(len(load.rows))
        names = ", ".join(map(quoted, load.columns))
        connection.execute(f"CREATE TEMP TABLE noetl_load AS SELECT {names} FROM {name} LIMIT 0")
        _insert(connection, STAGED, load, column_kinds)
        _merge(connection, name, load)
    return changed(len(load.rows))


def _types(connection: DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table with their types; empty if there is no such table. A query, since an error would end the
    transaction. Of two parts the first one is a schema, or the database."""
    *place, name = (part.lower() for part in table.split("."))
    schema, database = place[-1] if place else "main", place[0] if place else None
    rows = connection.execute(COLUMNS, [name, schema, database]).fetchall()
    return {row[0]: row[1] for row in rows}


def _insert(connection: DuckDBPyConnection, name: str, load: Load, kinds: list[str]) -> None:
    """Insert the rows as JSON, which is thirty times faster than one by one."""
    rows = load.rows
    values = ", ".join(_from_cell(f"cell[{number}]", kind) for number, kind in enumerate(kinds, start=1))
    into = f"INSERT INTO {name} ({', '.join(map(quoted, load.columns))})"
    if "BLOB" in kinds:  # bytes in place of text, since JSON has bytes in base64
        rows = [
            [v.encode() if k == "BLOB" and isinstance(v, str) else v for v, k in zip(row, kinds, strict=True)]
            for row in rows
        ]
    for start in range(0, len(rows), INSERT_ROWS):
        unpacked = """SELECT unnest(from_json($1, '[["JSON"]]')) AS cell"""
        connection.execute(f"{into} SELECT {values} FROM ({unpacked})", [as_json(rows[start : start + INSERT_ROWS])])


def _from_cell(cell: str, kind: str) -> str:
    if kind == "JSON" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
        return f"CAST({cell} AS {kind})"
    return f"from_base64({cell}->>'$')" if kind == "BLOB" else f"CAST({cell}->>'$' AS {kind})"


def _merge(connection: DuckDBPyConnection, name: str, load: Load) -> None:
    duplicates = duplicate_keys(STAGED, [*map(quoted, load.key)])
    for values in connection.execute(duplicates).fetchall():
        raise duplicate_key(load.key, values, "`rows`")
    try:
        connection.execute(insert_or_update(name, STAGED, load.columns, load.key))
    except duckdb.BinderException as error:
        if "conflict target" not in str(error):
            raise
        raise Failure("sql", no_unique_index(load.table, name, load.key)) from None


def run_once(connection: DuckDBPyConnection, action: str, work: Callable[[], Any]) -> tuple[Any, bool]:
    """The result of the work, and whether it is that of an earlier call. A row of the ledger is committed together with
    the effect, and found when the call is repeated."""
    with sql_errors():
        ((catalog,),) = connection.execute("SELECT current_catalog()").fetchall()  # the statements may change it
        ledger = f"{quoted(catalog)}.main.noetl_ledger"
        definition = "(action VARCHAR PRIMARY KEY, done_at TIMESTAMPTZ NOT NULL DEFAULT now(), result JSON)"
        connection.begin()
        connection.execute(f"CREATE TABLE IF NOT EXISTS {ledger} {definition}")
        for (result,) in connection.execute(f"SELECT result FROM {ledger} WHERE action = $1", [action]).fetchall():
            connection.rollback()
            return from_json(result), True
    result = work()
    with sql_errors():
        connection.execute(f"INSERT INTO {ledger} (action, result) VALUES ($1, $2)", [action, ledger_text(result)])
        connection.commit()
    return result, False
