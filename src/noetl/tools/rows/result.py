"""Results of the kinds `duckdb` and `snowflake`, of the same shape as those of `postgres`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.rows.blocking import Cancellation

MAX_RESULT_BYTES = 50 * 2**20
FETCH_ROWS = 1_000


def changed(row_count: int) -> dict[str, Any]:
    """The result of a statement that returns no rows."""
    return {"rows": [], "row_count": row_count, "columns": []}


def read_rows(
    fetch_many: Callable[[int], list[Any]],
    names: Sequence[str],
    readers: Sequence[Callable[[Any], Any]],
    cancellation: Cancellation,
) -> list[dict[str, Any]]:
    """All rows of a cursor as maps; Failure above the limit."""
    rows: list[dict[str, Any]] = []
    size = 0
    while batch := fetch_many(FETCH_ROWS):
        cancellation.check()
        maps = [{name: read(value) for name, read, value in zip(names, readers, row, strict=True)} for row in batch]
        size += len(msgspec.json.encode(maps))
        if size > MAX_RESULT_BYTES:
            message = f"the result is above {MAX_RESULT_BYTES >> 20} MiB: add a LIMIT, or copy the rows with `transfer`"
            raise Failure("too_large", message, limit=MAX_RESULT_BYTES)
        rows += maps
    return rows


def combined(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of several statements: that of the last one, and a summary of each."""
    if len(results) == 1:
        return results[0]
    summaries = [{key: value for key, value in result.items() if key != "rows"} for result in results]
    return results[-1] | {"statements": summaries}
