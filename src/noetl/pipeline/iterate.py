"""Iterator tasks: the inner pipeline runs for each item, sequentially or in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from noetl.engine.loops import not_a_list
from noetl.engine.patch import SET
from noetl.errors import TemplateError
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome, failed
from noetl.pipeline.host import Done, Failed, ParkedCall, Waiting
from noetl.pipeline.plan import TaskPlan
from noetl.pipeline.templates import template_outcome

if TYPE_CHECKING:
    from noetl.pipeline.run import Pipeline

PLACE_DETAILS = ("source", "traceback", "hint", "input", "template", "rule", "inner_task")
"""Details of an item's error that locate it; the task fails with them."""


async def iterate(pipeline: Pipeline, plan: TaskPlan, task: TaskId) -> Outcome:
    """The results of all items; the first failure is the task's error. Parked if the execution was paused meanwhile."""
    templates, collection = pipeline.templates, plan.items
    assert collection is not None
    try:
        limit = plan.timeout if plan.time_limit is None else await templates.evaluate(plan.time_limit, pipeline.scope)
        items = await templates.opened(await templates.evaluate(collection, pipeline.scope))
    except TemplateError as error:
        return template_outcome(error, plan.task)
    if not isinstance(items, list | tuple):
        return failed("loop_input", f"`in` {not_a_list(items)}", input="in")
    parallel = plan.task.spec.get("mode") == "parallel"
    inner = [pipeline.item(plan, task, i, item, parallel) for i, item in enumerate(items)]
    _share_writes(pipeline, inner, parallel)
    try:
        async with asyncio.timeout(limit):
            outcome = await _run_items(inner, plan.task.spec.get("max_in_flight", 10) if parallel else 1)
    except TimeoutError:
        outcome = failed("timeout", f"the items took longer than {limit:g} s", retryable=True)
    if parallel:  # each item had its own view of ctx; from here on their writes are visible
        writes = [write for item in inner for write in item.writes.to_ctx]
        await pipeline.writes.apply(pipeline.scope["ctx"], writes)
        pipeline.writes.to_ctx += writes
    return outcome


def _share_writes(pipeline: Pipeline, items: list[Pipeline], parallel: bool) -> None:
    """Parallel items share the writers of keys; sequential items share the writes of the enclosing pipeline."""
    writers = {
        key: (item.prefix, value)
        for item in items
        for key, operator, value in item.progress.writes
        if parallel and operator == SET
    }
    for item in items:
        if parallel:
            item.writes.writers = writers
        else:
            item.writes.to_ctx = pipeline.writes.to_ctx


async def _run_items(items: list[Pipeline], in_flight: int) -> Outcome:
    gate = asyncio.Semaphore(in_flight)
    results: list[Any] = [None] * len(items)
    failures: dict[int, Failed] = {}
    stopped = False

    async def run(i: int, item: Pipeline) -> None:
        nonlocal stopped
        async with gate:
            stopped = stopped or item.host.paused()
            if failures or stopped:
                return
            match await item.run():
                case Done(result=result):
                    results[i] = result
                case Failed() as end:
                    failures[i] = end
                case Waiting():
                    stopped = True

    if in_flight > 1:
        await _all(run(i, item) for i, item in enumerate(items))
    else:
        for i, item in enumerate(items):
            await run(i, item)
    if failures:
        i = min(failures)
        error, label = failures[i].error, failures[i].task
        place = {name: value for name, value in error.details.items() if name in PLACE_DETAILS}
        place["inner_task"] = f"{label}/{place['inner_task']}" if "inner_task" in place else label
        return Outcome("error", error=Error(error.kind, f"item {i}: {error.message}", error.retryable, place))
    if stopped:
        raise ParkedCall(Waiting("resume"))
    return Outcome(result=results)


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all concurrently; if one raises, cancel the others."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
