"""Events as rows of a list: seq, time, type, subject, status, and one short sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.engine import events as e
from noetl.engine.envelope import entity_of, status_of
from noetl.engine.patch import Patch
from noetl.engine.timer_keys import (
    ExecutionTimeout,
    MoreFirings,
    RunTimeout,
    StepTimer,
    TokenDelay,
    WaitLimit,
    timer_of,
)
from noetl.engine.waits import signals_text
from noetl.model.outcome import Error, Outcome
from noetl.model.playbook import Target
from noetl.timestamps import rfc3339
from noetl.wording import counted, cut

MAX_SUMMARY = 200

EventRow = tuple[int, int, str, str, str, str]
"""Seq, milliseconds since 1970, type, subject (empty for the execution itself), status, summary."""


def event_row(seq: int, at: float, event: e.Event) -> EventRow:
    time = event.began(at) if isinstance(event, e.TaskStarted) else at
    return seq, int(time * 1000), event.name, entity_of("", event), status_of(event), event_summary(event)


def event_summary(event: e.Event) -> str:
    """The event in one line, without the name of its subject."""
    text = " ".join(SUMMARIES[type(event)](event).split())
    return cut(text, MAX_SUMMARY)


def duration_text(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _by(event: Any) -> str:
    return "" if event.actor is None else f" by {event.actor}"


def _error(error: Error | dict[str, Any] | None) -> str:
    if error is None:
        return ""
    kind, message = (
        (error.get("kind"), error.get("message")) if isinstance(error, dict) else (error.kind, error.message)
    )
    return f": {kind}: {message}" if kind else f": {message}"


def _due(due: float | None, before: str = " until ") -> str:
    return "" if not due else before + rfc3339(due)


def _attempt(number: int) -> str:
    return f", attempt {number}" if number > 1 else ""


def _targets(targets: Sequence[Target]) -> str:
    return ", ".join(target.step for target in targets) or "no step"


def _keys(scope: str, patch: Patch) -> str:
    return f"; sets {', '.join(dict.fromkeys(f'{scope}.{key}' for key, _, _ in patch))}" if patch else ""


# -- playbook and workflow ------------------------------------------------------------------------------------------


def _requested(event: e.ExecutionRequested) -> str:
    parent = f" for {event.parent[1]} of {event.parent[0]}" if event.parent else ""
    return f"Run of {event.path} requested{_by(event)}{parent}"


def _evaluated(event: e.RequestEvaluated) -> str:
    if event.error is not None:
        return f"Request refused{_error(event.error)}"
    return "Inputs accepted" + (f" with {counted(len(event.warnings), 'warning')}" if event.warnings else "")


def _workflow_finished(event: e.WorkflowFinished) -> str:
    return f"Nothing is left to run: the workflow {_ended(event.outcome)}{_error(event.error)}"


def _processed(event: e.PlaybookProcessed) -> str:
    return f"Run {_ended(event.outcome)}{_error(event.error)}"


def _ended(outcome: str) -> str:
    return "was cancelled" if outcome == "cancelled" else outcome


def _cancelled(event: e.PlaybookCancelled) -> str:
    return f"Run cancelled{_by(event)}" + (f": {event.reason}" if event.reason else "")


def _forked(event: e.ExecutionForked) -> str:
    verb = "Retry" if event.reason == "retry" else "Fork"
    items = f"; the failed items of {event.reopened} run again" if event.reopened else ""
    changes = ("; edits the playbook" if event.playbook else "") + (
        "; sets inputs" if event.payload is not None else ""
    )
    return (
        f"{verb} of {event.source_id} at event {event.source_seq:,}{_by(event)}{items}{changes}"
        f"{_keys('ctx', event.set_ctx)}"
    )


# -- tokens and steps -----------------------------------------------------------------------------------------------


def _enqueued(event: e.TokenEnqueued) -> str:
    origin = f" from {event.origin}" if event.origin else ""
    return f"Sent to {event.step}{origin}{_due(event.due, ', arrives at ')}"


def _scheduled(event: e.StepScheduled) -> str:
    if not event.tokens:
        return "Ready to run as the final step"
    numbers = ", ".join(map(str, event.tokens))
    return f"Ready to run with token{'s' * (len(event.tokens) > 1)} {numbers}"


def _started(event: e.StepStarted) -> str:
    items = f" for {_items(*event.items)}" if event.items else ""
    return f"Leased to {event.worker or 'a worker'}{items} (lease {event.fence})"


def _items(first: int, end: int) -> str:
    return f"item {first}" if end == first + 1 else f"items {first} to {end - 1}"


def _regranted(event: e.StepRegranted) -> str:
    return _started(event) + (f" again: {event.reason}" if event.reason else " again")


def _paused(event: e.StepPaused) -> str:
    if event.until is None:
        return f"Lease {event.fence} was {event.reason}"
    return f"Waits for {_awaited(event)}{_due(event.due)}"


def _awaited(event: e.StepPaused) -> str:
    match event.until:
        case "signal":
            return signals_text(event.keys or (event.key,))
        case "child":
            return f"its child {event.key}"
        case "retry":
            return "its next attempt"
    return "an event"


def _resumed(event: e.StepResumed) -> str:
    if event.outcome is None:
        return "Continues with its next attempt"
    return f"Continues with the outcome it waited for: {_outcome(event.outcome)}"


def _outcome(outcome: Outcome) -> str:
    return "ok" if outcome.ok else f"error{_error(outcome.error)}"


def _step_failed(event: e.StepFailed) -> str:
    place = f" at {event.task}{_attempt(event.attempt)}" if event.task else ""
    return f"Failed{place}{_error(event.error)}" + (" (handled by the step)" if event.taken else "")


def _routed(event: e.NextEvaluated) -> str:
    if event.error is not None:
        return f"Routing failed{_error(event.error)}"
    if event.to:
        return f"Leads to {_targets(event.to)}"
    if not event.selected:
        return f"No arc matches {event.on}"
    numbers = ", ".join(str(arc + 1) for arc in event.selected)
    return f"Takes arc{'s' * (len(event.selected) > 1)} {numbers} on {event.on}"


# -- loops ----------------------------------------------------------------------------------------------------------


def _item_failed(event: e.IterationFailed) -> str:
    place = f" at {event.task}{_attempt(event.attempt)}" if event.task else ""
    return f"Item failed{place}{_error(event.error)}"


def _loop_done(event: e.LoopDone) -> str:
    failures = f", {event.failed:,} failed" if event.failed else ""
    return f"{event.ok:,} of {counted(event.total, 'item')} succeeded{failures}"


# -- tasks ----------------------------------------------------------------------------------------------------------


def _task_started(event: e.TaskStarted) -> str:
    return f"Calls the tool{_attempt(event.attempt)}"


def _task_done(event: e.TaskDone) -> str:
    if event.skipped:
        return "Skipped" + (f", then {event.to}" if event.to else "")
    writes = _keys("ctx", event.set_ctx) + _keys("iter", event.set_iter)
    error = _error(event.error) if event.error is not None and event.error != event.outcome.error else ""
    took = f" in {duration_text(event.duration_ms)}"
    return f"{_sentence(_outcome(event.outcome))}{took}{_attempt(event.attempt)}; {_directive(event)}{error}{writes}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _directive(event: e.TaskDone) -> str:
    return f"jump to {event.to}" if event.do == "jump" and event.to else event.do


def _retry(event: e.TaskRetryScheduled) -> str:
    return f"Attempt {event.attempt} is scheduled{_due(event.due, ' for ')}"


def _poll_iteration(event: e.PollIteration) -> str:
    return f"Poll {event.iteration}: {'ready' if event.ready else 'not ready yet'}"


POLL_ENDS = {"ready": "is ready", "exhausted": "has no calls left", "deadline": "timed out", "failed": "failed"}


def _poll_finished(event: e.PollFinished) -> str:
    return f"The poll {POLL_ENDS[event.reason]} after {counted(event.iterations, 'call')}"


# -- ctx, signals, timers -------------------------------------------------------------------------------------------


def _patched(event: e.CtxPatched) -> str:
    if event.spelled is not None:
        return f"The stored value of {event.spelled.key} is copied into the log"
    return _sentence(_keys("ctx", event.patch).removeprefix("; ")) or "Sets nothing"


def _armed(event: e.TimerArmed) -> str:
    return f"{_sentence(_timer(event.timer))} is set for {rfc3339(event.due)}"


def _fired(event: e.TimerFired) -> str:
    return f"{_sentence(_timer(event.timer))} is due{_error(event.error)}"


def _timer(name: str) -> str:
    match timer_of(name):
        case ExecutionTimeout():
            return "the time limit of the run"
        case RunTimeout(run):
            return f"the time limit of {run}"
        case WaitLimit(run):
            return f"the end of the wait of {run}"
        case StepTimer(run, timer):
            return f"the timer {timer} of {run}"
        case TokenDelay(token):
            return f"the delay of token {token}"
        case MoreFirings():
            return "the next decision"
    return f"the timer {name}"


# -- classic steps --------------------------------------------------------------------------------------------------


def _case_evaluated(event: CaseEvaluated) -> str:
    return f"Branches {', '.join(event.matched)} match" if event.matched else "No branch matches"


def _suppressed(event: BranchSuppressed) -> str:
    winner = f": {event.winner_branch} has ended the step" if event.winner_branch else ""
    return f"Branch {event.branch} does not run{winner}"


def _next_requested(event: NextRequested) -> str:
    return f"Branch {event.branch} leads to {_targets(event.to)}"


SUMMARIES: dict[type[e.Event], Callable[[Any], str]] = {
    e.ExecutionRequested: _requested,
    e.RequestEvaluated: _evaluated,
    e.PlaybookStarted: lambda event: "Run started",
    e.WorkflowStarted: lambda event: "Workflow started",
    e.WorkflowFinished: _workflow_finished,
    e.PlaybookProcessed: _processed,
    e.PlaybookPaused: lambda event: f"Run paused{_by(event)}",
    e.PlaybookResumed: lambda event: f"Run resumed{_by(event)}",
    e.PlaybookCancelled: _cancelled,
    e.ExecutionForked: _forked,
    e.TokenEnqueued: _enqueued,
    e.TokenHeld: lambda event: "Not admitted yet: waits for a change of ctx or a signal",
    e.TokenDenied: lambda event: f"Will never be admitted{_error(event.error)}",
    e.StepScheduled: _scheduled,
    e.StepStarted: _started,
    e.StepRegranted: _regranted,
    e.StepPaused: _paused,
    e.StepResumed: _resumed,
    e.StepDone: lambda event: "Succeeded",
    e.StepFailed: _step_failed,
    e.NextEvaluated: _routed,
    e.LoopStarted: lambda event: f"Loop over {counted(event.total, 'item')}",
    e.IterationStarted: lambda event: "Item started",
    e.IterationDone: lambda event: "Item succeeded",
    e.IterationFailed: _item_failed,
    e.LoopDone: _loop_done,
    e.TaskStarted: _task_started,
    e.TaskDone: _task_done,
    e.SinkStarted: _task_started,
    e.SinkProcessed: _task_done,
    e.TaskRetryScheduled: _retry,
    e.PollStarted: lambda event: f"Polls until the result is ready{_due(event.due, ', at most until ')}",
    e.PollIteration: _poll_iteration,
    e.PollFinished: _poll_finished,
    e.CtxPatched: _patched,
    e.MessageReceived: lambda event: f"Signal {event.type!r} received" + (f", sent{_by(event)}" if event.actor else ""),
    e.TimerArmed: _armed,
    e.TimerFired: _fired,
    CaseStarted: lambda event: f"Branches are evaluated on {event.trigger_event}{_error(event.error)}",
    CaseEvaluated: _case_evaluated,
    BranchSuppressed: _suppressed,
    NextRequested: _next_requested,
}
