"""Dry runs of forks and retries. It starts at the nearest snapshot, so it is quick at any
event of a long run."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.history.fork import AgainView, check_playbook, is_incomplete, under_way
from noetl.engine.start import overlaid
from noetl.engine.state import Execution
from noetl.errors import NotFound
from noetl.runtime.history import Cut, Edit, RetryPoint, check_event, check_forkable, input_warnings, retry_cut
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.runtime.past import PastReader
from noetl.runtime.runtime import Runtime
from noetl.store.codec import decode

PAYLOAD_EVENTS = (e.ExecutionRequested.name, e.ExecutionForked.name)
ROWS_PER_READ = 100


class ForkPreview(msgspec.Struct, frozen=True):
    """The effect of a fork. It takes over the first `source_seq` events: `done` are steps whose results it has, `again`
    are step runs that run again or continue. `warnings` are about its payload."""

    source_id: str
    source_seq: int
    again: list[AgainView]
    done: list[str]
    warnings: list[str]


async def preview_fork(
    runtime: Runtime, source: str, at: int | None, edit: Edit, edited: LoadedPlaybook | None
) -> ForkPreview:
    """The fork at an event. `edited` is the playbook that it would continue with; the edit has no digest."""

    def read(past: PastReader) -> ForkPreview:
        state = _state_at(past, source, Cut(at))
        check_forkable(source, state, at)
        return _preview(past, state, Cut(at), edit, edited)

    return await runtime.past.do(read)


async def preview_retry(
    runtime: Runtime, source: str, edit: Edit, point: RetryPoint, edited: LoadedPlaybook | None
) -> ForkPreview:
    cut, edit = await retry_cut(runtime, source, edit, point)

    def read(past: PastReader) -> ForkPreview:
        return _preview(past, _state_at(past, source, cut), cut, edit, edited or past.playbook(edit.digest))

    return await runtime.past.do(read)


def _state_at(past: PastReader, source: str, cut: Cut) -> Execution:
    """The state of the source where its log would be cut."""
    last = past.store.seq(source)
    if not last:
        raise NotFound(f"execution {source!r} not found")
    at = last if cut.seq is None else cut.seq
    check_event(source, at, last)
    state = past.stored_state(source, at - 1)  # the event before may not be the last one of its decision
    for row in past.rows(source, state.seq, last):
        event = decode(row.type, row.data)
        if isinstance(event, e.ExecutionForked):
            state.net = past.playbook(event.playbook or state.digest)
        evolve(state, event, row.at)
        if row.seq >= at and (cut.is_exact or not is_incomplete(state, event)):
            break
    return state


def _preview(past: PastReader, state: Execution, cut: Cut, edit: Edit, playbook: LoadedPlaybook | None) -> ForkPreview:
    edited = playbook if playbook is not None and playbook.digest != state.digest else None
    if edited is not None:
        check_playbook(state, edited)
    warnings: list[str] = []
    if edited is not None or edit.inputs:
        payload = overlaid(_payload(past, state), edit.inputs)
        warnings = input_warnings(edited or past.playbook(state.digest), state, payload, edit)
    again = under_way(state, cut.failed or "", cut.begins_with)
    return ForkPreview(state.id, state.seq, again, list(state.steps), warnings)


def _payload(past: PastReader, state: Execution) -> dict[str, Any]:
    """The payload of the request, or of the last fork that changed it."""
    before = state.seq + 1
    while rows := past.store.read_backwards(state.id, before, PAYLOAD_EVENTS, ROWS_PER_READ):
        for row in rows:
            event: Any = decode(row.type, row.data)
            if event.payload is not None:
                return dict(event.payload)
        before = rows[-1].seq
    return {}
