"""Tasks: how far each pipeline of a run has come, and what an outcome changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine.ctx import MAX_CTX_BYTES, patch_ctx, size_after
from noetl.engine.limits import EventTooLarge, shrink
from noetl.engine.loops import fail_iteration, is_parallel, note_writers
from noetl.engine.patch import SET, BadPatch, Write, apply_patch, new_value, reducer_references
from noetl.engine.state import WHOLE_RUN, Execution, Handlers, PollState, Progress, Run, unchanged
from noetl.engine.step_runs import error_data, note_continued
from noetl.errors import TemplateFailed
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.reference import Reference, encode_inline
from noetl.timestamps import rfc3339

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

SKIPPED = {"status": "skipped", "result": None}  # The outcome of a skipped task, as templates see it
CONTINUES = frozenset(["continue", "break", "jump"])
"""Directives after which a pipeline continues, or ends as a success, in spite of an error."""
INLINED_CHARACTERS = 14_000  # Characters of JSON text that fit into an event, whatever they are


# -- decisions ------------------------------------------------------------------------------------------------------


def accept_task(decision: Decision, fence: int, fact: e.TaskDone) -> None:
    """Accept an outcome, or fail the task if its patch conflicts with another item's or cannot be applied."""
    outcome: Outcome | None = None
    try:
        fitting = shrink(fact, decision.blobs)
        assert isinstance(fitting, e.TaskDone)
        outcome = fitting.outcome
        if not _writes(decision.state, fitting):
            decision.record(fitting)
            return
        contents = {
            reference.key: decision.content(reference) for reference in _reducer_references(decision.state, fitting)
        }
        problem = _patch_problem(decision.state, fitting, contents)
    except EventTooLarge as error:
        problem = Error("too_large", f"the outcome and patches of a task cannot be stored: {error}")
    except TemplateFailed as error:
        problem = Error("too_large", f"a reducer cannot read the value that it changes: {error}")
    if problem is None:
        for key, value in contents.items():  # the next patch reads it, and the fold cannot read the store
            text = encode_inline(value)
            for at in range(0, len(text), INLINED_CHARACTERS):
                end = at + INLINED_CHARACTERS
                decision.emit(e.CtxPatched(spelled=e.InlinedPart(key, text[at:end], more=end < len(text))))
        decision.record(fitting)
        return
    task = fact.task
    if outcome is None:
        failure = type(fact)(task, fact.attempt, Outcome("error", error=problem), "fail")
    else:  # the call has had its effect, and its outcome stays in the log
        failure = type(fact)(task, fact.attempt, outcome, "fail", error=problem)
    decision.emit(replace(failure, duration_ms=fact.duration_ms))
    if task.index is None:
        decision.fail(task.run, problem, task.place, fact.attempt)
        return
    fail_iteration(decision, fence, e.IterationFailed(task.run, task.index, problem, task.label, fact.attempt))
    if fence in decision.state.leases:  # its worker must stop; others get the rest
        decision.emit(e.StepPaused(task.run, fence, "returned"))


def _targets(state: Execution, fact: e.TaskDone) -> Iterator[tuple[dict[str, Any], Sequence[Write]]]:
    """The targets of the outcome, with its writes to them."""
    run, task = state.runs[fact.task.run], fact.task
    progress = run.pipelines(task.index).get(split_path(task.path)[0])
    yield (progress.iter if progress is not None else {}), fact.set_iter
    yield state.ctx, fact.set_ctx
    inner = inner_writes(run, task) if is_iterator(state, run, task) else []
    if (inner or fact.set_ctx) and item_of(state, run, task) is None:
        yield run.ctx, (*inner, *fact.set_ctx)


def _writes(state: Execution, fact: e.TaskDone) -> bool:
    run = state.runs.get(fact.task.run)
    return run is not None and bool(fact.set_ctx or fact.set_iter or is_iterator(state, run, fact.task))


def _reducer_references(state: Execution, fact: e.TaskDone) -> Iterator[Reference]:
    for target, patch in _targets(state, fact):
        yield from reducer_references(target, patch)


