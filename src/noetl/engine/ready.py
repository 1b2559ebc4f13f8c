"""Which runs a worker could work on now."""

from __future__ import annotations

from noetl.engine.state import WHOLE_RUN, Execution, Run


def refresh_ready(state: Execution, run: Run) -> None:
    """Add the run to `state.ready` or remove it. Called after every change of the run."""
    if not _is_claimable(state, run):
        state.ready.pop(run.id, None)
    elif run.id not in state.ready:
        state.ready[run.id] = state.net.steps[run.step].pool or state.net.playbook.executor.pool


def _is_claimable(state: Execution, run: Run) -> bool:
    plan, loop = state.net.steps[run.step], run.loop
    if plan.after_call is None and not plan.step.tasks:
        return False
    if plan.step.loop is None or (run.after_call is not None and run.after_call.begun):
        if run.fence is not None or WHOLE_RUN in run.parked:
            return False
        return plan.after_call is None or not plan.after_call.awaits_event(run)
    if loop is None or (plan.local and loop.lanes):  # one worker has the whole loop
        return False
    return has_room(state, run)


def has_room(state: Execution, run: Run) -> bool:
    """Whether items of a loop are unleased and one more lane may run."""
    loop = run.loop
    if loop is None or not (loop.returned or loop.next < loop.total):
        return False
    return len(loop.lanes) + len(run.parked) < state.net.steps[run.step].lanes
