"""Pairs the events of two logs for a comparison, without the fields that differ between any two runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from noetl.engine.history.same_data import same_data

IGNORED = frozenset(["at", "worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id", "actor"])
"""Fields that differ between any two runs, such as times, workers, users and ids of executions."""

FORKED = "execution.forked"
REPEATED = frozenset(["step.started", "step.regranted", "task.started", "loop.iteration.started"])
"""Events that a fork repeats for the step runs that were in progress in its source."""


class ComparableEvent(NamedTuple):
    seq: int
    content: dict[str, Any]


Pair = tuple[ComparableEvent | None, ComparableEvent | None]


def comparable(event_type: str, entity: str, payload: dict[str, Any]) -> dict[str, Any]:
    """An event without times, workers and users, and without the id of a child, which depends on that of its parent."""
    ignored = {*IGNORED, "key"} if payload.get("until") == "child" else IGNORED
    return {"event_type": event_type, "entity": entity} | {
        key: value for key, value in payload.items() if key not in ignored
    }


def event_pairs(a: Iterable[ComparableEvent], b: Iterable[ComparableEvent], *, forks: bool) -> Iterator[Pair]:
    """Pair the events of both logs by position; after the end of one log its side is None.

    With `forks`, one of the logs is that of a fork, whose beginning is not a difference: the events that a fork repeats
    are left out, and so is its `execution.forked`, unless the other log has one at the same position.
    """
    left, right = (filter(_has_place, events) if forks else iter(events) for events in (a, b))
    while True:
        first, second = next(left, None), next(right, None)
        while forks and _is_fork(first) != _is_fork(second):
            if _is_fork(first):
                first = next(left, None)
            else:
                second = next(right, None)
        if first is None and second is None:
            return
        yield first, second


def differs(pair: Pair) -> bool:
    first, second = pair
    return first is None or second is None or not same_data(first.content, second.content)


def _is_fork(event: ComparableEvent | None) -> bool:
    return event is not None and event.content["event_type"] == FORKED


def _has_place(event: ComparableEvent) -> bool:
    """False for events that a fork repeats: leases, starts of tasks and items, and waits for children, because a fork
    starts its own children."""
    content = event.content
    if content["event_type"] == "step.paused":
        return content.get("until") not in (None, "child")
    return content["event_type"] not in REPEATED
