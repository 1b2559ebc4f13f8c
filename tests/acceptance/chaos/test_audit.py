"""The audit of the chaos finds what it is there for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.acceptance.chaos.audit import problems_in, recovery
from tests.acceptance.chaos.driver import Tally
from tests.acceptance.chaos.ledger import Effect
from tests.acceptance.chaos.stream import last_progress

AT = 1_800_000_000.0
PLACES = frozenset(["one#1/first#1", "one#1/second#1"])


def done(place: str, attempt: int = 1, status: str = "success", at: float = AT) -> dict[str, Any]:
    return {
        "event_type": "task.done",
        "entity_id": place,
        "attempt": attempt,
        "action_id": f"key of {place}",
        "status": status,
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(),
    }


def effect(place: str, attempt: int = 1, at: float = AT - 1.0) -> Effect:
    return Effect("run", place, attempt, at, f"key of {place}", "run")


FIRST, SECOND = sorted(PLACES)
LOG, LEDGER = [done(FIRST), done(SECOND)], [effect(FIRST), effect(SECOND)]


def test_a_log_that_agrees_with_the_ledger_has_no_problems() -> None:
    retried = [done(FIRST, 1, "error"), done(FIRST, 2), done(SECOND)]
    twice = [effect(FIRST), effect(FIRST, 2), effect(SECOND), effect(SECOND, at=AT - 0.5)]
    assert list(problems_in(LOG, LEDGER, PLACES)) == []
    assert list(problems_in(retried, twice, PLACES)) == []


@pytest.mark.parametrize(
    ("events", "effects", "problem"),
    [
        pytest.param([done(FIRST)], LEDGER, f"lost: {SECOND} has no outcome", id="no outcome"),
        pytest.param([done(FIRST), done(SECOND, 1, "error")], LEDGER, f"lost: {SECOND}", id="only an error"),
        pytest.param(LOG, LEDGER[:1], "lost: the ledger has no line", id="no effect"),
        pytest.param([*LOG, done(FIRST, 2)], [*LEDGER, effect(FIRST, 2)], "accepted twice", id="accepted twice"),
        pytest.param(LOG, [*LEDGER, effect("two#1/x#1")], "two#1/x#1 is not in the playbook", id="another task"),
        pytest.param(LOG, [*LEDGER, effect(FIRST, at=AT + 3.0)], "repeated 3.0 s after", id="repeated"),
    ],
)
def test_a_difference_is_named(events: list[dict[str, Any]], effects: list[Effect], problem: str) -> None:
    assert any(line.startswith(problem) for line in problems_in(events, effects, PLACES))


def test_the_first_and_the_last_open_run_tell_when_a_fault_is_over() -> None:
    runs = [[0.0, 1.0, 2.0, 9.0], [0.0, 5.0, 6.0], [8.0, 9.0]]
    assert recovery(runs, 1.5) == (0.5, 3.5)
    assert recovery(runs, 20.0) is None


def test_a_lease_that_was_lost_and_granted_again_is_no_progress() -> None:
    def event(name: str, at: float) -> dict[str, Any]:
        return done("", at=at) | {"event_type": name}

    leases = [event("step.started", 2.0), event("step.paused", 3.0), event("step.regranted", 4.0)]
    log = [event("step.scheduled", 1.0), *leases]
    assert last_progress(log) == 1.0
    assert last_progress([*log, event("task.started", 5.0), event("step.paused", 6.0)]) == 5.0


def test_slices_add_up() -> None:
    first = Tally({"a": 2}, {"a": [1.0, 3.0]}, 5, 6, 7, 60.0, [1], {"a": [0.1, 0.2]})
    second = Tally({"a": 1, "b": 1}, {"b": [2.0]}, 1, 1, 1, 30.0, [2], {"b": [0.3]})
    both = {"a": [1.0, 3.0], "b": [2.0]}, {"a": [0.1, 0.2], "b": [0.3]}
    total = Tally({"a": 3, "b": 1}, both[0], 6, 7, 8, 90.0, [1, 2], both[1])
    assert first + second == total
    assert "6 runs" in total.lines()[0]
    assert "a run went on after p50 0.2 s" in total.lines()[1]
    assert "every open run after p50 2.0 s" in total.lines()[1]
