"""Filters of the events of a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from noetl.errors import UsageError
from noetl.model.event_names import EVENT_NAMES, event_filter

Level = Literal["step", "task", "event"]
STEP_EVENTS = frozenset(
    [
        "playbook.execution.requested", "playbook.processed", "playbook.paused", "playbook.resumed",
        "playbook.cancelled", "execution.forked", "token.held", "token.denied", "step.scheduled", "step.started",
        "step.regranted", "step.paused", "step.resumed", "step.done", "step.failed", "next.evaluated", "loop.started",
        "loop.done", "message.received",
    ]
)  # fmt: skip
LEVELS: dict[Level, frozenset[str]] = {
    "step": STEP_EVENTS,
    "task": STEP_EVENTS.union(
        name for name in EVENT_NAMES if name.startswith(("task.", "sink.", "poll.", "case.", "loop.", "next.", "ctx."))
    ),
    "event": EVENT_NAMES,
}
"""The types of events of each level of detail."""


class EventFilter(NamedTuple):
    types: frozenset[str] | None = None  # None: all
    run: str = ""  # a step run
    item: int | None = None
    text: str = ""  # somewhere in the event; upper and lower case are the same


ALL_EVENTS = EventFilter()


def types_of(names: Iterable[str], level: Level = "event") -> frozenset[str] | None:
    """The stored names of a filter that are of a level; None for all. UsageError if nothing can match."""
    types = event_filter(names)
    if level == "event":
        return types or None
    if types and not types & LEVELS[level]:
        raise UsageError(f"the level {level!r} has no events of type {', '.join(sorted(types))}")
    return types & LEVELS[level] if types else LEVELS[level]
