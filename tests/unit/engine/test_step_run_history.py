"""The history of a step run: leases with their ends, and lists that are limited."""

from __future__ import annotations

from noetl.engine import events as e
from noetl.engine.history.step_run_history import MAX_ATTEMPTS, MAX_WRITES, StepRunHistory
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome

TASK = TaskId("a#1", "t#1")


def history_of(*events: e.Event, item: int | None = None) -> StepRunHistory:
    history = StepRunHistory("a#1", item)
    for seq, event in enumerate(events, 1):
        history.take(event, seq, float(seq))
    return history


def test_leases_say_why_they_ended() -> None:
    history = history_of(
        e.StepScheduled("a#1"),
        e.StepStarted("a#1", 1, "w"),
        e.StepPaused("a#1", 1, "lost"),
        e.StepRegranted("a#1", 2, "w"),
        e.ExecutionForked("ID", 4),
        e.StepStarted("a#1", 3, "w"),
        e.StepStarted("b#1", 4, "w"),
        e.StepFailed("a#1", Error("x", "y")),
    )
    assert [(lease.fence, lease.start, lease.end, lease.end_reason) for lease in history.leases] == [
        (1, 2.0, 3.0, "lost"),
        (2, 4.0, 5.0, "forked"),
        (3, 6.0, 8.0, "ended"),
    ]
    assert (history.status, history.started, history.ended, history.error) == ("failed", 2.0, 8.0, Error("x", "y"))


def test_a_run_whose_lease_has_ended_is_scheduled_again() -> None:
    granted = (e.StepScheduled("a#1"), e.StepStarted("a#1", 1, "w"))
    assert history_of(*granted, e.StepPaused("a#1", 1, "lost")).status == "scheduled"
    assert history_of(*granted, e.ExecutionForked("ID", 2)).status == "scheduled"
    assert history_of(*granted, e.StepPaused("a#1", 1, "lost"), e.StepRegranted("a#1", 2, "w")).status == "running"
    assert history_of(*granted, e.StepPaused("a#1", 1, "waiting", until="signal", key="go")).status == "waiting"
    waiting = e.StepPaused("a#1", 1, "waiting", until="child", key="ID")
    forked = history_of(*granted, waiting, e.ExecutionForked("ID", 3))
    assert (forked.status, [wait.end for wait in forked.waits]) == ("scheduled", [4.0])
    lanes = (e.StepStarted("a#1", 1, "w", (0, 2)), e.StepStarted("a#1", 2, "w", (2, 4)))
    assert history_of(*lanes, e.StepPaused("a#1", 1, "lost")).status == "running"


def test_an_item_starts_with_its_first_call_not_when_its_report_is_stored() -> None:
    task = TaskId("a#1", "t#1", 2)
    history = history_of(e.IterationStarted("a#1", 2), e.TaskStarted(task, at=400), e.IterationDone("a#1", 2), item=2)
    assert (history.started, history.ended) == (0.4, 3.0)


def test_an_item_works_while_its_call_runs_and_not_while_it_waits() -> None:
    task = TaskId("a#1", "t#1", 2)
    begin = (e.StepScheduled("a#1"), e.IterationStarted("a#1", 2), e.TaskStarted(task))
    wait = e.StepPaused("a#1", 1, "waiting", 2, "signal", "go")
    assert history_of(*begin, item=2).work_until(5.0) == 2_000
    assert history_of(*begin, wait, item=2).work_until(4.0) == 1_000
    assert history_of(*begin, wait, e.StepResumed("a#1", 2), item=2).work_until(8.0) == 4_000
    cancelled = history_of(*begin, wait, item=2)
    cancelled.conclude(9.0, is_over=True)
    assert cancelled.work_until(9.0) == 1_000


def test_an_item_has_only_its_own_leases_tasks_and_waits() -> None:
    other = TaskId("a#1", "t#1", 1)
    history = history_of(
        e.StepStarted("a#1", 1, "w", (0, 2)),
        e.StepStarted("a#1", 2, "w", (2, 4)),
        e.IterationStarted("a#1", 2),
        e.TaskStarted(other),
        e.StepPaused("a#1", 1, "waiting", 1, "signal", "other"),
        e.StepPaused("a#1", 2, "waiting", 2, "child", "ID"),
        e.StepResumed("a#1", 2, Outcome()),
        e.TaskDone(TaskId("a#1", "t#1", 2), 1, Outcome(), "continue", duration_ms=1_004.0),
        e.IterationDone("a#1", 2, "result"),
        item=2,
    )
    assert [lease.fence for lease in history.leases] == [2]
    assert [(wait.until, wait.names, wait.since, wait.end) for wait in history.waits] == [("child", ("ID",), 6.0, 7.0)]
    assert (list(history.visits), history.children, history.work_ms) == ([TaskId("a#1", "t#1", 2)], ["ID"], 4.0)
    assert (history.status, history.result) == ("succeeded", "result")


def test_long_lists_are_cut() -> None:
    writes = tuple((f"k{number}", "=", number) for number in range(MAX_WRITES + 1))
    history = history_of(e.TaskDone(TASK, 1, Outcome(), "continue", set_ctx=writes))
    assert (len(history.writes), history.truncated) == (MAX_WRITES, True)
    attempts = [e.TaskDone(TASK, number, Outcome(), "retry") for number in range(1, MAX_ATTEMPTS + 20)]
    history = history_of(*attempts)
    assert (len(history.visits[TASK]), history.truncated) == (MAX_ATTEMPTS, True)
    assert [attempt.seq for attempt in history.visits[TASK]] == list(range(1, MAX_ATTEMPTS + 1))
