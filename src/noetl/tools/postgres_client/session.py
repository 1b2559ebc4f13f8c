"""Statements on one connection, and failures in place of errors of the server and the driver.

Each statement is sent on its own in the extended protocol, which rejects more than one. Rows are read in small chunks.
The SQLSTATE decides the kind of a failure; before a session exists the driver only has a text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, capabilities, generators
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import Escaping, ExecStatus, TransactionStatus

from noetl.model.outcome import Failure
from noetl.sql.statements import InList, Sql, Value, WrittenSql, written
from noetl.tools.base import Context
from noetl.tools.postgres_client.values import EMPTY_LIST, RowBuffer, encoded, literals
from noetl.tools.rows.values import distinct_names

CHUNK_ROWS = 100
BYTEA, BYTEA_ARRAY = 17, 1001
COPYING = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)
NO_ERROR: dict[str, Any] = {"pg": {"code": None, "sqlstate": None}}
KINDS = {
    "": ("sql", False),
    **dict.fromkeys(["40001", "40P01", "55P03", "53"], ("sql", True)),  # other transactions, a lack of resources
    **dict.fromkeys(["08", "57P01", "57P02", "57P03", "57P05", "53300"], ("connect", True)),  # stops, starts, is full
    **dict.fromkeys(["57014", "25P03", "25P04"], ("timeout", True)),
    "28": ("auth", False),
}
"""The kind of a failure and whether it is retryable, by the beginning of the SQLSTATE; the longest one counts."""
PHRASES = [
    (re.compile(r"password authentication failed|no password supplied"), "auth", "28P01"),
    (re.compile(r"authentication failed|no pg_hba\.conf entry|role \".*\" (does not exist|is not)"), "auth", "28000"),
    (re.compile(r"permission denied for database"), "auth", "42501"),
    (re.compile(r"database \".*\" does not exist"), "not_found", "3D000"),
    (re.compile(r"too many (clients|connections)|connection slots"), "connect", "53300"),
    (re.compile(r"the database system is"), "connect", "57P03"),
]
FIELDS = ("schema_name", "table_name", "column_name", "datatype_name", "constraint_name")


class SentStatement(NamedTuple):
    """A statement as it was sent, to find the line of an error in the author's SQL."""

    sql: WrittenSql
    number: int
    of: int


class StatementResult(NamedTuple):
    command: str
    columns: list[str]
    row_count: int


class PostgresSession:
    def __init__(self, connection: AsyncConnection[Any], context: Context) -> None:
        self.connection, self.context = connection, context
        self.pgconn = connection.pgconn
        self.safe = True
        """Whether the call can be repeated: no commit can have happened without being reported, or it does no harm."""

    @property
    def encoding(self) -> str:
        return self.connection.info.encoding

    @property
    def in_transaction(self) -> bool:
        return self.pgconn.transaction_status != TransactionStatus.IDLE

    @contextmanager
    def logged_notices(self) -> Iterator[None]:
        def log(diag: psycopg.errors.Diagnostic) -> None:
            severity = diag.severity_nonlocalized or ""
            if severity == "WARNING" or diag.source_function == "exec_stmt_raise":
                self.context.log("stderr", f"{severity}: {diag.message_primary}")

        self.connection.add_notice_handler(log)
        try:
            yield
        finally:
            self.connection.remove_notice_handler(log)

    @asynccontextmanager
    async def transaction(self, *, idempotent: bool = False) -> AsyncIterator[None]:
        """Commits at the end. After an error the pool rolls back. `idempotent`: the work may be done twice."""
        await self.command("BEGIN")
        yield
        self.safe = idempotent
        await self.command("COMMIT")
        self.safe = True

    async def command(self, text: str) -> None:
        await self.execute(Sql((text,)), None)

    async def values(self, sql: Sql) -> list[dict[str, Any]]:
        rows = RowBuffer()
        await self.execute(sql, rows)
        return rows.rows()

    async def execute(self, sql: Sql, rows: RowBuffer | None, number: int = 1, of: int = 1) -> StatementResult:
        literal = literals(Escaping(self.pgconn), self.encoding)  # the session can change its encoding
        statement = SentStatement(written(sql, literal, empty=EMPTY_LIST), number, of)
        try:
            async with self.connection.lock:
                return await self._run(encoded(statement.sql.text, self.encoding), rows)
        except psycopg.Error as error:
            raise statement_failure(error, statement, self.safe) from None

    async def _run(self, text: bytes, rows: RowBuffer | None) -> StatementResult:
        self.pgconn.send_query_params(text, None)
        if capabilities.has_stream_chunked():
            self.pgconn.set_chunked_rows_mode(CHUNK_ROWS)
        else:
            self.pgconn.set_single_row_mode()
        await self.connection.wait(generators.send(self.pgconn))
        columns: list[str] = []
        error: psycopg.Error | None = None
        transformer, tag, row_count = Transformer(self.connection), b"", 0
        try:
            while (result := await self.connection.wait(generators.fetch(self.pgconn))) is not None:
                if result.status == ExecStatus.FATAL_ERROR:
                    error = error_from_result(result, self.encoding)
                    continue
                if result.status in COPYING:
                    raise Failure("input", "COPY from STDIN or to STDOUT is not available: give `table` and `rows`")
                tag = result.command_status or tag  # any of the results may have it, depending on the last chunk
                first = not columns
                if first and result.nfields:
                    fields = range(result.nfields)
                    columns = distinct_names((result.fname(field) or b"").decode(errors="replace") for field in fields)
                    if rows is not None:
                        rows.binary = bool({result.ftype(field) for field in fields} & {BYTEA, BYTEA_ARRAY})
                row_count += result.ntuples if columns else result.command_tuples or 0
                if rows is not None and columns and result.ntuples:
                    transformer.set_pgresult(result, set_loaders=first)
                    loaded = transformer.load_rows(0, result.ntuples, tuple)
                    rows.add([dict(zip(columns, row, strict=True)) for row in loaded])
                await asyncio.sleep(0)  # buffered results are fetched without a pause
        except psycopg.OperationalError:
            if error is None:  # or else the server sent the reason before it closed the connection
                raise
        if error is not None:
            raise error
        return StatementResult(tag.decode().rstrip(" 0123456789"), columns, row_count)


