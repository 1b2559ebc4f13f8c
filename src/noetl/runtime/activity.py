"""The activity of an execution, as lists show it: one sentence, its progress, its waits and its error.

All of it is a function of the state. The committer keeps it in the columns of the execution; a list reads them without
folding a log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from noetl.engine.signal_fields import SignalField, parts_of
from noetl.engine.state import WHOLE_RUN, Execution, Run
from noetl.engine.waits import ReceivedSignals, awaited_text, received_signals, received_text
from noetl.timestamps import optional_rfc3339, rfc3339
from noetl.wording import cut

WaitKind = Literal["signal", "child", "retry", "event", "worker", "join", "admission", "timer", "resume"]
"""`resume`: the signal has been received, and is kept until the paused execution is resumed."""
TriggerKind = Literal["api", "schedule", "hook", "child", "fork"]

MAX_LISTED = 3  # how many waits of an execution a list has
MAX_MESSAGE = 200  # characters of the message of an error
PROGRESS_SECONDS = 1.0  # minimum time between two writes of an execution whose progress alone has changed


class Pending(NamedTuple):
    """A wait of a run, an item or a token."""

    kind: WaitKind
    step: str
    run: str  # empty for a token, which has no run yet
    item: int | None
    names: tuple[str, ...]  # of signals; the id of a child; the pool of a worker
    due: float | None
    since: float
    message: str

    @property
    def place(self) -> str:
        """The run or the item that waits; the step of a token."""
        return (self.run or self.step) if self.item is None else f"{self.run}[{self.item}]"


class CountedWaits(NamedTuple):
    """The waits of an execution: how many, of which kinds, and the first of them, signals before others."""

    number: int
    kinds: frozenset[str]
    first: list[Pending]


NO_WAITS = CountedWaits(0, frozenset(), [])


class Wait(msgspec.Struct, frozen=True, rename={"kind": "for"}):
    """The wait of a step run or one of its items; a token has the name of its step as `run`. `fields` are the parts
    of the payload of a signal that the playbook reads."""

    run: str
    item: int | None
    kind: WaitKind
    name: str
    due: str | None
    since: str
    message: str
    fields: list[SignalField]


class LoopProgress(msgspec.Struct, frozen=True):
    """The items of the active loop; of an execution that has ended, those of all its loops."""

    total: int
    ok: int
    failed: int


class ErrorLine(msgspec.Struct, frozen=True):
    """Why an execution failed, in short."""

    kind: str
    step: str | None
    message: str


class Trigger(msgspec.Struct, frozen=True):
    """How an execution was started: `name` is the user or token, the schedule, the hook, the parent or the source."""

    kind: TriggerKind
    name: str


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The column `details` of an execution."""

    progress: LoopProgress | None = None
    failed_items: int = 0
    waits: list[Wait] = []
    error: ErrorLine | None = None
    trigger: Trigger | None = None
    events: int = 0  # number of its events when this was written
    at: float = 0.0  # when that was


class Activity(NamedTuple):
    """The columns of an execution that describe its activity."""

    sentence: str
    waits: str  # the kinds of its waits, each between spaces
    details: Details

    @property
    def urgent(self) -> tuple[Any, ...]:
        """The part that is stored at once when it changes; the rest is progress."""
        return self.waits, self.details.waits, self.details.error


def activity_of(state: Execution) -> Activity:
    waits = NO_WAITS if state.over else counted_waits(state)
    progress, failed_items, error = progress_of(state), failed_items_of(state), error_line(state)
    listed = list(islice(waits_of(state, waits.first), MAX_LISTED))
    details = Details(progress, failed_items, listed, error, trigger_of(state))
    return Activity(_sentence(state, waits, progress, failed_items, error), kinds_text(waits.kinds), details)


def kinds_text(kinds: Collection[str]) -> str:
    return f" {' '.join(sorted(kinds))} " if kinds else ""


# -- the sentence ---------------------------------------------------------------------------------------------------


def _sentence(
    state: Execution,
    waits: CountedWaits,
    progress: LoopProgress | None,
    failed_items: int,
    error: ErrorLine | None,
) -> str:
    if state.status in ("cancelling", "cancelled"):
        by = f" by {state.cancelled_by}" if state.cancelled_by else ""
        reason = f": {one_line(state.cancel_reason)}" if state.cancel_reason else ""
        return f"cancelled{by}{reason}"
    if error is not None:
        return ": ".join(part for part in (error.step, f"{error.kind}, {error.message}") if part)
    if state.over:
        return f"{failed_items:,} of {progress.total:,} items failed" if failed_items and progress else ""
    if state.status == "paused":
        return _paused_sentence(waits)
    if state.shown_status == "waiting" and waits.number:
        return waiting_sentence(waits)
    loop = _active_loop(state)
    if loop is not None and progress is not None:
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        return f"{loop.step}: {progress.ok + progress.failed:,} of {progress.total:,}{failed}"
    return _running_sentence(state, waits)


