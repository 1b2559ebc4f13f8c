"""The names of events, and the other names for them."""

from __future__ import annotations

import pytest

import noetl.classic.events  # noqa: F401  # adds its events to EVENTS
from noetl.engine.events import EVENTS
from noetl.errors import UsageError
from noetl.model.event_names import EVENT_NAMES, OTHER_NAMES, end_names, event_filter, event_names, with_event_names


def test_every_event_has_its_name_here() -> None:
    assert set(EVENTS) == EVENT_NAMES


def test_other_names_stand_for_events() -> None:
    assert {stored for names in OTHER_NAMES.values() for stored in names} <= EVENT_NAMES
    assert not OTHER_NAMES.keys() & EVENT_NAMES


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("StepDone", ("step.done",)),
        ("LoopIterationCompleted", ("loop.iteration.done", "loop.iteration.failed")),
        ("PlaybookExecutionRequested", ("playbook.execution.requested",)),
        ("retry.*", ("task.retry.scheduled",)),
        ("tool.*", ("task.done", "task.started")),
        ("nothing.*", ()),
        ("Nothing", ()),
        ("", ()),
    ],
)
def test_a_name_stands_for_events(name: str, stored: tuple[str, ...]) -> None:
    assert event_names(name) == stored


def test_a_filter_has_names_with_commas_or_one_by_one() -> None:
    assert event_filter(["step.done, tool.processed", "LoopDone"]) == {"step.done", "task.done", "loop.done"}
    assert event_filter([]) == event_filter([""]) == frozenset()
    with pytest.raises(UsageError, match=r"unknown event type 'step\.dnoe': did you mean 'step\.done'"):
        event_filter(["step.dnoe"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{{ event.name == 'StepFailed' }}", "{{ event.name == 'step.failed' }}"),
        ("{{ 'step.finished' == event.name }}", "{{ event.name in ['step.done', 'step.failed', 'loop.done'] }}"),
        ("{{ event.name != 'step.exit' }}", "{{ event.name not in ['step.done', 'step.failed', 'loop.done'] }}"),
        ('{{ event.name in ["LoopDone", "x"] }}', "{{ event.name in ['loop.done', 'x'] }}"),
        ("{{ event.name == 'step.done' and x == 'StepDone' }}", "{{ event.name == 'step.done' and x == 'StepDone' }}"),
        ("no event", "no event"),
    ],
)
def test_comparisons_of_a_template_get_the_stored_names(before: str, after: str) -> None:
    assert with_event_names(before, end_names) == after
