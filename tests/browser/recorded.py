"""Runs that take too long to run: their logs are written to a database before a server opens it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from bench.long_run import AROUND, LongRun, fill, step

from noetl.engine import events as e
from noetl.model.identity import uuid7
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store

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


DIFFERENT = _id(5)
"""A run whose log says that the second arc was taken, although the guard of the first one matches."""
DIFFERENT_TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: different, path: shop/different}
workflow:
  - {step: first, tool: [{t: {kind: noop}}], next: {arcs: [{step: large, when: "{{ 500 > 100 }}"}, {step: small}]}}
  - {step: large, tool: [{t: {kind: noop}}]}
  - {step: small, tool: [{t: {kind: noop}}]}
"""


def _record_different(store: Store) -> None:
    run = LongRun(store, DIFFERENT, DIFFERENT_TEXT)
    begin: list[e.Event] = [
        e.ExecutionRequested(run.loaded.state.digest, "shop/different"),
        e.RequestEvaluated(),
        e.PlaybookStarted(),
        e.WorkflowStarted(),
        e.TokenEnqueued(1, "first"),
    ]
    taken = [e.NextEvaluated("first#1", "step.done", (1,)), e.TokenEnqueued(2, "small", origin="first#1")]
    last = [e.NextEvaluated("small#1", "step.done"), e.WorkflowFinished("succeeded"), e.PlaybookProcessed("succeeded")]
    run.write([*begin, *step("first#1", 1, 1), *taken, *step("small#1", 2, 2), *last], [])


MANY = 102
"""More runs than a page of the list has."""


def record_others(database: Path) -> None:
    """Write the run that is decided differently now, and many short runs."""
    with closing(SqliteStore(database, synchronous="normal")) as store:
        _record_different(store)
        for number in range(MANY):
            fill(store, 20, _id(100 + number))


def record(database: Path, *names: str) -> None:
    """Write runs to a database that no server has open, and create it if it is missing."""
    with closing(SqliteStore(database, synchronous="normal")) as store:
        for name in names:
            run = RECORDED[name]
            fill(store, run.events, run.execution, run.failed)
