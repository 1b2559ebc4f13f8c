"""Loops: their items, the lanes in which they are granted, their results and their end.

A lane is an interval of items under one lease. Unleased items are those from `loop.next` on, and those that a
lane returned. The lane length adapts: it doubles when a lane was fast and halves when one was slow or returned.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine import upcast
from noetl.engine.limits import encoded_size, shrink
from noetl.engine.net import StepPlan
from noetl.engine.patch import SET, Write
from noetl.engine.state import Execution, Handlers, LoopState, Run, StepResult
from noetl.engine.step_runs import MAX_CONTINUED, end_run, error_data, note_continued, refresh_ready
from noetl.errors import TemplateError
from noetl.expression import kind_of, unwrapped
from noetl.model.outcome import Error
from noetl.reference import CHUNKS, HOLDS_REFERENCES, Reference, canonical, refer, reference_to

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

FIRST_LANE = 1
MAX_LANE = 1_024
FAST_LANE_SECONDS = 0.2
LANE_PARTS = 32
"""A fair share is not smaller than this part of the lane length, which takes some milliseconds: as long as a grant."""
MAX_LIST_BYTES = 64 << 20  # A larger stored list is loaded, which fails: no worker could get it
MAX_ITEMS = 1 << 30
MAX_IDLE_ITEMS = 1_000_000  # Items of a loop without tasks: its result is made at once
MAX_LISTED_FAILURES = 5  # Failed items that the error of a loop names
MAX_TRACEBACKS = 20  # Failed items that keep their traceback in the state; the log has all
RESULTS_PER_CHUNK = 2_048
BYTES_PER_CHUNK = 1 << 16


# -- start ----------------------------------------------------------------------------------------------------------


def loop_items(decision: Decision, plan: StepPlan, args: dict[str, Any], args_by: dict[str, Any]) -> Any:
    """The collection of a loop, or the Error with which its run fails."""
    assert plan.collection is not None
    try:
        with decision.allowance:
            items = plan.collection(decision.scope(args, args_by))
        if length_of(decision, items) is not None:
            return items
        message = f"loop.in {not_a_list(unwrapped(items, decision.contents))}"
        return Error("loop_input", message, details={"input": "loop/in"})
    except TemplateError as error:
        message = f"loop.in: {error.message} in {error.source[:200]!r}"
        return Error("template", message, details={"input": "loop/in"})


def not_a_list(items: Any) -> str:
    """The error for a collection that is not a list, with a hint for a map."""
    hint = "; append `| items` to loop over its pairs" if isinstance(items, Mapping) else ""
    return f"must give a list, not {kind_of(items)}{hint}"


def length_of(decision: Decision, items: Any) -> int | None:
    """The number of items of a collection; None if it is not a list. A stored list is not loaded if it is known."""
    if isinstance(items, Reference):
        count = items.preview.get("count") if isinstance(items.preview, dict) else None
        if type(count) is int and 0 <= count <= _max_items(items):
            return count
        items = items.content(decision.contents)
    return len(items) if isinstance(items, list | tuple) else None


def _max_items(stored: Reference) -> int:
    """How many items a stored list can have, whatever its worker claims; -1 if it has to be loaded."""
    if stored.schema_hint == CHUNKS:
        return MAX_ITEMS
    is_list = stored.schema_hint == "list" and stored.size <= MAX_LIST_BYTES
    return stored.size // 2 if is_list else -1  # an item takes two bytes: a digit and a comma


def start_loop(decision: Decision, plan: StepPlan, run: str, items: Any) -> None:
    if isinstance(items, Error):
        decision.fail(run, items)
        return
    total = length_of(decision, items) or 0
    if not plan.step.tasks and total > MAX_IDLE_ITEMS:
        limit = f"a loop over {total:,} items without tasks (limit {MAX_IDLE_ITEMS:,})"
        decision.fail(run, Error("limit", limit))
        return
    collection = items if isinstance(items, Reference) else list(items)
    decision.emit(e.LoopStarted(run, total, collection, FIRST_LANE))
    if not total or not plan.step.tasks:
        result = [None] * total if plan.step.loop and plan.step.loop.collect else None
        decision.emit(e.LoopDone(run, total, total, 0, result))


def _started(state: Execution, event: e.LoopStarted, at: float) -> None:
    run = state.runs[event.run]
    run.loop = LoopState(event.total, event.items, lane=event.lane or upcast.FIRST_LANE, implied_chunks=not event.lane)
    run.ctx = dict(state.ctx)
    refresh_ready(state, run)


# -- lanes ----------------------------------------------------------------------------------------------------------


def lane_length(plan: StepPlan, loop: LoopState) -> int:
    """How many items a lane gets, after the lanes that ended since the last grant. No lane is longer than the first
    fair share, so what was never tried does not count as fast."""
    length, limit = loop.lane, max(1, min(MAX_LANE, _fair_share(plan, loop.total)))
    for seconds in loop.lane_seconds:
        fast = 0 <= seconds < FAST_LANE_SECONDS
        length = min(length * 2, limit) if fast else max(1, length // 2)
    return length


def _fair_share(plan: StepPlan, waiting: int) -> int:
    """The part of the waiting items that one lane may take, so that all lanes end at about the same time."""
    return waiting // (4 * plan.lanes)


def next_lane(plan: StepPlan, run: Run, loop: LoopState, length: int, slots: int) -> e.Interval:
    """The next items: returned ones first. Where one worker keeps the loop, its slots share all that is left."""
    first, last = loop.returned[0] if loop.returned else (loop.next, loop.total)
    if plan.local:
        waiting = loop.total - loop.next + sum(end - begin for begin, end in loop.returned)
        return first, min(last, first + ceil(waiting / min(slots, plan.lanes - len(loop.lanes) - len(run.parked))))
    fair = max(1, length // LANE_PARTS, _fair_share(plan, loop.total - loop.next))
    return first, min(last, first + min(length, fair))


def take_items(loop: LoopState, items: e.Interval) -> None:
    """Grant items: the first untouched ones, or the first returned ones."""
    first, last = items
    if first == loop.next:
        loop.next = last
        return
    for place, interval in enumerate(loop.returned):
        if interval[0] == first:
            loop.returned[place : place + 1] = [(last, interval[1])] if last < interval[1] else []
            return
    # Version 0.1.0 could grant a parked item twice. Such a log still folds, and `verify` names the item.


def return_lane(run: Run, loop: LoopState, first: int, last: int) -> None:
    """Return the remaining items of a lane, if any. Only its first item can have been started."""
    if first < last and first in run.item_progress:
        return_items(run, loop, (first, first + 1))
        first += 1
    if first < last:
        return_items(run, loop, (first, last))


def return_items(run: Run, loop: LoopState, items: e.Interval) -> None:
    """Keep returned items in the order in which they are granted again: started ones first, because they are still in
    flight and no other item may take their place, then by index, which is the order of a sequential loop."""
    insort(loop.returned, items, key=lambda interval: (interval[0] not in run.item_progress, interval[0]))


# -- items ----------------------------------------------------------------------------------------------------------


def accept_iteration(decision: Decision, fence: int, fact: e.IterationDone) -> None:
    run = decision.state.runs[fact.run]
    settings, loop = decision.state.net.steps[run.step].step.loop, run.loop
    if settings is not None and settings.collect and loop is not None:
        fact = _with_chunk(decision, loop, fact)
    decision.emit(fact)
    _finish_loop(decision, run)


def _with_chunk(decision: Decision, loop: LoopState, fact: e.IterationDone) -> e.IterationDone:
    """Store the results gathered so far as a chunk when they are many, so that memory does not grow with the loop."""
    if loop.implied_chunks:
        full = upcast.implies_chunk(loop, fact.result)
    else:
        full = len(loop.results) + 1 >= RESULTS_PER_CHUNK or loop.bytes >= BYTES_PER_CHUNK
    if not full:
        return fact
    fitting = shrink(fact, decision.blobs)
    assert isinstance(fitting, e.IterationDone)
    return replace(fitting, chunk=_stored_chunk(decision, [*loop.results, (fact.index, fitting.result)]))


def _stored_chunk(decision: Decision, results: Sequence[tuple[int, Any]]) -> Reference:
    reference, content = chunk_of(results)
    decision.blobs.append((reference.key, content))
    return reference


def chunk_of(results: Sequence[tuple[int, Any]]) -> tuple[Reference, bytes]:
    """A chunk is a list of pairs of index and result."""
    return refer([[index, result] for index, result in results])


def fail_iteration(decision: Decision, fence: int, fact: e.IterationFailed) -> None:
    run = decision.state.runs[fact.run]
    decision.emit(fact)
    settings = decision.state.net.steps[run.step].step.loop
    if settings is not None and settings.on_error != "fail":
        _finish_loop(decision, run)
    else:
        decision.fail(run.id, fact.error, fact.task, fact.attempt)


def _iteration_started(state: Execution, event: e.IterationStarted, at: float) -> None:
    run = state.runs[event.run]
    if run.losses:
        run.losses.pop(event.index, None)
    run.progress_of(event.index, "")
    if run.loop is not None and (fence := run.loop.lane_at(event.index)) is not None:
        lanes = run.loop.lanes
        if fence != next(reversed(lanes)):
            lanes[fence] = lanes.pop(fence)  # `lane_at` checks the last one first


def _iteration_done(state: Execution, event: e.IterationDone, at: float) -> None:
    run, loop = _finish_iteration(state, event.run, event.index, at)
    collect = state.net.steps[run.step].step.loop.collect  # type: ignore[union-attr]
    if collect and loop.implied_chunks:
        event = upcast.with_chunk(loop, event)
    loop.ok += 1
    if event.chunk is not None:
        loop.chunks.append(event.chunk)
        loop.results.clear()
        loop.bytes = 0
    elif collect:
        loop.results.append((event.index, event.result))
        loop.bytes += encoded_size(event.result, BYTES_PER_CHUNK)


def _iteration_failed(state: Execution, event: e.IterationFailed, at: float) -> None:
    run, loop = _finish_iteration(state, event.run, event.index, at)
    loop.failed += 1
    error = error_data(event.error, run.step, event.task, event.attempt)
    if loop.failed > MAX_TRACEBACKS:
        error["details"] = {name: value for name, value in event.error.details.items() if name != "traceback"}
    loop.failures.append({"index": event.index, "error": error})


def _finish_iteration(state: Execution, name: str, index: int, at: float) -> tuple[Run, LoopState]:
    run = state.runs[name]
    loop = run.loop
    assert loop is not None
    run.item_progress.pop(index, None)
    fence = loop.lane_at(index)
    if fence is not None:
        last = loop.lanes[fence][1]
        if index + 1 < last:
            loop.lanes[fence] = (index + 1, last)
            return run, loop
        del loop.lanes[fence]
        lease = state.leases.pop(fence, None)
        if lease is not None:
            loop.lane_seconds.append(max(0.0, at - lease.since))
    refresh_ready(state, run)
    return run, loop


def reopen(run: Run) -> None:
    """Return the failed items of a finished loop, so that they run again."""
    loop = run.loop
    assert loop is not None
    for index in sorted(failure["index"] for failure in loop.failures):
        if loop.returned and loop.returned[-1][1] == index:
            loop.returned[-1] = (loop.returned[-1][0], index + 1)
        else:
            loop.returned.append((index, index + 1))
    loop.failed, loop.failures = 0, []


def is_parallel(state: Execution, run: Run) -> bool:
    """Whether items of the run work side by side, each on its own view of ctx."""
    settings = state.net.steps[run.step].step.loop
    return settings is not None and settings.mode == "parallel"


def note_writers(loop: LoopState, index: int, patch: Sequence[Write]) -> None:
    for key, operator, value in patch:
        if operator == SET:
            loop.writers[key] = (index, value)


# -- end ------------------------------------------------------------------------------------------------------------


def _finish_loop(decision: Decision, run: Run) -> None:
    loop = run.loop
    if loop is None or loop.finished < loop.total:
        return
    settings = decision.state.net.steps[run.step].step.loop
    assert settings is not None
    if loop.failed and settings.on_error == "collect":
        decision.fail(run.id, _items_failed(loop))
        return
    result = _result(decision, loop) if settings.collect else None
    decision.emit(e.LoopDone(run.id, loop.total, loop.ok, loop.failed, result))


def _items_failed(loop: LoopState) -> Error:
    failures = nsmallest(MAX_LISTED_FAILURES, loop.failures, key=itemgetter("index"))
    first = failures[0]
    message = f"{loop.failed:,} of {loop.total:,} items failed; item {first['index']}: {first['error']['message']}"
    details = {"failed": loop.failed, "total": loop.total, "first": failures}
    place = {name: value for name, value in first["error"]["details"].items() if name in ("source", "traceback")}
    return Error("items_failed", message, details=details | place)


def _result(decision: Decision, loop: LoopState) -> Any:
    """Results of the items by index, null where one failed; a reference where they fill chunks."""
    if not loop.chunks:
        results: list[Any] = [None] * loop.total
        for index, result in loop.results:
            results[index] = result
        return results
    chunks = [*loop.chunks, *([_stored_chunk(decision, loop.results)] if loop.results else [])]
    manifest = {
        "total": loop.total,
        "chunks": [chunk.key for chunk in chunks],
        "marked": [chunk.key for chunk in chunks if chunk.schema_hint.endswith(HOLDS_REFERENCES)],
    }
    content = canonical(manifest)
    reference = reference_to(content, hint=CHUNKS, preview={"count": loop.total})
    decision.blobs.append((reference.key, content))
    return reference


def _done(state: Execution, event: e.LoopDone, at: float) -> None:
    run = state.runs[event.run]
    if event.failed and run.loop is not None:
        failures = nsmallest(MAX_CONTINUED, run.loop.failures, key=itemgetter("index"))
        note_continued(state, event.failed, [failure["error"] | {"item": failure["index"]} for failure in failures])
    rules = state.net.steps[run.step].after_call
    if rules is not None and rules.loop_done(state, run, event.result):
        return
    data = {"total": event.total, "ok": event.ok, "failed": event.failed, "result": event.result}
    end_run(state, run, StepResult("succeeded", result=event.result), event.name, data)


HANDLERS: Handlers = {
    e.LoopStarted: _started,
    e.IterationStarted: _iteration_started,
    e.IterationDone: _iteration_done,
    e.IterationFailed: _iteration_failed,
    e.LoopDone: _done,
}
