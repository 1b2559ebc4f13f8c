"""Leases: a run, or a lane of loop items, is granted to a worker, and returned, lost or ended.

A lease expires `ttl` seconds after the last heartbeat of its worker. Each loss in a row doubles the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.engine import events as e
from noetl.engine.commands import Claim
from noetl.engine.loops import lane_length, next_lane, return_lane, take_items
from noetl.engine.state import WHOLE_RUN, Execution, Handlers, Lease, Parked, Run
from noetl.engine.step_runs import has_room, refresh_ready
from noetl.engine.timer_keys import RunTimeout, WaitLimit
from noetl.model.outcome import Error

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

LEASE_SECONDS = 30.0
MAX_LOSSES = 5


# -- decisions ------------------------------------------------------------------------------------------------------


def claim(decision: Decision, command: Claim) -> None:
    """Grant ready runs, oldest first, until the worker's slots are full."""
    state = decision.state
    if state.status != "running" or state.over:
        return
    free = command.slots
    while free > 0:
        name = next((run for run, pool in state.ready.items() if command.pool in (None, pool)), None)
        if name is None:
            return
        run = state.runs[name]
        decision.emit(_grant(state, run, command, free))
        free -= 1
        while free > 0 and state.net.steps[run.step].local and has_room(state, run):  # one worker keeps all its items
            decision.emit(_grant(state, run, command, free))
            free -= 1


def _grant(state: Execution, run: Run, command: Claim, slots: int) -> e.StepStarted:
    plan, loop = state.net.steps[run.step], run.loop
    items, lane = None, 0
    if loop is not None and not (run.after_call is not None and run.after_call.call_has_ended):
        lane = lane_length(plan, loop)
        items = next_lane(plan, run, loop, lane, slots)
    fence, index = state.fence + 1, items[0] if items else WHOLE_RUN
    if index in run.losses:
        ttl = LEASE_SECONDS * 2 ** run.losses[index]
        return e.StepRegranted(run.id, fence, command.worker, items, command.id, ttl, lane, "lost")
    return e.StepStarted(run.id, fence, command.worker, items, command.id, LEASE_SECONDS, lane)


def server_grant(state: Execution, run: str) -> e.StepStarted:
    """Of a run that needs no worker."""
    return e.StepStarted(run, state.fence + 1, "server", ttl=LEASE_SECONDS)


def lose_lease(decision: Decision, fence: int) -> None:
    """Take a lease from a lost worker. A run that keeps losing its workers fails."""
    lease = decision.state.leases.get(fence)
    if lease is None:
        return
    run = decision.state.runs[lease.run]
    decision.emit(e.StepPaused(run.id, fence, "lost"))
    if max(run.losses.values()) >= MAX_LOSSES:
        message = f"{MAX_LOSSES} workers were lost on this run without any progress"
        decision.fail(run.id, Error("poison", message))


# -- events ---------------------------------------------------------------------------------------------------------


def count_fact(state: Execution, event: e.Event) -> None:
    """Count a worker's event under its lease, so that a repeated report is accepted once."""
    place: Any = event.task if isinstance(event, e.TaskEvent) else event
    run = state.runs.get(place.run)
    if run is None:
        return
    if state.observers:
        rules = state.net.steps[run.step].after_call
        if rules is not None and rules.is_server_event(state, event):
            return
    fence = run.fence
    if fence is None and run.loop is not None:
        fence = run.loop.lane_at(getattr(place, "index", None))
    lease = state.leases.get(fence)  # type: ignore[arg-type]
    if lease is not None:
        lease.facts += 1


def _granted(state: Execution, event: e.StepStarted, at: float) -> None:
    run = state.runs[event.run]
    state.fence = event.fence
    state.leases[event.fence] = Lease(run.id, event.worker, at, event.ttl, event.claim)
    if run.started is None:
        run.started = at
        if run.loop is None:
            run.ctx = dict(state.ctx)
        limit = state.net.steps[run.step].timeout
        if limit is not None:
            state.timers[RunTimeout(run.id).name] = at + limit
    if event.items is None:
        run.fence = event.fence
    else:
        assert run.loop is not None
        run.loop.lane = event.lane
        run.loop.lane_seconds.clear()
        take_items(run.loop, event.items)
        run.loop.lanes[event.fence] = event.items
    refresh_ready(state, run)


def _paused(state: Execution, event: e.StepPaused, at: float) -> None:
    run = state.runs[event.run]
    run.since = at
    state.leases.pop(event.fence, None)
    rest: e.Interval | None = None
    if run.fence == event.fence:
        run.fence = None
    elif run.loop is not None:
        rest = run.loop.lanes.pop(event.fence, None)
    if event.reason == "lost":
        index = rest[0] if rest else WHOLE_RUN
        run.losses[index] = run.losses.get(index, 0) + 1
    if event.until == "event":
        rules = state.net.steps[run.step].after_call
        if rules is not None:
            rules.paused(run, event)
    elif event.until is not None:
        _park(state, run, event, at)
        if rest is not None and event.index is not None:
            rest = (event.index + 1, rest[1])
    if rest is not None and run.loop is not None:
        if event.reason == "returned":
            run.loop.lane_seconds.append(-1.0)
        return_lane(run, run.loop, *rest)
    refresh_ready(state, run)


def _park(state: Execution, run: Run, event: e.StepPaused, at: float) -> None:
    index = WHOLE_RUN if event.index is None else event.index
    assert event.until is not None
    run.park(index, Parked(event.until, event.key, event.due, event.request, event.chain, event.keys, at))
    state.deliverable = True
    if event.due is not None:
        state.timers[WaitLimit(run.id, index).name] = event.due


HANDLERS: Handlers = {
    e.StepStarted: _granted,
    e.StepRegranted: _granted,
    e.StepPaused: _paused,
}
