"""evolve(state, event): what each fact changes. Constant work per event; no template, no clock, no choice.

Replay is `evolve` over the log, and live state is the same: `decide` learns of its own events by evolving them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from noetl.engine import events as e
from noetl.engine.afresh import begin_afresh
from noetl.engine.fit import weight
from noetl.engine.loops import give_back, return_items, take_items
from noetl.engine.net import StepPlan
from noetl.engine.patch import APPEND, SET, Write, apply_patch
from noetl.engine.state import (
    BYTES_PER_CHUNK,
    LEASE_SECONDS,
    RESULTS_PER_CHUNK,
    Ended,
    Epoch,
    Execution,
    Lease,
    Loop,
    Parked,
    Poll,
    Progress,
    Request,
    Run,
    StepResult,
    Tail,
    Token,
    error_data,
)
from noetl.model.identity import TaskId, step_of
from noetl.reference import SECRET, Reference, decode_inline, refer

FAST_LANE_SECONDS = 0.2
MAX_LANE = 1_024
ENOUGH = 1 << 62
"""Weigh all of it."""
MOST_HANDLES = 200
"""Maximum number of handles of one execution that leases carry."""
NO_LOOP = -1
"""The key of a run without a loop among parked iterations."""


def evolve(state: Execution, event: e.Event, at: float) -> None:
    """Take the event into the state."""
    state.seq += 1
    if event.source == "worker":
        _count(state, event)
    HANDLERS[type(event)](state, event, at)


def _count(state: Execution, event: e.Event) -> None:
    """One more fact under the lease that it belongs to, so that a report that comes twice is taken once."""
    task: Any = getattr(event, "task", None)
    at: Any = task if isinstance(task, TaskId) else event
    run = state.runs.get(at.run)
    if run is None or (state.listeners and _heard(state, event)):
        return
    fence = run.fence
    if run.loop is not None and fence is None:
        index = getattr(at, "index", None)
        for lane, items in run.loop.lanes.items():
            if items[0] == index:
                fence = lane
                break
    lease = None if fence is None else state.leases.get(fence)
    if lease is not None:
        lease.facts += 1


def _heard(state: Execution, event: e.Event) -> bool:
    """Whether the server has looked at a case itself, because its run listens: no worker tells that."""
    if isinstance(event, e.CaseStarted):
        return event.trigger_event not in POINTS
    return isinstance(event, e.CaseEvaluated) and event.run in state.listeners


# -- playbook -------------------------------------------------------------------------------------------------------


def _requested(state: Execution, event: e.ExecutionRequested, at: float) -> None:
    state.parent = event.parent


def _evaluated(state: Execution, event: e.RequestEvaluated, at: float) -> None:
    state.workload = event.workload
    if state.parent is not None:
        _note_handles(state, event.workload)


def _playbook_started(state: Execution, event: e.PlaybookStarted, at: float) -> None:
    state.status = "running"
    limit = state.net.playbook.executor.timeout
    if limit is not None:
        state.timers["timeout"] = at + limit


def _workflow_started(state: Execution, event: e.WorkflowStarted, at: float) -> None:
    pass


def _workflow_finished(state: Execution, event: e.WorkflowFinished, at: float) -> None:
    state.finished = event.outcome
    state.failure = state.failure or event.error
    _stop_everything(state)


def _stop_everything(state: Execution) -> None:
    """Nothing of the net is alive any more: tokens vanish, runs are revoked."""
    for name in ("fresh", "held", "delayed", "waiting", "tokens", "ended", "timers", "ready"):
        getattr(state, name).clear()
    for run in list(state.runs.values()):
        drop_run(state, run, "cancelled")
    state.crowd.clear()


def _processed(state: Execution, event: e.PlaybookProcessed, at: float) -> None:
    state.status = event.outcome
    state.result, state.error = event.result, event.error
    state.timers.clear()


def _paused(state: Execution, event: e.PlaybookPaused, at: float) -> None:
    state.status = "paused"


def _resumed(state: Execution, event: e.PlaybookResumed, at: float) -> None:
    state.status = "running"


def _cancelled(state: Execution, event: e.PlaybookCancelled, at: float) -> None:
    state.status = "cancelling"
    state.cancel_reason = event.reason
    _stop_everything(state)


def _forked(state: Execution, event: e.ExecutionForked, at: float) -> None:
    """Leases were those of the source: what was under way is to be handed out again."""
    for run in state.runs.values():
        if run.loop is not None:
            for rest in run.loop.lanes.values():
                give_back(run, run.loop, *rest)
            run.loop.lanes.clear()
    begin_afresh(state, event, at)
    _patch_ctx(state, event.set_ctx)
    for run in state.runs.values():
        if run.started is not None or run.loop is not None:
            apply_patch(run.ctx, event.set_ctx)
        state.ready.pop(run.id)
        refresh_ready(state, run)


# -- tokens ---------------------------------------------------------------------------------------------------------


def _token_enqueued(state: Execution, event: e.TokenEnqueued, at: float) -> None:
    sender = state.ended.get(event.origin) if event.origin else None
    token = Token(event.token, event.step, event.args, event.origin, event.due, sender.event if sender else None)
    state.tokens[token.id] = token
    state.next_token = token.id + 1
    _crowd(state, token.step, 1)
    if sender is not None:
        sender.tokens -= 1
        _close(state, sender)
    if token.due is not None:
        state.timers[f"token:{token.id}"] = token.due
        state.delayed[token.id] = None
    else:
        arrive(state, token)


def arrive(state: Execution, token: Token) -> None:
    """The token is at its step: to be looked at, or waiting for others where the step joins."""
    if state.net.steps[token.step].joins:
        state.waiting.setdefault(token.step, []).append(token.id)
    else:
        state.fresh[token.id] = None


def _token_held(state: Execution, event: e.TokenHeld, at: float) -> None:
    state.fresh.pop(event.token, None)
    state.held[event.token] = None


def _token_denied(state: Execution, event: e.TokenDenied, at: float) -> None:
    _take_token(state, event.token)
    state.failure = state.failure or event.error


def _take_token(state: Execution, number: int) -> Token:
    token = state.tokens.pop(number)
    state.fresh.pop(number, None)
    state.held.pop(number, None)
    waiting = state.waiting.get(token.step)
    if waiting and number in waiting:
        waiting.remove(number)
    _crowd(state, token.step, -1)
    return token


def _crowd(state: Execution, step: str, change: int) -> None:
    count = state.crowd.get(step, 0) + change
    if count:
        state.crowd[step] = count
    else:
        state.crowd.pop(step, None)


# -- runs -----------------------------------------------------------------------------------------------------------


def _step_scheduled(state: Execution, event: e.StepScheduled, at: float) -> None:
    step = step_of(event.run)
    tokens = [_take_token(state, number) for number in event.tokens]
    args, args_by = merged_args(state, tokens)
    run = Run(event.run, step, args or dict(event.args), args_by)
    plan = state.net.steps[step]
    if plan.step.tail is not None:
        run.tail = Tail()
        if plan.listens:
            state.listeners[run.id] = None
    state.runs[run.id] = run
    state.run_count += 1
    state.entries[step] = state.entries.get(step, 0) + 1
    _crowd(state, step, 1)
    refresh_ready(state, run)


def merged_args(state: Execution, tokens: Sequence[Token]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Args of the tokens, merged in the order in which their source steps stand in the playbook (S6)."""
    if len(tokens) == 1:
        token = tokens[0]
        return token.args, {step_of(token.origin): token.args} if token.origin else {}
    order = {name: plan.order for name, plan in state.net.steps.items()}
    args: dict[str, Any] = {}
    args_by: dict[str, Any] = {}
    for token in sorted(tokens, key=lambda one: order.get(step_of(one.origin or ""), -1)):
        args.update(token.args)
        if token.origin:
            args_by[step_of(token.origin)] = token.args
    return args, args_by


