"""Rows that are copied into a table, in one transaction. For `upsert` they go into a temporary table first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from noetl.model.outcome import Failure
from noetl.sql.statements import Sql, Value, quoted
from noetl.tools.postgres_client.session import PostgresSession, sqlstate, statement_failure
from noetl.tools.postgres_client.values import array_text, encoded, json_text, plain_text
from noetl.tools.rows.tables import (
    Load,
    check_exact,
    create_table,
    duplicate_key,
    duplicate_keys,
    insert_or_update,
    no_unique_index,
)
from noetl.tools.rows.values import changed

LOCK = 0x6E6F65746C  # an arbitrary number
BLOCK_BYTES = 1 << 17
STAGED = "noetl_load"
NO_UNIQUE_INDEX = "42P10"
CATEGORIES = """SELECT a.attname AS name, CASE WHEN coalesce(b.typname, t.typname) IN ('json', 'jsonb') THEN 'J'
    WHEN t.typname = 'numeric' AND a.atttypmod >= 4 AND (a.atttypmod - 4) & 2047 = 0 THEN 'W'
    WHEN coalesce(b.typname, t.typname) = 'date' THEN 'd' ELSE coalesce(b.typcategory, t.typcategory) END AS category
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = pg_catalog.to_regclass("""
SPECIAL = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
WRITERS: dict[str, Callable[[Any], str]] = {
    "J": json_text,
    "A": lambda value: array_text(value) if isinstance(value, list) else plain_text(value),
}
"""By the category of a type: arrays, and JSON, whose letter is not one of PostgreSQL's. Nor are W, of `numeric` without
decimals, into which PostgreSQL rounds (other types of whole numbers reject a fraction), and d, of dates."""
TYPES = {
    "boolean": "boolean",
    "integer": "bigint",
    "large": "numeric",
    "number": "double precision",
    "text": "text",
    "binary": "bytea",
    "json": "jsonb",
}


class LoadJob:
    transactional = True
    controls = repeatable = False

    def __init__(self, load: Load) -> None:
        table = load.table.split(".")
        if not all(table):
            raise Failure("input", f"invalid table name {load.table!r}: write `table` or `schema.table`")
        self.load, self.name = load, quoted(*table)
        self.idempotent = load.mode != "append"

    async def run(self, session: PostgresSession) -> Any:
        categories = await self._categories(session)
        if not categories and self.load.rows:
            categories = await self._create(session)
        if categories and self.load.mode == "replace":
            await session.command(f"DELETE FROM {self.name}")
        if not self.load.rows:
            return changed(0)
        whole = ["numeric without decimals" if categories.get(name) == "W" else "" for name in self.load.columns]
        check_exact(self.load, whole, ["date" if categories.get(name) == "d" else "" for name in self.load.columns])
        names = ", ".join(map(quoted, self.load.columns))
        writers = [WRITERS.get(categories.get(column, ""), plain_text) for column in self.load.columns]
        if not self.load.upserts:
            return changed(await self._copy(session, f"{self.name} ({names})", writers))
        empty = f"SELECT {names} FROM {self.name} WITH NO DATA"
        await session.command(f"CREATE TEMP TABLE {STAGED} ON COMMIT DROP AS {empty}")
        row_count = await self._copy(session, f"{STAGED} ({names})", writers)
        await self._merge(session)
        return changed(row_count)

    async def _categories(self, session: PostgresSession) -> dict[str, str]:
        """The columns of the table with the category of their types; empty if there is no table."""
        rows = await session.values(Sql((CATEGORIES, Value(self.name), ")")))
        return {row["name"]: row["category"] for row in rows}

    async def _create(self, session: PostgresSession) -> dict[str, str]:
        """Under a lock: of two calls that find no table, the second one uses that of the first."""
        await session.command(f"SELECT pg_advisory_xact_lock({LOCK})")
        if categories := await self._categories(session):
            return categories
        types = self.load.types(TYPES)
        await session.command(create_table(self.name, types, self.load.key))
        columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
        session.context.log("stdout", f"created the table {self.load.table} ({columns})")
        return await self._categories(session)

    async def _copy(self, session: PostgresSession, target: str, writers: list[Callable[[Any], str]]) -> int:
        statement = encoded(f"COPY {target} FROM STDIN", session.encoding)
        try:
            async with session.connection.cursor() as cursor:
                async with cursor.copy(statement) as copy:
                    for block in self._blocks(writers, session.encoding):
                        await copy.write(block)
                return cursor.rowcount
        except psycopg.Error as error:
            raise statement_failure(error, None, session.safe) from None

    def _blocks(self, writers: list[Callable[[Any], str]], encoding: str) -> Iterator[bytes]:
        block, rows = bytearray(), self.load.rows
        for number, row in enumerate(rows, start=1):
            try:
                fields = (
                    "\\N" if value is None else write(value).translate(SPECIAL)
                    for value, write in zip(row, writers, strict=True)
                )
                block += encoded("\t".join(fields) + "\n", encoding)
            except Failure as failure:
                raise Failure("input", f"row {number}: {failure}") from None
            if len(block) > BLOCK_BYTES or number == len(rows):
                yield bytes(block)
                block.clear()

    async def _merge(self, session: PostgresSession) -> None:
        load = self.load
        for row in await session.values(Sql((duplicate_keys(STAGED, [*map(quoted, load.key)]),))):
            raise duplicate_key(load.key, [row[name] for name in load.key], "`rows`")
        try:
            await session.command(insert_or_update(self.name, STAGED, load.columns, load.key))
        except Failure as failure:
            if sqlstate(failure) != NO_UNIQUE_INDEX:
                raise
            extra = failure.outcome.extra
            raise Failure("sql", no_unique_index(load.table, self.name, load.key), extra=extra) from None
