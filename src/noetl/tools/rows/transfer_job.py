"""One transfer from its inputs to its result, in a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.model.outcome import Failure
from noetl.sql import Sql, quoted
from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.columns import Column, mapped
from noetl.tools.rows.duckdb_database import table_name
from noetl.tools.rows.duckdb_endpoint import SOURCE, TARGET, DuckdbTarget, duckdb_source
from noetl.tools.rows.endpoints import SourceEndpoint, StagedRows, TargetEndpoint, TransferProgress
from noetl.tools.rows.file_endpoint import FileTarget, file_format, file_source
from noetl.tools.rows.http_endpoint import HttpTarget, Send, http_source
from noetl.tools.rows.staging import Staging, open_staging

if TYPE_CHECKING:
    from noetl.tools.rows.postgres_endpoint import TransferConnection
    from noetl.tools.transfer import Inputs


class TransferJob(NamedTuple):
    """The inputs of a transfer, and everything that only the event loop can provide."""

    inputs: Inputs
    sql: Sql | None
    source_auth: Any
    target_auth: Any
    response_rows: list[dict[str, Any]]
    send: Send
    log: Callable[[str], object]

    def run(self, cancellation: Cancellation) -> dict[str, Any]:
        started = time.monotonic()
        with ExitStack() as stack:
            rows = Transfer(self, cancellation, stack).rows()
        duration = round((time.monotonic() - started) * 1000)
        size = self.inputs.batch_size
        result = {"rows": rows, "batches": ceil(rows / size), "duration_ms": duration}
        if self.inputs.target.kind == "file":
            result["bytes"] = os.path.getsize(self.inputs.target.path or "")
        return result | {"source": self.inputs.source.kind, "target": self.inputs.target.kind}


class Transfer:
    """A running transfer. The stack closes everything that it opens."""

    def __init__(self, job: TransferJob, cancellation: Cancellation, stack: ExitStack) -> None:
        self.job, self.cancellation, self.stack = job, cancellation, stack
        self.inputs = job.inputs
        self.progress = TransferProgress(job.log)

    def rows(self) -> int:
        if self.inputs.source.kind == self.inputs.target.kind == "postgres":
            return self._copy_postgres()
        file = self._file_target()
        source_input = self.inputs.source
        paths = [source_input.path] if source_input.kind == "file" and source_input.path else []
        paths += file.paths if file else []
        staging = self.stack.enter_context(open_staging(self._databases(), paths, self.cancellation))
        target = file or self._target(staging)
        accepted = target.accepts()
        source = self._source(staging, typed=accepted is None)
        if not source.columns:
            return self._without_rows(target, exists=accepted is not None)
        columns, values = self._chosen(source.columns, accepted)
        target.prepare(columns)
        rows = StagedRows(f"SELECT {values} FROM {source.relation}", columns)
        count = source.flow(lambda: target.write(staging, rows, self.progress), self.progress)
        self.cancellation.check()
        target.commit()
        return count

    def _without_rows(self, target: TargetEndpoint, *, exists: bool) -> int:
        """The source has no rows, and so no known columns: `replace` empties the target."""
        if isinstance(target, FileTarget):
            target.write_none()
        elif exists and self.inputs.mode == "replace":
            target.prepare([])
        else:
            return 0
        target.commit()
        return 0

    def _chosen(self, columns: list[Column], accepted: dict[str, str] | None) -> tuple[list[Column], str]:
        """The columns to write, and the SQL that selects them; Failure if the target does not have them."""
        chosen = mapped(columns, self.inputs.columns)
        names = [name for name, _ in chosen]
        for name in names:
            if accepted is not None and name not in accepted:
                table = self.inputs.target.table
                raise Failure("input", f"{table} has no column {name!r}; it has {', '.join(accepted)}")
        for name in self.inputs.key:
            if name not in names:
                raise Failure("input", f"`key` has {name!r}, which is not a column that is written")
        values = ", ".join(f"{column.quoted} AS {quoted(name)}" for name, column in chosen)
        return [Column(name, column.type) for name, column in chosen], values

    def _databases(self) -> dict[str, tuple[str, bool]]:
        """Database files by alias, and whether they are only read. A file is attached once."""
        source, target = self.inputs.source, self.inputs.target
        databases: dict[str, tuple[str, bool]] = {}
        if target.kind == "duckdb" and target.database:
            databases[TARGET] = (target.database, False)
        if source.kind == "duckdb" and source.database and self._source_alias() == SOURCE:
            databases[SOURCE] = (source.database, True)
        return databases

    def _source_alias(self) -> str:
        source, target = self.inputs.source, self.inputs.target
        both = target.kind == source.kind == "duckdb" and source.database and target.database
        same = both and os.path.realpath(source.database or "") == os.path.realpath(target.database or "")
        return TARGET if same else SOURCE

    def _file_target(self) -> FileTarget | None:
        target = self.inputs.target
        if target.kind != "file" or target.path is None:
            return None
        file = FileTarget(target.path, file_format(target.path, target.format), self.inputs.mode)
        self.stack.callback(file.discard)
        return file

    def _target(self, staging: Staging) -> TargetEndpoint:
        inputs, target = self.inputs, self.inputs.target
        if target.kind == "http":
            return HttpTarget(self.job.send, inputs.batch_size, self.cancellation)
        table = target.table or ""
        if target.kind == "duckdb":
            return DuckdbTarget(staging, table, inputs.mode, inputs.key)
        if target.kind == "postgres":
            from noetl.tools.rows.postgres_endpoint import PostgresTarget

            return PostgresTarget(self._postgres(self.job.target_auth), table, inputs.mode, inputs.key)
        from noetl.tools.rows.snowflake_endpoint import SnowflakeTarget, open_session

        session = self.stack.enter_context(open_session(self.job.target_auth, target.database, self.cancellation))
        return SnowflakeTarget(session, table, inputs.mode, inputs.key, inputs.batch_size)

    def _source(self, staging: Staging, *, typed: bool) -> SourceEndpoint:
        source, job = self.inputs.source, self.job
        match source.kind:
            case "file":
                path = source.path or ""
                return file_source(staging, path, file_format(path, source.format), typed=typed)
            case "http":
                return http_source(staging, job.response_rows)
            case "duckdb":
                alias = None if source.database is None else self._source_alias()
                return duckdb_source(staging, self._sql(), source.params, alias)
            case "postgres":
                from noetl.tools.rows.postgres_endpoint import PostgresSource, postgres_text

                connection = self._postgres(job.source_auth)
                query = postgres_text(connection, self._sql(), source.params)
                return PostgresSource(connection, query, staging, typed=typed)
        from noetl.tools.rows.snowflake_endpoint import SnowflakeSource, open_session
        from noetl.tools.rows.snowflake_sql import quoted_name

        session = self.stack.enter_context(open_session(job.source_auth, source.database, self.cancellation))
        return SnowflakeSource(session, staging, self._sql(quoted_name), source.params)

    def _sql(self, name_of: Callable[[str], str] = table_name) -> Sql:
        """The query of the source; `name_of` quotes the name of its table."""
        table = self.inputs.source.table
        if table is not None:
            return Sql((f"SELECT * FROM {name_of(table)}",))
        assert self.job.sql is not None
        return self.job.sql

    def _postgres(self, conninfo: str) -> TransferConnection:
        from noetl.tools.rows.postgres_endpoint import open_connection

        return self.stack.enter_context(open_connection(conninfo, self.cancellation))

    def _copy_postgres(self) -> int:
        """From one PostgreSQL to another without a staging database, so the types are those of PostgreSQL itself."""
        from noetl.tools.rows.postgres_endpoint import PostgresTarget, copy_across, describe, postgres_text

        inputs, job = self.inputs, self.job
        target_connection, source = self._postgres(job.target_auth), self._postgres(job.source_auth)
        query = postgres_text(source, self._sql(), inputs.source.params)
        target = PostgresTarget(target_connection, inputs.target.table or "", inputs.mode, inputs.key)
        accepted = target.accepts()
        columns, values = self._chosen(describe(source, query), accepted)
        if accepted is None:
            target.create({column.name: column.type for column in columns})
        target.prepare(columns)
        count = copy_across(source, f"SELECT {values} FROM ({query}\n) AS q", target, columns, self.progress)
        self.cancellation.check()
        target.commit()
        return count
