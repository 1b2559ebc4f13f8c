"""Scheduling: tokens are consumed and become a run of their step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.engine import events as e
from noetl.engine.leases import server_grant
from noetl.engine.loops import loop_items, start_loop
from noetl.engine.net import StepPlan
from noetl.engine.state import Execution, Handlers, Run
from noetl.engine.step_runs import limit_failure, refresh_ready
from noetl.engine.timer_keys import StepTimer
from noetl.engine.tokens import change_occupancy, merged_args, take_token
from noetl.model.identity import step_of

if TYPE_CHECKING:
    from noetl.engine.decision import Decision


def schedule(decision: Decision, plan: StepPlan, tokens: tuple[int, ...], args: dict[str, Any] | None = None) -> None:
    """Make a run of the tokens; a step without tasks ends at once. Only the final step has `args` and no tokens."""
    state = decision.state
    limit = state.net.playbook.executor.max_step_runs
    if tokens and state.run_count >= limit:  # the execution fails, not the step: its arcs could handle that for ever
        error = limit_failure(f"more than {limit:,} step runs in one execution", plan.name)
        for token in tokens:
            decision.emit(e.TokenDenied(token, error))
        return
    run = f"{plan.name}#{state.entries.get(plan.name, 0) + 1}"
    items = None
    if plan.collection is not None:  # before the run exists: a template that needs a stored value starts again
        merged, args_by = merged_args(state, [state.tokens[number] for number in tokens])
        items = loop_items(decision, plan, merged or args or {}, args_by)
    decision.emit(e.StepScheduled(run, tokens, args or {}))
    for name, seconds in plan.timers.items():
        decision.emit(e.TimerArmed(StepTimer(run, name).name, decision.now + seconds))
    if plan.after_call is not None and plan.after_call.observes:
        plan.after_call.enter(decision, run)
    if plan.collection is not None:
        start_loop(decision, plan, run, items)
    elif not plan.step.tasks and plan.after_call is None:
        decision.emit(server_grant(state, run))
        decision.emit(e.StepDone(run))


def _scheduled(state: Execution, event: e.StepScheduled, at: float) -> None:
    step = step_of(event.run)
    tokens = [take_token(state, number) for number in event.tokens]
    args, args_by = merged_args(state, tokens)
    run = Run(event.run, step, args or dict(event.args), args_by, since=at)
    plan = state.net.steps[step]
    if plan.after_call is not None:
        plan.after_call.scheduled(state, run)
    state.runs[run.id] = run
    state.run_count += 1
    state.entries[step] = state.entries.get(step, 0) + 1
    change_occupancy(state, step, 1)
    refresh_ready(state, run)


HANDLERS: Handlers = {e.StepScheduled: _scheduled}
