"""Compares two executions: status, result, error, their steps, their ctx, and the first event that differs."""

from __future__ import annotations

from time import monotonic
from typing import Any, NamedTuple

import msgspec

from noetl.engine.envelope import payload_of
from noetl.engine.events import TaskEvent
from noetl.engine.history.comparable_events import ComparableEvent, comparable, differs, event_pairs
from noetl.engine.history.same_data import same_data
from noetl.errors import NotFound
from noetl.runtime.past import PastReader
from noetl.runtime.report import execution_error, located, steps
from noetl.store.codec import decode
from noetl.store.store import Row

ROWS_PER_CHECK = 100  # pairs of events between two checks of the clock


class Sides(msgspec.Struct, frozen=True):
    """A value of both executions; null where one has none."""

    a: Any
    b: Any


class StepSides(msgspec.Struct, frozen=True):
    """A step of both executions, and the names of the fields that differ."""

    step: str
    a: dict[str, Any] | None
    b: dict[str, Any] | None
    differs: list[str]


class EventSides(msgspec.Struct, frozen=True):
    """The first events that differ, without times and workers; null after the end of a log."""

    a_seq: int | None
    b_seq: int | None
    a: dict[str, Any] | None
    b: dict[str, Any] | None


class ExecutionDiff(msgspec.Struct, frozen=True):
    """Two executions. `ctx` has the keys that differ. `equal` is null while the events up to `scanned_to`, and those of
    the other execution up to `b_scanned_to`, are equal and others follow: compare these with `after` and `b_after`."""

    equal: bool | None
    status: Sides
    result: Sides
    error: Sides
    ctx: dict[str, Sides]
    steps: list[StepSides]
    first_difference: EventSides | None
    scanned_to: int
    b_scanned_to: int


class LogPlaces(NamedTuple):
    """Events of both logs, by their seqs."""

    a: int
    b: int


START = LogPlaces(0, 0)


def compare(past: PastReader, first_id: str, second_id: str, after: LogPlaces, seconds: float) -> ExecutionDiff:
    """Compare two executions, and their events after a place for at most `seconds`; NotFound if one does not exist."""
    first, second = (_end(past, execution) for execution in (first_id, second_id))
    status, result, error = (Sides(first[name], second[name]) for name in ("status", "result", "error"))
    ctx = {key: Sides(left, right) for key, left, right in _pairs(first["ctx"], second["ctx"])}
    one_has = first["ctx"].keys() ^ second["ctx"].keys()
    ctx = {key: pair for key, pair in ctx.items() if key in one_has or not same_data(pair.a, pair.b)}
    steps = [StepSides(name, a, b, _differing(a, b)) for name, a, b in _pairs(first["steps"], second["steps"])]
    comparison = EventComparison(past, first_id, second_id, forks=first["is_fork"] or second["is_fork"])
    difference, scanned_to, complete = comparison.first_difference(after, monotonic() + seconds)
    same = (
        not ctx
        and not any(step.differs for step in steps)
        and all(same_data(pair.a, pair.b) for pair in (status, result, error))
    )
    equal = False if difference is not None or not same else True if complete else None
    return ExecutionDiff(equal, status, result, error, ctx, steps, difference, *scanned_to)


def _end(past: PastReader, execution: str) -> dict[str, Any]:
    seq = past.store.seq(execution)
    if not seq:
        raise NotFound(f"execution {execution!r} not found")
    state, _ = past.state_at(execution, seq)
    error = located(execution_error(state), "", {})
    return {
        "status": state.shown_status,
        "result": state.result,
        "error": error,
        "ctx": state.ctx,
        "steps": steps(state),
        "is_fork": state.forked is not None,
    }


def _pairs(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(key, first.get(key), second.get(key)) for key in {**first, **second}]


def _differing(a: dict[str, Any] | None, b: dict[str, Any] | None) -> list[str]:
    return [key for key, left, right in _pairs(a or {}, b or {}) if not same_data(left, right)]


class EventComparison(NamedTuple):
    """The events of two executions."""

    past: PastReader
    a: str
    b: str
    forks: bool  # one of them is a fork

    def first_difference(self, after: LogPlaces, deadline: float) -> tuple[EventSides | None, LogPlaces, bool]:
        """The first events that differ, the last ones that were compared, and whether nothing is left to compare."""
        events = (map(_comparable, self.past.rows(*log)) for log in ((self.a, after.a), (self.b, after.b)))
        for number, (left, right) in enumerate(event_pairs(*events, forks=self.forks), start=1):
            after = LogPlaces(after.a if left is None else left.seq, after.b if right is None else right.seq)
            if differs((left, right)):
                return _sides(left, right), after, True
            if number % ROWS_PER_CHECK == 0 and monotonic() > deadline:
                return None, after, False
        return None, after, True


def _sides(left: ComparableEvent | None, right: ComparableEvent | None) -> EventSides:
    (a_seq, a), (b_seq, b) = (event or (None, None) for event in (left, right))
    return EventSides(a_seq, b_seq, a, b)


def _comparable(row: Row) -> ComparableEvent:
    event: Any = decode(row.type, row.data)
    run = event.task.run if isinstance(event, TaskEvent) else getattr(event, "run", None)
    return ComparableEvent(row.seq, comparable(event.name, run or event.entity, payload_of(event)))
