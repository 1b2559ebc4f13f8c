"""One transfer from its inputs to its result, in a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.model.outcome import Failure
from noetl.tools.rows.columns import Column, mapped
from noetl.tools.rows.duck import table_name
from noetl.tools.rows.duckdb_end import SOURCE, TARGET, DuckdbTarget, duckdb_source, duckdb_text
from noetl.tools.rows.ends import Rows, Source, Target
from noetl.tools.rows.file_end import FileTarget, file_format, file_source
from noetl.tools.rows.http_end import HttpTarget, Send, http_source
from noetl.tools.rows.hub import Hub, opened_hub
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.thread import Stop

if TYPE_CHECKING:
    from noetl.sql import Sql
    from noetl.tools.transfer import Inputs


class Errand(NamedTuple):
    """What is to be moved, and what the event loop gave for it."""

    inputs: Inputs
    sql: Sql | None
    source_auth: Any
    target_auth: Any
    answer: list[dict[str, Any]]
    send: Send
    tell: Callable[[str], object]

    def run(self, stop: Stop) -> dict[str, Any]:
        started = time.monotonic()
        with ExitStack() as stack:
            rows = _Move(self, stop, stack).rows()
        duration = round((time.monotonic() - started) * 1000)
        size = self.inputs.batch_size
        result = {"rows": rows, "batches": ceil(rows / size), "duration_ms": duration}
        if self.inputs.target.kind == "file":
            result["bytes"] = os.path.getsize(self.inputs.target.path or "")
        return result | {"source": self.inputs.source.kind, "target": self.inputs.target.kind}


class _Move:
    """The parts of one transfer while it runs. What is opened is closed by the stack, the last first."""

    def __init__(self, errand: Errand, stop: Stop, stack: ExitStack) -> None:
        self.errand, self.stop, self.stack = errand, stop, stack
        self.inputs = errand.inputs
        self.progress = Progress(errand.tell)

    def rows(self) -> int:
        if self.inputs.source.kind == self.inputs.target.kind == "postgres":
            return self._across()
        file = self._file_target()
        hub = self.stack.enter_context(opened_hub(self._databases(), self._paths(file), self.stop))
        target = file or self._target(hub)
        accepted = target.accepts()
        source = self._source(hub, typed=accepted is None)
        if not source.columns:
            return self._none(target, exists=accepted is not None)
        chosen = mapped(source.columns, self.inputs.columns)
        columns = [Column(name, column.type) for name, column in chosen]
        self._check_columns(accepted, columns)
        target.prepare(columns)
        values = ", ".join(f"{column.quoted} AS {Column(name, '').quoted}" for name, column in chosen)
        rows = Rows(f"SELECT {values} FROM {source.relation}", columns)
        count = source.flow(lambda: target.write(hub, rows, self.progress), self.progress)
        self.stop.check()
        target.commit()
        return count

    def _none(self, target: Target, *, exists: bool) -> int:
        """No rows from a source that tells its columns only by them. To replace by nothing is to empty."""
        if isinstance(target, FileTarget):
            target.write_none()
        elif exists and self.inputs.mode == "replace":
            target.prepare([])
        else:
            return 0
        target.commit()
        return 0

    def _check_columns(self, accepted: dict[str, str] | None, columns: list[Column]) -> None:
        table = self.inputs.target.table
        if accepted is not None:
            unknown = next((column.name for column in columns if column.name not in accepted), None)
            if unknown is not None:
                raise Failure("input", f"{table} has no column {unknown!r}; it has {', '.join(accepted)}")
        names = [column.name for column in columns]
        missing = next((name for name in self.inputs.key if name not in names), None)
        if missing is not None:
            raise Failure("input", f"`key` names {missing!r}, which is no column that is written")

    # -- what the hub may touch ---------------------------------------------------------------------------------------

    def _databases(self) -> dict[str, tuple[str, bool]]:
        """Database files by their alias, and whether they are only read. One file is attached once."""
        source, target = self.inputs.source, self.inputs.target
        found: dict[str, tuple[str, bool]] = {}
        if target.kind == "duckdb" and target.database:
            found[TARGET] = (target.database, False)
        if source.kind == "duckdb" and source.database and self._source_alias() == SOURCE:
            found[SOURCE] = (source.database, True)
        return found

    def _source_alias(self) -> str:
        source, target = self.inputs.source, self.inputs.target
        both = target.kind == source.kind == "duckdb" and source.database and target.database
        same = both and os.path.realpath(source.database or "") == os.path.realpath(target.database or "")
        return TARGET if same else SOURCE

    def _paths(self, file: FileTarget | None) -> list[str]:
        source = self.inputs.source
        read = [source.path] if source.kind == "file" and source.path else []
        return [*read, *(file.paths if file else [])]

    # -- the sides ----------------------------------------------------------------------------------------------------

    def _file_target(self) -> FileTarget | None:
        target = self.inputs.target
        if target.kind != "file" or target.path is None:
            return None
        file = FileTarget(target.path, file_format(target.path, target.format), self.inputs.mode)
        self.stack.callback(file.discard)
        return file

    def _target(self, hub: Hub) -> Target:
        inputs, target = self.inputs, self.inputs.target
        if target.kind == "http":
            return HttpTarget(self.errand.send, inputs.batch_size, self.stop)
        table = target.table or ""
        if target.kind == "duckdb":
            return DuckdbTarget(hub, TARGET, table, inputs.mode, inputs.key)
        if target.kind == "postgres":
            from noetl.tools.rows.postgres_end import PostgresTarget, linked

            link = self.stack.enter_context(linked(self.errand.target_auth, self.stop))
            return PostgresTarget(link, table, inputs.mode, inputs.key)
        from noetl.tools.rows.snowflake_end import SnowflakeTarget, session

        opened = self.stack.enter_context(session(self.errand.target_auth, target.database, self.stop))
        return SnowflakeTarget(opened, table, inputs.mode, inputs.key, inputs.batch_size)

    def _source(self, hub: Hub, *, typed: bool) -> Source:
        source, errand = self.inputs.source, self.errand
        match source.kind:
            case "file":
                path = source.path or ""
                return file_source(hub, path, file_format(path, source.format), typed=typed)
            case "http":
                return http_source(hub, errand.answer)
            case "duckdb":
                attached = source.database is not None
                query = self._query(lambda sql: duckdb_text(hub, sql, source.params))
                return duckdb_source(hub, query, source.params, self._source_alias() if attached else None)
            case "postgres":
                from noetl.tools.rows.postgres_end import PostgresSource, linked, postgres_text

                link = self.stack.enter_context(linked(errand.source_auth, self.stop))
                query = self._query(lambda sql: postgres_text(link, sql, source.params))
                return PostgresSource(link, query).through(hub, typed=typed)
        from noetl.tools.rows.snowflake_end import SnowflakeSource, session

        opened = self.stack.enter_context(session(errand.source_auth, source.database, self.stop))
        return SnowflakeSource(opened, hub, errand.sql, source.table, source.params)

    def _query(self, text: Callable[[Sql], str]) -> str:
        table = self.inputs.source.table
        if table is not None:
            return f"SELECT * FROM {table_name(table)}"
        assert self.errand.sql is not None
        return text(self.errand.sql)

    # -- from one postgres to another ---------------------------------------------------------------------------------

    def _across(self) -> int:
        """Nothing stands in between, so the types are those of PostgreSQL itself."""
        from noetl.tools.rows.postgres_end import PostgresSource, PostgresTarget, copy_across, linked, postgres_text

        inputs, errand = self.inputs, self.errand
        there = self.stack.enter_context(linked(errand.target_auth, self.stop))
        here = self.stack.enter_context(linked(errand.source_auth, self.stop))
        query = self._query(lambda sql: postgres_text(here, sql, inputs.source.params))
        source = PostgresSource(here, query)
        target = PostgresTarget(there, inputs.target.table or "", inputs.mode, inputs.key)
        found = [Column(name, kind) for name, kind in zip(source.names, source.types, strict=True)]
        chosen = mapped(found, inputs.columns)
        columns = [Column(name, column.type) for name, column in chosen]
        accepted = target.accepts()
        self._check_columns(accepted, columns)
        if accepted is None:
            target.create({column.name: column.type for column in columns})
        target.prepare(columns)
        values = ", ".join(f"q.{column.quoted} AS {Column(name, '').quoted}" for name, column in chosen)
        source.query = f"SELECT {values} FROM ({query}\n) AS q"
        count = copy_across(source, target, columns, self.progress)
        self.stop.check()
        target.commit()
        return count
