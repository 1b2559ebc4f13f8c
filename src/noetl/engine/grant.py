"""Handing out work: a lease on a run, or a lane of a loop's items."""

from __future__ import annotations

from math import ceil

from noetl.engine import events as e
from noetl.engine.commands import Claim
from noetl.engine.evolve import NO_LOOP, has_room
from noetl.engine.state import Execution, Loop, Run
from noetl.engine.turn import Turn


def claim(turn: Turn, command: Claim) -> None:
    """Grant ready runs, oldest first, until the worker's slots are full."""
    state = turn.state
    if state.status != "running" or state.over:
        return
    free = command.slots
    while free > 0:
        name = next((run for run, pool in state.ready.items() if command.pool in (None, pool)), None)
        if name is None:
            return
        free -= _hand_out(turn, state.runs[name], command, free)


def _hand_out(turn: Turn, run: Run, command: Claim, free: int) -> int:
    """Give the worker a run or a lane; of a loop that one worker keeps, all that waits. How many slots that takes."""
    if not turn.state.net.steps[run.step].local:
        turn.emit(_grant(turn.state, run, command, 1))
        return 1
    taken = 0
    while taken < free and (not taken or has_room(turn.state, run)):
        turn.emit(_grant(turn.state, run, command, free - taken))
        taken += 1
    return taken


def _grant(state: Execution, run: Run, command: Claim, slots: int) -> e.StepStarted | e.StepRegranted:
    """The event that hands out a run or a part of it."""
    fence, worker, claim = state.fence + 1, command.worker, command.id
    whole = run.loop is None or (run.tail is not None and run.tail.begun)
    items = None if whole or run.loop is None else _lane(state, run, run.loop, slots)
    if (items[0] if items else NO_LOOP) in run.losses:
        return e.StepRegranted(run.id, fence, "lost", worker, items, claim)
    return e.StepStarted(run.id, fence, worker, items, claim)


def _lane(state: Execution, run: Run, loop: Loop, slots: int) -> e.Interval:
    """The next items: what was returned first, else as many as lanes have lately managed in good time. Where one worker
    keeps the loop, its slots share what is left, and nothing waits for another claim."""
    plan = state.net.steps[run.step]
    first, last = loop.returned[0] if loop.returned else (loop.next, loop.total)
    if plan.local:
        waiting = loop.total - loop.next + sum(end - begin for begin, end in loop.returned)
        return first, min(last, first + ceil(waiting / min(slots, plan.lanes - len(loop.lanes) - len(run.parked))))
    fair = max(1, (loop.total - loop.next) // (4 * plan.lanes))
    return first, min(last, first + min(loop.lane, fair))