def waiting_sentence(waits: CountedWaits) -> str:
    """`waiting for signal verdict since 2026-03-01T12:00:00Z, and for 2 more`."""
    first = waits.first[0]
    more = f", and for {waits.number - 1:,} more" if waits.number > 1 else ""
    return f"waiting for {_awaited(first)} since {rfc3339(first.since, 'seconds')}{more}"


def _paused_sentence(waits: CountedWaits) -> str:
    names = [wait.names[0] for wait in waits.first if wait.kind == "resume"]
    return received_text(one_line(names[0])) if names else "paused"


def _awaited(wait: Pending) -> str:
    match wait.kind:
        case "signal":
            return f"signal {one_line(' or '.join(wait.names))}"
        case "child":
            return f"child {wait.names[0]} of {wait.place}"
        case "retry":
            return f"the next attempt of {wait.place}"
        case "event":
            return f"an event, for {wait.place}"
        case "join":
            return f"the other branches that {wait.step} joins"
        case "admission":
            return f"the admission of {wait.step}"
        case "worker":
            return f"a worker of pool {wait.names[0]}"
    return f"the delay before {wait.step}"


def _running_sentence(state: Execution, waits: CountedWaits) -> str:
    steps = list(dict.fromkeys(run.step for run in state.runs.values() if run.started is not None and not run.parked))
    if steps:
        more = f" and {len(steps) - 1:,} more" if len(steps) > 1 else ""
        return f"{steps[0]}{more}"
    return waiting_sentence(waits) if waits.number else ""


def one_line(text: str) -> str:
    return cut(" ".join(text.split()), MAX_MESSAGE)


# -- progress, error and trigger ------------------------------------------------------------------------------------


def _active_loop(state: Execution) -> Run | None:
    """The loop that was entered last."""
    return next((run for run in reversed(state.runs.values()) if run.loop is not None), None)


def progress_of(state: Execution) -> LoopProgress | None:
    run = _active_loop(state)
    if run is not None and run.loop is not None:
        return LoopProgress(run.loop.total, run.loop.ok, run.loop.failed)
    loops = [step.items for step in state.steps.values() if step.items] if state.over else []
    if not loops:
        return None
    total, ok, failed = (sum(counts) for counts in zip(*loops, strict=True))
    return LoopProgress(total, ok, failed)


def failed_items_of(state: Execution) -> int:
    """Failed items of the active loops, and of the last run of every other one."""
    active = {run.step: run.loop.failed for run in state.runs.values() if run.loop is not None}
    ended = (step.items[2] for name, step in state.steps.items() if step.items and name not in active)
    return sum(active.values()) + sum(ended)


def error_line(state: Execution) -> ErrorLine | None:
    error = state.error or state.failure
    if error is None or state.status == "cancelled":
        return None
    return ErrorLine(str(error.get("kind")), error.get("step") or None, one_line(str(error.get("message") or "")))


def trigger_of(state: Execution) -> Trigger:
    if state.forked is not None:
        return Trigger("fork", state.forked[0])
    if state.parent is not None:
        return Trigger("child", state.parent[0])
    actor = state.actor
    if actor is not None and actor.kind in ("schedule", "hook"):
        return Trigger("schedule" if actor.kind == "schedule" else "hook", actor.name)
    return Trigger("api", actor.name if actor is not None else "")


# -- waits ----------------------------------------------------------------------------------------------------------


def counted_waits(state: Execution, limit: int = MAX_LISTED) -> CountedWaits:
    """The first waits of runs, items and tokens, and their number; signals first, because somebody has to answer them.
    The rest are only counted: this runs after every commit, and thousands of items may wait."""
    number, kinds = 0, set[str]()
    waits: list[Pending] = []
    received = received_signals(state)
    for run in state.runs.values():
        own = first_waits(state, run, limit, received)
        number += len(run.parked) or len(own)
        kinds.update(run.parked_items.kinds if run.parked else (wait.kind for wait in own))
        waits += own
    if received:
        kinds.add("resume")
        if len(received) == sum(run.parked_items.count("signal") for run in state.runs.values() if run.parked):
            kinds.remove("signal")
    tokens = list(_token_waits(state))
    kinds.update(wait.kind for wait in tokens)
    return CountedWaits(number + len(tokens), frozenset(kinds), sorted([*waits, *tokens], key=_rank)[:limit])


