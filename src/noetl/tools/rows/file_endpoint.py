"""Files as endpoints of a transfer: CSV, JSON, JSON lines and Parquet, read and written by the staging database.

Types of CSV and JSON columns are inferred from all values, never from a sample: a type is chosen only if every value
converts to it and back unchanged. So `007` stays text, and no row far down the file fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from noetl.model.outcome import Failure
from noetl.tools.files import task_file
from noetl.tools.rows.columns import DECIMAL_DIGITS, Column
from noetl.tools.rows.duckdb_database import literal
from noetl.tools.rows.endpoints import SourceEndpoint, StagedRows, TargetEndpoint, TransferProgress
from noetl.tools.rows.staging import Staging

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
MAX_OBJECT_BYTES = 16 << 20
COPY_OPTIONS = {
    "csv": "format csv, header",
    "json": "format json, array true",
    "jsonl": "format json",
    "parquet": "format parquet",
}

WHOLE = r"-?(0|[1-9][0-9]*)"
PATTERNS = {
    "BIGINT": WHOLE,
    "DECIMAL": rf"{WHOLE}(\.[0-9]+)?",
    "DOUBLE": rf"{WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "BOOLEAN": "true|false",
    "DATE": r"\d{4}-\d\d-\d\d",
    "TIMESTAMP": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?",
    "TIMESTAMPTZ": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)",
}
"""The pattern of the values of each type. The first type that matches all values is chosen."""


def file_format(path: str, explicit: str | None) -> str:
    """The format of a file, by its name if it is not explicit."""
    name = explicit or FORMATS.get(Path(path).suffix.lower())
    if name is None:
        raise Failure("input", f"the name {path!r} has no known suffix: give `format` (csv, json, jsonl, parquet)")
    return name


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
    """The types of all columns, by one query over all values."""
    tests = []
    for name in (column.quoted for column in columns):
        for kind, pattern in PATTERNS.items():
            fits = f"regexp_full_match({name}, {literal(pattern)})"
            if kind != "DECIMAL":
                fits += f" AND TRY_CAST({name} AS {kind}) IS NOT NULL"
            tests.append(f"bool_and({fits}) FILTER ({name} IS NOT NULL)")
        decimal = f"regexp_full_match({name}, {literal(PATTERNS['DECIMAL'])})"
        number = f"CASE WHEN {decimal} THEN ltrim({name}, '-') END"
        tests += [f"max(length(split_part({number}, '.', {part})))" for part in (1, 2)]
    (row,) = staging.rows(f"SELECT {', '.join(tests)} FROM {relation}")
    width = len(PATTERNS) + 2
    return [_first_fit(row[start : start + width]) for start in range(0, len(row), width)]


def _first_fit(tests: tuple[Any, ...]) -> str:
    """The first type that fits all values. The last two results are the most digits before and after the point."""
    *fitting, whole, scale = (value or 0 for value in tests)
    for kind, fits in zip(PATTERNS, fitting, strict=True):
        if fits and kind != "DECIMAL":
            return kind
        if fits and whole + scale <= DECIMAL_DIGITS:
            return f"DECIMAL({whole + scale},{scale})"
    return "VARCHAR"


def _json_source(staging: Staging, path: str, form: str) -> SourceEndpoint:
    """The rows of JSON. Columns of maps or lists, and of several types, stay JSON."""
    layout = "array" if form == "json" else "newline_delimited"
    reading = f"format = '{layout}', maximum_object_size = {MAX_OBJECT_BYTES}"
    first = staging.rows(f"SELECT json FROM read_json_objects({literal(path)}, {reading}) LIMIT 1")
    if not first:
        return SourceEndpoint("", [])
    text = first[0][0]
    if not text.lstrip().startswith("{"):
        raise Failure("input", f"{path} contains {text[:50]}: rows must be maps")
    columns = staging.describe(
        f"SELECT * FROM read_json({literal(path)}, {reading}, records = true, maximum_depth = 1, sample_size = -1)"
    )
    types = ", ".join(f"{literal(column.name)}: 'JSON'" for column in columns)
    relation = f"read_json({literal(path)}, {reading}, columns = {{{types}}})"
    type_lists = ", ".join(f"list(DISTINCT json_type({column.quoted}))" for column in columns)
    (row,) = staging.rows(f"SELECT {type_lists} FROM {relation}")
    return _converted(
        relation, columns, [_json_kind({*(kinds or ())} - {None, "NULL"}) for kinds in row], access="->>'$'"
    )


def _json_kind(kinds: set[str]) -> str:
    if not kinds or kinds == {"VARCHAR"}:
        return "VARCHAR"
    if kinds == {"BOOLEAN"}:
        return "BOOLEAN"
    if kinds <= {"BIGINT", "UBIGINT"}:
        return "BIGINT" if "UBIGINT" not in kinds or kinds == {"UBIGINT"} else "HUGEINT"
    return "DOUBLE" if kinds <= {"BIGINT", "UBIGINT", "DOUBLE"} else "JSON"


class FileTarget(TargetEndpoint):
    """A file, written under another name and renamed at the end."""

    def __init__(self, path: str, form: str, mode: str) -> None:
        self.path, self.form = task_file(path, "target.path"), form
        folder, name = os.path.split(self.path)
        self.temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}.new")
        self.appends = mode == "append" and os.path.exists(self.path)
        if mode == "upsert":
            raise Failure("input", "a file has no key: set `mode` to append or replace")
        if not os.path.isdir(folder):
            raise Failure("not_found", f"the folder {folder} does not exist")
        if self.appends and form == "json":
            raise Failure("input", "rows cannot be appended to a JSON list: use jsonl, or `mode: replace`")

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        query, options = rows.select(lambda column: for_file(column, self.form)), COPY_OPTIONS[self.form]
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
        part = f"{self.temporary}.part"
        count = staging.execute(f"COPY ({query}) TO {literal(part)} ({options})")
        self._append(part)
        return count

    def write_none(self) -> None:
        """Write a file without rows, whose columns are unknown."""
        if self.appends:
            shutil.copyfile(self.path, self.temporary)
        elif self.form == "parquet":
            raise Failure("input", "the source has no rows, so the columns of the Parquet file are unknown")
        else:
            Path(self.temporary).write_text("[]\n" if self.form == "json" else "")

    def _append(self, part: str) -> None:
        shutil.copyfile(self.path, self.temporary)
        with open(self.temporary, "r+b") as whole, open(part, "rb") as new:
            if whole.seek(0, os.SEEK_END):
                whole.seek(-1, os.SEEK_END)
                if whole.read(1) != b"\n":
                    whole.write(b"\n")
            shutil.copyfileobj(new, whole)

    @property
    def paths(self) -> list[str]:
        return [self.path, self.temporary, f"{self.temporary}.part"]

    def commit(self) -> None:
        with open(self.temporary, "rb") as file:
            os.fsync(file.fileno())
        if os.path.exists(self.path):
            shutil.copymode(self.path, self.temporary)
        os.replace(self.temporary, self.path)

    def discard(self) -> None:
        for path in self.paths[1:]:
            Path(path).unlink(missing_ok=True)


def for_file(column: Column, form: str) -> str:
    """The expression that writes a column: JSON and CSV have few types."""
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
    if form == "csv" and column.nested and column.type != "JSON":
        return f"to_json({name})"
    return name
