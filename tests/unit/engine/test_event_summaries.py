"""The sentence of each type of event in lists."""

from __future__ import annotations

from typing import Any

from tests.table import for_each

from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.engine import events as e
from noetl.engine.history.event_summaries import MAX_SUMMARY, SUMMARIES, event_row, event_summary
from noetl.model.actor import Actor
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.model.playbook import Target

ANN = Actor("user", "ann")
TASK = TaskId("fetch#1", "get#1", 4)
ERROR = Error("http", "HTTP 503")
FAILED = Outcome("error", error=ERROR)

TEXTS: list[tuple[e.Event, str]] = [
    (e.ExecutionRequested("d", "shop/orders", actor=ANN), "Run of shop/orders requested by user ann"),
    (e.ExecutionRequested("d", "a", parent=("ID", "call#1", 1)), "Run of a requested for call#1 of ID"),
    (e.RequestEvaluated({}), "Inputs accepted"),
    (e.RequestEvaluated({}, warnings=("a", "b")), "Inputs accepted with 2 warnings"),
    (e.RequestEvaluated(error={"kind": "inputs", "message": "no x"}), "Request refused: inputs: no x"),
    (e.PlaybookStarted(), "Run started"),
    (e.WorkflowStarted(), "Workflow started"),
    (e.WorkflowFinished("failed"), "Nothing is left to run: the workflow failed"),
    (e.PlaybookProcessed("succeeded"), "Run succeeded"),
    (e.PlaybookProcessed("failed", error={"kind": "http", "message": "gone"}), "Run failed: http: gone"),
    (e.PlaybookProcessed("cancelled"), "Run was cancelled"),
    (e.PlaybookPaused(ANN), "Run paused by user ann"),
    (e.PlaybookResumed(), "Run resumed"),
    (e.PlaybookCancelled("too late", ANN), "Run cancelled by user ann: too late"),
    (e.ExecutionForked("ID", 1234, actor=ANN), "Fork of ID at event 1,234 by user ann"),
    (
        e.ExecutionForked("ID", 12, "retry", reopened="fetch#1"),
        "Retry of ID at event 12; the failed items of fetch#1 run again",
    ),
    (e.TokenEnqueued(2, "fetch", origin="start#1"), "Sent to fetch from start#1"),
    (e.TokenEnqueued(2, "fetch", due=5.0), "Sent to fetch, arrives at 1970-01-01T00:00:05.000Z"),
    (e.TokenHeld(2), "Not admitted yet: waits for a change of ctx or a signal"),
    (e.TokenDenied(2, {"kind": "template", "message": "x"}), "Will never be admitted: template: x"),
    (e.StepScheduled("fetch#1", (2, 3)), "Ready to run with tokens 2, 3"),
    (e.StepScheduled("last#1"), "Ready to run as the final step"),
    (e.StepStarted("fetch#1", 3, "w1"), "Leased to w1 (lease 3)"),
    (e.StepStarted("fetch#1", 3, "w1", (5, 8)), "Leased to w1 for items 5 to 7 (lease 3)"),
    (e.StepRegranted("fetch#1", 4, "w2", (5, 6), reason="lost"), "Leased to w2 for item 5 (lease 4) again: lost"),
    (e.StepPaused("fetch#1", 3, "lost"), "Lease 3 was lost"),
    (e.StepPaused("a#1", 3, "waiting", until="signal", key="go"), "Waits for the signal 'go'"),
    (
        e.StepPaused("a#1", 3, "waiting", until="retry", due=5.0),
        "Waits for its next attempt until 1970-01-01T00:00:05.000Z",
    ),
    (e.StepPaused("a#1", 3, "waiting", until="child", key="ID"), "Waits for its child ID"),
    (e.StepPaused("a#1", 3, "waiting", until="event"), "Waits for an event"),
    (e.StepResumed("a#1"), "Continues with its next attempt"),
    (e.StepResumed("a#1", outcome=FAILED), "Continues with the outcome it waited for: error: http: HTTP 503"),
    (e.StepDone("a#1", {"secret": 1}), "Succeeded"),
    (e.StepFailed("a#1", ERROR, "get", 2), "Failed at get, attempt 2: http: HTTP 503"),
    (e.StepFailed("a#1", ERROR, taken=True), "Failed: http: HTTP 503 (handled by the step)"),
    (e.NextEvaluated("a#1", "step.done", (0, 2)), "Takes arcs 1, 3 on step.done"),
    (e.NextEvaluated("a#1", "step.done"), "No arc matches step.done"),
    (e.NextEvaluated("a#1", "step.done", to=(Target("b", {}),)), "Leads to b"),
    (e.NextEvaluated("a#1", "x", error={"kind": "template", "message": "y"}), "Routing failed: template: y"),
    (e.LoopStarted("a#1", 12000), "Loop over 12,000 items"),
    (e.IterationStarted("a#1", 4), "Item started"),
    (e.IterationDone("a#1", 4), "Item succeeded"),
    (e.IterationFailed("a#1", 4, ERROR, "get", 3), "Item failed at get, attempt 3: http: HTTP 503"),
    (e.LoopDone("a#1", 1, 1, 0), "1 of 1 item succeeded"),
    (e.LoopDone("a#1", 12, 10, 2), "10 of 12 items succeeded, 2 failed"),
    (e.TaskStarted(TASK, 2), "Calls the tool, attempt 2"),
    (e.TaskDone(TASK, 1, Outcome(), "continue", duration_ms=12.4), "Ok in 12 ms; continue"),
    (
        e.TaskDone(TASK, 2, FAILED, "retry", duration_ms=1234.0),
        "Error: http: HTTP 503 in 1.2 s, attempt 2; retry",
    ),
    (
        e.TaskDone(TASK, 1, Outcome(), "jump", "save", set_ctx=(("n", "$add", 1),), set_iter=(("k", "=", 2),)),
        "Ok in 0 ms; jump to save; sets ctx.n; sets iter.k",
    ),
    (e.TaskDone(TASK, 1, Outcome(), "skip", "save", skipped=True), "Skipped, then save"),
    (
        e.TaskDone(TASK, 1, Outcome(), "fail", error=Error("template", "line 3")),
        "Ok in 0 ms; fail: template: line 3",
    ),
    (e.SinkStarted(TASK), "Calls the tool"),
    (e.SinkProcessed(TASK, 1, Outcome(), "continue"), "Ok in 0 ms; continue"),
    (e.TaskRetryScheduled(TASK, 2, 5.0), "Attempt 2 is scheduled for 1970-01-01T00:00:05.000Z"),
    (e.PollStarted(TASK, 5.0), "Polls until the result is ready, at most until 1970-01-01T00:00:05.000Z"),
    (e.PollIteration(TASK, 3), "Poll 3: not ready yet"),
    (e.PollFinished(TASK, 3, "deadline"), "The poll timed out after 3 calls"),
    (e.CtxPatched((("a", "=", 1), ("b", "=", 2))), "Sets ctx.a, ctx.b"),
    (e.CtxPatched(spelled=e.InlinedPart("K", "[]")), "The stored value of K is copied into the log"),
    (e.MessageReceived("go", "1", actor=ANN), "Signal 'go' received, sent by user ann"),
    (e.TimerArmed("timeout:a#1", 5.0), "The time limit of a#1 is set for 1970-01-01T00:00:05.000Z"),
    (e.TimerFired("token:3"), "The delay of token 3 is due"),
    (e.TimerFired("timeout", {"kind": "timeout", "message": "1 s"}), "The time limit of the run is due: timeout: 1 s"),
    (CaseStarted("a#1", "call.error", ERROR), "Branches are evaluated on call.error: http: HTTP 503"),
    (CaseEvaluated("a#1", ("case_0", "case_1")), "Branches case_0, case_1 match"),
    (CaseEvaluated("a#1"), "No branch matches"),
    (BranchSuppressed("a#1", "case_1", "case_0"), "Branch case_1 does not run: case_0 has ended the step"),
    (NextRequested("a#1", "case_0", "next", (Target("b", {}),)), "Branch case_0 leads to b"),
]


