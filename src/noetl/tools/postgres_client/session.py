"""Statements on one connection.

Each statement is sent by itself in the extended protocol, which refuses more than one: if two were taken for one, the
server would not run the second. Rows are read in small chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, capabilities, generators
from psycopg.adapt import Transformer
from psycopg.pq import Escaping, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from noetl.model.outcome import Failure
from noetl.sql import Sql, written_parts
from noetl.tools.base import Context
from noetl.tools.postgres_client.faults import Sent, refused
from noetl.tools.postgres_client.gathering import Gathering
from noetl.tools.postgres_client.literals import NOBODY, encoded, literals
from noetl.tools.rows.plain import distinct

CHUNK_ROWS = 100
BYTEA, BYTEA_ARRAY = 17, 1001
COPYING = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)
RAISED = "exec_stmt_raise"
"""Where in the server the notices of `RAISE NOTICE` come from."""


class Done(NamedTuple):
    """What a statement came to."""

    command: str
    columns: list[str]
    row_count: int


class Session:
    """A connection while one call has it."""

    def __init__(self, connection: AsyncConnection[Any], context: Context) -> None:
        self.connection, self.context = connection, context
        self.pgconn = connection.pgconn
        self.safe = True
        """Whether nothing can have been committed that was not reported."""

    @property
    def encoding(self) -> str:
        return self.connection.info.encoding

    @property
    def in_transaction(self) -> bool:
        return self.pgconn.transaction_status != TransactionStatus.IDLE

    def listen(self) -> Callable[[], None]:
        """Log what the server says aside: warnings and what functions raise. Returns how to stop."""

        def hear(diag: psycopg.errors.Diagnostic) -> None:
            severity = diag.severity_nonlocalized or ""
            if severity == "WARNING" or diag.source_function == RAISED:
                self.context.log("stderr", f"{severity}: {diag.message_primary}")

        self.connection.add_notice_handler(hear)
        return lambda: self.connection.remove_notice_handler(hear)

    # -- transactions -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commits at the end. What fails inside is rolled back by whoever gets the connection back."""
        await self.command("BEGIN")
        yield
        self.safe = False
        await self.command("COMMIT")
        self.safe = True

    async def command(self, text: str) -> Done:
        """A statement of our own."""
        return await self.execute(Sql((text,)), Gathering())

    async def values(self, sql: Sql) -> list[dict[str, Any]]:
        """The rows of a small query of our own."""
        rows = Gathering()
        await self.execute(sql, rows)
        return rows.rows()

    # -- statements -------------------------------------------------------------------------------------------------

    async def execute(self, sql: Sql, rows: Gathering | None, number: int = 1, of: int = 1) -> Done:
        """Run one statement. Its rows go into `rows`, or nowhere."""
        literal = literals(Escaping(self.pgconn), self.encoding)  # the encoding is the session's to change
        parts = written_parts(sql, literal, empty=NOBODY)
        text = "".join(written for _, written in parts)
        try:
            async with self.connection.lock:
                return await self._run(encoded(text, self.encoding), rows)
        except psycopg.Error as error:
            raise refused(error, Sent(parts, sql.line, number, of), self.safe) from None

    async def _run(self, text: bytes, rows: Gathering | None) -> Done:
        self.pgconn.send_query_params(text, None)
        if capabilities.has_stream_chunked():
            self.pgconn.set_chunked_rows_mode(CHUNK_ROWS)
        else:
            self.pgconn.set_single_row_mode()
        await self.connection.wait(generators.send(self.pgconn))
        reading = _Reading(self.connection, rows)
        try:
            while (result := await self.connection.wait(generators.fetch(self.pgconn))) is not None:
                reading.take(result)
                await asyncio.sleep(0)  # what is in the buffer already is read without a pause
        except psycopg.OperationalError:
            if reading.error is None:  # else the server has said why before it closed the connection
                raise
        return reading.done()


class _Reading:
    """The results of one statement as they come."""

    def __init__(self, connection: AsyncConnection[Any], rows: Gathering | None) -> None:
        self.connection, self.rows = connection, rows
        self.columns: list[str] = []
        self.transformer = Transformer(connection)
        self.seen = self.changed = 0
        self.tag = b""
        self.error: psycopg.Error | None = None

    def take(self, result: PGresult) -> None:
        if result.status == ExecStatus.FATAL_ERROR:
            self.error = psycopg.errors.error_from_result(result, self.connection.info.encoding)
            return
        if result.status in COPYING:
            raise Failure("input", "COPY from STDIN or to STDOUT is not available: give `table` and `rows`")
        if result.command_status:  # which of the results has it depends on how many rows the last chunk had
            self.tag, self.changed = result.command_status, result.command_tuples or 0
        if result.nfields:
            self._rows(result)

    def _rows(self, result: PGresult) -> None:
        self.seen += result.ntuples
        first = not self.columns
        if first:
            self._describe(result)
        if self.rows is not None and result.ntuples:
            self.transformer.set_pgresult(result, set_loaders=first)
            self.rows.add(self.transformer.load_rows(0, result.ntuples, self._row))

    def _describe(self, result: PGresult) -> None:
        fields = range(result.nfields)
        self.columns = distinct((result.fname(field) or b"").decode(errors="replace") for field in fields)
        if self.rows is not None:
            self.rows.binary = bool({result.ftype(field) for field in fields} & {BYTEA, BYTEA_ARRAY})

    def _row(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.columns, values, strict=True))

    def done(self) -> Done:
        if self.error is not None:
            raise self.error
        return Done(self.tag.decode().rstrip(" 0123456789"), self.columns, self.seen if self.columns else self.changed)
