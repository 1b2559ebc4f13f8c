"""The envelopes of events that workers report name the worker that holds their lease."""

from __future__ import annotations

from typing import Any, cast

import pytest

from noetl.classic.events import CaseEvaluated, CaseStarted
from noetl.engine import events as e
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.runtime import event_envelopes
from noetl.runtime.event_envelopes import EventEnvelopes
from noetl.store.codec import encode
from noetl.store.store import Row, Store

EXECUTION = "0198c0de-0000-7000-8000-000000000001"
ERROR = Error("lost", "gone")
A, B = "a@1", "b@2"
STORY: list[tuple[e.Event, str | None]] = [
    (e.StepScheduled("load#1"), None),
    (e.LoopStarted("load#1", 4), None),
    (e.StepStarted("load#1", 1, A, (0, 2)), A),
    (e.StepStarted("load#1", 2, B, (2, 4)), B),
    (e.StepScheduled("one#1"), None),
    (e.StepStarted("one#1", 3, A), A),
    (e.IterationStarted("load#1", 2), B),
    (e.IterationStarted("load#1", 0), A),
    (e.TaskDone(TaskId("load#1", "t#1", 0), 1, Outcome(), "continue"), A),
    (e.IterationDone("load#1", 0), A),
    (e.StepPaused("load#1", 1, "lost"), None),
    (e.StepRegranted("load#1", 4, B, (1, 2)), B),
    (e.IterationDone("load#1", 2), B),
    (e.IterationFailed("load#1", 1, ERROR), B),
    (e.TaskStarted(TaskId("one#1", "t#1")), A),
    (e.StepPaused("one#1", 3, "returned"), A),
    (e.StepStarted("one#1", 5, "local"), None),
    (e.TaskStarted(TaskId("one#1", "t#1"), 2), None),
    (e.StepPaused("one#1", 5, "lost"), None),
    (e.StepFailed("one#1", ERROR), None),
    (e.IterationDone("load#1", 3), B),
    (e.LoopDone("load#1", 4, 3, 1), None),
    (e.StepDone("load#1"), None),
    (e.StepScheduled("slow#1"), None),
    (e.StepStarted("slow#1", 6, A), A),
    (e.TimerFired("timeout:slow#1"), None),
    (e.StepFailed("slow#1", ERROR), None),
    (e.StepScheduled("case#1"), None),
    (e.StepStarted("case#1", 7, A), A),
    (CaseStarted("case#1", "message.received"), None),
    (CaseEvaluated("case#1", event={"name": "message.received"}), None),
    (CaseStarted("case#1", "call.done"), A),
    (CaseEvaluated("case#1"), A),
    (CaseStarted("case#1", "call.error", revoked=True), None),
    (e.StepScheduled("again#1"), None),
    (e.StepStarted("again#1", 8, A), A),
    (e.TaskStarted(TaskId("again#1", "t#1")), A),
    (e.ExecutionForked("x", 37), None),
    (e.StepStarted("again#1", 9, B), B),
    (e.StepDone("again#1"), B),
]
"""Events of a log, and the worker that caused each."""


class Log:
    """A store with one log, which counts the rows that are read."""

    def __init__(self) -> None:
        self.rows = [Row(seq, event.name, 0.0, encode(event), b"") for seq, (event, _) in enumerate(STORY, 1)]
        self.read_rows = 0

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = self.rows[after : None if limit is None else after + limit]
        self.read_rows += len(rows)
        return rows

    def envelopes(self) -> EventEnvelopes:
        return EventEnvelopes(cast(Store, self), EXECUTION)


def workers(envelopes: list[dict[str, Any]]) -> list[str | None]:
    assert all(envelope["actor"] is None or envelope["actor"]["kind"] == "worker" for envelope in envelopes)
    return [envelope["actor"] and envelope["actor"]["name"] for envelope in envelopes]


def test_a_report_names_the_worker_of_its_lease_and_a_decision_of_the_server_names_nobody() -> None:
    log = Log()
    assert list(zip(workers(log.envelopes().of(log.rows)), STORY, strict=True)) == [
        (worker, row) for row, worker in zip(STORY, (worker for _, worker in STORY), strict=True)
    ]


@pytest.mark.parametrize("rows_per_search", [1, 7, 1000])
@pytest.mark.parametrize("rows_per_page", [1, 5, 40])
def test_a_reader_that_starts_anywhere_names_the_same_workers(
    monkeypatch: pytest.MonkeyPatch, rows_per_page: int, rows_per_search: int
) -> None:
    monkeypatch.setattr(event_envelopes, "ROWS_PER_SEARCH", rows_per_search)
    for after in range(len(STORY)):
        log, result = Log(), []
        envelopes = log.envelopes()
        for start in range(after, len(STORY), rows_per_page):
            result += workers(envelopes.of(log.rows[start : start + rows_per_page]))
        assert result == [worker for _, worker in STORY[after:]], after


def test_a_filter_by_type_does_not_change_the_workers() -> None:
    log = Log()
    result = log.envelopes().of(log.rows, frozenset(["task.started", "step.failed"]))
    assert workers(result) == [worker for event, worker in STORY if event.name in ("task.started", "step.failed")]


def test_a_reader_from_the_start_reads_no_row_twice() -> None:
    log = Log()
    envelopes = log.envelopes()
    for row in log.rows:
        envelopes.of([row])
    assert log.read_rows == 0
