"""Events of version 0.1.0, which left some decisions to the fold, as later versions write them.

That version computed the lease time, the lane length, the borders of chunks and the error of a time limit while it
folded. Its rules and constants are kept here and never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine.limits import encoded_size
from noetl.engine.state import WHOLE_RUN, Execution, LoopState
from noetl.engine.timer_keys import ExecutionTimeout
from noetl.reference import refer

LEASE_SECONDS = 30.0
FIRST_LANE = 1
FAST_LANE_SECONDS = 0.2
MAX_LANE = 1_024
RESULTS_PER_CHUNK = 4_096
BYTES_PER_CHUNK = 1 << 16


def implies_chunk(loop: LoopState, result: Any) -> bool:
    """Whether the results so far are a chunk together with this one, although its event does not record it."""
    size = loop.bytes + encoded_size(result, BYTES_PER_CHUNK)
    return len(loop.results) + 1 >= RESULTS_PER_CHUNK or size >= BYTES_PER_CHUNK


def _grant(state: Execution, event: Any, at: float) -> Any:
    if event.ttl:
        return event
    run = state.runs[event.run]
    losses = run.losses.get(event.items[0] if event.items else WHOLE_RUN, 0)
    lane = _lane(run.loop) if run.loop is not None else 0
    return replace(event, ttl=LEASE_SECONDS * 2**losses, lane=lane)


def _lane(loop: LoopState) -> int:
    length = loop.lane
    for seconds in loop.lane_seconds:
        fast = 0 <= seconds < FAST_LANE_SECONDS
        length = min(length * 2, MAX_LANE) if fast else max(1, length // 2)
    return length


def with_chunk(loop: LoopState, event: e.IterationDone) -> e.IterationDone:
    """The event with the chunk that it completes."""
    if event.chunk is not None or not implies_chunk(loop, event.result):
        return event
    pairs = [[index, result] for index, result in [*loop.results, (event.index, event.result)]]
    return replace(event, chunk=refer(pairs)[0])


def _timer_fired(state: Execution, event: e.TimerFired, at: float) -> e.TimerFired:
    if event.timer != ExecutionTimeout().name or event.error is not None:
        return event
    limit = state.net.playbook.executor.timeout
    return replace(event, error={"kind": "timeout", "message": f"the execution took longer than {limit:g} s"})


UPCASTERS: dict[type[e.Event], Callable[[Execution, Any, float], Any]] = {
    e.StepStarted: _grant,
    e.StepRegranted: _grant,
    e.TimerFired: _timer_fired,
}
