"""Classic steps: the branches of `case` that are evaluated after the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine import events as e
from noetl.engine.ready import refresh_ready
from noetl.engine.state import Epoch, Execution, Poll, Request, Run, Tail
from noetl.engine.tasks import split_path
from noetl.engine.timer_keys import WaitLimit
from noetl.engine.waits import consume_signal

POINTS = ("call.done", "call.error", "step.exit")


def tail_of(run: Run) -> Tail:
    assert run.tail is not None
    return run.tail


def _case_started(state: Execution, event: e.CaseStarted, at: float) -> None:
    run = state.runs[event.run]
    tail = tail_of(run)
    if event.trigger_event not in POINTS:
        return  # something that was heard
    tail.point = event.trigger_event
    if event.error is not None:
        tail.failure = (event.error, event.task, event.attempt)
    if not state.net.steps[run.step].listens:
        tail.epochs.clear()
    if event.revoked:
        _revoke(state, run)
    refresh_ready(state, run)


def _revoke(state: Execution, run: Run) -> None:
    """Nobody works on the run any more; what is left of it is its tail."""
    for fence in [run.fence, *(run.loop.lanes if run.loop else ())]:
        if fence is not None:
            state.leases.pop(fence, None)
    run.fence = None
    if run.loop is not None:
        run.loop.lanes.clear()
    for key in run.parked:
        state.timers.pop(WaitLimit(run.id, key).name, None)
    run.parked.clear()
    run.losses.clear()
    run.progress = {prefix: progress for prefix, progress in run.progress.items() if not prefix}
    run.item_progress.clear()
    run.ctx = dict(state.ctx)


def _case_evaluated(state: Execution, event: e.CaseEvaluated, at: float) -> None:
    run = state.runs[event.run]
    tail = tail_of(run)
    if event.trigger_event in POINTS:
        tail.looked = event.trigger_event
    tail.fired.extend(event.order)
    if event.order:
        tail.epochs.append(Epoch(list(event.order), event.event))
    if event.message is not None:
        consume_signal(state, event.message)
    if run.id in state.listeners:
        run.ctx = dict(state.ctx)  # much may have happened since it began to listen
    refresh_ready(state, run)


def _branch_suppressed(state: Execution, event: e.BranchSuppressed, at: float) -> None:
    tail_of(state.runs[event.run]).suppressed.append(event.branch)


def _next_requested(state: Execution, event: e.NextRequested, at: float) -> None:
    run = state.runs[event.run]
    tail = tail_of(run)
    add_request(tail, event)
    progress = run.progress_of(None, f"{event.branch}/")
    progress.at, progress.ended = event.then, event.then is None


def add_request(tail: Tail, event: e.NextRequested) -> None:
    """A chain that is retried as a whole comes to the same `next` again."""
    tail.requests = [one for one in tail.requests if (one.branch, one.action) != (event.branch, event.action)]
    tail.requests.append(Request(event.branch, event.action, list(event.to), event.policy, event.priority))


def _poll_started(state: Execution, event: e.PollStarted, at: float) -> None:
    prefix, label, visit = split_path(event.task)
    state.runs[event.task.run].progress_of(event.task.index, prefix).polls[label] = Poll(visit, event.due)


def _poll_iteration(state: Execution, event: e.PollIteration, at: float) -> None:
    pass


def _poll_finished(state: Execution, event: e.PollFinished, at: float) -> None:
    prefix, label, _ = split_path(event.task)
    state.runs[event.task.run].progress_of(event.task.index, prefix).polls.pop(label, None)


HANDLERS: dict[type[e.Event], Callable[[Execution, Any, float], None]] = {
    e.CaseStarted: _case_started,
    e.CaseEvaluated: _case_evaluated,
    e.BranchSuppressed: _branch_suppressed,
    e.NextRequested: _next_requested,
    e.PollStarted: _poll_started,
    e.PollIteration: _poll_iteration,
    e.PollFinished: _poll_finished,
}