def first_waits(state: Execution, run: Run, limit: int, received: ReceivedSignals) -> list[Pending]:
    """The waits of a run and its items that began first; before others those for signals that are not received."""
    if not run.parked:
        event = _event_wait(state, run)
        return [] if event is None else [event]
    parked = run.parked_items
    signals = parked.first({"signal"}, limit + len(received))
    signals.sort(key=lambda index: (run.id, index) in received)
    items = [*signals, *parked.first(parked.kinds - {"signal"}, limit)]
    return [_parked_wait(run, index, received.get((run.id, index))) for index in items[:limit]]


def _rank(wait: Pending) -> int:
    return {"signal": 0, "resume": 1}.get(wait.kind, 2)


def _parked_wait(run: Run, index: int, signal: str | None) -> Pending:
    parked, item = run.parked[index], None if index == WHOLE_RUN else index
    subject = run.id if item is None else f"{run.id}[{item}]"
    if signal is not None:
        text = f"{subject} waits: {received_text(signal)}"
        return Pending("resume", run.step, run.id, item, (signal,), None, parked.since, text)
    text = f"{subject} waits for {awaited_text(parked)}"
    return Pending(parked.until, run.step, run.id, item, parked.names, parked.due, parked.since, text)  # type: ignore[arg-type]


def _event_wait(state: Execution, run: Run) -> Pending | None:
    """The wait of a classic step that listens, if it does."""
    rules = state.net.steps[run.step].after_call if run.after_call is not None else None
    if rules is None or run.fence is not None or run.parked or not rules.awaits_event(run):
        return None
    return Pending("event", run.step, run.id, None, (), None, run.since, f"{run.id} waits for an event")


def _token_waits(state: Execution) -> Iterator[Pending]:
    if not (state.delayed or state.held or state.waiting):
        return
    for token in state.tokens.values():
        step = token.step
        if token.id in state.delayed:
            about, text = ("timer", token.due), f"{step} waits for the delay of its arc"
        elif token.id in state.held:
            about = ("admission", None)
            text = f"{step} waits for its gate, which is evaluated again when ctx changes or a signal arrives"
        elif token.id in state.waiting.get(step, ()):
            about, text = ("join", None), f"{step} waits for other tokens that may still arrive"
        else:
            continue
        kind, due = about
        yield Pending(kind, step, "", None, (), due, token.since, text)  # type: ignore[arg-type]


def ready_waits(ready: Mapping[str, tuple[str, float]], missing: Collection[str]) -> Iterator[Pending]:
    """The waits of ready runs whose pool has no connected worker. `ready` has the pool of each run and the time at
    which it became ready."""
    for run, (pool, since) in ready.items():
        if pool in missing:
            text = f"no worker is connected in pool {pool!r}"
            yield Pending("worker", run.rpartition("#")[0], run, None, (pool,), None, since, text)


def unattended_waits(state: Execution, missing: Collection[str]) -> list[Pending]:
    """The waits of the ready runs of a state whose pool has no connected worker."""
    return list(ready_waits({run: (pool, state.runs[run].since) for run, pool in state.ready.items()}, missing))


def unattended_sentence(wait: Pending) -> str:
    """`no worker is connected in pool 'gpu', waiting since 2026-03-01T12:00:00Z`."""
    return f"{wait.message}, waiting since {rfc3339(wait.since, 'seconds')}"


def waits_of(state: Execution, pending: Iterable[Pending]) -> Iterator[Wait]:
    """The waits as clients see them: one for each signal that ends a wait."""
    for wait in pending:
        fields = _fields(state, wait) if wait.kind == "signal" else []
        yield from wait_views(wait, fields)


def wait_views(wait: Pending, fields: list[SignalField]) -> Iterator[Wait]:
    due, since = optional_rfc3339(wait.due), rfc3339(wait.since)
    for name in wait.names or ("",):
        yield Wait(wait.run or wait.step, wait.item, wait.kind, name, due, since, wait.message, fields)


def _fields(state: Execution, wait: Pending) -> list[SignalField]:
    run = state.runs[wait.run]
    parked = run.parked[WHOLE_RUN if wait.item is None else wait.item]
    progress: Any = run.pipelines(wait.item).get(parked.chain)
    parts = parts_of(state.net).get((wait.step, progress.at if progress is not None else ""), [])
    return [part.field for part in parts]
