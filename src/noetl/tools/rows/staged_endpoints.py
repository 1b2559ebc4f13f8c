"""Endpoints of a transfer that the staging database reads or writes itself: files, DuckDB databases, and HTTP.

Types of CSV and JSON columns are inferred from all values, never from a sample: a type is chosen only if every value
converts to it and back unchanged. So `007` stays text, and no row far down the file fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from noetl.model.outcome import Failure
from noetl.sql.statements import Sql, quoted, write
from noetl.tools.files import task_file
from noetl.tools.rows import endpoints
from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.duckdb_database import literal, sql_errors, table_name
from noetl.tools.rows.endpoints import Column, SourceEndpoint, StagedRows, Staging, TargetEndpoint, TransferProgress
from noetl.tools.rows.tables import create_table, duplicate_key, duplicate_keys, insert_or_update

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COPY_OPTIONS = {
    "csv": "format csv, header",
    "json": "format json, array true",
    "jsonl": "format json",
    "parquet": "format parquet",
}
WHOLE = r"-?(0|[1-9][0-9]*)"
TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
PATTERNS = {  # of the values of each type; the first type that matches all values is chosen
    "BIGINT": WHOLE,
    "DECIMAL": rf"{WHOLE}(\.[0-9]+)?",
    "DOUBLE": rf"{WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "BOOLEAN": "true|false",
    "DATE": r"\d{4}-\d\d-\d\d",
    "TIMESTAMP": TIME,
    "TIMESTAMPTZ": rf"{TIME}(Z|[+-]\d\d(:?\d\d)?)",
}
SOURCE, TARGET = "source", "target"

Send = Callable[[list[dict[str, Any]], int], Future[None]]  # sends a batch with its number; fails with a Failure


def file_format(path: str, explicit: str | None) -> str:
    if form := explicit or FORMATS.get(Path(path).suffix.lower()):
        return form
    raise Failure("input", f"the name {path!r} has no known suffix: give `format` (csv, json, jsonl, parquet)")


def file_source(staging: Staging, path: str, form: str, *, typed: bool) -> SourceEndpoint:
    """The rows of a file. `typed`: the target gets the types of the source."""
    path = task_file(path, "source.path")
    if not os.path.isfile(path):
        raise Failure("not_found", f"the file {path} does not exist")
    if form in ("json", "jsonl"):
        return _json_source(staging, path, form)
    options = ", header = true, all_varchar = true, allow_quoted_nulls = false, sample_size = -1"
    relation = f"read_{form}({literal(path)}{options if form == 'csv' else ''})"
    columns = staging.describe(f"SELECT * FROM {relation}")
    if form == "csv" and typed:
        return _converted(relation, columns, _csv_kinds(staging, relation, columns), access="")
    return SourceEndpoint(relation, columns)


def _converted(relation: str, columns: list[Column], kinds: list[str], *, access: str) -> SourceEndpoint:
    """The relation with values of these types. `access` makes text of a value."""
    typed = [Column(column.name, kind) for column, kind in zip(columns, kinds, strict=True)]
    values = (
        column.quoted if column.type == "JSON" else f"CAST({column.quoted}{access} AS {column.type}) AS {column.quoted}"
        for column in typed
    )
    return SourceEndpoint(f"(SELECT {', '.join(values)} FROM {relation})", typed)


def _csv_kinds(staging: Staging, relation: str, columns: list[Column]) -> list[str]:
    tests = []
    for name in (column.quoted for column in columns):
        for kind, pattern in PATTERNS.items():
            fits = f"regexp_full_match({name}, {literal(pattern)})"
            if kind != "DECIMAL":
                fits += f" AND TRY_CAST({name} AS {kind}) IS NOT NULL"
            tests.append(f"bool_and({fits}) FILTER ({name} IS NOT NULL)")
        number = f"CASE WHEN regexp_full_match({name}, {literal(PATTERNS['DECIMAL'])}) THEN ltrim({name}, '-') END"
        tests += [f"max(length(split_part({number}, '.', {part})))" for part in (1, 2)]
    (row,) = staging.rows(f"SELECT {', '.join(tests)} FROM {relation}")
    kinds, width = [], len(PATTERNS) + 2
    for start in range(0, len(row), width):
        *fitting, whole, scale = (value or 0 for value in row[start : start + width])
        digits = whole + scale
        matching = (kind for kind, matches in zip(PATTERNS, fitting, strict=True) if matches)
        kind = next((kind for kind in matching if kind != "DECIMAL" or digits <= endpoints.DECIMAL_DIGITS), "VARCHAR")
        kinds.append(f"DECIMAL({digits},{scale})" if kind == "DECIMAL" else kind)
    return kinds


def _json_source(staging: Staging, path: str, form: str) -> SourceEndpoint:
    """The rows of JSON. Columns of maps or lists, and of several types, stay JSON."""
    layout = "array" if form == "json" else "newline_delimited"
    reading = f"format = '{layout}', maximum_object_size = {16 << 20}"
    first = staging.rows(f"SELECT json FROM read_json_objects({literal(path)}, {reading}) LIMIT 1")
    if not first:
        return SourceEndpoint("", [])
    if not (text := first[0][0]).lstrip().startswith("{"):
        raise Failure("input", f"{path} contains {text[:50]}: rows must be maps")
    columns = staging.describe(
        f"SELECT * FROM read_json({literal(path)}, {reading}, records = true, maximum_depth = 1, sample_size = -1)"
    )
    types = ", ".join(f"{literal(column.name)}: 'JSON'" for column in columns)
    relation = f"read_json({literal(path)}, {reading}, columns = {{{types}}})"
    type_lists = ", ".join(f"list(DISTINCT json_type({column.quoted}))" for column in columns)
    (row,) = staging.rows(f"SELECT {type_lists} FROM {relation}")
    kinds = [_json_kind({*(json_types or ())} - {None, "NULL"}) for json_types in row]
    return _converted(relation, columns, kinds, access="->>'$'")


def _json_kind(types: set[str]) -> str:
    if not types or types == {"VARCHAR"}:
        return "VARCHAR"
    if types == {"BOOLEAN"}:
        return "BOOLEAN"
    if types <= {"BIGINT", "UBIGINT"}:
        return "BIGINT" if len(types) == 1 else "HUGEINT"
    return "DOUBLE" if types <= {"BIGINT", "UBIGINT", "DOUBLE"} else "JSON"


class FileTarget(TargetEndpoint):
    """A file, written under another name and renamed at the end."""

    def __init__(self, path: str, form: str, mode: str) -> None:
        self.path, self.form = task_file(path, "target.path"), form
        folder, name = os.path.split(self.path)
        self.temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}.new")
        self.part = f"{self.temporary}.part"
        self.appends = mode == "append" and os.path.exists(self.path)
        if mode == "upsert":
            raise Failure("input", "a file has no key: set `mode` to append or replace")
        if not os.path.isdir(folder):
            raise Failure("not_found", f"the folder {folder} does not exist")
        if self.appends and form == "json":
            raise Failure("input", "rows cannot be appended to a JSON list: use jsonl, or `mode: replace`")

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        query, options = rows.select(lambda column: _for_file(column, self.form)), COPY_OPTIONS[self.form]
        path, temporary = literal(self.path), literal(self.temporary)
        if not self.appends:
            return staging.execute(f"COPY ({query}) TO {temporary} ({options})")
        if self.form == "parquet":
            existing = f"SELECT * FROM read_parquet({path})"
            count: int = staging.rows(f"SELECT count(*) FROM ({existing})")[0][0]
            return staging.execute(f"COPY ({existing} UNION ALL BY NAME {query}) TO {temporary} ({options})") - count
        if self.form == "csv":
            header = staging.describe(f"SELECT * FROM read_csv({path}, header = true, all_varchar = true)")
            names = [column.name for column in header]
            if names != [column.name for column in rows.columns]:
                raise Failure("input", f"{self.path} has the columns {', '.join(names)}, not those of the source")
            options = "format csv, header false"
        count = staging.execute(f"COPY ({query}) TO {literal(self.part)} ({options})")
        shutil.copyfile(self.path, self.temporary)
        with open(self.temporary, "r+b") as whole, open(self.part, "rb") as new:
            if whole.seek(0, os.SEEK_END):
                whole.seek(-1, os.SEEK_END)
                if whole.read(1) != b"\n":
                    whole.write(b"\n")
            shutil.copyfileobj(new, whole)
        return count

    def write_none(self) -> None:
        if self.appends:
            shutil.copyfile(self.path, self.temporary)
        elif self.form == "parquet":
            raise Failure("input", "the source has no rows, so the columns of the Parquet file are unknown")
        else:
            Path(self.temporary).write_text("[]\n" if self.form == "json" else "")

    def commit(self) -> None:
        with open(self.temporary, "rb") as file:
            os.fsync(file.fileno())
        if os.path.exists(self.path):
            shutil.copymode(self.path, self.temporary)
        os.replace(self.temporary, self.path)

    def discard(self) -> None:
        for path in (self.temporary, self.part):
            Path(path).unlink(missing_ok=True)


def _for_file(column: Column, form: str) -> str:
    name = column.quoted
    if form == "parquet":
        return name
    match column.type:
        case "BLOB":
            return f"to_base64({name})"
        case "TIMESTAMP" | "TIMESTAMP_S" | "TIMESTAMP_MS" | "TIMESTAMP_NS":
            return f"replace({name}::VARCHAR, ' ', 'T')"
        case "TIMESTAMPTZ":
            return f"replace({name}::VARCHAR, ' ', 'T') || ':00'"
        case "FLOAT" | "DOUBLE" if form != "csv":
            return f"CASE WHEN isfinite({name}) THEN to_json({name}) ELSE to_json({name}::VARCHAR) END"
    return f"to_json({name})" if form == "csv" and column.nested and column.type != "JSON" else name


def rows_of(response: Any, path: str | None) -> list[dict[str, Any]]:
    rows = response
    for key in path.split(".") if path else []:
        if not isinstance(rows, dict) or key not in rows:
            raise Failure("input", f"the response has no `{path}`: {key!r} is missing")
        rows = rows[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        place = f"at `{path}`" if path else "of the server"
        raise Failure("input", f"the response {place} is not a list of maps: set `source.rows` to the path of the rows")
    return rows


def http_source(staging: Staging, rows: list[dict[str, Any]]) -> SourceEndpoint:
    path = os.path.join(staging.folder, "response.jsonl")
    with open(path, "wb") as file:
        file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
    return file_source(staging, path, "jsonl", typed=True)


class HttpTarget(TargetEndpoint):
    """A URL that receives each batch as a JSON list. A batch that was sent cannot be rolled back."""

    def __init__(self, send: Send, batch_size: int, cancellation: Cancellation) -> None:
        self.send, self.batch_size, self.cancellation = send, batch_size, cancellation
        self.sending: Future[None] = Future()
        cancellation.on_cancel(lambda: self.sending.cancel())

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        query = f"SELECT to_json(row) FROM ({rows.select(lambda column: _for_file(column, 'json'))}) AS row"
        count = 0
        for number, batch in enumerate(staging.batches(query, self.batch_size), start=1):
            self.sending = self.send([msgspec.json.decode(row[0]) for row in batch], number)
            with suppress(CancelledError):
                self.sending.result()
            self.cancellation.check()
            count += len(batch)
            progress.reach(count)
        return count


def duckdb_source(staging: Staging, sql: Sql, params: Any, alias: str | None) -> SourceEndpoint:
    """The rows of a query. Names in it are looked up in the attached file."""
    text = write(sql, literal)
    with sql_errors():
        statements = staging.connection.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Failure("input", "`source.query` must be one statement that returns rows, such as SELECT")
    if not params and statements[0].named_parameters:
        raise Failure("input", "`source.query` has placeholders: give `params`")
    query = text.strip().rstrip(";")
    if alias is not None:
        staging.execute(f"USE {alias}")
    if params:
        staging.execute(f"CREATE TEMP TABLE chosen AS {query}", params)
        query = "SELECT * FROM chosen"
    return SourceEndpoint(f"({query}\n)", staging.describe(f"({query}\n)"))


class DuckdbTarget(TargetEndpoint):
    def __init__(self, staging: Staging, table: str, mode: str, key: list[str]) -> None:
        self.staging, self.mode, self.key = staging, mode, key
        self.name = f"{TARGET}.{'' if '.' in table else 'main.'}{table_name(table)}"
        staging.execute("BEGIN")
        sql = (
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $1 "
            "AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) ORDER BY column_index"
        )
        place = ("main", table) if "." not in table else table.rsplit(".", 1)
        self.types = dict(staging.rows(sql, [TARGET, *place]))

    def prepare(self, columns: list[Column]) -> None:
        if not self.types:
            key = self.key if self.mode == "upsert" else []
            types = {column.name: column.type for column in columns}
            self.staging.execute(create_table(self.name, types, key))
        elif self.mode == "replace":
            self.staging.execute(f"DELETE FROM {self.name}")

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        if self.mode != "upsert":
            listed = ", ".join(column.quoted for column in rows.columns)
            return staging.execute(f"INSERT INTO {self.name} ({listed}) {rows.query}")
        count = staging.execute(f"CREATE TEMP TABLE arrived AS {rows.query}")
        for values in staging.rows(duplicate_keys("arrived", [*map(quoted, self.key)])):
            raise duplicate_key(self.key, values, "the source")
        names = [column.name for column in rows.columns]
        staging.execute(insert_or_update(self.name, "arrived", names, self.key))
        return count

    def commit(self) -> None:
        self.staging.execute("COMMIT")
