"""Handing out work: a lease on a run, or a lane of a loop's items."""

from __future__ import annotations

from noetl.engine import events as e
from noetl.engine.commands import Claim
from noetl.engine.evolve import NO_LOOP
from noetl.engine.state import Execution, Loop, Run
from noetl.engine.turn import Turn


def claim(turn: Turn, command: Claim) -> None:
    """Grant ready runs, oldest first, until the worker's slots are full."""
    state = turn.state
    if state.status != "running" or state.over:
        return
    for _ in range(command.slots):
        name = next((run for run, pool in state.ready.items() if command.pool in (None, pool)), None)
        if name is None:
            return
        turn.emit(grant(state, state.runs[name], command.worker, command.id))


def grant(state: Execution, run: Run, worker: str, claim: str = "") -> e.StepStarted | e.StepRegranted:
    """The event that hands out a run or a part of it."""
    fence = state.fence + 1
    whole = run.loop is None or (run.tail is not None and run.tail.begun)
    items = None if whole or run.loop is None else _lane(state, run, run.loop)
    if (items[0] if items else NO_LOOP) in run.losses:
        return e.StepRegranted(run.id, fence, "lost", worker, items, claim)
    return e.StepStarted(run.id, fence, worker, items, claim)


def _lane(state: Execution, run: Run, loop: Loop) -> e.Interval:
    """The next items: what was returned first, else as many as lanes have lately managed in good time."""
    width = state.net.steps[run.step].lanes
    first, last = loop.returned[0] if loop.returned else (loop.next, loop.total)
    fair = max(1, (loop.total - loop.next) // (4 * width))
    return first, min(last, first + min(loop.lane, fair))
