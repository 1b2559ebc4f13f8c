"""The interface of the two ends of a transfer. Each kind of endpoint has a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from noetl.tools.rows.columns import Column
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.staging import Staging


class StagedRows(NamedTuple):
    """A query of the staging database, and its columns."""

    query: str
    columns: list[Column]


class SourceEndpoint(Protocol):
    relation: str
    """What the staging database selects from."""
    columns: list[Column]

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        """Send the rows while `consume` reads them from the relation; return how many it read."""


class TargetEndpoint(Protocol):
    """Nothing that it writes is visible to others before `commit`, except over HTTP."""

    def accepts(self) -> dict[str, str] | None:
        """The existing columns with their types, as the target names them; None if any columns will do."""

    def prepare(self, columns: list[Column]) -> None:
        """Create the table if it is missing, and delete the rows that are replaced."""

    def write(self, staging: Staging, rows: StagedRows, progress: Progress) -> int:
        """Write all rows; return how many."""

    def commit(self) -> None: ...


class RelationSource:
    """A source that the staging database reads by itself."""

    def __init__(self, relation: str, columns: list[Column]) -> None:
        self.relation, self.columns = relation, columns

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        return consume()
