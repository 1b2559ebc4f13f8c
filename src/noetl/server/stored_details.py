"""Details of an execution beside its state: its payload, its source, and the numbers of children and forks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from noetl.engine.events import ExecutionForked, ExecutionRequested
from noetl.engine.state import Execution
from noetl.errors import NotFound
from noetl.runtime.outlines import Outlines
from noetl.store.codec import decode
from noetl.store.store import Store


class ForkPoint(msgspec.Struct, frozen=True):
    """The source of a fork, and the last event that both have."""

    execution_id: str
    seq: int
    reason: Literal["fork", "retry"]


class StoredDetails(msgspec.Struct, frozen=True):
    version: int | None
    payload: dict[str, Any]
    forked_from: ForkPoint | None
    children: int
    forks: int


def stored_details(
    store: Store, state: Execution, path: str, outlines: Outlines, related: tuple[int, int]
) -> StoredDetails:
    """NotFound if the execution was pruned a moment ago. Of a fork, it may read the whole outline."""
    version, point = store.version_of(path, state.digest), None
    if state.forked is not None:
        source, seq = state.forked
        event = _event(store, state.id, seq + 1)
        assert isinstance(event, ExecutionForked)
        point = ForkPoint(source, seq, event.reason)
    return StoredDetails(version, _payload(store, state, outlines), point, *related)


def _payload(store: Store, state: Execution, outlines: Outlines) -> dict[str, Any]:
    """That of the last fork that changed it, or of the request."""
    for seq in _forks(store, state, outlines):
        event = _event(store, state.id, seq)
        if isinstance(event, ExecutionForked) and event.payload is not None:
            return event.payload
    requested = _event(store, state.id, 1)
    assert isinstance(requested, ExecutionRequested)
    return requested.payload


def _forks(store: Store, state: Execution, outlines: Outlines) -> Iterator[int]:
    """The events that made it a fork, and its source before it, the last one first."""
    if state.forked is None:
        return
    last = state.forked[1] + 1
    yield last
    markers = outlines.fold(store, state.id).markers
    yield from (seq for seq, kind, _ in reversed(markers) if kind == "fork" and seq < last)


def _event(store: Store, execution: str, seq: int) -> object:
    rows = store.read(execution, seq - 1, 1)
    if not rows:
        raise NotFound(f"execution {execution!r} not found")
    return decode(rows[0].type, rows[0].data)
