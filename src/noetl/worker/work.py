"""The work of a lease, with all data that the worker needs to run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from noetl.classic.state import AfterCallProgress
from noetl.engine.events import Interval, StepRegranted, StepStarted
from noetl.engine.loops import is_parallel
from noetl.engine.net import Net, all_tasks
from noetl.engine.state import Execution, Progress, Run, StepResult
from noetl.keychain.keychain import NEARBY
from noetl.model.playbook import Step
from noetl.reference import KEYCHAIN


class Work(msgspec.Struct):
    """A run, or some items of a loop, under one lease."""

    execution: str
    digest: str
    run: str
    step: str
    fence: int
    args: dict[str, Any]
    args_by: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    parallel: bool
    """Whether each item sees only this `ctx` and its own writes."""
    steps: dict[str, StepResult]
    progress: dict[str, Progress] = {}
    """Pipelines of the run, by prefix."""
    item_progress: dict[int, dict[str, Progress]] = {}
    """Pipelines of the items that were started before, by index and prefix."""
    first: int = 0
    iterator: str = ""
    items: list[Any] | None = None
    """The items of the lane, the first of which has the index `first`; None without a loop."""
    kept: bool = False
    """Whether this worker keeps the items (`exec: local`), however long they take."""
    pool: str = "default"
    durability: str = "task"
    inline_bytes: int = 65_536
    result_store: dict[str, Any] = {}
    after_call: AfterCallProgress | None = msgspec.field(default=None, name="tail")
    """Progress of a classic step after its call."""
    handles: list[str] = []
    """Keys of the handles that the execution has resolved, on any worker: their values are redacted here too."""
    entries: list[str] = []
    """Keychain entries of external providers that other workers may have resolved."""


def work_of(state: Execution, event: StepStarted | StepRegranted, items: list[Any] | None) -> Work:
    """The work of a grant. `items` are all items of the loop."""
    run = state.runs[event.run]
    loop = state.net.steps[run.step].step.loop
    lane = None if items is None or event.items is None else items[event.items[0] : event.items[1]]
    return Work(
        execution=state.id,
        digest=state.digest,
        run=run.id,
        step=run.step,
        fence=event.fence,
        args=run.args,
        args_by=run.args_by,
        workload=state.workload,
        ctx=dict(run.ctx),
        parallel=is_parallel(state, run),
        steps=_steps_read(state, run.step),
        progress=_copied(run.progress) if event.items is None else {},
        item_progress=_copied_items(run, event.items) if event.items is not None else {},
        first=event.items[0] if event.items else 0,
        iterator=loop.iterator if loop else "",
        items=lane,
        kept=state.net.steps[run.step].local,
        pool=state.net.steps[run.step].pool or state.net.playbook.executor.pool,
        durability=state.net.playbook.executor.durability,
        inline_bytes=state.net.playbook.executor.inline_bytes,
        result_store=state.net.playbook.executor.result_store,
        after_call=_copied_after_call(run.after_call),
        handles=list(state.handles),
        entries=_entries_used(state),
    )


_USED: WeakKeyDictionary[Net, dict[str, frozenset[str]]] = WeakKeyDictionary()


def _entries_used(state: Execution) -> list[str]:
    """Keychain entries of external providers in the steps that were entered; nearby entries are learned anyway."""
    net = state.net
    far = {entry.name for entry in net.playbook.keychain if entry.provider not in NEARBY}
    if not far:
        return []
    if net not in _USED:
        _USED[net] = {name: frozenset(_named(plan.step, far)) for name, plan in net.steps.items()}
    return sorted({name for step in state.entries for name in _USED[net].get(step, ())})


def _named(step: Step, names: set[str]) -> Iterator[str]:
    """The entries that the tasks of a step may open: by name in an input, by their kind, or in a template."""
    for task in all_tasks(step):
        yield from names & {task.kind}
        todo: list[Any] = [task.inputs, task.args]
        while todo:
            value = todo.pop()
            if isinstance(value, dict):
                todo += value.values()
            elif isinstance(value, list | tuple):
                todo += value
            elif isinstance(value, str):
                yield from names if "{{" in value and KEYCHAIN in value else names & {value}


def _copied_after_call(after: AfterCallProgress | None) -> AfterCallProgress | None:
    """It belongs to the fold; a worker changes its own copy."""
    if after is None:
        return None
    return replace(
        after,
        fired=list(after.fired),
        batches=list(after.batches),
        requests=list(after.requests),
        suppressed=list(after.suppressed),
    )


def _steps_read(state: Execution, step: str) -> dict[str, StepResult]:
    """The results that the step's tasks read, and no others."""
    reads = state.net.steps[step].reads
    if reads is None:
        return dict(state.steps)
    return {name: state.steps[name] for name in reads if name in state.steps}


def _copied_items(run: Run, items: Interval) -> dict[int, dict[str, Progress]]:
    return {index: _copied(run.item_progress[index]) for index in run.item_progress if items[0] <= index < items[1]}


def _copied(pipelines: dict[str, Progress]) -> dict[str, Progress]:
    """Progress belongs to the fold; a worker changes its own copy."""
    return {
        prefix: replace(
            progress,
            visits=dict(progress.visits),
            iter=dict(progress.iter),
            tasks=dict(progress.tasks),
            writes=list(progress.writes),
            polls=dict(progress.polls),
        )
        for prefix, progress in pipelines.items()
    }
