"""The work of a call: run statements, or copy rows into a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import psycopg
from msgspec import UNSET

from noetl.model.outcome import Failure
from noetl.sql import Part, Sql, Value, first_words, is_quoted, quoted, statements
from noetl.tools.postgres_client.errors import statement_failure
from noetl.tools.postgres_client.session import PostgresSession
from noetl.tools.postgres_client.values import RowBuffer, array_text, encoded, json_text, plain_text
from noetl.tools.rows.values import changed

BLOCK_BYTES = 1 << 17
CONTROL = {("BEGIN",), ("START",), ("COMMIT",), ("END",), ("ROLLBACK",), ("ABORT",)}
READING = {("SELECT",), ("VALUES",), ("TABLE",), ("SHOW",)}
PLACEHOLDER = re.compile(r"%(?:(?P<percent>%)|\((?P<name>[^)]+)\)[sbt]|(?P<position>[sbt]))|(?P<stray>%)")


class StatementsJob:
    def __init__(self, sql: Sql, params: list[Any] | dict[str, Any] | None) -> None:
        bound = sql if params is None else _with_params(sql, params)
        if is_quoted(bound):
            raise Failure("input", "a placeholder is inside quotes or a comment: remove the quotes around it")
        self.statements = statements(bound)
        if not self.statements:
            raise Failure("input", "the SQL has no statement")
        words = [first_words(statement) for statement in self.statements]
        others = [number for number, statement_words in enumerate(words) if not _is_control(statement_words)]
        self.controls = len(others) < len(words)
        """Whether the SQL itself begins and ends transactions."""
        self.transactional = len(words) > 1 and not self.controls
        """Whether it runs in one transaction; otherwise each statement commits by itself, or the SQL has its own."""
        self.repeatable = len(words) == 1 and words[0][:1] in READING
        self.last = others[-1] if others else len(words) - 1
        """The statement whose rows are the result."""

    async def run(self, session: PostgresSession) -> Any:
        rows, count = RowBuffer(), len(self.statements)
        results = [
            await session.execute(statement, rows if number == self.last else None, number + 1, count)
            for number, statement in enumerate(self.statements)
        ]
        last = results[self.last]
        fields: dict[str, Any] = {"row_count": last.row_count, "columns": last.columns}
        if len(results) > 1:
            fields["statements"] = [result._asdict() for result in results]
        return rows.result(fields)


def _is_control(words: tuple[str, ...]) -> bool:
    """Whether a statement begins or ends a transaction, which `ROLLBACK TO` does not."""
    return (words[:1] in CONTROL and "TO" not in words) or words[:2] == ("PREPARE", "TRANSACTION")


def _with_params(sql: Sql, params: list[Any] | dict[str, Any]) -> Sql:
    """The SQL with `params` in place of the placeholders `%s` and `%(name)s`; `%%` is a percent sign."""
    by_name = params if isinstance(params, dict) else {}
    in_order = iter(params if isinstance(params, list) else [])

    def replaced(text: str) -> Iterator[Part]:
        end = 0
        for match in PLACEHOLDER.finditer(text):
            yield text[end : match.start()]
            end = match.end()
            if match["percent"]:
                yield "%"
            elif match["stray"]:
                message = "write %% for a percent sign that is not a placeholder, since there are `params`"
                raise Failure("input", message)
            elif name := match["name"]:
                if name not in by_name:
                    raise Failure("input", f"the SQL has the placeholder %({name})s and `params` has no {name!r}")
                yield Value(by_name[name])
            elif (value := next(in_order, UNSET)) is UNSET:
                form = "a map for %(name)s" if isinstance(params, dict) else "too few values"
                raise Failure("input", f"the SQL has placeholders %s and `params` has {form}")
            else:
                yield Value(value)
        yield text[end:]

    pieces = chain.from_iterable(replaced(part) if isinstance(part, str) else [part] for part in sql.parts)
    parts = tuple(piece for piece in pieces if piece != "")
    if next(in_order, UNSET) is not UNSET:
        raise Failure("input", f"`params` has {len(params)} values, more than the SQL has placeholders %s")
    return Sql(parts, sql.dialect, sql.line)


class CopyJob:
    transactional = controls = repeatable = False

    def __init__(self, table: str, columns: list[str], rows: list[list[Any]]) -> None:
        self.table, self.columns, self.rows = tuple(table.split(".")), columns, rows
        if not all(self.table):
            raise Failure("input", f"{table!r} cannot be the name of a table: write `table` or `schema.table`")

    async def run(self, session: PostgresSession) -> Any:
        if not self.rows:
            return changed(0)
        names = ", ".join(map(quoted, self.columns))
        statement = f"COPY {quoted(*self.table)} ({names}) FROM STDIN"
        types = await session.values(Sql((TYPES, Value(quoted(*self.table)), ")")))  # COPY reports unknown columns
        category = {column["name"]: column["category"] for column in types}
        writers = [WRITERS.get(category.get(column, ""), plain_text) for column in self.columns]
        session.safe = True
        inside = session.in_transaction
        try:
            async with session.connection.cursor() as cursor:
                async with cursor.copy(encoded(statement, session.encoding)) as copy:
                    for block in self._blocks(writers, session.encoding):
                        await copy.write(block)
                    session.safe = inside  # from now on it may be committed
                return changed(cursor.rowcount)
        except psycopg.Error as error:
            raise statement_failure(error, None, session.safe) from None

    def _blocks(self, writers: list[Callable[[Any], str]], encoding: str) -> Iterator[bytes]:
        block = bytearray()
        for number, row in enumerate(self.rows, start=1):
            try:
                fields = (
                    "\\N" if value is None else write(value).translate(SPECIAL)
                    for value, write in zip(row, writers, strict=True)
                )
                block += encoded("\t".join(fields) + "\n", encoding)
            except Failure as failure:
                raise Failure("input", f"row {number}: {failure}") from None
            if len(block) > BLOCK_BYTES or number == len(self.rows):
                yield bytes(block)
                block.clear()


TYPES = """SELECT a.attname AS name, CASE WHEN coalesce(b.typname, t.typname) IN ('json', 'jsonb') THEN 'J'
    ELSE coalesce(b.typcategory, t.typcategory) END AS category
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = pg_catalog.to_regclass("""
SPECIAL = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
WRITERS: dict[str, Callable[[Any], str]] = {
    "J": json_text,
    "A": lambda value: array_text(value) if isinstance(value, list) else plain_text(value),
}
"""By the category of a type: arrays, and JSON, whose letter is not one of PostgreSQL's."""