@for_each(("event", "text"), TEXTS)
def test_an_event_has_a_short_sentence(event: e.Event, text: str) -> None:
    assert event_summary(event) == text


def test_every_type_of_event_has_a_sentence_that_is_tested() -> None:
    assert set(SUMMARIES) == {kind for kind in e.EVENTS.values() if kind.__module__.startswith("noetl.")}
    assert {type(event) for event, _ in TEXTS} == set(SUMMARIES)


def test_a_row_has_the_time_the_subject_and_the_status() -> None:
    rows: list[Any] = [
        event_row(7, 1.5, e.TaskDone(TASK, 1, FAILED, "fail")),
        event_row(8, 1.5, e.TaskStarted(TASK, at=1_200)),
        event_row(9, 2.0, e.NextEvaluated("a#1", "step.done")),
        event_row(10, 2.0, e.PlaybookProcessed("failed")),
    ]
    assert [row[:5] for row in rows] == [
        (7, 1500, "task.done", "fetch#1[4]/get#1", "error"),
        (8, 1200, "task.started", "fetch#1[4]/get#1", "in_progress"),
        (9, 2000, "next.evaluated", "a#1/next", "success"),
        (10, 2000, "playbook.processed", "", "error"),
    ]


def test_a_long_message_is_cut_and_stays_on_one_line() -> None:
    summary = event_summary(e.StepFailed("a#1", Error("python", "line one\nline two " + "x" * 500)))
    assert summary.startswith("Failed: python: line one line two xxx")
    assert summary.endswith("…")
    assert len(summary) == MAX_SUMMARY
