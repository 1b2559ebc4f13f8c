"""Files as endpoints of a transfer: CSV, JSON, JSON lines and Parquet, read and written by the staging database.

Types of CSV and JSON columns are inferred from all values, never from a sample: a type is chosen only if every value
converts to it and back unchanged. So `007` stays text, and no row far down the file fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from noetl.model.outcome import Failure
from noetl.tools.files import task_file
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duckdb_database import literal
from noetl.tools.rows.endpoints import RelationSource, StagedRows
from noetl.tools.rows.progress import Progress
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


# -- source -----------------------------------------------------------------------------------------------------------


def file_source(staging: Staging, path: str, form: str, *, typed: bool) -> RelationSource:
    """The rows of a file. `typed`: the target gets the types of the source."""
    path = task_file(path, "source.path")
    if not os.path.isfile(path):
        raise Failure("not_found", f"the file {path} does not exist")
    if form == "parquet":
        relation = f"read_parquet({literal(path)})"
        return RelationSource(relation, staging.describe(f"SELECT * FROM {relation}"))
    if form == "csv":
        options = "header = true, all_varchar = true, allow_quoted_nulls = false, sample_size = -1"
        relation = f"read_csv({literal(path)}, {options})"
        columns = staging.describe(f"SELECT * FROM {relation}")
        return _typed_csv(staging, relation, columns) if typed else RelationSource(relation, columns)
    return _json_source(staging, path, form)


def _typed_csv(staging: Staging, relation: str, columns: list[Column]) -> RelationSource:
    tests = [
        f"bool_and({_fits(column.quoted, kind)}) FILTER ({column.quoted} IS NOT NULL)"
        for column in columns
        for kind in PATTERNS
    ]
    digits = [_digits(column.quoted) for column in columns]
    row = staging.checked(
        lambda: staging.connection.execute(f"SELECT {', '.join(tests + digits)} FROM {relation}").fetchone()
    )
    assert row is not None
    kinds = []
    for number in range(len(columns)):
        fitting = row[number * len(PATTERNS) : (number + 1) * len(PATTERNS)]
        whole, scale = row[len(tests) + number].values()
        kinds.append(_first_fit(fitting, whole, scale))
    values = ", ".join(
        f"CAST({column.quoted} AS {kind}) AS {column.quoted}" for column, kind in zip(columns, kinds, strict=True)
    )
    typed = [Column(column.name, kind) for column, kind in zip(columns, kinds, strict=True)]
    return RelationSource(f"(SELECT {values} FROM {relation})", typed)


def _fits(name: str, kind: str) -> str:
    matches = f"regexp_full_match({name}, {literal(PATTERNS[kind])})"
    if kind == "DECIMAL":
        return matches
    return f"{matches} AND TRY_CAST({name} AS {kind}) IS NOT NULL"


def _digits(name: str) -> str:
    """The most digits that the values have before and after the decimal point."""
    number = f"CASE WHEN regexp_full_match({name}, {literal(PATTERNS['DECIMAL'])}) THEN ltrim({name}, '-') END"
    return f"{{'whole': max(length(split_part({number}, '.', 1))), 'scale': max(length(split_part({number}, '.', 2)))}}"


def _first_fit(fitting: tuple[bool | None, ...], whole: int | None, scale: int | None) -> str:
    for kind, fits in zip(PATTERNS, fitting, strict=True):
        if not fits:
            continue
        if kind != "DECIMAL":
            return kind
        if (whole or 0) + (scale or 0) <= 38:
            return f"DECIMAL({(whole or 0) + (scale or 0)},{scale or 0})"
    return "VARCHAR"


def _json_source(staging: Staging, path: str, form: str) -> RelationSource:
    """The rows of JSON. Columns of maps or lists, and of several types, stay JSON."""
    layout = "array" if form == "json" else "newline_delimited"
    reading = f"format = '{layout}', maximum_object_size = {MAX_OBJECT_BYTES}"
    objects = f"SELECT json FROM read_json_objects({literal(path)}, {reading}) LIMIT 1"
    first = staging.checked(lambda: staging.connection.execute(objects).fetchone())
    if first is None:
        return RelationSource("", [])
    if not first[0].lstrip().startswith("{"):
        raise Failure("input", f"{path} contains {first[0][:50]}: rows must be maps")
    columns = staging.describe(
        f"SELECT * FROM read_json({literal(path)}, {reading}, records = true, maximum_depth = 1, sample_size = -1)"
    )
    types = ", ".join(f"{literal(column.name)}: 'JSON'" for column in columns)
    relation = f"read_json({literal(path)}, {reading}, columns = {{{types}}})"
    type_lists = ", ".join(f"list(DISTINCT json_type({column.quoted}))" for column in columns)
    row = staging.checked(lambda: staging.connection.execute(f"SELECT {type_lists} FROM {relation}").fetchone())
    assert row is not None
    kinds = [_json_kind({kind for kind in kinds or () if kind not in (None, "NULL")}) for kinds in row]
    values = ", ".join(
        f"{column.quoted if kind == 'JSON' else f'''CAST({column.quoted}->>'$' AS {kind})'''} AS {column.quoted}"
        for column, kind in zip(columns, kinds, strict=True)
    )
    typed = [Column(column.name, kind) for column, kind in zip(columns, kinds, strict=True)]
    return RelationSource(f"(SELECT {values} FROM {relation})", typed)


def _json_kind(kinds: set[str]) -> str:
    if not kinds or kinds == {"VARCHAR"}:
        return "VARCHAR"
    if kinds == {"BOOLEAN"}:
        return "BOOLEAN"
    if kinds <= {"BIGINT", "UBIGINT"}:
        return "BIGINT" if "UBIGINT" not in kinds or kinds == {"UBIGINT"} else "HUGEINT"
    return "DOUBLE" if kinds <= {"BIGINT", "UBIGINT", "DOUBLE"} else "JSON"


# -- target -----------------------------------------------------------------------------------------------------------


class FileTarget:
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
            raise Failure("input", "rows can't be appended to a JSON list: use jsonl, or `mode: replace`")

    def accepts(self) -> dict[str, str] | None:
        return None

    def prepare(self, columns: list[Column]) -> None: ...

    def write(self, staging: Staging, rows: StagedRows, progress: Progress) -> int:
        values = ", ".join(f"{for_file(column, self.form)} AS {column.quoted}" for column in rows.columns)
        query = f"SELECT {values} FROM ({rows.query})"
        if self.appends and self.form == "parquet":
            return self._append_to_parquet(staging, query)
        if self.appends and self.form == "csv":
            self._check_header(staging, rows.columns)
        part = self.temporary if not self.appends else f"{self.temporary}.part"
        form = "format csv, header false" if self.appends and self.form == "csv" else COPY_OPTIONS[self.form]
        try:
            count = staging.execute(f"COPY ({query}) TO {literal(part)} ({form})")
            if self.appends:
                self._append(part)
        finally:
            if self.appends:
                Path(part).unlink(missing_ok=True)
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

    def _check_header(self, staging: Staging, columns: list[Column]) -> None:
        existing = staging.describe(f"SELECT * FROM read_csv({literal(self.path)}, header = true, all_varchar = true)")
        names = [column.name for column in existing]
        if names != [column.name for column in columns]:
            raise Failure("input", f"{self.path} has the columns {', '.join(names)}, not those of the source")

    def _append_to_parquet(self, staging: Staging, query: str) -> int:
        existing = f"SELECT * FROM read_parquet({literal(self.path)})"
        row = staging.checked(lambda: staging.connection.execute(f"SELECT count(*) FROM ({existing})").fetchone())
        count: int = row[0] if row else 0
        both = f"{existing} UNION ALL BY NAME {query}"
        return staging.execute(f"COPY ({both}) TO {literal(self.temporary)} ({COPY_OPTIONS['parquet']})") - count

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
        """Remove the temporary file of an unfinished transfer."""
        Path(self.temporary).unlink(missing_ok=True)


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
        case "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE":
            return f"replace({name}::VARCHAR, ' ', 'T') || ':00'"
        case "FLOAT" | "DOUBLE" if form != "csv":
            return f"CASE WHEN isfinite({name}) THEN to_json({name}) ELSE to_json({name}::VARCHAR) END"
    if form == "csv" and column.nested and column.type != "JSON":
        return f"to_json({name})"
    return name
