"""Statements on one connection.

Each statement is sent on its own in the extended protocol, which rejects more than one: if two were mistaken for one,
the server would not run the second. Rows are read in small chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, capabilities, generators
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import Escaping, ExecStatus, TransactionStatus

from noetl.model.outcome import Failure
from noetl.sql import Sql, written
from noetl.tools.base import Context
from noetl.tools.postgres_client.errors import SentStatement, statement_failure
from noetl.tools.postgres_client.values import EMPTY_LIST, RowBuffer, encoded, literals
from noetl.tools.rows.values import distinct_names

CHUNK_ROWS = 100
BYTEA, BYTEA_ARRAY = 17, 1001
COPYING = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)
RAISE_FUNCTION = "exec_stmt_raise"
"""The function of the server that sends the notices of `RAISE NOTICE`."""


class StatementResult(NamedTuple):
    command: str
    columns: list[str]
    row_count: int


class PostgresSession:
    def __init__(self, connection: AsyncConnection[Any], context: Context) -> None:
        self.connection, self.context = connection, context
        self.pgconn = connection.pgconn
        self.safe = True
        """Whether no commit can have happened without being reported."""

    @property
    def encoding(self) -> str:
        return self.connection.info.encoding

    @property
    def in_transaction(self) -> bool:
        return self.pgconn.transaction_status != TransactionStatus.IDLE

    @contextmanager
    def logged_notices(self) -> Iterator[None]:
        """Log warnings and the notices that functions raise."""

        def log(diag: psycopg.errors.Diagnostic) -> None:
            severity = diag.severity_nonlocalized or ""
            if severity == "WARNING" or diag.source_function == RAISE_FUNCTION:
                self.context.log("stderr", f"{severity}: {diag.message_primary}")

        self.connection.add_notice_handler(log)
        try:
            yield
        finally:
            self.connection.remove_notice_handler(log)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commits at the end. After an error the pool rolls back."""
        await self.command("BEGIN")
        yield
        self.safe = False
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
        sent = SentStatement(written(sql, literal, empty=EMPTY_LIST), number, of)
        try:
            async with self.connection.lock:
                return await self._run(encoded(sent.sql.text, self.encoding), rows)
        except psycopg.Error as error:
            raise statement_failure(error, sent, self.safe) from None

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
