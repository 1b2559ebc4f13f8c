"""evolve(state, event): what each event changes. Constant work per event; no template, no clock, no choice.

Replay is `evolve` over the log, and live state is the same: a decision evolves its own events. Handlers
are in the files of the decisions that emit their events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine import (
    ctx,
    leases,
    lifecycle,
    loops,
    routing,
    schedule,
    start,
    step_runs,
    tasks,
    timers,
    tokens,
    waits,
)
from noetl.engine import events as e
from noetl.engine.history.fork import HANDLERS as FORK_HANDLERS
from noetl.engine.state import Execution
from noetl.engine.upcast import UPCASTERS
from noetl.model.identity import step_of

Handler = Callable[[Execution, Any, float], None]


def evolve(state: Execution, event: e.Event, at: float) -> None:
    """Fold the event into the state."""
    state.seq += 1
    if event.source == "worker":
        leases.count_fact(state, event)
    handler = HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event, at)
    else:
        rules = state.net.steps[step_of(event.run)].after_call  # type: ignore[attr-defined]
        assert rules is not None, event.name
        rules.evolve(state, event, at)


def _upcasted(upcast: Callable[[Execution, Any, float], Any], handler: Handler) -> Handler:
    def handle(state: Execution, event: Any, at: float) -> None:
        handler(state, upcast(state, event, at), at)

    return handle


ROOMS = (start, lifecycle, tokens, routing, schedule, leases, step_runs, loops, tasks, waits, timers, ctx)
HANDLERS: dict[type[e.Event], Handler] = dict(FORK_HANDLERS)
for room in ROOMS:
    HANDLERS |= room.HANDLERS
HANDLERS.update({kind: _upcasted(upcast, HANDLERS[kind]) for kind, upcast in UPCASTERS.items()})
