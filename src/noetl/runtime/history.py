"""History of executions: replays, forks and retries.

A log is read in pages, and the event loop serves other callers in between. A fork is written in one transaction: the
events of its source, and its own first events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from noetl.dsl.problem import did_you_mean
from noetl.engine import events as e
from noetl.engine.commands import Fork
from noetl.engine.evolve import evolve
from noetl.engine.history.fork import AgainView, FailedItems, Retrace, is_incomplete, under_way
from noetl.engine.history.outline import Block, OutlineWriter, encode_block
from noetl.engine.history.verify.log import derived_rows, differences
from noetl.engine.start import overlaid
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound, UsageError
from noetl.model.actor import Actor
from noetl.model.identity import step_of
from noetl.runtime.loaded_executions import LoadedExecution
from noetl.runtime.replays import Replayer, ReplayView
from noetl.runtime.runtime import Runtime
from noetl.store.codec import decode
from noetl.store.store import Change, Derived, Row

ROWS_PER_READ = 1_000
Before = Callable[[Execution, e.Event, Row], Awaitable[object]]


class Edit(NamedTuple):
    digest: str = ""  # an edited playbook, which the runtime has loaded; empty: that of the source
    ctx: dict[str, Any] = {}
    payload: dict[str, Any] = {}  # values that are laid over the payload of the source
    actor: Actor | None = None
    strict_keys: Sequence[str] = ()  # keys of the payload that are refused if the playbook does not know them


class RetryPoint(NamedTuple):
    """Where a retry begins: before the failure, with a step, or with the failed items of a loop."""

    step: str | None = None  # a step or a run of it; its last run counts
    failed_items: bool = False


class Cut(NamedTuple):
    """Where the log of a source is cut for a fork."""

    seq: int | None  # after this event, or the first one after it at which a decision is complete; None: at the end
    failed: str | None = None  # the run that failed; None: it is not a retry
    reopen: str = ""  # the loop whose failed items run again; its log is cut at `seq` itself

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


async def rows_of(runtime: Runtime, execution: str, after: int = 0, until: int | None = None) -> AsyncIterator[Row]:
    """The rows of a log after one seq, up to another; NotFound if the log is empty."""
    while until is None or after < until:
        most = ROWS_PER_READ if until is None else min(ROWS_PER_READ, until - after)
        rows = await runtime.thread.ask(runtime.store.read, execution, after, most)
        if not rows:
            break
        for row in rows:
            yield row
        after = rows[-1].seq
    if not after:
        raise NotFound(f"no execution {execution}")


async def folded(
    runtime: Runtime,
    execution: str,
    state: Execution | None = None,
    until: int | None = None,
    before: Before | None = None,
) -> AsyncIterator[tuple[Execution, e.Event, Row]]:
    """Each event of a log after that of `state`, with the state after it; `before` gets the state before it."""
    async for row in rows_of(runtime, execution, state.seq if state else 0, until):
        state = state or await runtime.executions.begin(execution, row)
        event = decode(row.type, row.data)
        await runtime.executions.change_net(state, event)
        if before is not None:
            await before(state, event, row)
        evolve(state, event, row.at)
        yield state, event, row


async def replay(runtime: Runtime, execution: str) -> Replayed:
    """Fold the whole log and compare it with the stored state: the latest snapshot and the events after it, the
    status in lists, and the rows of ready work, leases and timers."""

    def listed() -> tuple[str, int, Derived]:
        with runtime.store.read_snapshot():
            (summary,) = runtime.store.summaries(prefix=execution, limit=1)
            return summary.status, runtime.store.seq(execution), runtime.store.derived(execution)

    while True:
        async for state, _, _ in folded(runtime, execution):
            whole = state
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
    state, rows = await _cut(runtime, source, Cut(at))
    check_forkable(source, state, at)
    return await _start_fork(runtime, source, name, state, rows, edit, Cut(at))


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
    """Fork an execution just before it failed or was cancelled, or at another point of its past."""
    cut, edit = await retry_cut(runtime, source, edit, point)
    return await _start_fork(runtime, source, name, *await _cut(runtime, source, cut), edit, cut)


async def retry_cut(runtime: Runtime, source: str, edit: Edit, point: RetryPoint) -> tuple[Cut, Edit]:
    """Where a retry begins, and the edit with the playbook and the payload of the source, also if those are cut off."""
    retrace, failed_items, scheduled = Retrace(), FailedItems(), {}

    async def see(state: Execution, event: e.Event, row: Row) -> None:
        failed_items.see(state, event)
        if isinstance(event, e.StepScheduled):
            scheduled[event.run] = scheduled[step_of(event.run)] = row.seq
        if isinstance(event, e.ExecutionForked) and event.payload is not None:
            payload.update(event.payload)

    payload: dict[str, Any] = {}
    async for whole, event, _ in folded(runtime, source, before=see):
        retrace.see(whole, event)
    if not whole.over:
        raise Conflict(f"cannot retry {source}: the run is {whole.shown_status} and has not ended")
    edit = edit._replace(digest=edit.digest or whole.digest, payload=overlaid(payload, edit.payload))
    loops = failed_items.loops
    if point.failed_items:
        run = _loop_to_reopen(source, loops, point.step)
        return Cut(loops[run], run, run), edit
    if point.step is not None:
        if point.step not in scheduled:
            hint = did_you_mean(point.step, scheduled)
            raise NotFound(f"no run of step {point.step!r} in {source}" + (f": {hint}" if hint else ""))
        return Cut(scheduled[point.step], ""), edit
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


async def _cut(runtime: Runtime, source: str, cut: Cut) -> tuple[Execution, list[Row]]:
    rows = []
    async for state, event, row in folded(runtime, source):
        rows.append(row)
        if cut.seq is not None and row.seq >= cut.seq and (cut.is_exact or not is_incomplete(state, event)):
            break
    check_event(source, cut.seq or 0, state.seq)
    return state, rows


def check_event(source: str, seq: int, last: int) -> None:
    if seq > last:
        raise UsageError(f"{source} has {last} events: there is no event {seq}")


async def _start_fork(
    runtime: Runtime,
    source: str,
    name: str,
    state: Execution,
    rows: list[Row],
    edit: Edit,
    cut: Cut,
) -> ForkView:
    last = rows[-1]
    chunks = {chunk.key for run in state.runs.values() if run.loop is not None for chunk in run.loop.chunks}
    stored = await runtime.thread.ask(lambda: [(key, runtime.store.blob(key)) for key in chunks])
    blobs = [(key, content) for key, content in stored if content is not None]
    state.id = name
    again, done = under_way(state, cut.failed or ""), list(state.steps)
    net = await runtime.playbooks.load(edit.digest or state.digest)
    edited = net if net is not state.net else None
    digest = edit.digest if edited else ""
    payload, sets = overlaid(_payload(rows), edit.payload), bool(edit.payload)
    warnings: tuple[str, ...] = ()
    if edited or sets:
        warnings = tuple(net.check_payload(payload, state.ctx | edit.ctx, edit.strict_keys))
    changes = edited, digest, payload, sets, edit.ctx
    command = Fork(source, last.seq, last.at, *changes, cut.failed, cut.reopen, edit.actor, warnings)
    if name not in runtime.executions:
        outline = OutlineWriter()
        blocks: list[Block] = []
        for row in rows:
            blocks += outline.extend((decode(row.type, row.data),), row.at)
        loaded = runtime.executions[name] = LoadedExecution(state, last.hash, None, outline)
        loaded.stored_seq = 0
        loaded.fork_prefix = Change(name, 0, rows, blobs=blobs, outline=list(map(encode_block, blocks)))
    fork = (await runtime.committer.handle(name, command)).state
    return ForkView(name, source, fork.forked[1] if fork.forked else last.seq, again, done, list(fork.warnings))


def _payload(rows: list[Row]) -> dict[str, Any]:
    """The payload of the request, or of the last fork that changed it."""
    payload: dict[str, Any] = {}
    for row in rows:
        if row.type in (e.ExecutionRequested.name, e.ExecutionForked.name):
            event: Any = decode(row.type, row.data)
            payload = payload if event.payload is None else event.payload
    return payload
