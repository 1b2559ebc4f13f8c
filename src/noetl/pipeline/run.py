"""The worker's interpreter: runs the tasks of one pipeline under their policies.

Tool calls are its only side effects. It reports every change to its `Host` as a fact (an event of a worker). A pipeline
starts from a `Progress`, so one that was interrupted resumes after the last accepted task.
"""

from __future__ import annotations

from typing import Any

from noetl.engine.patch import BadPatch
from noetl.engine.state import Progress
from noetl.engine.tasks import seen_tasks
from noetl.errors import TemplateError
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.pipeline.host import Done, End, Failed, Host, Waiting
from noetl.pipeline.plan import PipelinePlan, TaskPlan
from noetl.pipeline.templates import Templates, template_error
from noetl.pipeline.visit import Visit
from noetl.pipeline.writes import Writes
from noetl.scope import Scope

DURABLE_WAIT_SECONDS = 5.0  # A longer wait frees the worker and becomes a timer in the store


class Pipeline:
    """The tasks of a step, of a loop item, of an item of an iterator task (prefix `each#1[0]/`) or of a chain."""

    def __init__(
        self,
        plan: PipelinePlan,
        run: str,
        scope: Scope,
        progress: Progress,
        host: Host,
        index: int | None = None,
        prefix: str = "",
        inner: dict[str, Progress] | None = None,
        *,
        parks: bool = True,
    ) -> None:
        self.plan, self.scope, self.progress, self.host = plan, scope, progress, host
        self.run_id, self.index, self.prefix = run, index, prefix
        self.inner = {} if inner is None else inner  # Progress of nested pipelines, by prefix
        self.parks = parks  # Whether a long wait frees the worker
        self.args = scope["args"]
        self.last: dict[str, Any] | None = None  # The outcome of the last call, as templates see it
        self.templates = Templates(host)
        self.writes = Writes(scope, self.templates, prefix, list(progress.writes))

    async def run(self) -> End:
        """Run to the end, to a failure, or to a wait."""
        progress, plans = self.progress, self.plan.tasks
        label: str | None = progress.at or self.plan.first
        if progress.tasks or progress.iter or progress.writes or progress.due is not None:
            try:
                await self._resume()
            except (TemplateError, BadPatch) as error:
                return Failed(template_error(error), label or "", progress.attempt)
        fresh = not progress.started and progress.attempt == 1 and progress.delivered is None
        if progress.failure is not None:
            return Failed(*progress.failure)
        if progress.ended:
            return Done(progress.prev)
        while label is not None:
            if label not in plans:
                end = await self.visit_other(label)
                if end is not None and not isinstance(end, str):
                    return end
                label = end
                continue
            plan = plans[label]
            visit = progress.visits.get(label, 0) + (1 if fresh else 0)
            progress.repeats = 0 if fresh else progress.repeats
            progress.visits[label] = visit
            if visit > plan.max_visits:
                limit = Error("limit", f"task {label!r} was visited more than {plan.max_visits:,} times")
                return Failed(limit, label, 1)
            end = await Visit(self, plan, TaskId(self.run_id, f"{self.prefix}{label}#{visit}", self.index)).run()
            if end is not None and not isinstance(end, str):
                return end
            label, fresh = end, True
            if label is not None:
                await self.host.durable()
                if self.host.paused():
                    return Waiting("resume")
        return Done(progress.prev)

    async def _resume(self) -> None:
        """Restore the scope from the accepted outcomes, and wait for the rest of a retry delay."""
        progress = self.progress
        self.scope["iter"].update(progress.iter)
        self.scope["tasks"].update(seen_tasks(self.scope["execution_id"], progress.tasks))
        if progress.writes:
            await self.writes.apply(self.scope["ctx"], progress.writes)
        remaining = progress.due - self.host.now() if progress.due is not None else 0.0
        if remaining > 0 and not self.host.paused():
            await self.host.sleep(remaining)

    def can_park(self, wait: float) -> bool:
        """Whether a wait of that many seconds frees the worker."""
        return self.parks and wait > DURABLE_WAIT_SECONDS

    async def goto(self, label: str, wait: float) -> str | End:
        """Continue at a label after a wait; a long one frees the worker."""
        if self.can_park(wait):
            return Waiting("retry", "", self.host.now() + wait)
        if wait > 0:
            await self.host.durable()
            await self.host.sleep(wait)
        return label

    # -- items of iterator tasks ------------------------------------------------------------------------------------

    def item(self, plan: TaskPlan, task: TaskId, i: int, item: Any, parallel: bool) -> Pipeline:
        """The pipeline of an item. Parallel items see the current ctx and their own writes."""
        assert plan.body is not None
        prefix = f"{task.path}[{i}]/"
        scope = Scope(self.scope)
        scope["iter"] = {plan.task.inputs["iterator"]: item, "index": i, "parent": self.scope["iter"]}
        scope["tasks"] = dict(self.scope["tasks"])
        if parallel:
            scope["ctx"] = dict(self.scope["ctx"])
        progress = self.inner.setdefault(prefix, Progress())
        return Pipeline(plan.body, self.run_id, scope, progress, self.host, self.index, prefix, self.inner, parks=False)

    def restart_items(self, task: TaskId) -> None:
        """Restart the items of an iterator task that is retried, with new visits of their tasks."""
        for key in [key for key in self.inner if key.startswith(f"{task.path}[")]:
            self.inner[key] = Progress(visits=self.inner[key].visits)

    # -- chains -----------------------------------------------------------------------------------------------------

    async def visit_other(self, label: str) -> str | End | None:
        """Visit a link that is not a task; only chains have such links."""
        raise KeyError(label)

    def restart_wait(self, task: TaskId, outcome: Outcome, scope: Scope) -> float | None:
        """Seconds until a failed chain is retried; None if it is not."""
        return None
