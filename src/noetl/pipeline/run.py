"""The worker's interpreter: runs the tasks of one pipeline under their policies.

Pure but for the tool calls. Everything that happens becomes a fact (an event that workers write) handed to a
`Reporter`; nothing else leaves. It carries on from a `Progress`, so a pipeline that was interrupted resumes after the
last accepted task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from noetl.engine.events import (
    Event,
    NextRequested,
    PollFinished,
    PollIteration,
    PollStarted,
    SinkProcessed,
    SinkStarted,
    TaskDone,
    TaskRetryScheduled,
    TaskStarted,
)
from noetl.engine.patch import SET, BadPatch, Patch, Write, apply_patch, wanted
from noetl.engine.state import Poll, Progress
from noetl.engine.tasks import repeats_after
from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import NOW_KEY, Sealed, revealed
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome, failed
from noetl.model.playbook import DEFAULT_ATTEMPTS
from noetl.pipeline.plan import GotoPlan, PipelinePlan, RulePlan, TaskPlan
from noetl.pipeline.retry import base_delay, wait_before
from noetl.reference import KEYCHAIN, Need, Reference, TooLarge, loaded
from noetl.scope import Scope

DURABLE_WAIT_SECONDS = 5.0
"""A longer wait frees the worker and becomes a timer in the store."""
Value = TypeVar("Value")


class Done(NamedTuple):
    """The pipeline came to its end."""

    result: Any


class Failed(NamedTuple):
    """The pipeline failed."""

    error: Error
    task: str
    attempt: int


class Waiting(NamedTuple):
    """The pipeline waits and can be put aside: for a `signal`, a `child`, the next attempt (`retry`), or because
    the execution was paused (`resume`)."""

    until: str
    key: str = ""
    due: float | None = None
    request: dict[str, Any] | None = None
    chain: str = ""


End = Done | Failed | Waiting


class Parked(Exception):
    """Raised by a tool whose outcome will come later, from elsewhere."""

    def __init__(self, wait: Waiting) -> None:
        super().__init__(wait.until)
        self.wait = wait


class Call(NamedTuple):
    """A call of a tool."""

    plan: TaskPlan
    task: TaskId
    attempt: int
    repeats: int
    """How often rules have asked for it again although it was ok."""
    inputs: dict[str, Any]
    bound: dict[str, Any]
    scope: Scope


class Reporter(Protocol):
    """Takes facts on their way to the log."""

    def tell(self, fact: Event) -> None:
        """The fact will be stored with the next batch."""

    async def durable(self) -> None:
        """All facts told so far are stored, as far as the playbook asks for that between tasks."""

    async def stored(self) -> None:
        """All facts told so far are stored, whatever the playbook asks for."""


class Host(Protocol):
    """What a pipeline needs from its worker."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def call(self, call: Call) -> Outcome:
        """Call the tool; every error is an outcome. May raise Parked."""

    async def content(self, reference: Reference) -> Any:
        """The value behind a reference; TemplateFailed if it can't be read."""

    async def secret(self, reference: Reference) -> Any:
        """The secret that a reference stands for; TemplateFailed if there is none."""

    def redact(self, value: Value, /) -> Value:
        """The value with all secrets hidden that were opened so far."""

    def paused(self) -> bool:
        """Whether nothing new is to be begun."""


