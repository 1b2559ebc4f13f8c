"""Timers: what happens when one is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.engine import events as e
from noetl.engine.state import Execution, Handlers
from noetl.engine.timer_keys import ExecutionTimeout, RunTimeout, TokenDelay, WaitLimit, timer_of
from noetl.engine.tokens import arrive
from noetl.engine.waits import wake
from noetl.model.outcome import Error, failed

if TYPE_CHECKING:
    from noetl.engine.decision import Decision


def timer_due(decision: Decision, name: str) -> None:
    state = decision.state
    due = state.timers.get(name)
    if due is None or due > decision.now or state.status == "paused":
        return
    match timer_of(name):
        case ExecutionTimeout():
            limit = state.net.playbook.executor.timeout
            message = f"the execution took longer than {limit:g} s"
            decision.emit(e.TimerFired(name, {"kind": "timeout", "message": message}))
        case RunTimeout(run):
            decision.emit(e.TimerFired(name))
            if run in state.runs:
                limit = state.net.steps[state.runs[run].step].timeout
                decision.fail(run, Error("timeout", f"the step took longer than {limit:g} s"))
        case WaitLimit(run, index):
            decision.emit(e.TimerFired(name))
            wake(decision, run, index, failed("timeout", "the wait timed out"))
        case _:
            decision.emit(e.TimerFired(name))


def _armed(state: Execution, event: e.TimerArmed, at: float) -> None:
    state.timers[event.timer] = event.due


def _fired(state: Execution, event: e.TimerFired, at: float) -> None:
    state.timers.pop(event.timer, None)
    match timer_of(event.timer):
        case ExecutionTimeout():
            state.failure = state.failure or event.error
            state.deadline_passed = True
        case TokenDelay(token) if token in state.tokens:
            state.tokens[token].due = None
            state.delayed.pop(token, None)
            arrive(state, state.tokens[token])


HANDLERS: Handlers = {
    e.TimerArmed: _armed,
    e.TimerFired: _fired,
}
