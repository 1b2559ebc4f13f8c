"""One transfer from its source to its target, in a thread."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from noetl.model.outcome import Failure, Outcome
from noetl.sql.statements import Sql, quoted
from noetl.tools import http, postgres
from noetl.tools.base import Context
from noetl.tools.fields import Scalar
from noetl.tools.rows import endpoints
from noetl.tools.rows import staged_endpoints as staged
from noetl.tools.rows.blocking import Cancellation, in_thread
from noetl.tools.rows.duckdb_database import table_name
from noetl.tools.rows.endpoints import Column
from noetl.tools.rows.tables import check_key
from noetl.tools.transfer import Inputs, TransferSource, TransferTarget

if TYPE_CHECKING:
    from noetl.tools.rows.postgres_endpoint import TransferConnection
    from noetl.tools.rows.snowflake_database import SnowflakeSession

FIELDS = {
    "postgres": ("auth", "query", "params", "table"),
    "duckdb": ("database", "query", "params", "table"),
    "snowflake": ("auth", "query", "params", "table", "database"),
    "http": ("auth", "url", "headers", "rows"),
    "file": ("path", "format"),
}
REQUIRED = {"http": ["url"], "file": ["path"], "duckdb": ["database", "table"]}
"""Of a target; other databases need a `table`. Of a source, if it is not a database."""


async def call(inputs: Inputs, context: Context) -> Outcome:
    _check(inputs)
    source, target, loop = inputs.source, inputs.target, asyncio.get_running_loop()

    def log(line: str) -> None:
        loop.call_soon_threadsafe(context.log, "progress", line)

    async def request(endpoint: TransferSource | TransferTarget, headers: Mapping[str, Scalar], **body: Any) -> Any:
        call = http.Inputs(url=endpoint.url or "", headers={**headers}, auth=endpoint.auth, **body)
        outcome = await http.run(call, context)
        if (error := outcome.error) is not None:
            raise Failure(error.kind, error.message, retryable=error.retryable, extra=outcome.extra, **error.details)
        return outcome.result["data"]

    def send(batch: list[dict[str, Any]], number: int) -> Future[None]:
        headers = {"Idempotency-Key": f"{context.idempotency_key}.{number}", **target.headers}
        return asyncio.run_coroutine_threadsafe(request(target, headers, method=target.method, json=batch), loop)

    async def auth(endpoint: TransferSource | TransferTarget) -> Any:
        """A connection string for postgres, the fields of the credential for snowflake."""
        if endpoint.kind == "postgres":
            from noetl.tools.postgres_client.connections import conninfo_of

            return await conninfo_of(postgres.Inputs(auth=endpoint.auth), context)
        return await context.credential(endpoint.auth or "snowflake") if endpoint.kind == "snowflake" else None

    auths = await auth(source), await auth(target)
    rows = staged.rows_of(await request(source, source.headers), source.rows) if source.kind == "http" else []
    transfer = Transfer(inputs, context.bound.get("source.query"), *auths, rows, send, log)
    return Outcome(result=await in_thread(transfer.run))


def _check(inputs: Inputs) -> None:
    source, target = inputs.source, inputs.target
    for side, endpoint in (("source", source), ("target", target)):
        fields = (*FIELDS[endpoint.kind], "kind", "method")
        for field in endpoint.__struct_fields__:
            if field not in fields and getattr(endpoint, field):
                raise Failure("input", f"{endpoint.kind} has no `{side}.{field}`: leave it out", input=side)
    if source.kind in ("postgres", "duckdb", "snowflake"):
        if (source.query is None) == (source.table is None):
            raise Failure("input", "the source needs either `query` or `table`", input="source")
    elif getattr(source, REQUIRED[source.kind][0]) is None:
        raise Failure("input", f"the source needs `{REQUIRED[source.kind][0]}`", input="source")
    for field in REQUIRED.get(target.kind, ["table"]):
        if not getattr(target, field):
            raise Failure("input", f"the target needs `{field}`", input="target")
    check_key(inputs.mode, inputs.key)
    if target.kind == "http" and inputs.mode != "append":
        raise Failure("input", "http only appends rows: leave `mode` out", input="mode")


@dataclass
class Transfer:
    """The inputs of a transfer, and everything that only the event loop can provide."""

    inputs: Inputs
    sql: Sql | None
    source_auth: Any
    target_auth: Any
    response_rows: list[dict[str, Any]]
    send: staged.Send
    log: Callable[[str], object]

    def run(self, cancellation: Cancellation) -> dict[str, Any]:
        started = time.monotonic()
        self.cancellation, self.progress = cancellation, endpoints.TransferProgress(self.log)
        source, target = self.inputs.source, self.inputs.target
        with ExitStack() as self.stack:
            between_postgres = source.kind == target.kind == "postgres"
            rows = self._copy_postgres() if between_postgres else self._copy_staged()
        duration = round((time.monotonic() - started) * 1000)
        result = {"rows": rows, "batches": ceil(rows / self.inputs.batch_size), "duration_ms": duration}
        if target.kind == "file":
            result["bytes"] = os.path.getsize(target.path or "")
        return result | {"source": source.kind, "target": target.kind}

    def _copy_staged(self) -> int:
        inputs, source_input, target_input = self.inputs, self.inputs.source, self.inputs.target
        paths, file = [source_input.path] if source_input.kind == "file" and source_input.path else [], None
        if target_input.kind == "file" and target_input.path:
            form = staged.file_format(target_input.path, target_input.format)
            file = staged.FileTarget(target_input.path, form, inputs.mode)
            self.stack.callback(file.discard)
            paths += [file.path, file.temporary, file.part]
        databases: dict[str, tuple[str, bool]] = {}
        if target_input.kind == "duckdb" and target_input.database:
            databases[staged.TARGET] = (target_input.database, False)
        if source_input.kind == "duckdb" and source_input.database and self._source_alias() == staged.SOURCE:
            databases[staged.SOURCE] = (source_input.database, True)
        staging = self.stack.enter_context(endpoints.open_staging(databases, paths, self.cancellation))
        target = file or self._target(staging)
        source = self._source(staging, typed=not target.types)
        count = 0
        if source.columns:
            columns, values = self._selected_columns(source.columns, target)
            target.prepare(columns)
            rows = endpoints.StagedRows(f"SELECT {values} FROM {source.relation}", columns)
            count = source.flow(lambda: target.write(staging, rows, self.progress), self.progress)
            self.cancellation.check()
        elif file:  # the source has no rows, and so no known columns
            file.write_none()
        elif target.types and inputs.mode == "replace":
            target.prepare([])
        else:
            return 0
        target.commit()
        return count

    def _copy_postgres(self) -> int:
        """From one PostgreSQL to another without a staging database, so the types are those of PostgreSQL itself."""
        from noetl.tools.rows.postgres_endpoint import PostgresTarget, copy_across, describe, postgres_text

        inputs = self.inputs
        target_connection, source = self._postgres(self.target_auth), self._postgres(self.source_auth)
        query = postgres_text(source, self._sql(), inputs.source.params)
        target = PostgresTarget(target_connection, inputs.target.table or "", inputs.mode, inputs.key)
        columns, values = self._selected_columns(describe(source, query), target)
        if not target.types:
            target.create({column.name: column.type for column in columns})
        target.prepare(columns)
        count = copy_across(source, f"SELECT {values} FROM ({query}\n) AS q", target, columns, self.progress)
        self.cancellation.check()
        target.commit()
        return count

    def _selected_columns(self, columns: list[Column], target: endpoints.TargetEndpoint) -> tuple[list[Column], str]:
        mapping, names = self.inputs.columns, [column.name for column in columns]
        if mapping is None:
            duplicate = next((name for place, name in enumerate(names) if name in names[:place]), None)
            if duplicate is not None:
                message = f"the source has two columns {duplicate!r}: rename one, with AS or with `columns`"
                raise Failure("input", message)
            mapping = {name: name for name in names}
        elif not mapping:
            raise Failure("input", "`columns` is empty: leave it out for all columns")
        selected, values = [], []
        for name, source in mapping.items():
            matches = [column for column in columns if column.name == source]
            matches = matches or [column for column in columns if column.name.lower() == source.lower()]
            if not matches:
                raise Failure("input", f"the source has no column {source!r}; it has {', '.join(names)}")
            selected.append(Column(name, matches[0].type))
            values.append(f"{matches[0].quoted} AS {quoted(name)}")
        for name in mapping:
            if target.types and name not in target.types:
                table = self.inputs.target.table
                raise Failure("input", f"{table} has no column {name!r}; it has {', '.join(target.types)}")
        for name in self.inputs.key:
            if name not in mapping:
                raise Failure("input", f"`key` has {name!r}, which is not a column that is written")
        return selected, ", ".join(values)

    def _source_alias(self) -> str:
        """That of the target if both are the same DuckDB file, which is attached once."""
        source, target = self.inputs.source, self.inputs.target
        both = target.kind == source.kind == "duckdb" and source.database and target.database
        same = both and os.path.realpath(source.database or "") == os.path.realpath(target.database or "")
        return staged.TARGET if same else staged.SOURCE

    def _target(self, staging: endpoints.Staging) -> endpoints.TargetEndpoint:
        inputs, target = self.inputs, self.inputs.target
        if target.kind == "http":
            return staged.HttpTarget(self.send, inputs.batch_size, self.cancellation)
        table = target.table or ""
        if target.kind == "duckdb":
            return staged.DuckdbTarget(staging, table, inputs.mode, inputs.key)
        if target.kind == "postgres":
            from noetl.tools.rows.postgres_endpoint import PostgresTarget

            return PostgresTarget(self._postgres(self.target_auth), table, inputs.mode, inputs.key)
        from noetl.tools.rows.snowflake_endpoint import SnowflakeTarget

        session = self._snowflake(self.target_auth, target.database)
        return SnowflakeTarget(session, table, inputs.mode, inputs.key, inputs.batch_size)

    def _source(self, staging: endpoints.Staging, *, typed: bool) -> endpoints.SourceEndpoint:
        source = self.inputs.source
        match source.kind:
            case "file":
                path = source.path or ""
                return staged.file_source(staging, path, staged.file_format(path, source.format), typed=typed)
            case "http":
                return staged.http_source(staging, self.response_rows)
            case "duckdb":
                alias = None if source.database is None else self._source_alias()
                return staged.duckdb_source(staging, self._sql(), source.params, alias)
            case "postgres":
                from noetl.tools.rows.postgres_endpoint import PostgresSource, postgres_text

                connection = self._postgres(self.source_auth)
                query = postgres_text(connection, self._sql(), source.params)
                return PostgresSource(connection, query, staging, typed=typed)
        from noetl.tools.rows.snowflake_database import quoted_name
        from noetl.tools.rows.snowflake_endpoint import SnowflakeSource

        session = self._snowflake(self.source_auth, source.database)
        return SnowflakeSource(session, staging, self._sql(quoted_name), source.params)

    def _sql(self, name_of: Callable[[str], str] = table_name) -> Sql:
        table = self.inputs.source.table
        if table is not None:
            return Sql((f"SELECT * FROM {name_of(table)}",))
        assert self.sql is not None
        return self.sql

    def _postgres(self, conninfo: str) -> TransferConnection:
        from noetl.tools.rows.postgres_endpoint import open_connection

        return self.stack.enter_context(open_connection(conninfo, self.cancellation))

    def _snowflake(self, fields: dict[str, Any], database: str | None) -> SnowflakeSession:
        from noetl.tools.rows.snowflake_database import SnowflakeSession, login, logout

        connection = login({**fields, "database": database} if database else fields)
        self.stack.callback(logout, connection)
        return SnowflakeSession(connection, self.cancellation)