class Pipeline:
    """One pipeline under way: a step's, an iteration's, that of an item inside an iterator task, or a chain of a
    classic step, whose prefix is its name (`case_0/`)."""

    def __init__(
        self,
        plan: PipelinePlan,
        run: str,
        scope: Scope,
        progress: Progress,
        reporter: Reporter,
        host: Host,
        index: int | None = None,
        prefix: str = "",
        inner: dict[str, Progress] | None = None,
        *,
        parks: bool = True,
        requested: Callable[[NextRequested], None] | None = None,
    ) -> None:
        self.parks, self.requested = parks, requested
        """Whether it can be put aside while it waits, and who is told of a `next`."""
        self.last: dict[str, Any] | None = None
        """The outcome of the last call, as templates see it."""
        self.plan, self.run_id, self.scope, self.progress = plan, run, scope, progress
        self.reporter, self.host, self.index, self.prefix = reporter, host, index, prefix
        self.inner = inner or {}
        self.contents: dict[str, Any] = {}
        self.secrets: dict[str, Any] = {}
        """Secrets that inputs have opened, and that nothing else can look into."""
        self.args = scope["args"]
        self.iter = scope["iter"]
        self.writes = list(progress.writes)
        """What it wrote to ctx; an item of a sequential iterator shares the list of the pipeline around it."""
        self.rivals: dict[str, tuple[str, Any]] | None = None
        """In a parallel iterator: which item wrote which key of ctx, and what."""

    async def run(self) -> End:
        """Run to the end, to a failure, or to a wait."""
        progress = self.progress
        try:
            await self._take_up()
        except (TemplateError, BadPatch) as error:
            return Failed(_error_of(_patch_outcome(error)), progress.at or self.plan.first or "", progress.attempt)
        label: str | None = progress.at or self.plan.first
        fresh = not progress.started and progress.attempt == 1 and progress.delivered is None
        if progress.failure is not None:
            return Failed(*progress.failure)
        if progress.ended:
            return Done(progress.prev)
        while label is not None:
            plan = self.plan.tasks[label]
            if isinstance(plan, GotoPlan):
                step = await self._goto(plan)
                if not isinstance(step, str | None):
                    return step
                label = step
                continue
            visit = progress.visits.get(label, 0) + (1 if fresh else 0)
            progress.repeats = 0 if fresh else progress.repeats
            progress.visits[label] = visit
            if visit > plan.max_visits:
                limit = Error("limit", f"task {label!r} was visited more than {plan.max_visits:,} times")
                return Failed(limit, label, 1)
            step = await self._visit(plan, TaskId(self.run_id, f"{self.prefix}{label}#{visit}", self.index))
            if not isinstance(step, str | None):
                return step
            label, fresh = step, True
            if label is not None:
                await self.reporter.durable()
                if self._stopped():
                    return Waiting("resume")
        return Done(progress.prev)

    async def _take_up(self) -> None:
        """Lay what was accepted before over the fresh scope, and wait out what is left of a pause before a retry."""
        progress = self.progress
        self.iter.update(progress.iter)
        self.scope["tasks"].update(progress.tasks)
        await self._apply(self.scope["ctx"], progress.writes)
        left = progress.due - self.host.now() if progress.due is not None else 0.0
        if left > 0 and not self._stopped():
            await self.host.sleep(left)

    # -- one visit --------------------------------------------------------------------------------------------------

    async def _visit(self, plan: TaskPlan, task: TaskId) -> str | End | None:
        """Run a task until its policy lets go of it. Returns the next label, None at the end, or an end."""
        self.scope["_task"] = plan.label
        self.contents = {}  # what another task has looked into is not kept: it may be large
        attempt = self.progress.attempt
        self.progress.attempt = 1
        first = attempt == 1 and not self.progress.started and self.progress.delivered is None
        while True:
            try:
                await self.evaluated(lambda: self._enter(plan, attempt), inputs=True)  # noqa: B023
                skip = await self.evaluated(lambda: self._skip(plan)) if first and plan.skips else None
            except TemplateError as error:
                return await self._fail(plan, task, attempt, self.host.redact(template_outcome(error)))
            if skip is not None:
                return await self._close(plan, task, attempt, Outcome(), skip, "continue", skipped=True)
            started = self.host.now()
            try:
                outcome = await self._call(plan, task, attempt)
            except Parked as parked:
                if self.parks or parked.wait.until == "resume":
                    return parked.wait
                outcome = failed("input", f"a task of kind {plan.kind.name} can't wait inside an iterator: use a loop")
            took = round((self.host.now() - started) * 1000, 3)
            self.scope["outcome"] = outcome.as_data({"attempt": attempt, "duration_ms": took, "ts": started})
            if not plan.task.sink:
                self.last = self.scope["outcome"]
            try:
                rule = await self.evaluated(lambda: self._rule(plan)) if plan.rules else None
            except TemplateError as error:
                return await self._fail(plan, task, attempt, self.host.redact(template_outcome(error)))
            do = rule.then.do if rule is not None else ("continue" if outcome.ok or plan.rules is not None else "fail")
            if do == "retry" and rule is not None:
                limit = rule.then.attempts or DEFAULT_ATTEMPTS
                if attempt >= limit:
                    return await self._fail(plan, task, attempt, outcome, rule, took, _after(attempt, outcome))
                ended = await self._retry(plan, task, attempt, outcome, rule, took)
                if ended is not None:
                    return ended
                attempt, first = attempt + 1, False
                continue
            if plan.until is not None and do == "continue" and outcome.ok:
                return await self._poll(plan, task, attempt, outcome, rule, took)
            return await self._leave(plan, task, attempt, outcome, rule, do, took)

    def _enter(self, plan: TaskPlan, attempt: int) -> None:
        scope = self.scope
        scope["_attempt"], scope["_prev"] = attempt, self.progress.prev
        scope["args"] = self.args
        scope[NOW_KEY] = self.host.now()
        scope.pop("outcome", None)
        if plan.args is not None:
            scope["args"] = {**self.args, **plan.args(scope)}

    async def _call(self, plan: TaskPlan, task: TaskId, attempt: int) -> Outcome:
        progress = self.progress
        if progress.delivered is not None:
            outcome, progress.delivered = progress.delivered, None
            return outcome
        if progress.started and plan.on_lost == "error" and plan.items is None:
            progress.started = False
            return failed("lost", "the worker was lost after the call had started; it may have had its effect")
        progress.started = False
        if plan.task.poll is not None and plan.label not in progress.polls:
            deadline = plan.task.poll.deadline
            due = None if deadline is None else self.host.now() + deadline
            progress.polls[plan.label] = Poll(progress.visits[plan.label], due)
            self.reporter.tell(PollStarted(task, due))
        self.reporter.tell(SinkStarted(task, attempt) if plan.task.sink else TaskStarted(task, attempt))
        if plan.items is not None:
            return await self._iterate_in_time(plan, task)
        if plan.on_lost == "error":
            await self.reporter.stored()
        try:
            inputs = await self.evaluated(lambda: plan.inputs(self.scope), inputs=True)
            if has_references(inputs):
                inputs = await self._opened(inputs)
            bound = await self.evaluated(lambda: self._bound(plan), inputs=True) if plan.bound else {}
        except TemplateError as error:
            return self.host.redact(template_outcome(error))
        return await self.host.call(Call(plan, task, attempt, progress.repeats, inputs, bound, self.scope))

    def _bound(self, plan: TaskPlan) -> dict[str, Any]:
        return {path: bind(self.scope) for path, bind in plan.bound.items()}

    async def evaluated(self, evaluate: Callable[[], Value], *, inputs: bool = False) -> Value:
        """Evaluate templates, loading what they want to look into on the way. Secrets open in inputs alone."""
        while True:
            contents = {**self.contents, **self.secrets} if inputs and self.secrets else self.contents
            try:
                if not contents:
                    return evaluate()
                with loaded(contents):
                    return evaluate()
            except Need as need:
                wanted = need.reference
                if not wanted.is_secret:
                    self.contents[wanted.key] = await self.host.content(wanted)
                elif inputs:
                    self.secrets[wanted.key] = await self.host.secret(wanted)
                else:
                    raise TemplateFailed("a secret can only be used in the inputs of a tool") from None

    async def _opened(self, value: Any) -> Any:
        """A tool gets values, not references."""
        if isinstance(value, Reference):
            return await (self.host.secret(value) if value.is_secret else self._content(value))
        if isinstance(value, Sealed):
            return revealed(value)
        if isinstance(value, dict):
            return {key: await self._opened(item) for key, item in value.items()}
        return [await self._opened(item) for item in value] if isinstance(value, list) else value

    def _skip(self, plan: TaskPlan) -> RulePlan | None:
        return next((rule for rule in plan.skips if rule.matches(self.scope)), None)

    def _rule(self, plan: TaskPlan) -> RulePlan | None:
        return next((rule for rule in plan.rules if rule.matches(self.scope)), None) if plan.rules else None

    # -- directives -------------------------------------------------------------------------------------------------

    async def _retry(
        self, plan: TaskPlan, task: TaskId, attempt: int, outcome: Outcome, rule: RulePlan, took: float
    ) -> str | End | None:
        """Wait and go round again; a long wait puts the pipeline aside."""
        try:
            seed = f"{self.scope['execution_id']}|{task}|{attempt}"
            wait = await self.evaluated(lambda: wait_before(rule, attempt, outcome, self.scope, seed))
            set_iter, set_ctx = await self._patches(rule)
        except (TemplateError, BadPatch) as error:
            return await self._fail(plan, task, attempt, _patch_outcome(error))
        due = self.host.now() + wait
        self.progress.repeats = repeats_after(self.progress.repeats, "retry", outcome.ok)
        self._keep(plan, outcome)
        self._restart_inner(task)
        done = _done(plan)
        self.reporter.tell(done(task, attempt, outcome, "retry", plan.label, set_iter, set_ctx, duration_ms=took))
        self.reporter.tell(TaskRetryScheduled(task, attempt + 1, due))
        if wait > DURABLE_WAIT_SECONDS and self.parks:
            return Waiting("retry", "", due)
        await self.reporter.durable()
        if wait > 0 and not self._stopped():
            await self.host.sleep(wait)
        return Waiting("retry", "", due) if self._stopped() else None

    def _stopped(self) -> bool:
        """Whether the pipeline is to begin nothing new."""
        return self.host.paused()

    async def _leave(
        self, plan: TaskPlan, task: TaskId, attempt: int, outcome: Outcome, rule: RulePlan | None, do: str, took: float
    ) -> str | End | None:
        if do == "fail":
            return await self._fail(plan, task, attempt, outcome, rule, took)
        if do == "jump" and rule is not None and rule.then.delay is not None:
            return await self._delayed_jump(plan, task, attempt, outcome, rule, took)
        return await self._close(plan, task, attempt, outcome, rule, do, took=took)

    async def _close(
        self,
        plan: TaskPlan,
        task: TaskId,
        attempt: int,
        outcome: Outcome,
        rule: RulePlan | None,
        do: str,
        skipped: bool = False,
        took: float = 0.0,
    ) -> str | End | None:
        """Tell the outcome and where the pipeline goes."""
        try:
            set_iter, set_ctx = await self._patches(rule) if rule is not None else ((), ())
        except (TemplateError, BadPatch) as error:
            problem = _patch_outcome(error)
            self.reporter.tell(_done(plan)(task, attempt, problem, "fail", None, duration_ms=took))
            return Failed(_error_of(problem), plan.label, attempt)
        target = (
            rule.then.to
            if do == "jump" and rule is not None
            else None
            if do == "break"
            else self.plan.after[plan.label]
        )
        if not skipped and not plan.task.sink:
            self._keep(plan, outcome)
            self.progress.prev = outcome.result if outcome.ok else None
        self.reporter.tell(
            _done(plan)(task, attempt, outcome, "skip" if skipped else do, target, set_iter, set_ctx, skipped, took)
        )
        return target

    async def _delayed_jump(
        self, plan: TaskPlan, task: TaskId, attempt: int, outcome: Outcome, rule: RulePlan, took: float
    ) -> str | End | None:
        try:
            wait = await self.evaluated(lambda: base_delay(rule, self.scope))
        except TemplateError as error:
            return await self._fail(plan, task, attempt, _patch_outcome(error))
        target = await self._close(plan, task, attempt, outcome, rule, "jump", took=took)
        return await self._after(target, wait) if isinstance(target, str) else target

    async def _after(self, label: str, wait: float) -> str | End:
        """Go to a label after a while; a long one puts the pipeline aside."""
        if wait > DURABLE_WAIT_SECONDS and self.parks:
            return Waiting("retry", "", self.host.now() + wait)
        if wait > 0:
            await self.reporter.durable()
            await self.host.sleep(wait)
        return label

    async def _fail(
        self,
        plan: TaskPlan,
        task: TaskId,
        attempt: int,
        outcome: Outcome,
        rule: RulePlan | None = None,
        took: float = 0.0,
        error: Error | None = None,
    ) -> str | End:
        error = error or outcome.error or Error("policy", f"a rule of task {plan.label!r} failed an ok outcome")
        patches: tuple[Patch, Patch] = ((), ())
        if rule is not None:
            try:
                patches = await self._patches(rule)
            except (TemplateError, BadPatch) as problem:
                error = _error_of(_patch_outcome(problem))
        own = None if error == outcome.error else error
        self._end_poll(plan, task, "failed")
        done = _done(plan)
        try:
            wait = await self.evaluated(lambda: self._chain_wait(task, outcome))
        except TemplateError as problem:
            wait, own = None, _error_of(_patch_outcome(problem))
            error = own
        if wait is not None and self.plan.first is not None:
            first = self.plan.first
            self.reporter.tell(done(task, attempt, outcome, "jump", first, *patches, duration_ms=took, error=own))
            return await self._after(first, wait)
        self.reporter.tell(done(task, attempt, outcome, "fail", None, *patches, duration_ms=took, error=own))
        return Failed(error, plan.label, attempt)

    def _chain_wait(self, task: TaskId, outcome: Outcome) -> float | None:
        """How long to wait before a failed chain begins anew; None if it does not."""
        again = self.plan.again
        if again is None:
            return None
        attempt = self.progress.visits.get(self.plan.calls[0], 1)
        self.scope["outcome"] = outcome.as_data({"attempt": attempt})
        self.scope["_attempt"] = attempt
        if attempt >= (again.then.attempts or DEFAULT_ATTEMPTS) or not again.matches(self.scope):
            return None
        return wait_before(again, attempt, outcome, self.scope, f"{self.scope['execution_id']}|{task}|{attempt}")

    # -- chains of classic steps ------------------------------------------------------------------------------------

    async def _goto(self, plan: GotoPlan) -> str | End | None:
        """Ask for a way out of the step. The chain goes on behind it only if that is deferred."""
        self.scope[NOW_KEY] = self.host.now()
        try:
            to = self.host.redact(await self.evaluated(lambda: plan.targets(self.scope)))
            if any(_of_keychain(target.args) for target in to):
                raise TemplateFailed("values of the keychain can't travel with a token: they live as long as a call")
        except TemplateError as error:
            return Failed(_error_of(self.host.redact(template_outcome(error))), plan.label, 1)
        then = self.plan.after[plan.label] if plan.policy == "defer" else None
        branch, pending = self.prefix.rstrip("/"), plan.policy != "end_step"
        fact = NextRequested(self.run_id, branch, plan.label, to, plan.policy, plan.priority, pending, then)
        self.reporter.tell(fact)
        assert self.requested is not None
        self.requested(fact)
        return then

    async def _poll(
        self, plan: TaskPlan, task: TaskId, attempt: int, outcome: Outcome, rule: RulePlan | None, took: float
    ) -> str | End | None:
        """The call went well; repeat it until its result is ready, as a new visit each time."""
        poll, begun = plan.task.poll, self.progress.polls[plan.label]
        assert poll is not None
        assert plan.until is not None
        try:
            ready = await self.evaluated(lambda: plan.until(self.scope))  # type: ignore[misc]
        except TemplateError as error:
            return await self._fail(plan, task, attempt, self.host.redact(template_outcome(error)))
        count = self.progress.visits[plan.label] - begun.first + 1
        self.reporter.tell(PollIteration(task, count, ready))
        if ready:
            self._end_poll(plan, task, "ready")
            return await self._close(plan, task, attempt, outcome, rule, "continue", took=took)
        exhausted = poll.max_attempts is not None and count >= poll.max_attempts
        if exhausted or (begun.due is not None and self.host.now() + poll.interval > begun.due):
            self._end_poll(plan, task, "exhausted" if exhausted else "deadline")
            calls = f"{count} call{'s' * (count != 1)}"
            limit = f"after {calls}" if exhausted else f"within {poll.deadline:g} s ({calls})"
            late = Error("timeout", f"task {plan.label!r} was not ready {limit}")
            return await self._fail(plan, task, attempt, outcome, took=took, error=late)
        self._keep(plan, outcome)
        self.progress.prev = outcome.result
        self.reporter.tell(TaskDone(task, attempt, outcome, "jump", plan.label, duration_ms=took))
        return await self._after(plan.label, poll.interval)

    def _end_poll(self, plan: TaskPlan, task: TaskId, reason: Any) -> None:
        begun = self.progress.polls.pop(plan.label, None)
        if begun is not None:
            count = self.progress.visits[plan.label] - begun.first + 1
            self.reporter.tell(PollFinished(task, count, reason))

    async def _patches(self, rule: RulePlan) -> tuple[Patch, Patch]:
        """Render all values of both patches, then write them: a pipeline sees its own writes at once."""
        set_iter, set_ctx = self.host.redact(
            await self.evaluated(lambda: (rule.set_iter(self.scope), rule.set_ctx(self.scope)))
        )
        if any(_of_keychain(value) for _, _, value in (*set_iter, *set_ctx)):
            raise TemplateFailed("values of the keychain can't be kept in ctx or iter: they live as long as a call")
        if self.rivals is not None:
            self._write_once(set_ctx)
        await self._apply(self.iter, set_iter)
        await self._apply(self.scope["ctx"], set_ctx)
        self.writes += set_ctx
        return set_iter, set_ctx

    async def _apply(self, target: dict[str, Any], patch: Sequence[Write]) -> None:
        """Write a patch, with the stored values that its reducers look into."""
        contents = {one.key: await self._content(one) for one in wanted(target, patch)}
        apply_patch(target, patch, contents)

    async def _content(self, reference: Reference) -> Any:
        content = await self.host.content(reference)
        if isinstance(content, TooLarge):
            raise TemplateFailed(f"a stored value of {reference.size:,} bytes is too large ({content.limit})")
        return content

    def _write_once(self, patch: Patch) -> None:
        """Items that work side by side may not write different values (S20)."""
        assert self.rivals is not None
        for key, operator, value in patch:
            if operator == SET:
                writer, old = self.rivals.get(key, (self.prefix, value))
                if writer != self.prefix and old != value:
                    raise BadPatch(f"ctx.{key} was already written by {writer.rstrip('/')} with another value")
                self.rivals[key] = (self.prefix, value)

    def _keep(self, plan: TaskPlan, outcome: Outcome) -> None:
        if not plan.task.sink:
            self.scope["tasks"][plan.label] = self.scope["outcome"]

    # -- iterator tasks ---------------------------------------------------------------------------------------------

    async def _iterate_in_time(self, plan: TaskPlan, task: TaskId) -> Outcome:
        """Run the inner pipeline for each item; the first failure is the task's error outcome."""
        assert plan.items is not None
        try:
            items = await self._opened(await self.evaluated(lambda: plan.items(self.scope)))  # type: ignore[misc]
        except TemplateError as error:
            return template_outcome(error)
        if not isinstance(items, list | tuple):
            return failed("loop_input", f"`in` must give a list, not {type(items).__name__}")
        parallel = plan.task.spec.get("mode") == "parallel"
        inner = self._items(plan, task, items, parallel)
        limit = plan.timeout if isinstance(plan.timeout, int | float) else None
        try:
            async with asyncio.timeout(limit):
                outcome = await self._iterate(inner, plan.task.spec.get("max_in_flight", 10) if parallel else 1)
        except TimeoutError:
            outcome = failed("timeout", f"the items took longer than {limit:g} s", retryable=True)
        if parallel:  # each worked on its own view; from here on they are seen
            writes = [write for one in inner for write in one.writes]
            await self._apply(self.scope["ctx"], writes)
            self.writes += writes
        return outcome

    async def _iterate(self, items: list[Pipeline], in_flight: int) -> Outcome:
        """All items, at most so many at once. Parked if the execution was paused before the last had ended."""
        gate = asyncio.Semaphore(in_flight)
        results: list[Any] = [None] * len(items)
        failures: list[tuple[int, Failed]] = []
        stopped = False

        async def one(i: int, item: Pipeline) -> None:
            nonlocal stopped
            async with gate:
                stopped = stopped or self._stopped()
                if failures or stopped:
                    return
                match await item.run():
                    case Done(result=result):
                        results[i] = result
                    case Failed() as end:
                        failures.append((i, end))
                    case Waiting():
                        stopped = True

        if in_flight > 1:
            await _all(one(i, item) for i, item in enumerate(items))
        else:
            for i, item in enumerate(items):
                await one(i, item)
        if failures:
            i, end = min(failures, key=lambda pair: pair[0])
            return Outcome("error", error=Error(end.error.kind, f"item {i}: {end.error.message}", end.error.retryable))
        if stopped:
            raise Parked(Waiting("resume"))
        return Outcome(result=results)

    def _restart_inner(self, task: TaskId) -> None:
        """Items of an iterator task that is tried again start anew, as new visits of their tasks."""
        for key in [key for key in self.inner if key.startswith(f"{task.path}[")]:
            self.inner[key] = Progress(visits=self.inner[key].visits)

    def _items(self, plan: TaskPlan, task: TaskId, items: Sequence[Any], parallel: bool) -> list[Pipeline]:
        """The pipelines of an iterator's items. Those that work side by side see ctx as it is now, and their own."""
        found = [self._item(plan, task, i, item, parallel) for i, item in enumerate(items)]
        if parallel:
            rivals = {
                key: (one.prefix, value)
                for one in found
                for key, operator, value in one.progress.writes
                if operator == SET
            }
            for one in found:
                one.rivals = rivals
        else:
            for one in found:
                one.writes = self.writes
        return found

    def _item(self, plan: TaskPlan, task: TaskId, i: int, item: Any, parallel: bool) -> Pipeline:
        assert plan.body_plan is not None
        prefix = f"{task.path}[{i}]/"
        scope = Scope(self.scope)
        scope["iter"] = {plan.task.inputs["iterator"]: item, "index": i, "parent": self.iter}
        scope["tasks"] = dict(self.scope["tasks"])
        if parallel:
            scope["ctx"] = dict(self.scope["ctx"])
        progress = self.inner.setdefault(prefix, Progress())
        return Pipeline(
            plan.body_plan,
            self.run_id,
            scope,
            progress,
            self.reporter,
            self.host,
            self.index,
            prefix,
            self.inner,
            parks=False,
        )


