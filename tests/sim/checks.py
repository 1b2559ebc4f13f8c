"""What must hold after every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.sim.database import Database
from tests.sim.forks import ClientFork, fork_problems, has_inherited_failure, inherited_flaws, reopened_items
from tests.sim.playbooks import Call, Playbooks, Program, Script
from tests.verifying import verify

from noetl.engine import events as e
from noetl.engine.history.verify.log import Frozen
from noetl.engine.leases import MAX_LOSSES
from noetl.engine.net import Net
from noetl.model.identity import TaskId, action_id, step_of
from noetl.runtime.outlines import Outlines
from noetl.store import codec
from noetl.store.store import Summary


def problems_of(
    database: Database,
    playbooks: Playbooks,
    script: Script,
    cancelled: bool,
    mains: list[str],
    forks: Mapping[str, ClientFork],
) -> list[str]:
    problems: list[str] = []
    for execution in mains:
        if execution not in database.runs:
            problems.append(f"{execution} was never started")
    for summary in database.runs.values():
        events = [codec.decode(row.type, row.data) for row in database.read(summary.execution_id)]
        problems += violations(database, playbooks, summary)
        problems += outline_problems(database, summary)
        problems += result_problems(summary, events, playbooks, script, cancelled)
        problems += ledger_problems(database, summary.execution_id, events, script.ledger)
    problems += fork_problems(database, forks, script.ledger)
    return problems


def violations(database: Database, playbooks: Playbooks, summary: Summary) -> Iterator[str]:
    execution = summary.execution_id
    net = playbooks.loaded(playbooks.program(summary.digest).text)
    violations_in_log = verify(
        execution,
        database.read(execution),
        net,
        lambda store, key: database.blob(key),
        summary.status,
        snapshots=frozen(database, execution, net),
        derived=database.derived(execution),
        stored_block=lambda number: database.outlines.get(execution, {}).get(number),
    )
    for violation in violations_in_log:
        yield f"{execution[-4:]}.{violation.seq}: {violation.invariant}: {violation.message}"


def frozen(database: Database, execution: str, net: Net) -> Iterator[Frozen]:
    for seq, stored in sorted(database.snapshots.get(execution, {}).items()):
        snapshot = codec.readable_snapshot(stored)
        yield Frozen(seq, stored.hash, None if snapshot is None else codec.thaw(snapshot.data, net, execution))


def outline_problems(database: Database, summary: Summary) -> Iterator[str]:
    """The outline, whose missing blocks are made when it is read, has the whole log."""
    fold = Outlines().fold(database, summary.execution_id)  # type: ignore[arg-type]
    seq, open_runs = database.seq(summary.execution_id), [run.name for run in fold.runs.values() if not run.ended_seq]
    if (fold.seq, fold.status) != (seq, summary.status) or open_runs:
        outline = f"{fold.seq} events, the status {fold.status} and the open step runs {open_runs}"
        yield f"{summary.execution_id[-4:]}: its outline has {outline}, and not {seq} events and {summary.status}"


def result_problems(
    summary: Summary, events: list[e.Event], playbooks: Playbooks, script: Script, cancelled: bool
) -> Iterator[str]:
    """The run has ended as its playbook and the script say."""
    program, name = playbooks.program(summary.digest), summary.execution_id[-4:]
    end = events[-1]
    if not isinstance(end, e.PlaybookProcessed):
        yield f"{name} has not ended: its last event is {end.name}"
        return
    lost = Counter(event.run for event in events if isinstance(event, e.StepPaused) and event.reason == "lost")
    if (
        end.outcome == "failed"
        and (end.error or {}).get("kind") == "poison"
        and max(lost.values(), default=0) >= MAX_LOSSES
    ):
        return
    is_fork = summary.source is not None
    if end.outcome == "cancelled" and ((cancelled and not is_fork) or summary.parent is not None):
        return
    if is_fork:  # its tools work, but it may have a failure of its source
        is_broken = has_inherited_failure(events) and end.outcome == "failed"
    else:
        is_broken = program.path == "main" and (bool(script.broken) or program.fails)
    if is_broken and end.outcome == "failed":
        return
    if end.outcome == "failed" and "poison" in str(end.error):
        return  # of a child
    expected = _expected_result(program, events, is_fork)
    if is_broken or end.outcome != "succeeded":
        yield f"{name} ({program.path}) has {end.outcome}: {end.error}"
    elif end.result != expected:
        yield f"{name} ({program.path}) has the result {end.result}, and not {expected}"


def _expected_result(program: Program, events: list[e.Event], is_fork: bool) -> dict[str, Any]:
    """The counts of the playbook, less the failed items; in a fork only those of its source, as all others succeed."""
    steps = {step_of(run) for run in inherited_flaws(events)}
    flaws = [count for count in program.flaws if not is_fork or count.removesuffix("_t") in steps]
    return program.result | {count: program.result[count] - 1 for count in flaws}


def ledger_problems(database: Database, execution: str, events: list[e.Event], ledger: list[Call]) -> Iterator[str]:
    """No tool is called for an attempt whose outcome was accepted; failed items of a reopened loop start over."""
    accepted: dict[tuple[str, int], float] = {}
    times, reopened = database.committed_at[execution], reopened_items(events)
    for event, at in zip(events, times, strict=True):
        task: Any = getattr(event, "task", None)
        if isinstance(event, e.ExecutionForked):
            reopened = set()
        elif isinstance(task, TaskId) and (task.run, task.index) in reopened:
            continue
        elif isinstance(event, e.TaskDone):
            accepted.setdefault((action_id(execution, task), event.attempt), at)
        elif isinstance(event, e.TaskRetryScheduled):
            accepted.setdefault((action_id(execution, task), event.attempt - 1), at)
    for call in ledger:
        if call.execution == execution:
            at = accepted.get((call.action, call.attempt))
            if at is not None and call.at > at:
                text = f"{call.worker} calls attempt {call.attempt} of action {call.action[:8]} at {call.at:.3f}"
                yield f"{text}, which was accepted at {at:.3f}"
