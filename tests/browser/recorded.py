"""Runs that take too long to run: their logs are written to a database before a server opens it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from bench.long_run import AROUND, fill

from noetl.model.identity import uuid7
from noetl.store.sqlite import SqliteStore

FAILED_ITEM = 61_234


class RecordedRun(NamedTuple):
    execution: str
    events: int
    failed: frozenset[int] = frozenset()


def _id(number: int) -> str:
    return uuid7(1_790_000_000.0 + number, b"recorded")


RECORDED = {
    "short": RecordedRun(_id(1), 20),
    "long": RecordedRun(_id(2), 50_000),
    "million": RecordedRun(_id(3), 1_000_000),
    "items": RecordedRun(_id(4), 4 * 100_000 + AROUND, frozenset([FAILED_ITEM])),
}
"""By name: about so many events. `items` has 100,000 items, one of which failed."""


def record(database: Path, *names: str) -> None:
    """Write runs to a database that no server has open, and create it if it is missing."""
    with closing(SqliteStore(database, synchronous="normal")) as store:
        for name in names:
            run = RECORDED[name]
            fill(store, run.events, run.execution, run.failed)
