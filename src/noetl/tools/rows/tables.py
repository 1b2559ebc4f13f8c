"""Rows for a table: the inputs of a load, which all SQL kinds have, and the SQL that their databases share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, NamedTuple

from msgspec import UnsetType

from noetl.model.outcome import Failure
from noetl.sql.statements import quoted
from noetl.tools.fields import SqlInputs

TIME_AFTER_DATE = re.compile(r"[-/]\d+[T ]+[\d:.]*[1-9]")


class Load(NamedTuple):
    """Rows for a table. `mode` is append, upsert or replace; `key` are the columns that identify a row, for upsert."""

    table: str
    columns: list[str]
    rows: list[list[Any]]
    mode: str
    key: list[str]

    @property
    def upserts(self) -> bool:
        return self.mode == "upsert"

    def types(self, names: Mapping[str, str]) -> dict[str, str]:
        """The columns of a table that fits the rows, each with its type. `names` has the types of a database by sort of
        value: boolean, integer, large (more than 64 bits), number, text, binary, json."""
        values = zip(*self.rows, strict=True) if self.rows else ([] for _ in self.columns)
        return {name: names[_sort(column)] for name, column in zip(self.columns, values, strict=True)}


def _sort(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int}:
        return "integer" if all(value is None or -(2**63) <= value < 2**63 for value in values) else "large"
    if kinds and kinds <= {int, float}:
        return "number"
    sorts = {bool: "boolean", str: "text", bytes: "binary"}
    return sorts.get(kinds.pop(), "json") if len(kinds) == 1 else "json" if kinds else "text"


def load_of(inputs: SqlInputs, args: dict[str, Any]) -> Load | None:
    """The load that the inputs describe; None if they have a statement instead. Failure if they do not fit together."""
    mode, key = inputs.mode, inputs.key
    if inputs.table is None:
        for name in ("rows", "columns", "key"):
            if getattr(inputs, name):
                raise Failure("input", f"`{name}` is for a `table`, not for a statement: leave it out", input=name)
        if mode != "append":
            raise Failure("input", "`mode` is for a `table`, not for a statement: leave it out")
        return None
    if inputs.params is not None:
        raise Failure("input", "`params` are for a statement: use `rows` with `table`")
    check_key(mode, key)
    columns, rows = row_values(inputs.rows, inputs.columns, args)
    if rows:
        for name in key:
            if name not in columns:
                message = f"`key` has {name!r}, which is not one of the columns {', '.join(columns)}"
                raise Failure("input", message, input="key")
            place = columns.index(name)
            for number, row in enumerate(rows, start=1):
                if row[place] is None:
                    message = f"row {number} has no value for {name!r}, which is part of the `key`"
                    raise Failure("input", message, input="rows")
    return Load(inputs.table, columns, rows, mode, key)


def check_exact(load: Load, whole: Sequence[str], dates: Sequence[str]) -> None:
    """Failure for values that databases change silently: fractions in columns of whole numbers, times in columns
    of dates. Both have the type of each column, empty for all others."""
    _check_columns(load, whole, _has_fraction, "it would be rounded; round it before")
    _check_columns(load, dates, _has_time, "its time would be lost; cut it off before")


def _check_columns(load: Load, types: Sequence[str], loses: Callable[[Any], bool], consequence: str) -> None:
    for place, (column, kind) in enumerate(zip(load.columns, types, strict=True)):
        for number, row in enumerate(load.rows, start=1) if kind else ():
            if loses(value := row[place]):
                message = f"row {number}: {str(value)[:60]} does not fit {column!r}, which is {kind}: {consequence}"
                raise Failure("input", f"{message}, or change the type of the column")


def _has_time(value: Any) -> bool:
    """Whether a text has a date and a time after midnight."""
    return isinstance(value, str) and TIME_AFTER_DATE.search(value) is not None


def _has_fraction(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value) and not value.is_integer()
    if not isinstance(value, str) or not any(mark in value for mark in ".eE"):
        return False
    try:
        number = Decimal(value)
    except InvalidOperation:
        return False  # the database rejects it
    return number.is_finite() and number != number.to_integral_value()


def check_key(mode: str, key: list[str]) -> None:
    if mode == "upsert" and not key:
        raise Failure("input", "`upsert` needs a `key`: list the columns that identify a row", input="mode")
    if key and mode != "upsert":
        raise Failure("input", "`key` is only for `mode: upsert`: leave it out", input="key")


def row_values(
    rows: list[dict[str, Any] | list[Any]] | UnsetType | None, columns: list[str] | None, args: dict[str, Any]
) -> tuple[list[str], list[list[Any]]]:
    """The columns and the values of each row. Without rows, the args are the only row."""
    if rows is None:  # the args must not take the place of rows that a template did not give
        raise Failure("input", "`rows` is null: give it a list, which may be empty", input="rows")
    records = [args] if isinstance(rows, UnsetType) else rows
    if isinstance(rows, UnsetType) and not args:
        raise Failure("input", "no rows to insert: give `rows`, or `args` for one row")
    names = columns or (list(records[0]) if records and isinstance(records[0], dict) else [])
    if records and not names:
        is_list = isinstance(records[0], list)
        raise Failure("input", "rows that are lists need `columns`" if is_list else "row 1 is empty")
    if len(set(names)) != len(names):
        raise Failure("input", "`columns` names a column twice")
    table = []
    for number, row in enumerate(records, start=1):
        if isinstance(row, list):
            if len(row) != len(names):
                raise Failure("input", f"row {number} has {len(row)} values and there are {len(names)} columns")
            table.append(row)
            continue
        if len(row) > len(names) or not row.keys() <= set(names):
            unknown = next(name for name in row if name not in names)
            message = f"row {number} has {unknown!r}, which is not one of the columns {', '.join(names)}"
            raise Failure("input", message if columns else f"{message} of row 1: list all columns in `columns`")
        table.append([row.get(name) for name in names])
    return names, table


def create_table(name: str, types: Mapping[str, str], key: Sequence[str]) -> str:
    parts = [f"{quoted(column)} {kind}" for column, kind in types.items()]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
    return f"CREATE TABLE {name} ({', '.join(parts)})"


def insert_or_update(name: str, origin: str, columns: Sequence[str], key: Sequence[str]) -> str:
    names = ", ".join(map(quoted, columns))
    updated = [quoted(column) for column in columns if column not in key]
    changes = ", ".join(f"{column} = excluded.{column}" for column in updated)
    then = f"DO UPDATE SET {changes}" if updated else "DO NOTHING"
    keys = ", ".join(map(quoted, key))
    return f"INSERT INTO {name} ({names}) SELECT {names} FROM {origin} ON CONFLICT ({keys}) {then}"


def duplicate_keys(origin: str, quoted_key: Sequence[str]) -> str:
    """A query for the first key that two rows have. Databases silently use one of them, or do not report which."""
    keys = ", ".join(quoted_key)
    return f"SELECT {keys} FROM {origin} GROUP BY {keys} HAVING COUNT(*) > 1 LIMIT 1"


def duplicate_key(key: Sequence[str], values: Sequence[Any], origin: str) -> Failure:
    text = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
    return Failure("input", f"{origin} has two rows with the same key: {text[:200]}; keep one row per key")


def no_unique_index(table: str, quoted_table: str, key: Sequence[str]) -> str:
    columns = ", ".join(map(quoted, key))
    index = quoted(f"{table.rpartition('.')[2]}_key")
    return (
        f"{table} has no unique index on its key ({', '.join(key)}), which `upsert` needs: "
        f"CREATE UNIQUE INDEX {index} ON {quoted_table} ({columns})"
    )
