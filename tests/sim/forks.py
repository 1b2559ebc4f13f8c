"""Forks and retries of runs, and what must hold for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from tests.sim.database import Database
from tests.sim.playbooks import Call

from noetl.engine import events as e
from noetl.model.identity import action_id, step_of
from noetl.runtime.history import ForkView
from noetl.store import codec
from noetl.store.store import Row

FORK_SHARE, RETRY_SHARE = 0.04, 0.2
"""The part of the runs that are forked, and that of those with a failure which are retried."""


class ForkAction(NamedTuple):
    """A request of the client; `kind` is one of FORK_KINDS."""

    kind: str
    verb: str
    body: dict[str, Any]


FORK_KINDS = {
    "fork of a running run": "a run is forked after its last event",
    "fork at an event": "a run that has ended is forked after any event",
    "retry": "a run that has failed or was cancelled is retried",
    "retry from a step": "a run that has ended is retried from any of its steps",
    "retry of failed items": "the failed items of a loop are run again",
}


class ClientFork(NamedTuple):
    """A fork that the client has made."""

    action: ForkAction
    view: ForkView
    source: list[Row]
    """The log of its source, if that had ended."""


def fork_action(random: Random, rows: list[Row]) -> ForkAction:
    """A random fork or retry of a run that has ended."""
    events = [codec.decode(row.type, row.data) for row in rows]
    end, steps = events[-1], sorted({step_of(event.run) for event in events if isinstance(event, e.StepScheduled)})
    actions = [ForkAction("fork at an event", "fork", {"at": random.randint(2, len(events))})]
    if steps:
        actions.append(ForkAction("retry from a step", "retry", {"step": random.choice(steps)}))
    if isinstance(end, e.PlaybookProcessed) and end.outcome != "succeeded":
        actions.append(ForkAction("retry", "retry", {}))
    if any(isinstance(event, e.IterationFailed) for event in events):
        actions += [ForkAction("retry of failed items", "retry", {"failed_items": True})] * 2
    return random.choice(actions)


def has_failed(rows: list[Row]) -> bool:
    return any(row.type in (e.StepFailed.name, e.IterationFailed.name) for row in rows)


def inherited_events(events: list[e.Event]) -> list[e.Event]:
    """The events that a fork has from its source; none if it is no fork."""
    return next((events[:place] for place, event in enumerate(events) if isinstance(event, e.ExecutionForked)), [])


def has_inherited_failure(events: list[e.Event]) -> bool:
    """Whether a fork has a failure of its source and does not retry it."""
    failures = (
        event for event in inherited_events(events) if isinstance(event, e.StepFailed | e.IterationFailed | e.TaskDone)
    )
    has_failed = any(not isinstance(event, e.TaskDone) or event.do == "fail" for event in failures)
    return has_failed and not any(isinstance(event, e.ExecutionForked) and event.again for event in events)


def inherited_flaws(events: list[e.Event]) -> set[str]:
    """The step runs of loops whose failed items a fork does not run again."""
    forked = next((event for event in events if isinstance(event, e.ExecutionForked)), None)
    if forked is None:
        return set()
    inherited = inherited_events(events)
    failed = {event.run for event in inherited if isinstance(event, e.IterationFailed)}
    if not forked.again:  # the fork was cut between the outcome of a task and the end of its item
        failed |= {event.task.run for event in inherited if isinstance(event, e.TaskDone) and event.do == "fail"}
    return failed - {forked.reopened}


def reopened_items(events: list[e.Event]) -> set[tuple[str, int | None]]:
    """The failed items that a fork runs again: run and index."""
    forked = next((event for event in events if isinstance(event, e.ExecutionForked)), None)
    failed = {(event.run, event.index) for event in inherited_events(events) if isinstance(event, e.IterationFailed)}
    return {(run, index) for run, index in failed if forked is not None and run == forked.reopened}


def fork_problems(database: Database, forks: Mapping[str, ClientFork], ledger: list[Call]) -> Iterator[str]:
    for execution, fork in forks.items():
        for problem in _problems(database, execution, fork, ledger):
            yield f"{execution[-4:]}, {fork.action.kind} of {fork.view.source_id[-4:]}: {problem}"


def _problems(database: Database, execution: str, fork: ClientFork, ledger: list[Call]) -> Iterator[str]:
    rows, source, seq = database.read(execution), database.read(fork.view.source_id), fork.view.source_seq
    if fork.source and source != fork.source:
        yield f"its source had ended, and has {len(source)} events instead of {len(fork.source)}"
    if rows[:seq] != source[:seq]:
        yield f"its first {seq} events are not those of its source"
    events = [codec.decode(row.type, row.data) for row in rows]
    before, after = inherited_events(events), events[seq:]
    if len(before) != seq or not isinstance(after[0], e.ExecutionForked):
        yield f"it says that it has {seq} events of its source, but has {len(before)}"
        return
    done = {action_id(execution, event.task) for event in before if _has_succeeded(event)}
    for call in ledger:
        if call.execution == execution and call.action in done:
            yield f"{call.worker} calls action {call.action[:8]} at {call.at:.3f}, whose result it has"
    yield from _item_problems(fork.action.kind, before, after, after[0])


def _has_succeeded(event: e.Event) -> bool:
    return isinstance(event, e.TaskDone) and event.outcome.status == "ok"


def _item_problems(kind: str, before: list[e.Event], after: list[e.Event], forked: e.ExecutionForked) -> Iterator[str]:
    """Of a reopened loop exactly the failed items run again; of others no item that has ended."""
    ended: dict[str, set[int]] = {}
    failed: dict[str, set[int]] = {}
    for event in before:
        if isinstance(event, e.IterationDone):
            ended.setdefault(event.run, set()).add(event.index)
        elif isinstance(event, e.IterationFailed):
            failed.setdefault(event.run, set()).add(event.index)
    started: dict[str, set[int]] = {}
    for event in after:
        if isinstance(event, e.IterationStarted):
            started.setdefault(event.run, set()).add(event.index)
    for run, indexes in started.items():
        if again := sorted(indexes & ended.get(run, set())):
            yield f"items {again} of {run} have ended, and are run again"
    if kind == "retry of failed items" and not forked.reopened:
        yield "no loop was reopened"
    if forked.reopened and started.get(forked.reopened) != failed.get(forked.reopened):
        yield f"of {forked.reopened} items {failed.get(forked.reopened)} failed, and {started.get(forked.reopened)} ran"
