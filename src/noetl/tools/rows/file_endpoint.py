"""Files as a side of a transfer: CSV, JSON, JSON lines and Parquet, read and written by the hub.

What CSV and JSON do not say about types is found out from all values of a column, never from a sample: a type is only
chosen if every value comes back from it as it was written. So `007` stays text, and no row far down the file fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from noetl.model.outcome import Failure
from noetl.tools.files import task_file
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duck import literal
from noetl.tools.rows.ends import Plain, Rows
from noetl.tools.rows.hub import Hub
from noetl.tools.rows.progress import Progress

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
MAX_OBJECT_BYTES = 16 << 20
WRITTEN = {
    "csv": "format csv, header",
    "json": "format json, array true",
    "jsonl": "format json",
    "parquet": "format parquet",
}

WHOLE = r"-?(0|[1-9][0-9]*)"
SHAPES = {
    "BIGINT": WHOLE,
    "DECIMAL": rf"{WHOLE}(\.[0-9]+)?",
    "DOUBLE": rf"{WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "BOOLEAN": "true|false",
    "DATE": r"\d{4}-\d\d-\d\d",
    "TIMESTAMP": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?",
    "TIMESTAMPTZ": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)",
}
"""What the values of a column look like that can be of a type. The first type that takes them all is chosen."""


def file_format(path: str, given: str | None) -> str:
    """The format of a file by what is said of it, or by its name."""
    found = given or FORMATS.get(Path(path).suffix.lower())
    if found is None:
        raise Failure("input", f"the name {path!r} tells no format: give `format` (csv, json, jsonl, parquet)")
    return found


# -- source -----------------------------------------------------------------------------------------------------------


def file_source(hub: Hub, path: str, form: str, *, typed: bool) -> Plain:
    """The rows of a file. `typed`: the types decide what the target's will be."""
    path = task_file(path, "source.path")
    if not os.path.isfile(path):
        raise Failure("not_found", f"there is no file {path}")
    if form == "parquet":
        relation = f"read_parquet({literal(path)})"
        return Plain(relation, hub.describe(f"SELECT * FROM {relation}"))
    if form == "csv":
        options = "header = true, all_varchar = true, allow_quoted_nulls = false, sample_size = -1"
        relation = f"read_csv({literal(path)}, {options})"
        found = hub.describe(f"SELECT * FROM {relation}")
        return _typed_csv(hub, relation, found) if typed else Plain(relation, found)
    return _json_source(hub, path, form)


def _typed_csv(hub: Hub, relation: str, columns: list[Column]) -> Plain:
    tests = [
        f"bool_and({_fits(column.quoted, kind)}) FILTER ({column.quoted} IS NOT NULL)"
        for column in columns
        for kind in SHAPES
    ]
    digits = [_digits(column.quoted) for column in columns]
    row = hub.checked(lambda: hub.connection.execute(f"SELECT {', '.join(tests + digits)} FROM {relation}").fetchone())
    assert row is not None
    kinds = []
    for number in range(len(columns)):
        fitting = row[number * len(SHAPES) : (number + 1) * len(SHAPES)]
        whole, scale = row[len(tests) + number].values()
        kinds.append(_first_fit(fitting, whole, scale))
    values = ", ".join(
        f"CAST({one.quoted} AS {kind}) AS {one.quoted}" for one, kind in zip(columns, kinds, strict=True)
    )
    typed = [Column(column.name, kind) for column, kind in zip(columns, kinds, strict=True)]
    return Plain(f"(SELECT {values} FROM {relation})", typed)


def _fits(name: str, kind: str) -> str:
    shape = f"regexp_full_match({name}, {literal(SHAPES[kind])})"
    if kind == "DECIMAL":
        return shape
    return f"{shape} AND TRY_CAST({name} AS {kind}) IS NOT NULL"


def _digits(name: str) -> str:
    """How many digits the values have at most before and after the point."""
    number = f"CASE WHEN regexp_full_match({name}, {literal(SHAPES['DECIMAL'])}) THEN ltrim({name}, '-') END"
    return f"{{'whole': max(length(split_part({number}, '.', 1))), 'scale': max(length(split_part({number}, '.', 2)))}}"


def _first_fit(fitting: tuple[bool | None, ...], whole: int | None, scale: int | None) -> str:
    for kind, fits in zip(SHAPES, fitting, strict=True):
        if not fits:
            continue
        if kind != "DECIMAL":
            return kind
        if (whole or 0) + (scale or 0) <= 38:
            return f"DECIMAL({(whole or 0) + (scale or 0)},{scale or 0})"
    return "VARCHAR"


