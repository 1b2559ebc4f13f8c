"""The work of a lease, with all data that the worker needs to run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from noetl.classic.state import AfterCallProgress
from noetl.engine.events import StepStarted
from noetl.engine.loops import is_parallel
from noetl.engine.net import Net
from noetl.engine.state import Execution, Progress, StepResult
from noetl.keychain.keychain import NEARBY
from noetl.model.playbook import Step
from noetl.reference import KEYCHAIN

Copied = TypeVar("Copied", Progress, AfterCallProgress)


class Work(msgspec.Struct):
    execution: str
    digest: str
    run: str
    step: str
    fence: int
    args: dict[str, Any]
    args_by: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    parallel: bool  # whether each item sees only this `ctx` and its own writes
    steps: dict[str, StepResult]
    progress: dict[str, Progress] = {}  # pipelines of the run, by prefix
    item_progress: dict[int, dict[str, Progress]] = {}  # pipelines of items that were started, by index and prefix
    first: int = 0
    iterator: str = ""
    items: list[Any] | None = None  # of the lane, the first of which has the index `first`; None without a loop
    local: bool = msgspec.field(default=False, name="kept")  # whether this worker keeps the items (`exec: local`)
    pool: str = "default"
    durability: str = "task"
    inline_bytes: int = 65_536
    result_store: dict[str, Any] = {}
    after_call: AfterCallProgress | None = msgspec.field(default=None, name="tail")  # of a classic step
    handles: list[str] = []  # keys of the handles that any worker has resolved: their values are redacted here too
    entries: list[str] = []  # keychain entries of external providers that other workers may have resolved
    claim: str = ""  # the id of the claim that the lease was granted to


def work_of(state: Execution, event: StepStarted, items: list[Any] | None) -> Work:
    """The work of a grant. `items` are all items of the loop."""
    run, steps = state.runs[event.run], state.steps
    plan, executor = state.net.steps[run.step], state.net.playbook.executor
    first, end = event.items or (0, 0)
    started = started_items(run.item_progress, first, end)
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
        steps=dict(steps) if plan.reads is None else {name: steps[name] for name in plan.reads if name in steps},
        progress=_copied_all(run.progress) if event.items is None else {},
        item_progress={index: _copied_all(pipelines) for index, pipelines in started},
        first=first,
        iterator=plan.step.loop.iterator if plan.step.loop else "",
        items=None if items is None or event.items is None else items[first:end],
        local=plan.local,
        pool=plan.pool or executor.pool,
        durability=executor.durability,
        inline_bytes=executor.inline_bytes,
        result_store=executor.result_store,
        after_call=None if run.after_call is None else _copied(run.after_call),
        handles=list(state.handles),
        entries=_entries_used(state),
        claim=event.claim,
    )


def started_items(
    item_progress: dict[int, dict[str, Progress]], first: int, end: int
) -> list[tuple[int, dict[str, Progress]]]:
    """The started items of a range. Thousands may wait outside of it, so the smaller side is searched."""
    if end - first < len(item_progress):
        return [(index, item_progress[index]) for index in range(first, end) if index in item_progress]
    return [(index, pipelines) for index, pipelines in item_progress.items() if first <= index < end]


def _copied_all(pipelines: dict[str, Progress]) -> dict[str, Progress]:
    return {prefix: _copied(progress) for prefix, progress in pipelines.items()}


def _copied(progress: Copied) -> Copied:
    """It belongs to the fold; a worker changes its own copy."""
    fields = ((name, getattr(progress, name)) for name in progress.__struct_fields__)
    return replace(progress, **{name: value.copy() for name, value in fields if isinstance(value, dict | list)})


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
    for _, task in step.every_task:
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
