"""Events without the fields that differ between any two runs, and the events of two logs in pairs, so that logs can be
compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from noetl.engine.history.same_data import same_data

IGNORED = frozenset(["at", "worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id", "actor"])
"""Fields of events that say when, where and for whom a run does its work: they differ between any two runs."""

FORKED = "execution.forked"
REPEATED = frozenset(["step.started", "step.regranted", "task.started", "loop.iteration.started"])
"""What a fork does once more for the step runs that were under way in its source."""


class ComparableEvent(NamedTuple):
    seq: int
    content: dict[str, Any]


Pair = tuple[ComparableEvent | None, ComparableEvent | None]


def comparable(event_type: str, entity: str, payload: dict[str, Any]) -> dict[str, Any]:
    """An event without times, workers and users. The id of a child depends on that of its parent, and is left out,
    too."""
    ignored = {*IGNORED, "key"} if payload.get("until") == "child" else IGNORED
    return {"event_type": event_type, "entity": entity} | {
        key: value for key, value in payload.items() if key not in ignored
    }


def event_pairs(a: Iterable[ComparableEvent], b: Iterable[ComparableEvent], *, forks: bool) -> Iterator[Pair]:
    """The events in the same place of both logs; None after the end of one.

    With `forks`, one of the logs is that of a fork: how it begins is known, and is no difference. The fork has no place
    in it, except beside a fork in the same place of the other log, nor has what a fork repeats.
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
    """Whether a fork does not repeat it: leases, beginnings of tasks and items, and waits for children, since a fork
    starts children of its own."""
    content = event.content
    if content["event_type"] == "step.paused":
        return content.get("until") not in (None, "child")
    return content["event_type"] not in REPEATED
