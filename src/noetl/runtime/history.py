"""History of executions: replays, forks and retries.

A fork is written in one transaction: the events of its source, and its own first events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from noetl.dsl.payload import KeptParts
from noetl.dsl.problem import did_you_mean, hint_names
from noetl.engine import events as e
from noetl.engine.commands import Fork
from noetl.engine.history.fork import AgainView, FailedItems, Retrace, is_incomplete, kept_steps, under_way
from noetl.engine.history.outline import Block, OutlineWriter, encode_block
from noetl.engine.history.verify.log import derived_rows, differences
from noetl.engine.start import overlaid
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound, StoreError, UsageError
from noetl.model.actor import Actor
from noetl.model.identity import step_of
from noetl.runtime.loaded_executions import LoadedExecution
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.runtime.past import PastReader
from noetl.runtime.replays import Replayer, ReplayView
from noetl.runtime.runtime import Runtime
from noetl.store.codec import decode
from noetl.store.store import Change, Derived, Row


class Edit(NamedTuple):
    digest: str = ""  # an edited playbook, which the runtime has loaded; empty: that of the source
    ctx: dict[str, Any] = {}
    payload: dict[str, Any] = {}  # values that are laid over the payload of the source
    actor: Actor | None = None
    strict_keys: Sequence[str] = ()  # keys of the payload that are refused if the playbook does not know them
    later_payload: dict[str, Any] = {}  # values that forks after the cut laid over it; `payload` is laid over them

    @property
    def inputs(self) -> dict[str, Any]:
        """All values that the fork lays over the payload."""
        values: dict[str, Any] = overlaid(self.later_payload, self.payload)
        return values


class RetryPoint(NamedTuple):
    """Where a retry begins: before the failure, with a step, or with the failed items of a loop."""

    step: str | None = None  # a step or a run of it; its last run counts
    failed_items: bool = False


class Cut(NamedTuple):
    """Where the log of a source is cut for a fork."""

    seq: int | None  # after this event, or the first one after it at which a decision is complete; None: at the end
    failed: str | None = None  # the run that failed; None: it is not a retry
    reopen: str = ""  # the loop whose failed items run again; its log is cut at `seq` itself
    begins_with: str = ""  # the run that starts once more, of which the fork has no event

    @property
    def is_exact(self) -> bool:
        return bool(self.reopen)


class ForkView(msgspec.Struct, frozen=True):
    """A new execution with the first `source_seq` events of its source. `done` are steps whose results it has;
    `warnings` are about its payload."""

    execution_id: str
    source_id: str
    source_seq: int
    again: list[AgainView]
    done: list[str]
    warnings: list[str]


class Replayed(NamedTuple):
    state: Execution
    equal: bool


async def replay(runtime: Runtime, execution: str) -> Replayed:
    """Fold the whole log and compare it with the stored state: the latest snapshot and the events after it, the
    status in lists, and the rows of ready work, leases and timers."""

    def listed() -> tuple[str, int, Derived]:
        with runtime.store.read_snapshot():
            (summary,) = runtime.store.summaries(prefix=execution, limit=1)
            return summary.status, runtime.store.seq(execution), runtime.store.derived(execution)

    def fold(past: PastReader) -> Execution:
        state = past.stored_state(execution, 0)
        for _ in past.fold(state):
            pass
        return state

    while True:
        whole = await runtime.past.do(fold)
        stored = (await runtime.executions.load(execution)).state
        status, seq, derived = await runtime.thread.ask(listed)
        if whole.seq == stored.seq == seq:  # else events were committed meanwhile
            break
    same_rows = status == whole.shown_status and msgspec.to_builtins(derived) == derived_rows(whole)
    return Replayed(whole, same_rows and not differences(whole, stored))


async def replay_with(runtime: Runtime, execution: str, digest: str) -> ReplayView:
    """Decide the whole log again under a playbook, up to the first difference."""
    return await runtime.past.do(lambda past: Replayer(past, execution, past.playbook(digest)).advance(past))


async def fork(runtime: Runtime, source: str, name: str, at: int | None, edit: Edit) -> ForkView:
    """Fork an execution under an id. If an earlier request has done it, the result is the same."""
    if (earlier := await _earlier_fork(runtime, source, name)) is not None:
        return earlier
    prefix = await runtime.past.do(lambda past: _prefix(past, source, Cut(at)))
    check_forkable(source, prefix.state, at)
    return await _start_fork(runtime, source, name, prefix, edit, Cut(at))


async def _earlier_fork(runtime: Runtime, source: str, name: str) -> ForkView | None:
    """The stored fork of this id; its source may have more events by now."""

    def find(past: PastReader) -> ForkView | None:
        state = past.stored_state(name, 0)
        for event, _ in past.fold(state):
            if isinstance(event, e.ExecutionForked) and event.source_id == source:
                again, done = under_way(state, "".join(event.again)), list(state.steps)
                warnings = event.warnings if event.playbook or event.payload is not None else state.warnings
                return ForkView(name, source, event.source_seq, again, done, list(warnings))
        return None

    return await runtime.past.do(find) if await runtime.thread.ask(runtime.store.seq, name) else None


def check_forkable(source: str, state: Execution, at: int | None) -> None:
    """Conflict if the source had ended where its log is cut."""
    if at is None and state.over:
        raise Conflict(
            f"{source} has ended after {state.seq} events: fork it at an earlier event (`--at SEQ`)"
            + (", or retry it" if state.status != "succeeded" else "")
        )
    if state.over or state.status == "cancelling":
        ended = "been cancelled" if state.status in ("cancelling", "cancelled") else "ended"
        raise Conflict(f"{source} had {ended} at event {state.seq}: fork it at an earlier one")


async def retry(runtime: Runtime, source: str, name: str, edit: Edit, point: RetryPoint) -> ForkView:
    """Fork an execution before it failed or was cancelled, or at another point of its past; idempotent like `fork`."""
    if (earlier := await _earlier_fork(runtime, source, name)) is not None:
        return earlier
    cut, edit = await retry_cut(runtime, source, edit, point)
    prefix = await runtime.past.do(lambda past: _prefix(past, source, cut))
    return await _start_fork(runtime, source, name, prefix, edit, cut)


async def retry_cut(runtime: Runtime, source: str, edit: Edit, point: RetryPoint) -> tuple[Cut, Edit]:
    """Where a retry begins, and the edit with the playbook and the payload of the source, also if those are cut off."""
    retrace, failed_items, scheduled = Retrace(), FailedItems(), {}
    payload: dict[str, Any] = {}

    def fold(past: PastReader) -> Execution:
        state, last = past.stored_state(source, 0), None
        for event, _ in past.fold(state):
            if last is not None:
                retrace.see(state, last)
            failed_items.see(state, event)
            if isinstance(event, e.StepScheduled):
                scheduled[event.run] = scheduled[step_of(event.run)] = retrace.settled, event.run
            if isinstance(event, e.ExecutionForked) and event.payload is not None:
                payload.update(event.payload)
            last = event
        assert last is not None
        retrace.see(state, last)
        return state

    whole = await runtime.past.do(fold)
    if not whole.over:
        raise Conflict(f"cannot retry {source}: the run is {whole.shown_status} and has not ended")
    edit = edit._replace(digest=edit.digest or whole.digest, later_payload=payload)
    loops = failed_items.loops
    if point.failed_items:
        run = _loop_to_reopen(source, loops, point.step)
        return Cut(loops[run], run, run), edit
    if point.step is not None:
        if point.step not in scheduled:
            steps = frozenset(step_of(run) for _, run in scheduled.values())
            hint = did_you_mean(point.step, scheduled) or f"steps that ran: {hint_names(steps)}"
            raise NotFound(f"run of step {point.step!r} not found in {source}: {hint}")
        seq, run = scheduled[point.step]
        return Cut(seq, "", begins_with=run), edit
    if whole.status == "succeeded":
        failures = ": `--failed-items` runs the failed items of its loop again" if loops else ""
        raise Conflict(f"{source} has succeeded: there is nothing to retry{failures}")
    seq, run = retrace.point()
    if not seq:
        raise Conflict(f"{source} failed before its first step ran: start a new execution")
    return (Cut(loops[run], run, run) if run in loops else Cut(seq, run)), edit  # a loop ran all items, and then failed


def _loop_to_reopen(source: str, loops: dict[str, int], step: str | None) -> str:
    """The first run with failed items; of a step, its last one."""
    runs = [run for run in loops if step in (None, run, step_of(run))]
    if not runs:
        of_step = "" if step is None else f" of step {step!r}"
        hint = f"; the loops with failed items are {', '.join(loops)}" if loops else ""
        raise Conflict(f"{source} has no finished loop{of_step} with failed items{hint}")
    return runs[0] if step is None else runs[-1]


class Prefix(NamedTuple):
    """The part of a log that a fork takes over."""

    state: Execution
    rows: list[Row]
    outline: OutlineWriter
    blocks: list[Block]


def _prefix(past: PastReader, source: str, cut: Cut) -> Prefix:
    last: e.Event | None = None
    state, rows, outline, blocks = prefix = Prefix(past.stored_state(source, 0), [], OutlineWriter(), [])
    for event, row in past.fold(state):
        is_reached = cut.seq is not None and state.seq >= cut.seq
        if last is not None and is_reached and (cut.is_exact or not is_incomplete(state, last)):
            break
        rows.append(row)
        blocks += outline.extend((event,), row.at)
        last = event
    check_event(source, cut.seq or 0, state.seq)
    return prefix


def check_event(source: str, seq: int, last: int) -> None:
    if seq > last:
        raise UsageError(f"event {seq:,} not found: {source} has {last:,} events")


async def _start_fork(
    runtime: Runtime,
    source: str,
    name: str,
    prefix: Prefix,
    edit: Edit,
    cut: Cut,
) -> ForkView:
    state, rows, outline, blocks = prefix
    last = rows[-1]
    chunks = {chunk.key for run in state.runs.values() if run.loop is not None for chunk in run.loop.chunks}
    stored = await runtime.thread.ask(lambda: [(key, runtime.store.blob(key)) for key in chunks])
    blobs = [(key, content) for key, content in stored if content is not None]
    state.id = name
    again, done = under_way(state, cut.failed or "", cut.begins_with), list(state.steps)
    net = await runtime.playbooks.load(edit.digest or state.digest)
    edited = net if net is not state.net else None
    digest = edit.digest if edited else ""
    payload, sets = overlaid(_payload(rows), edit.inputs), bool(edit.inputs)
    warnings: tuple[str, ...] = ()
    if edited or sets:
        warnings = tuple(input_warnings(net, state, payload, edit))
    changes = edited, digest, payload, sets, edit.ctx
    command = Fork(source, last.seq, last.at, *changes, cut.failed, cut.reopen, edit.actor, warnings)
    if name not in runtime.executions:
        loaded = runtime.executions[name] = LoadedExecution(state, last.hash, None, outline)
        loaded.stored_seq = 0
        loaded.fork_prefix = Change(name, 0, rows, blobs=blobs, outline=list(map(encode_block, blocks)))
    try:
        fork = (await runtime.committer.handle(name, command)).state
    except NotFound:  # dropped with a fork of the same id that could not be stored
        raise StoreError(f"the fork {name} could not be stored; try again") from None
    source_seq = fork.forked[1] if fork.forked else last.seq  # smaller if an earlier request has made the fork
    await runtime.executions.copy_snapshots(source, name, source_seq)
    return ForkView(name, source, source_seq, again, done, list(fork.warnings))


def input_warnings(net: LoadedPlaybook, state: Execution, payload: dict[str, Any], edit: Edit) -> list[str]:
    """Warnings about the inputs of a fork of this state; UsageError if it cannot start."""
    warnings = net.check_payload(payload, state.ctx | edit.ctx, edit.strict_keys)
    return warnings + net.check_kept_parts(KeptParts(*kept_steps(state, net)), edit.payload, edit.strict_keys)


def _payload(rows: list[Row]) -> dict[str, Any]:
    """The payload of the request, or of the last fork that changed it."""
    payload: dict[str, Any] = {}
    for row in rows:
        if row.type in (e.ExecutionRequested.name, e.ExecutionForked.name):
            event: Any = decode(row.type, row.data)
            payload = payload if event.payload is None else event.payload
    return payload