def _done(plan: TaskPlan) -> type[TaskDone]:
    return SinkProcessed if plan.task.sink else TaskDone


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all side by side; when one breaks off, none goes on alone."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _after(attempt: int, outcome: Outcome) -> Error:
    """After the last attempt the kind of the last outcome stays, and the message tells the attempts."""
    last = outcome.error or Error("policy", "the rules asked to retry an ok outcome")
    message = f"{last.message} (after {attempt} attempt{'s' * (attempt != 1)})"
    return Error(last.kind, message, last.retryable, last.details)


def _of_keychain(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_of_keychain, value.values()))
    if isinstance(value, list):
        return any(map(_of_keychain, value))
    return isinstance(value, Reference) and value.store == KEYCHAIN


def has_references(value: Any) -> bool:
    """Whether a rendered value holds a reference or a secret anywhere."""
    if isinstance(value, dict):
        return any(map(has_references, value.values()))
    return any(map(has_references, value)) if isinstance(value, list) else isinstance(value, Reference | Sealed)


def _error_of(outcome: Outcome) -> Error:
    assert outcome.error is not None
    return outcome.error


def template_outcome(error: TemplateError) -> Outcome:
    return failed("template", f"{error.message} in {error.source[:200]!r}", hint=error.hint)


def _patch_outcome(error: Exception) -> Outcome:
    return template_outcome(error) if isinstance(error, TemplateError) else failed("ctx_conflict", str(error))
