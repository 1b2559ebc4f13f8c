"""Runs the work of one lease, from its first task to its last report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from noetl.classic.hooks import AwaitingEvent, FailureHandled
from noetl.engine import events as e
from noetl.engine.commands import Claim
from noetl.engine.loops import FAST_LANE_SECONDS
from noetl.engine.state import Progress
from noetl.keychain.keychain import Keychain
from noetl.model.outcome import Outcome
from noetl.pipeline.host import Done, Failed, ToolCall, Waiting
from noetl.pipeline.run import Pipeline
from noetl.reference import KeychainView
from noetl.scope import Scope, StepsView
from noetl.worker.link import Reporter
from noetl.worker.result_store import ResultStore, is_small
from noetl.worker.tool_call import ToolCaller
from noetl.worker.work import Work

if TYPE_CHECKING:
    from noetl.worker.worker import Worker


class LeaseRun:
    def __init__(self, worker: Worker, work: Work) -> None:
        self.worker, self.work = worker, work
        runnable = worker.link.playbook(work.digest)
        playbook, self.plan = runnable.playbook, runnable.plan(work.step)
        self.keychain = Keychain(
            {entry.name: entry for entry in playbook.keychain},
            partial(worker.link.credential, work.execution),
            playbook.path,
            work.pool,
            redactor=worker.redactor(work.execution),
        )
        """Secrets that were opened for this lease are redacted in all output, also of later leases of the execution."""
        self.redact = self.keychain.redactor.redact
        self.reporter = Reporter(worker.link, work)
        self.results = ResultStore(worker.link, work, self.reporter.blobs)
        self.tools = ToolCaller(worker.registry, worker.clock, worker.write_output, self.reporter, self.keychain)
        self.content, self.secret = self.tools.content, self.tools.secret
        self.now, self.sleep = worker.clock.now, worker.clock.sleep
        self.add_fact, self.stored = self.reporter.facts.append, self.reporter.send
        self.base = Scope(
            workload=work.workload,
            ctx=work.ctx,
            args=work.args,
            args_by=work.args_by,
            steps=StepsView(work.steps),
            keychain=KeychainView(),
            execution_id=work.execution,
        )
        """The scope of the templates of all its pipelines."""

    async def run(self) -> list[Work]:
        """Run the work; returns the work that the last report was answered with."""
        work = self.work
        if self.keychain.entries:
            await self.keychain.learn()
        if work.handles or work.entries:
            await self.keychain.learn_opened(work.handles, work.entries)
        if work.items is None:
            await self._run_step()
        else:
            await self._run_lane(work.items)
        await self._finish()
        return self.reporter.more

    async def _finish(self, *, hand_back: bool = False) -> None:
        """Send the last report, with a claim for other work. From here on the engine may end the lease."""
        self.worker.leases.pop((self.work.execution, self.work.fence), None)
        is_closed = self.worker.draining or not self.worker.accepting
        claim = None if is_closed else Claim(self.worker.name, 1 + max(0, self.worker.free))
        await self.reporter.send(claim=claim, last=True, hand_back=hand_back)

    async def _run_step(self) -> None:
        pipeline = self._pipeline(None, {"index": 0})
        after_call = self.plan.after_call
        end = await (pipeline.run() if after_call is None else after_call.run(pipeline, self.work.after_call))
        run = self.work.run
        match end:
            case Done(result=result):
                self.add_fact(e.StepDone(run, result))
            case Failed(error=error, task=task, attempt=attempt):
                self.add_fact(e.StepFailed(run, error, task or None, attempt))
            case FailureHandled(error=error, task=task, attempt=attempt):
                self.add_fact(e.StepFailed(run, error, task or None, attempt, taken=True))
            case AwaitingEvent(finished=finished):
                self.add_fact(e.StepPaused(run, self.work.fence, "waiting", until="event", key=finished))
            case Waiting(until="resume"):
                await self.reporter.send(hand_back=True)
            case Waiting():
                self.add_fact(self._pause(end, None))

    async def _run_lane(self, items: list[Any]) -> None:
        run, started = self.work.run, self.now()
        for offset, item in enumerate(items):
            slow = not self.work.local and self.now() - started > FAST_LANE_SECONDS
            if offset and (slow or self.paused()):
                await self._finish(hand_back=True)  # a slow item must not delay those behind it
                return
            index = self.work.first + offset
            self.add_fact(e.IterationStarted(run, index))
            end = await self._pipeline(index, {self.work.iterator: item, "index": index}).run()
            match end:
                case Done(result=result):
                    self.add_fact(e.IterationDone(run, index, result))
                    report = self.reporter.is_full
                case Failed(error=error, task=task, attempt=attempt):
                    self.add_fact(e.IterationFailed(run, index, error, task, attempt))
                    report = True
                case Waiting(until="resume"):
                    await self._finish(hand_back=True)
                    return
                case Waiting():
                    self.add_fact(self._pause(end, index))
                    return
            if report and offset + 1 < len(items):
                await self.reporter.send()

    def _pause(self, wait: Waiting, index: int | None) -> e.StepPaused:
        until: Any = wait.until
        request, fence = self.redact(wait.request), self.work.fence
        return e.StepPaused(
            self.work.run, fence, "waiting", index, until, wait.key, wait.due, request, wait.chain, wait.keys
        )

    def _pipeline(self, index: int | None, iteration: dict[str, Any]) -> Pipeline:
        work = self.work
        scope = Scope(self.base, iter=iteration, tasks={})
        if work.parallel:
            scope["ctx"] = dict(work.ctx)
        pipelines = work.progress if index is None else work.item_progress.get(index)
        if not pipelines:
            return Pipeline(self.plan, work.run, scope, Progress(), self, index)
        inner = {prefix: progress for prefix, progress in pipelines.items() if prefix}
        return Pipeline(self.plan, work.run, scope, pipelines.get("") or Progress(), self, index, "", inner)

    # -- host of pipelines ------------------------------------------------------------------------------------------

    async def durable(self) -> None:
        if self.work.durability == "task" or self.reporter.is_full:
            await self.reporter.send()

    def paused(self) -> bool:
        return self.worker.draining or self.worker.link.paused(self.work.execution)

    async def call(self, call: ToolCall) -> Outcome:
        """Call the tool; secrets in its outcome are redacted, and a large result becomes a reference."""
        outcome = await self.tools.call(call)
        if self.keychain.redactor.has_secrets:
            outcome = await self.keychain.redactor.redact_apart(outcome)
        return outcome if is_small(outcome.result) else await self.results.store(call.plan, outcome)
