"""What the two sides of a transfer promise. Each kind of place has a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from noetl.tools.rows.columns import Column
from noetl.tools.rows.hub import Hub
from noetl.tools.rows.progress import Progress


class Rows(NamedTuple):
    """Rows as the hub can select them."""

    query: str
    columns: list[Column]


class Source(Protocol):
    """Where rows come from."""

    relation: str
    """What the hub selects from."""
    columns: list[Column]

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        """Let the rows flow while `consume` takes them from the relation; how many it took."""


class Target(Protocol):
    """Where rows go. Nothing of it is seen by others before `commit`, except over HTTP."""

    def accepts(self) -> dict[str, str] | None:
        """The columns that are there with their types, in the target's words; None if it takes what comes."""

    def prepare(self, columns: list[Column]) -> None:
        """Make the table if there is none, and make room where rows are replaced."""

    def write(self, hub: Hub, rows: Rows, progress: Progress) -> int:
        """Take all rows; how many they were."""

    def commit(self) -> None: ...


class Plain:
    """A source that the hub reads by itself."""

    def __init__(self, relation: str, columns: list[Column]) -> None:
        self.relation, self.columns = relation, columns

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        return consume()
