"""The rows of a bulk insert as lists of one length."""

from __future__ import annotations

from typing import Any

from noetl.model.outcome import Failure


def row_values(
    rows: list[dict[str, Any] | list[Any]] | None, columns: list[str] | None, args: dict[str, Any]
) -> tuple[list[str], list[list[Any]]]:
    """The columns and the values of each row. Without rows, the args are the only row."""
    records = [args] if rows is None else rows
    if rows is None and not args:
        raise Failure("input", "no rows to insert: give `rows`, or `args` for one row")
    names = columns or (list(records[0]) if records and isinstance(records[0], dict) else [])
    if records and not names:
        is_list = isinstance(records[0], list)
        raise Failure("input", "rows that are lists need `columns`" if is_list else "row 1 is empty")
    if len(set(names)) != len(names):
        raise Failure("input", "`columns` names a column twice")
    return names, [_values(row, names, number) for number, row in enumerate(records, start=1)]


def _values(row: dict[str, Any] | list[Any], names: list[str], number: int) -> list[Any]:
    if isinstance(row, list):
        if len(row) != len(names):
            raise Failure("input", f"row {number} has {len(row)} values and there are {len(names)} columns")
        return row
    if len(row) > len(names) or not row.keys() <= set(names):
        unknown = next(name for name in row if name not in names)
        raise Failure("input", f"row {number} has {unknown!r}, which is not one of the columns {', '.join(names)}")
    return [row.get(name) for name in names]
