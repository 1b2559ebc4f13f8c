"""The two endpoints of a transfer, and its progress. Each kind of endpoint has a file of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.columns import Column
from noetl.tools.rows.pipe import Pipe, run_both

if TYPE_CHECKING:
    from noetl.tools.rows.staging import Staging

LOG_INTERVAL_SECONDS = 1.0


class TransferProgress:
    """Logs the number of rows, at most once a second."""

    def __init__(self, log: Callable[[str], object]) -> None:
        self.log, self._logged = log, time.monotonic()

    def reach(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_INTERVAL_SECONDS:
            self._logged = now
            self.log(f"{rows:,} rows")


class StagedRows(NamedTuple):
    query: str
    columns: list[Column]

    def select(self, expression: Callable[[Column], str]) -> str:
        """The query with an expression in place of each column."""
        values = ", ".join(f"{expression(column)} AS {column.quoted}" for column in self.columns)
        return f"SELECT {values} FROM ({self.query})"


class SourceEndpoint:
    """A relation that the staging database reads by itself."""

    def __init__(self, relation: str, columns: list[Column]) -> None:
        self.relation, self.columns = relation, columns

    def flow(self, consume: Callable[[], int], progress: TransferProgress) -> int:
        """Send the rows while `consume` reads them from the relation; return how many it read."""
        return consume()


class PipedSource(SourceEndpoint):
    """A source that writes its rows to a pipe as CSV: binary values in hexadecimal, arrays as JSON."""

    def __init__(self, pipe: Pipe, columns: list[Column]) -> None:
        self.pipe, self.sent = pipe, 0
        raw, values = [], []
        for number, column in enumerate(columns):
            kind, value = column.type, f"c{number}"
            if kind == "BLOB":
                kind, value = "VARCHAR", f"unhex({value})"
            elif kind.endswith("[]"):
                kind, value = "VARCHAR", f"CAST({value}::JSON AS {kind})"
            raw.append(Column(f"c{number}", kind))
            values.append(f"{value} AS {column.quoted}")
        super().__init__(f"(SELECT {', '.join(values)} FROM {pipe.relation(raw)})", columns)

    def flow(self, consume: Callable[[], int], progress: TransferProgress) -> int:
        received = run_both(lambda: self.feed(progress), consume, self.abort)
        if self.sent != received:
            message = f"{self.sent:,} rows were sent and {received:,} received: nothing was changed"
            raise Failure("internal", message)
        return received

    def feed(self, progress: TransferProgress) -> None:
        """Write all rows to the pipe, and count them in `sent`."""
        raise NotImplementedError

    def abort(self) -> None:
        self.pipe.over.set()


class TargetEndpoint:
    """Nothing that it writes is visible to others before `commit`, except over HTTP."""

    def accepts(self) -> dict[str, str] | None:
        """The existing columns with their types, as the target names them; None if any columns will do."""
        return None

    def prepare(self, columns: list[Column]) -> None:
        """Create the table if it is missing, and delete the rows that are replaced."""

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        """Write all rows; return how many."""
        raise NotImplementedError

    def commit(self) -> None:
        """Make the rows visible."""


def create_table(name: str, types: dict[str, str], key: list[str]) -> str:
    parts = [f"{quoted(column)} {kind}" for column, kind in types.items()]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
    return f"CREATE TABLE {name} ({', '.join(parts)})"


def insert_or_update(name: str, origin: str, columns: list[Column], key: list[str]) -> str:
    """The statement that moves the rows of an upsert from the table `origin`."""
    names = ", ".join(column.quoted for column in columns)
    others = [column.quoted for column in columns if column.name not in key]
    changes = ", ".join(f"{other} = excluded.{other}" for other in others)
    then = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
    keys = ", ".join(map(quoted, key))
    return f"INSERT INTO {name} ({names}) SELECT {names} FROM {origin} ON CONFLICT ({keys}) {then}"


def duplicate_key(key: list[str], values: Any) -> Failure:
    text = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
    return Failure("input", f"the source has two rows with the same key: {text[:200]}")
