"""The work of a call: run statements, or copy rows into a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import psycopg

from noetl.model.outcome import Failure
from noetl.sql import Part, Sql, Value, first_words, is_quoted, quoted, statements
from noetl.tools.postgres_client.errors import statement_failure
from noetl.tools.postgres_client.literals import array_text, encoded, json_text, plain_text
from noetl.tools.postgres_client.row_buffer import RowBuffer
from noetl.tools.postgres_client.session import PostgresSession, StatementResult

BLOCK_BYTES = 1 << 17
CONTROL = {("BEGIN",), ("START",), ("COMMIT",), ("END",), ("ROLLBACK",), ("ABORT",)}
READING = {("SELECT",), ("VALUES",), ("TABLE",), ("SHOW",)}
PLACEHOLDER = re.compile(r"%(?:(?P<percent>%)|\((?P<name>[^)]+)\)[sbt]|(?P<position>[sbt]))|(?P<stray>%)")


class Job(Protocol):
    """The work of a call, checked before the connection is opened."""

    transactional: bool
    """Whether it runs in one transaction; otherwise each statement commits by itself, or the SQL has its own."""
    controls: bool
    """Whether the SQL itself begins and ends transactions."""
    repeatable: bool
    """Whether it is idempotent."""

    async def run(self, session: PostgresSession) -> Any: ...


# -- statements -------------------------------------------------------------------------------------------------------


class StatementsJob:
    """The statements of `command` or `query`."""

    def __init__(self, sql: Sql, params: list[Any] | dict[str, Any] | None) -> None:
        bound = sql if params is None else with_params(sql, params)
        if is_quoted(bound):
            raise Failure("input", "a placeholder is inside quotes or a comment: remove the quotes around it")
        self.statements = statements(bound)
        if not self.statements:
            raise Failure("input", "the SQL has no statement")
        words = [first_words(statement) for statement in self.statements]
        control = [_is_control(statement_words) for statement_words in words]
        self.controls = any(control)
        self.transactional = len(self.statements) > 1 and not self.controls
        self.repeatable = len(words) == 1 and words[0][:1] in READING
        others = [number for number, is_control in enumerate(control) if not is_control]
        self.last = others[-1] if others else len(control) - 1
        """The statement whose rows are the result."""

    async def run(self, session: PostgresSession) -> Any:
        rows = RowBuffer()
        results: list[StatementResult] = []
        for number, statement in enumerate(self.statements):
            buffer = rows if number == self.last else None
            results.append(await session.execute(statement, buffer, number + 1, len(self.statements)))
        last = results[self.last]
        fields: dict[str, Any] = {"row_count": last.row_count, "columns": last.columns}
        if len(results) > 1:
            fields["statements"] = [result._asdict() for result in results]
        return rows.result(fields)


def _is_control(words: tuple[str, ...]) -> bool:
    """Whether a statement begins or ends a transaction, which `ROLLBACK TO` does not."""
    return (words[:1] in CONTROL and "TO" not in words) or words[:2] == ("PREPARE", "TRANSACTION")


def with_params(sql: Sql, params: list[Any] | dict[str, Any]) -> Sql:
    """The SQL with `params` in place of the placeholders `%s` and `%(name)s`; `%%` is a percent sign."""
    by_name = params if isinstance(params, dict) else None
    in_order = iter(params if isinstance(params, list) else [])
    parts: list[Part] = []
    for part in sql.parts:
        parts += _replaced(part, in_order, by_name) if isinstance(part, str) else [part]
    if next(in_order, parts) is not parts:
        raise Failure("input", f"`params` has {len(params)} values, more than the SQL has placeholders %s")
    return Sql(tuple(parts), sql.dialect, sql.line)


def _replaced(text: str, in_order: Iterator[Any], by_name: Mapping[str, Any] | None) -> Iterator[Part]:
    end = 0
    for match in PLACEHOLDER.finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        end = match.end()
        if match["percent"]:
            yield "%"
        elif match["stray"]:
            raise Failure("input", "write %% for a percent sign that is not a placeholder, since there are `params`")
        else:
            yield Value(_named(match["name"], by_name) if match["name"] else _next(in_order, by_name))
    if end < len(text):
        yield text[end:]


def _named(name: str, by_name: Mapping[str, Any] | None) -> Any:
    if by_name is None or name not in by_name:
        raise Failure("input", f"the SQL has the placeholder %({name})s and `params` has no {name!r}")
    return by_name[name]


def _next(in_order: Iterator[Any], by_name: Mapping[str, Any] | None) -> Any:
    try:
        return next(in_order)
    except StopIteration:
        form = "a map for %(name)s" if by_name is not None else "too few values"
        raise Failure("input", f"the SQL has placeholders %s and `params` has {form}") from None


# -- rows -------------------------------------------------------------------------------------------------------------


class CopyJob:
    """Rows to copy into a table."""

    transactional, controls, repeatable = False, False, False

    def __init__(self, table: str, columns: list[str], rows: list[list[Any]]) -> None:
        self.table, self.columns, self.rows = tuple(table.split(".")), columns, rows
        if not all(self.table):
            raise Failure("input", f"{table!r} can't be the name of a table: write `table` or `schema.table`")

    async def run(self, session: PostgresSession) -> Any:
        """One COPY, which is atomic."""
        count = 0
        if self.rows:
            lines = self._blocks(await self._writers(session), session.encoding)
            names = ", ".join(quoted((column,)) for column in self.columns)
            count = await self._copy(session, f"COPY {quoted(self.table)} ({names}) FROM STDIN", lines)
        return {"rows": [], "row_count": count, "columns": []}

    async def _copy(self, session: PostgresSession, text: str, blocks: Iterator[bytes]) -> int:
        session.safe = True
        inside = session.in_transaction
        try:
            async with session.connection.cursor() as cursor:
                async with cursor.copy(encoded(text, session.encoding)) as copy:
                    for block in blocks:
                        await copy.write(block)
                    session.safe = inside  # from now on it may be committed
                return cursor.rowcount
        except psycopg.Error as error:
            raise statement_failure(error, None, session.safe) from None

    async def _writers(self, session: PostgresSession) -> list[Callable[[Any], str]]:
        """How to write a value of each column, by its type. COPY itself reports unknown columns."""
        types = await session.values(Sql((TYPES, Value(quoted(self.table)), END_OF_TYPES)))
        category = {column["name"]: column["category"] for column in types}
        return [WRITERS.get(category.get(column, ""), plain_text) for column in self.columns]

    def _blocks(self, writers: list[Callable[[Any], str]], encoding: str) -> Iterator[bytes]:
        block = bytearray()
        for number, row in enumerate(self.rows, start=1):
            try:
                fields = [_field(value, write) for value, write in zip(row, writers, strict=True)]
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
END_OF_TYPES = ")"
SPECIAL = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _array(value: Any) -> str:
    return array_text(value) if isinstance(value, list) else plain_text(value)


WRITERS: dict[str, Callable[[Any], str]] = {"J": json_text, "A": _array}
"""By the category of a type: arrays, and JSON, whose letter is not one of PostgreSQL's."""


def _field(value: Any, write: Callable[[Any], str]) -> str:
    return "\\N" if value is None else write(value).translate(SPECIAL)