def load_for_reducers(decision: Decision, facts: Sequence[e.Event], blobs: Sequence[tuple[str, bytes]]) -> None:
    """Load the stored values that reducers of a report read, as far as they are known before its first fact is
    accepted: Need starts the command again, and nothing may have happened by then."""
    reported = {key for key, _ in blobs}
    assigned: dict[str, Reference] = {}
    for fact in facts:
        if not isinstance(fact, e.TaskDone) or not _writes(decision.state, fact):
            continue
        for key, operator, operand in (*fact.set_iter, *fact.set_ctx):
            if operator == SET and isinstance(operand, Reference):
                assigned[key] = operand
        reduced = {key for key, operator, _ in (*fact.set_iter, *fact.set_ctx) if operator != SET}
        for reference in (
            *_reducer_references(decision.state, fact),
            *(assigned[key] for key in reduced if key in assigned),
        ):
            if reference.key not in reported and reference.size <= MAX_CTX_BYTES:
                with suppress(TemplateFailed):  # the task fails when it is accepted
                    reference.content(decision.contents)


def _patch_problem(state: Execution, fact: e.TaskDone, contents: dict[str, Any]) -> Error | None:
    try:
        for target, patch in _targets(state, fact):
            apply_patch(dict(target) if patch else {}, patch, contents)
    except BadPatch as error:
        return Error("ctx_conflict", f"{fact.task}: {error}")
    run = state.runs[fact.task.run]
    once = run.loop is not None and fact.task.index is not None and is_parallel(state, run)
    size = state.ctx_bytes
    for key, operator, operand in fact.set_ctx:
        old = state.ctx.get(key)
        value = new_value(old, operator, operand, contents)
        if once and operator == SET and run.loop is not None and key in run.loop.writers:
            writer, old = run.loop.writers[key]
            if writer != fact.task.index and old != value:
                return Error("ctx_conflict", f"ctx.{key} was already written by item {writer} with another value")
        size += size_after(state, key, operator, operand, old, value) - state.ctx_sizes.get(key, 0)
    if size > MAX_CTX_BYTES:
        return Error("too_large", f"ctx would take {size:,} bytes, and {MAX_CTX_BYTES:,} is the limit (set_ctx: {key})")
    return None


def call_meta(execution: str, attempt: int, duration_ms: float, ended: float) -> dict[str, Any]:
    """`outcome.meta` as templates see it; `ts` is the start of the call."""
    start = rfc3339(ended - duration_ms / 1000)
    return {"attempt": attempt, "duration_ms": duration_ms, "ts": start, "trace_id": execution.replace("-", "")}


