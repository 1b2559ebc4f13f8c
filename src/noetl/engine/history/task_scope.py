"""The scope in which the rules of a task were evaluated, rebuilt from the state just before its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.net import Net
from noetl.engine.patch import BadPatch, apply_patch
from noetl.engine.state import Execution, Progress, Run
from noetl.engine.tasks import call_meta, item_of, seen_tasks, split_path
from noetl.errors import TemplateError
from noetl.expression import CONTENTS_KEY, NOW_KEY, Contents, Missing, View, lookup, render
from noetl.model.identity import TaskId, step_of
from noetl.model.playbook import Task
from noetl.reference import KeychainView, Reference
from noetl.scope import Scope, StepsView


class StoredItem(View):
    """An item of a stored list, which is loaded when it is read."""

    __slots__ = ("index", "items")

    def __init__(self, items: Reference, index: int) -> None:
        self.items, self.index = items, index

    def lookup(self, name: str | int, contents: Contents) -> Any:
        value = lookup(self.value(contents), name, Missing(""), contents)
        if isinstance(value, Missing):
            raise KeyError(name)
        return value

    def value(self, contents: Contents) -> Any:
        return self.items.content(contents)[self.index]


def task_at(net: Net, task: TaskId) -> Task | None:
    """The task in the playbook that a visit belongs to; None if the playbook has none there."""
    plan = net.steps.get(step_of(task.run))
    prefix, label, _ = split_path(task.path)
    links = plan.step.links_at(prefix) if plan is not None else ()
    return next((link for link in links if isinstance(link, Task) and link.label == label), None)


def task_scope(past: Decision, event: e.TaskDone) -> Scope:
    state, at = past.state, past.now
    run, task = state.runs[event.task.run], event.task
    prefix, label, _ = split_path(task.path)
    loop = state.net.steps[run.step].step.loop
    names: dict[str, Any] = {"index": 0}
    if task.index is not None and run.loop is not None and loop is not None:
        items, index = run.loop.items, task.index
        item = StoredItem(items, index) if isinstance(items, Reference) else items[index]
        names = {loop.iterator: item, "index": index}
    scope = Scope(
        workload=state.workload,
        ctx=_ctx(state, run, task),
        args=run.args,
        args_by=run.args_by,
        iter=names,
        steps=StepsView(state.steps),
        tasks={},
        keychain=KeychainView(),
        execution_id=state.id,
    )
    scope[NOW_KEY] = at
    scope[CONTENTS_KEY] = past.contents
    _add_progress(scope, run.pipelines(task.index).get(""))
    parts = prefix.split("/")[:-1]
    if task.chain:
        _enter_chain(state, scope, run, task.chain)
    for depth in range(bool(task.chain), len(parts)):
        _enter(state, scope, run, task, parts[: depth + 1])
    progress = run.pipelines(task.index).get(prefix) or Progress()
    scope["_prev"], scope["_attempt"], scope["_task"] = progress.prev, event.attempt, label
    declared = task_at(state.net, task)
    if declared is not None and declared.args:
        scope["args"] = {**run.args, **_rendered(declared.args, scope)}
    scope["outcome"] = event.outcome.as_data(call_meta(state.id, event.attempt, event.duration_ms, at))
    return scope


def _ctx(state: Execution, run: Run, task: TaskId) -> dict[str, Any]:
    """`ctx` as the run sees it; a parallel item also sees its own writes."""
    ctx = dict(run.ctx)
    item = item_of(state, run, task)
    if item is None:
        return ctx
    parts = item.split("/")[:-1]
    for depth in range(len(parts) + 1):
        prefix = "".join(f"{part}/" for part in parts[:depth])
        progress = run.pipelines(task.index).get(prefix)
        with suppress(BadPatch):  # a reducer that read a stored value: the value before it stays
            apply_patch(ctx, progress.writes if progress is not None else ())
    return ctx


def _add_progress(scope: Scope, progress: Progress | None) -> None:
    if progress is not None:
        scope["iter"] = {**scope["iter"], **progress.iter}
        scope["tasks"] = {**scope["tasks"], **seen_tasks(scope["execution_id"], progress.tasks)}


def _enter_chain(state: Execution, scope: Scope, run: Run, chain: str) -> None:
    """Enter a chain of a classic step, which sees how the step's call ended."""
    from noetl.classic.branches import call_event, last_outcome  # only for classic steps: a canonical run starts faster
    from noetl.classic.call_names import call_names

    part, after = state.net.steps[run.step].step.after_call, run.after_call
    if part is not None and after is not None:
        scope.update(call_names(last_outcome(run, state.id), part.view, run.loop is not None))
        observed = after.batches[0].event if after.batches else None
        scope["event"] = observed or call_event(run, after.point or "call.done")
    _add_progress(scope, run.progress.get(f"{chain}/"))


def _enter(state: Execution, scope: Scope, run: Run, task: TaskId, parts: Sequence[str]) -> None:
    """Enter an item of an iterator task, such as `each#1[3]`: its list is rendered once more."""
    name, _, number = parts[-1].rpartition("[")
    index = int(number.rstrip("]"))
    iterator = task_at(state.net, TaskId(task.run, "/".join([*parts[:-1], name]), task.index))
    parent, scope["iter"] = scope["iter"], {"index": index, "parent": scope["iter"]}
    if iterator is not None:
        items = _rendered({"in": iterator.inputs["in"]}, Scope(scope, iter=parent)).get("in")
        if isinstance(items, list) and index < len(items):
            scope["iter"][iterator.inputs["iterator"]] = items[index]
    _add_progress(scope, run.pipelines(task.index).get("/".join(parts) + "/"))


def _rendered(values: dict[str, Any], scope: Scope) -> dict[str, Any]:
    """The rendered values; none if that fails, as it did for the task."""
    try:
        return dict(render(values, scope))
    except TemplateError:
        return {}