def refresh_ready(state: Execution, run: Run) -> None:
    """Whether somebody could work on the run now."""
    if not claimable(state, run):
        state.ready.pop(run.id, None)
    elif run.id not in state.ready:
        state.ready[run.id] = state.net.steps[run.step].pool or state.net.playbook.executor.pool


def claimable(state: Execution, run: Run) -> bool:
    plan, loop, tail = state.net.steps[run.step], run.loop, run.tail
    if tail is None and not plan.step.tasks:
        return False
    if plan.step.loop is None or (tail is not None and tail.begun):
        return run.fence is None and NO_LOOP not in run.parked and not _only_listens(plan, tail)
    if loop is None or (plan.local and loop.lanes):  # what one worker has, no other gets a part of
        return False
    return has_room(state, run)


def has_room(state: Execution, run: Run) -> bool:
    """Whether items of a loop wait and one more lane may run."""
    loop = run.loop
    if loop is None or not (loop.returned or loop.next < loop.total):
        return False
    return len(loop.lanes) + len(run.parked) < state.net.steps[run.step].lanes


def _only_listens(plan: StepPlan, tail: Tail | None) -> bool:
    """Whether a run waits for an event that chooses one of its branches."""
    if not plan.listens or tail is None or tail.epochs:
        return False
    return bool(tail.point) or not plan.step.tasks