def _json_source(hub: Hub, path: str, form: str) -> Plain:
    """The rows of JSON. Values that are maps or lists, and columns of several kinds of values, stay JSON."""
    layout = "array" if form == "json" else "newline_delimited"
    reading = f"format = '{layout}', maximum_object_size = {MAX_OBJECT_BYTES}"
    objects = f"SELECT json FROM read_json_objects({literal(path)}, {reading}) LIMIT 1"
    first = hub.checked(lambda: hub.connection.execute(objects).fetchone())
    if first is None:
        return Plain("", [])
    if not first[0].lstrip().startswith("{"):
        raise Failure("input", f"{path} holds {first[0][:50]}, and rows are maps")
    found = hub.describe(
        f"SELECT * FROM read_json({literal(path)}, {reading}, records = true, maximum_depth = 1, sample_size = -1)"
    )
    types = ", ".join(f"{literal(column.name)}: 'JSON'" for column in found)
    relation = f"read_json({literal(path)}, {reading}, columns = {{{types}}})"
    told = ", ".join(f"list(DISTINCT json_type({column.quoted}))" for column in found)
    row = hub.checked(lambda: hub.connection.execute(f"SELECT {told} FROM {relation}").fetchone())
    assert row is not None
    kinds = [_json_kind({one for one in kinds or () if one not in (None, "NULL")}) for kinds in row]
    values = ", ".join(
        f"{column.quoted if kind == 'JSON' else f'''CAST({column.quoted}->>'$' AS {kind})'''} AS {column.quoted}"
        for column, kind in zip(found, kinds, strict=True)
    )
    typed = [Column(column.name, kind) for column, kind in zip(found, kinds, strict=True)]
    return Plain(f"(SELECT {values} FROM {relation})", typed)


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
    """A file, written beside its place and moved there at the end."""

    def __init__(self, path: str, form: str, mode: str) -> None:
        self.path, self.form = task_file(path, "target.path"), form
        folder, name = os.path.split(self.path)
        self.beside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}.new")
        self.keeps = mode == "append" and os.path.exists(self.path)
        if mode == "upsert":
            raise Failure("input", "a file has no key: `mode` is append or replace")
        if not os.path.isdir(folder):
            raise Failure("not_found", f"there is no folder {folder}")
        if self.keeps and form == "json":
            raise Failure("input", "a JSON list can't be added to: use jsonl, or `mode: replace`")

    def accepts(self) -> dict[str, str] | None:
        return None

    def prepare(self, columns: list[Column]) -> None: ...

    def write(self, hub: Hub, rows: Rows, progress: Progress) -> int:
        shown = ", ".join(f"{for_file(column, self.form)} AS {column.quoted}" for column in rows.columns)
        query = f"SELECT {shown} FROM ({rows.query})"
        if self.keeps and self.form == "parquet":
            return self._add_to_parquet(hub, query)
        if self.keeps and self.form == "csv":
            self._check_header(hub, rows.columns)
        part = self.beside if not self.keeps else f"{self.beside}.part"
        form = "format csv, header false" if self.keeps and self.form == "csv" else WRITTEN[self.form]
        try:
            count = hub.execute(f"COPY ({query}) TO {literal(part)} ({form})")
            if self.keeps:
                self._add(part)
        finally:
            if self.keeps:
                Path(part).unlink(missing_ok=True)
        return count

    def write_none(self) -> None:
        """A file of no rows, where not even the columns are known."""
        if self.keeps:
            shutil.copyfile(self.path, self.beside)
        elif self.form == "parquet":
            raise Failure("input", "there are no rows and so no columns, which a Parquet file must have")
        else:
            Path(self.beside).write_text("[]\n" if self.form == "json" else "")

    def _add(self, part: str) -> None:
        """What is there, then the new rows."""
        shutil.copyfile(self.path, self.beside)
        with open(self.beside, "r+b") as whole, open(part, "rb") as new:
            if whole.seek(0, os.SEEK_END):
                whole.seek(-1, os.SEEK_END)
                if whole.read(1) != b"\n":
                    whole.write(b"\n")
            shutil.copyfileobj(new, whole)

    def _check_header(self, hub: Hub, columns: list[Column]) -> None:
        there = hub.describe(f"SELECT * FROM read_csv({literal(self.path)}, header = true, all_varchar = true)")
        names = [column.name for column in there]
        if names != [column.name for column in columns]:
            raise Failure("input", f"{self.path} has the columns {', '.join(names)}, not those of the source")

    def _add_to_parquet(self, hub: Hub, query: str) -> int:
        before = f"SELECT * FROM read_parquet({literal(self.path)})"
        found = hub.checked(lambda: hub.connection.execute(f"SELECT count(*) FROM ({before})").fetchone())
        there: int = found[0] if found else 0
        both = f"{before} UNION ALL BY NAME {query}"
        return hub.execute(f"COPY ({both}) TO {literal(self.beside)} ({WRITTEN['parquet']})") - there

    @property
    def paths(self) -> list[str]:
        return [self.path, self.beside, f"{self.beside}.part"]

    def commit(self) -> None:
        with open(self.beside, "rb") as file:
            os.fsync(file.fileno())
        if os.path.exists(self.path):
            shutil.copymode(self.path, self.beside)
        os.replace(self.beside, self.path)

    def discard(self) -> None:
        """Leave nothing beside the file when it was not finished."""
        Path(self.beside).unlink(missing_ok=True)


def for_file(column: Column, form: str) -> str:
    """What is written of a column: the types of JSON and CSV are few."""
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