def seen_tasks(execution: str, tasks: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Folded outcomes as templates see them. Their time is formatted only here: most are never read."""
    return {label: _seen(execution, outcome) for label, outcome in tasks.items()}


def _seen(execution: str, outcome: dict[str, Any]) -> dict[str, Any]:
    meta = outcome.get("meta", {})
    if "at" not in meta:  # of a skipped task, or of a snapshot of an earlier version
        return outcome
    return {**outcome, "meta": call_meta(execution, meta["attempt"], meta["duration_ms"], meta["at"])}


# -- events ---------------------------------------------------------------------------------------------------------


@lru_cache(1_024)
def split_path(path: str) -> tuple[str, str, int]:
    """Prefix, label and visit of a task's path."""
    prefix, slash, last = path.rpartition("/")
    label, _, visit = last.rpartition("#")
    return prefix + slash, label, int(visit)


def _started(state: Execution, event: e.TaskStarted, at: float) -> None:
    run = state.runs[event.task.run]
    if run.losses:
        run.losses.pop(WHOLE_RUN if event.task.index is None else event.task.index, None)
    prefix, label, visit = split_path(event.task.path)
    progress = run.progress_of(event.task.index, prefix)
    progress.at, progress.attempt, progress.started, progress.due = label, event.attempt, True, None
    progress.since = event.began(at)
    progress.visits[label] = visit


def _done(state: Execution, event: e.TaskDone, at: float) -> None:
    run, outcome = state.runs[event.task.run], event.outcome
    prefix, label, visit = split_path(event.task.path)
    progress = run.progress_of(event.task.index, prefix)
    progress.started, progress.delivered = False, None
    writes, step = event.set_ctx, state.net.steps[run.step]
    if step.iterators and is_iterator(state, run, event.task):
        writes = (*inner_writes(run, event.task), *writes)
        _leave_inner(run, event.task, is_retry=event.do == "retry")
    progress.visits[label] = visit
    if step.gives_handles:
        state.note_handles(outcome.result)
    sink = isinstance(event, e.SinkProcessed)
    if event.skipped and not sink:
        progress.tasks[label] = SKIPPED
    elif not sink:
        progress.tasks[label] = outcome.as_data({"attempt": event.attempt, "duration_ms": event.duration_ms, "at": at})
        if event.do not in ("retry", "fail"):  # a retried task sees what it saw before
            progress.prev = outcome.result if outcome.ok else None
    if event.set_iter:
        apply_patch(progress.iter, event.set_iter, state.inlined_values)
    if event.set_ctx:
        patch_ctx(state, event.set_ctx)
        if run.loop is not None and event.task.index is not None:
            note_writers(run.loop, event.task.index, event.set_ctx)
    if writes:
        item = item_of(state, run, event.task)
        if item is None:
            apply_patch(run.ctx, writes, state.inlined_values)
        else:
            run.progress_of(event.task.index, item).writes.extend(writes)
    if state.inlined_values:
        state.inlined_values.clear()
    progress.attempt = progress.round = progress.round_start = 1
    progress.repeats = repeats_after(progress.repeats, event.do, outcome)
    progress.at = event.to
    progress.ended = event.to is None
    if outcome.error is not None and event.do in CONTINUES:
        data = error_data(outcome.error, run.step, event.task.place, event.attempt)
        index = event.task.index
        note_continued(state, 1, [data if index is None else data | {"item": index}])
    error = event.error or outcome.error
    progress.failure = (error, label, event.attempt) if event.do == "fail" and error is not None else None


def repeats_after(repeats: int, do: str, outcome: Outcome) -> int:
    """How often a task was tried again although it was ok, after one more outcome."""
    return repeats + outcome.ok if do == "retry" else 0


def is_iterator(state: Execution, run: Run, task: TaskId) -> bool:
    iterators = state.net.steps[run.step].iterators
    return bool(iterators) and _labels(task.path.split("/")) in iterators


def _labels(path: Sequence[str]) -> str:
    return "/".join(part.partition("#")[0] for part in path)


def item_of(state: Execution, run: Run, task: TaskId) -> str | None:
    """The innermost parallel item around a task, which alone sees its writes, as the prefix of its tasks: `each#1[0]/`,
    empty for an item of the loop itself. None if there is none: the whole run sees the writes."""
    iterators = state.net.steps[run.step].iterators
    items = task.path.split("/")[:-1] if iterators else []  # the items of iterators around the task: `each#1[0]`
    for depth in range(len(items), 0, -1):
        if iterators.get(_labels(items[:depth])):  # else it is a chain
            return "/".join(items[:depth]) + "/"
    return "" if task.index is not None and is_parallel(state, run) else None


def inner_writes(run: Run, task: TaskId) -> list[Write]:
    """The writes of the items of an iterator task, separately, in the order of the items."""
    inner = f"{task.path}["
    items = [
        (int(prefix[len(inner) : -2]), progress.writes)
        for prefix, progress in run.pipelines(task.index).items()
        if progress.writes and prefix.startswith(inner) and "/" not in prefix[len(inner) : -1]
    ]
    return [write for _, writes in sorted(items, key=lambda item: item[0]) for write in writes]


def _leave_inner(run: Run, task: TaskId, is_retry: bool) -> None:
    """Pipelines inside an iterator task end with the task; if it is retried, their visits are counted on."""
    inner, pipelines = f"{task.path}[", run.pipelines(task.index)
    for prefix in [prefix for prefix in pipelines if prefix.startswith(inner)]:
        if is_retry:
            pipelines[prefix] = Progress(visits=pipelines[prefix].visits)
        else:
            del pipelines[prefix]


def _retry_scheduled(state: Execution, event: e.TaskRetryScheduled, at: float) -> None:
    prefix, label, _ = split_path(event.task.path)
    progress = state.runs[event.task.run].progress_of(event.task.index, prefix)
    progress.at, progress.attempt, progress.started, progress.due = label, event.attempt, False, event.due
    progress.round, progress.round_start = event.round or event.attempt, event.round_start or event.attempt


def _poll_started(state: Execution, event: e.PollStarted, at: float) -> None:
    prefix, label, visit = split_path(event.task.path)
    state.runs[event.task.run].progress_of(event.task.index, prefix).polls[label] = PollState(visit, event.due)


def _poll_finished(state: Execution, event: e.PollFinished, at: float) -> None:
    prefix, label, _ = split_path(event.task.path)
    state.runs[event.task.run].progress_of(event.task.index, prefix).polls.pop(label, None)


HANDLERS: Handlers = {
    e.TaskStarted: _started,
    e.TaskDone: _done,
    e.TaskRetryScheduled: _retry_scheduled,
    e.SinkStarted: _started,
    e.SinkProcessed: _done,
    e.PollStarted: _poll_started,
    e.PollIteration: unchanged,
    e.PollFinished: _poll_finished,
}