def sqlstate(failure: Failure) -> str | None:
    state: str | None = failure.outcome.extra.get("pg", {}).get("sqlstate")
    return state


def connect_failure(error: Exception) -> Failure:
    text = str(error).strip() or type(error).__name__
    matches = ((kind, state) for phrase, kind, state in PHRASES if phrase.search(text))
    kind, state = next(matches, ("connect", getattr(error, "sqlstate", None)))
    extra, message = {"pg": {"code": state, "sqlstate": state}}, f"no connection to PostgreSQL: {text}"
    return Failure(kind, message, retryable=kind == "connect", extra=extra, sqlstate=state)


def statement_failure(error: psycopg.Error, statement: SentStatement | None, safe: bool) -> Failure:
    """The failure of a statement. `safe`: it cannot have been committed."""
    if error.sqlstate is None:
        text = str(error).strip() or type(error).__name__
        if not isinstance(error, psycopg.OperationalError):
            return Failure("sql", f"the driver cannot read the response: {text}", extra=NO_ERROR)
        doubt = "" if safe else "; it is unknown whether the statement was committed"
        message = f"the connection to PostgreSQL was lost: {text}{doubt}"
        return Failure("connect", message, retryable=safe, extra=NO_ERROR)
    late = error.sqlstate != "57014" or "timeout" in str(error)  # or else the statement was cancelled
    prefix = max(filter(error.sqlstate.startswith, KINDS), key=len, default="")
    kind, retryable = KINDS[prefix] if late else ("cancelled", False)
    diag = error.diag
    fields: dict[str, Any] = {"code": error.sqlstate, "sqlstate": error.sqlstate}
    fields["severity"] = diag.severity_nonlocalized or diag.severity
    fields |= {name.removesuffix("_name"): getattr(diag, name) for name in FIELDS}
    fields = {name: value for name, value in fields.items() if value is not None}
    places, advice, place = [], None, None
    if statement is not None and statement.of > 1:
        places.append(f"statement {statement.number}")
    if diag.statement_position is not None:
        fields["position"] = int(diag.statement_position)
        if statement is not None:
            place = statement.sql.place(fields["position"])
            fields["line"] = place.line
            places.append(f"line {place.line}")
            if error.sqlstate == "42601" and isinstance(place.part, Value | InList):
                advice = "a template is one value; a name is written {{ name | ident }}"
    if error.sqlstate == "25001":
        advice = "it cannot be part of a transaction: give it a task of its own, without `exactly_once`"
    text = diag.message_primary or str(error)
    text += f" ({', '.join(places)} of the SQL)" if places else ""
    more = [diag.message_detail, diag.message_hint, diag.context, advice]
    message = "; ".join([text, *(part.strip() for part in more if part)])
    details = {name: value for name, value in fields.items() if name != "code"}
    if statement is not None and statement.of > 1:
        details["statement"] = statement.number
    if place is not None:
        details.setdefault("column", place.column)  # of a constraint, it is the name of a column
    return Failure(kind, message, retryable=retryable, extra={"pg": fields}, **details)
