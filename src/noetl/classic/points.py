"""The names of the events that the branches of a classic step see (R15)."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.classic.events import POINTS
from noetl.classic.failure_guards import reads_failure
from noetl.classic.names import templates_in
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map
from noetl.model.event_names import EVENT_NAMES, OTHER_NAMES, Stored, dotted, end_names, with_event_names

NOT_OBSERVED = ("case.", "next.", "token.")
TASK_ENDS = ("task.done", "task.processed", "tool.processed")
LOOP_ENDS = ("loop.done", "loop.finished")
STEP_ENDS = ("step.done", "step.finished", "step.exit")


def observes(step: Map) -> bool:
    spec = step.get("spec")
    return isinstance(spec, dict) and spec.get("eval_mode") == "on_event"


def possible_events(step: Map) -> frozenset[str]:
    """The events that its branches see, by the names under which they see them."""
    if not observes(step):
        return frozenset(POINTS)
    own = ("call.done", "call.error") if "tool" in step else ()
    return frozenset([*own, *(name for name in EVENT_NAMES if not name.startswith(NOT_OBSERVED))])


def known_names(step: Map) -> frozenset[str]:
    """The names that an author may have meant."""
    possible, names = possible_events(step), point_names(step, "")
    return possible | {name for name in (*OTHER_NAMES, *STEP_ENDS, *LOOP_ENDS) if possible.intersection(names(name))}


def point_names(step: Map, guard: str) -> Stored:
    """The events that a name in a guard matches."""
    both = reads_failure(step["step"], guard)  # a name for either end counts after a failure only for such a guard

    def names(name: str) -> Sequence[str]:
        name = dotted(name)
        own = ("call.done", "call.error") if both else ("call.done",)
        if name in ("call.done", "call.error"):
            return (name,)
        if observes(step):
            events = tuple(event for event in end_names(name) if not event.startswith(NOT_OBSERVED))
            return (*events, *own) if name in TASK_ENDS[1:] and "tool" in step else events
        if name in TASK_ENDS:
            return own
        if name in STEP_ENDS:
            return ("step.exit",)
        if name in LOOP_ENDS and "loop" in step:
            return ("call.done",)
        return ("call.error",) if name == "step.failed" else ()

    return names


def rename_events(step: Map, kinds: KindSource) -> None:
    """Replace other names of events in the branches of a step."""
    if "case" in step:
        for holder, key, text in templates_in(step, kinds, "case"):
            holder[key] = with_event_names(text, point_names(step, text))