def _granted(state: Execution, event: e.StepStarted | e.StepRegranted, at: float) -> None:
    run = state.runs[event.run]
    state.fence = event.fence
    losses = run.losses.get(event.items[0] if event.items else NO_LOOP, 0)
    state.leases[event.fence] = Lease(run.id, event.worker, at, LEASE_SECONDS * 2**losses, event.claim)
    if run.started is None:
        run.started = at
        if run.loop is None:
            run.ctx = dict(state.ctx)
        limit = state.net.steps[run.step].timeout
        if limit is not None:
            state.timers[f"timeout:{run.id}"] = at + limit
    if event.items is None:
        run.fence = event.fence
    else:
        assert run.loop is not None
        take_items(run.loop, event.items)
        run.loop.lanes[event.fence] = event.items
    refresh_ready(state, run)


def _step_paused(state: Execution, event: e.StepPaused, at: float) -> None:
    run = state.runs[event.run]
    state.leases.pop(event.fence, None)
    rest: e.Interval | None = None
    if run.fence == event.fence:
        run.fence = None
    elif run.loop is not None:
        rest = run.loop.lanes.pop(event.fence, None)
    if event.reason == "lost":
        place = rest[0] if rest else NO_LOOP
        run.losses[place] = run.losses.get(place, 0) + 1
    if event.until == "event":
        if event.key == "case" and run.tail is not None:
            del run.tail.epochs[0]
    elif event.until is not None:
        state.listening = True
        run.parked[NO_LOOP if event.index is None else event.index] = Parked(
            event.until, event.key, event.due, event.request, event.chain
        )
        if event.due is not None:
            state.timers[f"wait:{run.id}:{NO_LOOP if event.index is None else event.index}"] = event.due
        if rest is not None and event.index is not None:
            rest = (event.index + 1, rest[1])
    if rest is not None and run.loop is not None:
        if event.reason == "returned":
            run.loop.lane = max(1, run.loop.lane // 2)
        give_back(run, run.loop, *rest)
    refresh_ready(state, run)


def _step_resumed(state: Execution, event: e.StepResumed, at: float) -> None:
    run = state.runs[event.run]
    key = NO_LOOP if event.index is None else event.index
    parked = run.parked.pop(key, None)
    state.timers.pop(f"wait:{run.id}:{key}", None)
    progress = progress_of(run, event.index, parked.chain if parked else "")
    progress.delivered = event.outcome
    if event.message is not None:
        _consume(state, event.message)
    if run.loop is not None and event.index is not None:
        return_items(run, run.loop, (event.index, event.index + 1))
    refresh_ready(state, run)


def _consume(state: Execution, message: str) -> None:
    for kept in state.signals.values():
        for i, (number, _) in enumerate(kept):
            if number == message:
                del kept[i]
                return


# -- tasks ----------------------------------------------------------------------------------------------------------


def progress_key(index: int | None, prefix: str) -> str:
    return prefix if index is None else f"{index}:{prefix}"


def progress_of(run: Run, index: int | None, prefix: str) -> Progress:
    key = progress_key(index, prefix)
    found = run.progress.get(key)
    if found is None:
        found = run.progress[key] = Progress()
    return found


def split_path(task: TaskId) -> tuple[str, str, int]:
    """Prefix, label and visit of a task's path."""
    prefix, slash, last = task.path.rpartition("/")
    label, _, visit = last.rpartition("#")
    return prefix + slash, label, int(visit)


def _task_started(state: Execution, event: e.TaskStarted, at: float) -> None:
    run = state.runs[event.task.run]
    run.losses.pop(NO_LOOP if event.task.index is None else event.task.index, None)
    prefix, label, visit = split_path(event.task)
    progress = progress_of(run, event.task.index, prefix)
    progress.at, progress.attempt, progress.started, progress.due = label, event.attempt, True, None
    progress.visits[label] = visit


def _task_done(state: Execution, event: e.TaskDone, at: float) -> None:
    run, sink = state.runs[event.task.run], isinstance(event, e.SinkProcessed)
    prefix, label, visit = split_path(event.task)
    progress = progress_of(run, event.task.index, prefix)
    progress.started, progress.delivered = False, None
    writes = event.set_ctx
    if is_iterator(state, run, event.task):
        writes = (*inner_writes(run, event.task), *writes)
        _leave_inner(run, event.task, again=event.do == "retry")
    progress.visits[label] = visit
    if state.net.steps[run.step].gives_handles:
        _note_handles(state, event.outcome.result)
    if not event.skipped and not sink:
        progress.tasks[label] = event.outcome.as_data({"attempt": event.attempt, "duration_ms": event.duration_ms})
        if event.do not in ("retry", "fail"):  # a failed task that is tried once more sees what it saw
            progress.prev = event.outcome.result if event.outcome.ok else None
    if event.set_iter:
        apply_patch(progress.iter, event.set_iter, state.spelled)
    if event.set_ctx:
        _patch_ctx(state, event.set_ctx)
        if run.loop is not None and event.task.index is not None:
            _note_writers(run.loop, event.task.index, event.set_ctx)
    if writes:
        item = item_of(state, run, event.task)
        if item is None:
            apply_patch(run.ctx, writes, state.spelled)
        else:
            progress_of(run, event.task.index, item).writes.extend(writes)
    state.spelled.clear()
    progress.attempt = 1
    progress.repeats = repeats_after(progress.repeats, event.do, event.outcome.ok)
    progress.at = event.to
    progress.ended = event.to is None
    error = event.error or event.outcome.error
    progress.failure = (error, label, event.attempt) if event.do == "fail" and error is not None else None


def repeats_after(repeats: int, do: str, ok: bool) -> int:
    """How often a task was tried again although it was ok, after one more outcome."""
    return repeats + ok if do == "retry" else 0


def _note_handles(state: Execution, value: Any) -> None:
    """Record the handles in a value, up to a limit: every worker of the execution resolves each of them."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, Reference):
            if one.store == SECRET:
                state.handles.pop(one.key, None)
                state.handles[one.key] = None
        elif isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list | tuple):
            todo += one
    while len(state.handles) > MOST_HANDLES:
        del state.handles[next(iter(state.handles))]


def is_iterator(state: Execution, run: Run, task: TaskId) -> bool:
    iterators = state.net.steps[run.step].iterators
    return bool(iterators) and _labels(task.path.split("/")) in iterators


def _labels(path: Sequence[str]) -> str:
    return "/".join(part.partition("#")[0] for part in path)


def item_of(state: Execution, run: Run, task: TaskId) -> str | None:
    """The innermost item around a task that works beside others and alone sees what it writes, as the prefix of its
    tasks: `each#1[0]/`, empty for an item of the loop itself. None if there is none: the whole run sees the writes."""
    iterators = state.net.steps[run.step].iterators
    items = task.path.split("/")[:-1] if iterators else []  # the items of iterators around the task: `each#1[0]`
    for depth in range(len(items), 0, -1):
        if iterators.get(_labels(items[:depth])):  # what is no iterator is a chain
            return "/".join(items[:depth]) + "/"
    return "" if task.index is not None and is_parallel(state, run) else None


def inner_writes(run: Run, task: TaskId) -> list[Write]:
    """What the items of an iterator task wrote, each for itself, in the order of the items."""
    inner = progress_key(task.index, f"{task.path}[")
    items = [
        (int(key[len(inner) : -2]), progress.writes)
        for key, progress in run.progress.items()
        if progress.writes and key.startswith(inner) and "/" not in key[len(inner) : -1]
    ]
    return [write for _, writes in sorted(items, key=lambda item: item[0]) for write in writes]


def is_parallel(state: Execution, run: Run) -> bool:
    """Whether items of the run work side by side, each on its own view of ctx."""
    loop = state.net.steps[run.step].step.loop
    return loop is not None and loop.mode == "parallel"


def _note_writers(loop: Loop, index: int, patch: Sequence[Write]) -> None:
    for key, operator, value in patch:
        if operator == SET:
            loop.writers[key] = (index, value)


def _leave_inner(run: Run, task: TaskId, again: bool) -> None:
    """Pipelines inside an iterator task are over when the task is; tried again, they go on counting their visits."""
    inner = progress_key(task.index, f"{task.path}[")
    for key in [key for key in run.progress if key.startswith(inner)]:
        if again:
            run.progress[key] = Progress(visits=run.progress[key].visits)
        else:
            del run.progress[key]


def _task_retry(state: Execution, event: e.TaskRetryScheduled, at: float) -> None:
    prefix, label, _ = split_path(event.task)
    progress = progress_of(state.runs[event.task.run], event.task.index, prefix)
    progress.at, progress.attempt, progress.started, progress.due = label, event.attempt, False, event.due


# -- classic steps behind their tool ---------------------------------------------------------------------------------


def tail_of(run: Run) -> Tail:
    assert run.tail is not None
    return run.tail


def _case_started(state: Execution, event: e.CaseStarted, at: float) -> None:
    run = state.runs[event.run]
    tail = tail_of(run)
    if event.trigger_event not in POINTS:
        return  # something that was heard
    tail.point = event.trigger_event
    if event.error is not None:
        tail.failure = (event.error, event.task, event.attempt)
    if not state.net.steps[run.step].listens:
        tail.epochs.clear()
    if event.revoked:
        _revoke(state, run)
    refresh_ready(state, run)


POINTS = ("call.done", "call.error", "step.exit")


def _revoke(state: Execution, run: Run) -> None:
    """Nobody works on the run any more; what is left of it is its tail."""
    for fence in [run.fence, *(run.loop.lanes if run.loop else ())]:
        if fence is not None:
            state.leases.pop(fence, None)
    run.fence = None
    if run.loop is not None:
        run.loop.lanes.clear()
    for key in run.parked:
        state.timers.pop(f"wait:{run.id}:{key}", None)
    run.parked.clear()
    run.losses.clear()
    run.progress = {key: value for key, value in run.progress.items() if not key}
    run.ctx = dict(state.ctx)


def _case_evaluated(state: Execution, event: e.CaseEvaluated, at: float) -> None:
    run = state.runs[event.run]
    tail = tail_of(run)
    if event.trigger_event in POINTS:
        tail.looked = event.trigger_event
    tail.fired.extend(event.order)
    if event.order:
        tail.epochs.append(Epoch(list(event.order), event.event))
    if event.message is not None:
        _consume(state, event.message)
    if run.id in state.listeners:
        run.ctx = dict(state.ctx)  # much may have happened since it began to listen
    refresh_ready(state, run)


def _branch_suppressed(state: Execution, event: e.BranchSuppressed, at: float) -> None:
    tail_of(state.runs[event.run]).suppressed.append(event.branch)


def _next_requested(state: Execution, event: e.NextRequested, at: float) -> None:
    run = state.runs[event.run]
    tail = tail_of(run)
    add_request(tail, event)
    progress = progress_of(run, None, f"{event.branch}/")
    progress.at, progress.ended = event.then, event.then is None


def add_request(tail: Tail, event: e.NextRequested) -> None:
    """A chain that is retried as a whole comes to the same `next` again."""
    tail.requests = [one for one in tail.requests if (one.branch, one.action) != (event.branch, event.action)]
    tail.requests.append(Request(event.branch, event.action, list(event.to), event.policy, event.priority))


def _poll_started(state: Execution, event: e.PollStarted, at: float) -> None:
    prefix, label, visit = split_path(event.task)
    progress_of(state.runs[event.task.run], event.task.index, prefix).polls[label] = Poll(visit, event.due)


def _poll_iteration(state: Execution, event: e.PollIteration, at: float) -> None:
    pass


def _poll_finished(state: Execution, event: e.PollFinished, at: float) -> None:
    prefix, label, _ = split_path(event.task)
    progress_of(state.runs[event.task.run], event.task.index, prefix).polls.pop(label, None)


# -- loops ----------------------------------------------------------------------------------------------------------


def _loop_started(state: Execution, event: e.LoopStarted, at: float) -> None:
    run = state.runs[event.run]
    run.loop = Loop(event.total, event.items)
    run.ctx = dict(state.ctx)
    refresh_ready(state, run)


def _iteration_started(state: Execution, event: e.IterationStarted, at: float) -> None:
    run = state.runs[event.run]
    run.losses.pop(event.index, None)
    progress_of(run, event.index, "")


def _iteration_done(state: Execution, event: e.IterationDone, at: float) -> None:
    run, loop = _finish_iteration(state, event.run, event.index, at)
    loop.ok += 1
    if state.net.steps[run.step].step.loop.collect:  # type: ignore[union-attr]
        loop.results.append((event.index, event.result))
        loop.bytes += weight(event.result, BYTES_PER_CHUNK)
        if len(loop.results) >= RESULTS_PER_CHUNK or loop.bytes >= BYTES_PER_CHUNK:
            close_chunk(loop, state.outbox)


def close_chunk(loop: Loop, outbox: list[tuple[str, bytes]]) -> None:
    """Results that have gathered go into a chunk of pairs of index and result, so memory does not follow the loop."""
    reference, content = refer([[index, result] for index, result in loop.results])
    outbox.append((reference.key, content))
    loop.chunks.append(reference)
    loop.results.clear()
    loop.bytes = 0


def _iteration_failed(state: Execution, event: e.IterationFailed, at: float) -> None:
    run, loop = _finish_iteration(state, event.run, event.index, at)
    loop.failed += 1
    error = error_data(event.error, run.step, event.task, event.attempt)
    loop.failures.append({"index": event.index, "error": error})


def _finish_iteration(state: Execution, name: str, index: int, at: float) -> tuple[Run, Loop]:
    run = state.runs[name]
    loop = run.loop
    assert loop is not None
    inside = f"{index}:"
    for key in [key for key in run.progress if key.startswith(inside)]:
        del run.progress[key]
    for fence, (first, last) in loop.lanes.items():
        if first == index:
            if index + 1 < last:
                loop.lanes[fence] = (index + 1, last)
            else:
                _end_lane(state, loop, fence, at)
            break
    refresh_ready(state, run)
    return run, loop


def _end_lane(state: Execution, loop: Loop, fence: int, at: float) -> None:
    """A lane that took little time makes the next ones longer, a slow one makes them shorter."""
    del loop.lanes[fence]
    lease = state.leases.pop(fence, None)
    if lease is not None:
        fast = at - lease.since < FAST_LANE_SECONDS
        loop.lane = min(loop.lane * 2, MAX_LANE) if fast else max(1, loop.lane // 2)


# -- ends -----------------------------------------------------------------------------------------------------------


def _loop_done(state: Execution, event: e.LoopDone, at: float) -> None:
    run = state.runs[event.run]
    if run.tail is not None and not run.tail.looped:
        run.tail.looped, run.tail.result, run.ctx = True, event.result, dict(state.ctx)
        refresh_ready(state, run)
        return
    loop = run.loop
    failures = loop.failures if loop else []
    _end(state, run, StepResult("succeeded", result=event.result, failures=failures), event.name, at)
    state.ended[run.id].event["data"] = {
        "total": event.total,
        "ok": event.ok,
        "failed": event.failed,
        "result": event.result,
    }


def _step_done(state: Execution, event: e.StepDone, at: float) -> None:
    run = state.runs[event.run]
    failures = run.loop.failures if run.loop else None
    _end(state, run, StepResult("succeeded", result=event.result, failures=failures), event.name, at)
    state.ended[run.id].event["data"] = {"result": event.result}


def _step_failed(state: Execution, event: e.StepFailed, at: float) -> None:
    run = state.runs[event.run]
    error = error_data(event.error, run.step, event.task, event.attempt)
    failures = run.loop.failures if run.loop else None
    _end(state, run, StepResult("failed", error=error, failures=failures), event.name, at)
    state.ended[run.id].taken = event.taken
    state.ended[run.id].event["data"] = {"error": error, "task": event.task, "attempt": event.attempt}


def _end(state: Execution, run: Run, result: StepResult, on: str, at: float) -> None:
    before = state.steps.get(run.step)
    result.runs = before.runs + 1 if before else 1
    drop_run(state, run)
    state.steps[run.step] = result
    state.last = run.step
    state.ended[run.id] = Ended(run.id, on, run.args, run.args_by, {"name": on}, tail=run.tail)


def drop_run(state: Execution, run: Run, status: str | None = None) -> None:
    """The run is over: its leases and timers go with it. It still counts as being at its step until it is routed."""
    del state.runs[run.id]
    state.ready.pop(run.id, None)
    state.listeners.pop(run.id, None)
    fences = [run.fence] if run.fence is not None else []
    for fence in [*fences, *(run.loop.lanes if run.loop else ())]:
        state.leases.pop(fence, None)
    state.timers.pop(f"timeout:{run.id}", None)
    for name in state.net.steps[run.step].timers:
        state.timers.pop(f"timer:{run.id}:{name}", None)
    for key in run.parked:
        state.timers.pop(f"wait:{run.id}:{key}", None)
    if status is not None:
        before = state.steps.get(run.step)
        state.steps[run.step] = StepResult(status, before.runs + 1 if before else 1)


def _next_evaluated(state: Execution, event: e.NextEvaluated, at: float) -> None:
    ended = state.ended[event.run]
    if ended.on == "step.failed":
        error = ended.event["data"]["error"]
        state.errors.append(error)
        if not (event.selected or event.to or event.taken):
            state.failure = state.failure or error
    state.failure = state.failure or event.error
    ended.tokens = len(event.selected) + len(event.to)
    _close(state, ended)


def _close(state: Execution, ended: Ended) -> None:
    """When all tokens of an ended run are out, nothing of it is left at its step."""
    if ended.tokens == 0:
        del state.ended[ended.run]
        _crowd(state, step_of(ended.run), -1)


# -- ctx, signals, timers -------------------------------------------------------------------------------------------


def _ctx_patched(state: Execution, event: e.CtxPatched, at: float) -> None:
    if event.spelled is not None:
        _spelled(state, event.spelled)
    if event.patch:
        _patch_ctx(state, event.patch)


def _spelled(state: Execution, part: e.Spelled) -> None:
    text = state.spelling.pop(part.key, "") + part.text
    if part.more:
        state.spelling[part.key] = text
    else:
        state.spelled[part.key] = decode_inline(text)


def _patch_ctx(state: Execution, patch: Sequence[Write]) -> None:
    for write in patch:
        key, operator, operand = write
        old = state.ctx.get(key)
        apply_patch(state.ctx, (write,), state.spelled)
        size = new_weight(state, key, operator, operand, old, state.ctx[key])
        state.ctx_bytes += size - state.ctx_weights.get(key, 0)
        state.ctx_weights[key] = size
    state.changed = True


def new_weight(state: Execution, key: str, operator: str, operand: Any, old: Any, new: Any) -> int:
    """About how many bytes of JSON a value of ctx takes after a write. A list that grows is not weighed as a whole."""
    if operator == APPEND and old is not None and not isinstance(old, Reference):
        return state.ctx_weights[key] + weight(operand, ENOUGH) + 1
    return weight(new, ENOUGH)


def _message(state: Execution, event: e.MessageReceived, at: float) -> None:
    state.signals.setdefault(event.type, []).append((event.id, event.payload))
    state.signal_ids[event.id] = None
    state.changed = state.listening = True


def _timer_armed(state: Execution, event: e.TimerArmed, at: float) -> None:
    state.timers[event.timer] = event.due


def _timer_fired(state: Execution, event: e.TimerFired, at: float) -> None:
    state.timers.pop(event.timer, None)
    kind, _, rest = event.timer.partition(":")
    if event.timer == "timeout":
        limit = state.net.playbook.executor.timeout
        state.failure = state.failure or {"kind": "timeout", "message": f"the execution took longer than {limit:g} s"}
        state.hurried = True
    if kind == "token" and int(rest) in state.tokens:
        token = state.tokens[int(rest)]
        token.due = None
        state.delayed.pop(token.id, None)
        arrive(state, token)


HANDLERS: dict[type[e.Event], Callable[[Execution, Any, float], None]] = {
    e.ExecutionRequested: _requested,
    e.RequestEvaluated: _evaluated,
    e.PlaybookStarted: _playbook_started,
    e.WorkflowStarted: _workflow_started,
    e.WorkflowFinished: _workflow_finished,
    e.PlaybookProcessed: _processed,
    e.PlaybookPaused: _paused,
    e.PlaybookResumed: _resumed,
    e.PlaybookCancelled: _cancelled,
    e.ExecutionForked: _forked,
    e.TokenEnqueued: _token_enqueued,
    e.TokenHeld: _token_held,
    e.TokenDenied: _token_denied,
    e.StepScheduled: _step_scheduled,
    e.StepStarted: _granted,
    e.StepRegranted: _granted,
    e.StepPaused: _step_paused,
    e.StepResumed: _step_resumed,
    e.StepDone: _step_done,
    e.StepFailed: _step_failed,
    e.NextEvaluated: _next_evaluated,
    e.CaseStarted: _case_started,
    e.CaseEvaluated: _case_evaluated,
    e.BranchSuppressed: _branch_suppressed,
    e.NextRequested: _next_requested,
    e.LoopStarted: _loop_started,
    e.IterationStarted: _iteration_started,
    e.IterationDone: _iteration_done,
    e.IterationFailed: _iteration_failed,
    e.LoopDone: _loop_done,
    e.TaskStarted: _task_started,
    e.TaskDone: _task_done,
    e.TaskRetryScheduled: _task_retry,
    e.SinkStarted: _task_started,
    e.SinkProcessed: _task_done,
    e.PollStarted: _poll_started,
    e.PollIteration: _poll_iteration,
    e.PollFinished: _poll_finished,
    e.CtxPatched: _ctx_patched,
    e.MessageReceived: _message,
    e.TimerArmed: _timer_armed,
    e.TimerFired: _timer_fired,
}
