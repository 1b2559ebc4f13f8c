"""decide(turn, command): what follows from a command, as events.

A turn holds the state and the time. Each event is evolved into the state at once, so later decisions of the same turn
see earlier ones, and the caller drops the state if the events can't be stored. No await, clock, randomness or I/O.
Late and repeated commands are answered with no events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Literal

from noetl.engine import events as e
from noetl.engine.admissible import check_fact
from noetl.engine.commands import (
    Abandon,
    Cancel,
    ChildEnded,
    Claim,
    Command,
    Fork,
    Lost,
    Pause,
    Report,
    Resume,
    Signal,
    Start,
    TimerDue,
)
from noetl.engine.evolve import (
    NO_LOOP,
    inner_writes,
    is_iterator,
    is_parallel,
    item_of,
    new_weight,
    progress_key,
    split_path,
)
from noetl.engine.fit import Oversized, fitted
from noetl.engine.fork import fork
from noetl.engine.grant import claim
from noetl.engine.patch import SET, BadPatch, Write, apply_patch, wanted, written
from noetl.engine.settle import settle, start_final_step
from noetl.engine.start import start
from noetl.engine.state import MAX_CTX_BYTES, Execution, Run
from noetl.engine.turn import Turn
from noetl.errors import TemplateFailed
from noetl.expression import Budget
from noetl.model.outcome import Error, Outcome, failed
from noetl.reference import Reference, spell

MAX_LOSSES = 5
SPELLED_CHARACTERS = 14_000
"""So many characters of JSON text fit into an event, whatever they are."""
MAX_ID = 200
"""A signal with a longer id is known by its hash."""


def decide(turn: Turn, command: Command) -> None:
    """What follows from a command. Need may stop it on the way: load what is asked for, then decide
    again if there are no events yet, else `carry_on`."""
    if not turn.state.over:
        _take(turn, command)
        carry_on(turn, command)


def carry_on(turn: Turn, command: Command) -> None:
    """Settle the net, and give the worker that reported its next work."""
    if turn.events:
        settle(turn)
    if isinstance(command, Report) and command.claim is not None:
        claim(turn, command.claim)


def _take(turn: Turn, command: Command) -> None:
    state = turn.state
    match command:
        case Start():
            start(turn, command)
        case Claim():
            claim(turn, command)
        case Report():
            _report(turn, command)
        case Lost(fence=fence):
            _lost(turn, fence)
        case TimerDue(timer=timer):
            _timer_due(turn, timer)
        case Signal():
            _signal(turn, command)
        case ChildEnded(child=child, outcome=outcome):
            _child_ended(turn, child, outcome)
        case Fork():
            fork(turn, command)
        case Abandon():
            _abandon(turn, command)
        case Cancel(reason=reason):
            if state.status != "cancelling":
                turn.emit(e.PlaybookCancelled(reason))
        case Pause():
            if state.status in ("running", "waiting"):
                turn.emit(e.PlaybookPaused())
        case Resume():
            if state.status == "paused":
                turn.emit(e.PlaybookResumed())


# -- reports --------------------------------------------------------------------------------------------------------


def _report(turn: Turn, report: Report) -> None:
    """Accept what a worker says, as long as its lease is the latest. A fact may end the lease for those behind it."""
    lease = turn.state.leases.get(report.fence)
    if lease is None:
        return
    known = max(0, lease.facts - report.first)
    _look_into(turn, report.facts[known:], report.blobs)
    turn.blobs += report.blobs
    previous: e.Event | None = None
    budget = Budget()
    for fact in report.facts[known:]:
        if report.fence not in turn.state.leases:
            return
        if report.foreign:
            check_fact(turn.state, report.fence, fact, previous, budget)
            previous = fact
        ACCEPT.get(type(fact), _accept)(turn, report.fence, fact)
    lease = turn.state.leases.get(report.fence)
    if report.hand_back and lease is not None:
        turn.emit(e.StepPaused(lease.run, report.fence, "returned"))


def _accept(turn: Turn, fence: int, fact: e.Event) -> None:
    turn.emit(fact)


def _accept_task(turn: Turn, fence: int, fact: e.TaskDone) -> None:
    """A patch is looked at before it is taken: another item may have written the key, or a reducer may not fit."""
    try:
        fitting = fitted(fact, turn.blobs)
        assert isinstance(fitting, e.TaskDone)
        contents = {one.key: turn.content(one) for one in _wanted(turn.state, fitting)}
        problem = _patch_problem(turn.state, fitting, contents) if _writes(turn.state, fitting) else None
    except Oversized as error:
        problem = Error("too_large", f"the outcome and patches of a task can't be stored: {error}")
    except TemplateFailed as error:
        problem = Error("too_large", f"a reducer can't look into what it is to change: {error}")
    if problem is None:
        for key, value in contents.items():
            _write_out(turn, key, spell(value))
        turn.emit(fitting)
        return
    task, outcome = fact.task, Outcome("error", error=problem)
    turn.emit(type(fact)(task, fact.attempt, outcome, "fail", duration_ms=fact.duration_ms))
    if task.index is None:
        turn.fail(task.run, problem, task.place, fact.attempt)
        return
    _iteration_failed(turn, fence, e.IterationFailed(task.run, task.index, problem, task.label, fact.attempt))
    if fence in turn.state.leases:  # the worker does not know yet and is not to go on; others get the rest
        turn.emit(e.StepPaused(task.run, fence, "returned"))


def _write_out(turn: Turn, key: str, text: str) -> None:
    """The fold has no store to read from: what the next patch looks into goes into the log, once, in parts."""
    parts = [text[at : at + SPELLED_CHARACTERS] for at in range(0, len(text), SPELLED_CHARACTERS)]
    for left, part in zip(reversed(range(len(parts))), parts, strict=True):
        turn.emit(e.CtxPatched(spelled=e.Spelled(key, part, more=left > 0)))


def _targets(state: Execution, fact: e.TaskDone) -> Iterator[tuple[dict[str, Any], Sequence[Write]]]:
    """What the fact will be written to, and what will be written there."""
    run, task = state.runs[fact.task.run], fact.task
    progress = run.progress.get(progress_key(task.index, split_path(task)[0]))
    yield (progress.iter if progress is not None else {}), fact.set_iter
    yield state.ctx, fact.set_ctx
    inner = inner_writes(run, task) if is_iterator(state, run, task) else []
    if (inner or fact.set_ctx) and item_of(state, run, task) is None:
        yield run.ctx, (*inner, *fact.set_ctx)


def _writes(state: Execution, fact: e.TaskDone) -> bool:
    return bool(fact.set_ctx or fact.set_iter) or is_iterator(state, state.runs[fact.task.run], fact.task)


def _wanted(state: Execution, fact: e.TaskDone) -> Iterator[Reference]:
    if _writes(state, fact):
        for target, patch in _targets(state, fact):
            yield from wanted(target, patch)


def _look_into(turn: Turn, facts: Sequence[e.Event], blobs: Sequence[tuple[str, bytes]]) -> None:
    """Load what reducers of the report look into, as far as it is known before the first fact is taken: Need starts the
    command again, and nothing may have happened by then."""
    at_hand = {key for key, _ in blobs}
    passed: dict[str, Reference] = {}
    for fact in facts:
        if not isinstance(fact, e.TaskDone) or fact.task.run not in turn.state.runs:
            continue
        for key, operator, operand in (*fact.set_iter, *fact.set_ctx):
            if operator == SET and isinstance(operand, Reference):
                passed[key] = operand
        reduced = {key for key, operator, _ in (*fact.set_iter, *fact.set_ctx) if operator != SET}
        for reference in (*_wanted(turn.state, fact), *(passed[key] for key in reduced if key in passed)):
            if reference.key not in at_hand and reference.size <= MAX_CTX_BYTES:
                with suppress(TemplateFailed):  # said of the task, when it is accepted
                    reference.content()


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
        value = written(old, operator, operand, contents)
        if once and operator == SET and run.loop is not None and key in run.loop.writers:
            writer, old = run.loop.writers[key]
            if writer != fact.task.index and old != value:
                return Error("ctx_conflict", f"ctx.{key} was already written by item {writer} with another value")
        size += new_weight(state, key, operator, operand, old, value) - state.ctx_weights.get(key, 0)
    if size > MAX_CTX_BYTES:
        return Error("too_large", f"ctx would take {size:,} bytes, and {MAX_CTX_BYTES:,} is the limit (set_ctx: {key})")
    return None


def _accept_iteration(turn: Turn, fence: int, fact: e.IterationDone) -> None:
    run = turn.state.runs[fact.run]
    turn.emit(fact)
    _maybe_loop_done(turn, run)


def _iteration_failed(turn: Turn, fence: int, fact: e.IterationFailed) -> None:
    run = turn.state.runs[fact.run]
    turn.emit(fact)
    loop = turn.state.net.steps[run.step].step.loop
    if loop is not None and loop.on_error == "continue":
        _maybe_loop_done(turn, run)
    else:
        turn.fail(run.id, fact.error, fact.task, fact.attempt)


def _maybe_loop_done(turn: Turn, run: Run) -> None:
    loop = run.loop
    if loop is not None and loop.finished == loop.total:
        turn.emit(e.LoopDone(run.id, loop.total, loop.ok, loop.failed, turn.loop_result(run)))


ACCEPT: dict[type[e.Event], Callable[[Turn, int, Any], None]] = {
    e.TaskDone: _accept_task,
    e.SinkProcessed: _accept_task,
    e.IterationDone: _accept_iteration,
    e.IterationFailed: _iteration_failed,
}


# -- decisions that cannot be made ----------------------------------------------------------------------------------


def remedy_for(command: Command, error: dict[str, Any]) -> Command | None:
    """What to decide instead of a command whose decision raised an exception; None if its sender must deal with it.

    Nobody deals with it where the world has moved on already: a worker would repeat an effect, and a timer or a lost
    lease would come again for ever. There the execution ends: with the facts of the report if they can be stored, then
    without them, then without its final step.
    """
    match command:
        case Start(parent=(_, _, _), refused=None):  # its parent waits for it
            return Start(parent=command.parent, refused=error)
        case Report():
            return Abandon(error, command)
        case Claim() | Lost() | TimerDue() | ChildEnded() | Abandon(report=Report()):
            return Abandon(error)
        case Abandon(final=True):
            return Abandon(error, final=False)
    return None


def _abandon(turn: Turn, command: Abandon) -> None:
    state = turn.state
    if command.report is not None:
        _report(turn, command.report)
    if state.status == "cancelling":
        outcome: Literal["cancelled", "failed"] = "cancelled"
    else:
        outcome = "failed"
    if state.finished is None:
        turn.emit(e.WorkflowFinished(outcome, command.error))
        if command.final and outcome == "failed" and state.status != "paused":
            start_final_step(turn, outcome)
            return
    turn.emit(e.PlaybookProcessed(outcome, error=state.failure or command.error))


# -- leases, timers, signals ----------------------------------------------------------------------------------------


def _lost(turn: Turn, fence: int) -> None:
    lease = turn.state.leases.get(fence)
    if lease is None:
        return
    run = turn.state.runs[lease.run]
    turn.emit(e.StepPaused(run.id, fence, "lost"))
    if max(run.losses.values()) >= MAX_LOSSES:
        error = Error("poison", f"{MAX_LOSSES} workers were lost on this run without any progress")
        turn.fail(run.id, error)


def _timer_due(turn: Turn, timer: str) -> None:
    state = turn.state
    due = state.timers.get(timer)
    if due is None or due > turn.now or state.status == "paused":
        return
    kind, _, rest = timer.partition(":")
    turn.emit(e.TimerFired(timer))
    if kind == "timeout" and rest in state.runs:
        limit = state.net.steps[state.runs[rest].step].timeout
        turn.fail(rest, Error("timeout", f"the step took longer than {limit:g} s"))
    elif kind == "wait":
        run, _, key = rest.rpartition(":")
        _wake(turn, run, int(key), failed("timeout", "nothing came in time"))


def _wake(turn: Turn, name: str, key: int, late: Outcome) -> None:
    """What a run waited for did not come, or it was only a pause between attempts."""
    run = turn.state.runs.get(name)
    if run is None or key not in run.parked:
        return
    outcome = None if run.parked[key].until == "retry" else late
    turn.emit(e.StepResumed(name, None if key == NO_LOOP else key, outcome))


def _signal(turn: Turn, signal: Signal) -> None:
    number = signal.id if len(signal.id) <= MAX_ID else sha256(signal.id.encode("utf-8", "replace")).hexdigest()
    if number not in turn.state.signal_ids:
        turn.emit(e.MessageReceived(signal.type, number, signal.payload))


def _child_ended(turn: Turn, child: str, outcome: Outcome) -> None:
    for run, key in _waiting_for(turn.state, "child", child):
        turn.emit(e.StepResumed(run.id, None if key == NO_LOOP else key, outcome))
        return


def _waiting_for(state: Execution, until: str, key: str) -> Iterator[tuple[Run, int]]:
    for run in list(state.runs.values()):
        for index, parked in list(run.parked.items()):
            if parked.until == until and parked.key == key:
                yield run, index
