"""What a classic step does between its tool and its token.

The canonical dialect routes by guards on arcs, which the server looks at once a step has ended. A classic step decides
more, and later than its tool: it extracts variables, looks at the branches of its `case`, runs the chains of those that
match, and stores what came out. All of that is its *tail*, and it runs on the same engine:

    tool        the step's pipeline, or its loop, as in any step
    vars        the chain `vars`: one call of `noop` whose policy patches `ctx.vars`
    case        looked at on `call.done` or `call.error`, then on `step.exit` if nothing has routed by then.
                Each branch that fires runs its chain: `case_0`, `case_1` and so on
    sink        the chain `sink`, once it is known where the step leads

A chain is an ordinary pipeline whose prefix is its name, so a task in it is called `case_0/notify`, its progress is
kept under `case_0/`, and retries, waits, iterators, redaction and recovery are those of every pipeline. What a chain
has beside tasks is `next`. It does not route: it *asks* (`next.requested`), and by its policy ends the step, its chain,
or nothing. When the step ends the server takes the request with the highest priority, then the one that was reached
first, tells it as `next.evaluated`, and sends the tokens. Without a request the step's own `next` routes, but not after
a failure.

Who decides what:

    worker      which branches fire (`case.started`, `case.evaluated`), what is suppressed, when a poll is ready
    server      where the step leads, delays, whether a computed target exists, and what branches of a step with
                `eval_mode: on_event` fire (`noetl.engine.listen`): such a run is given to a worker for its tool, and
                again for each set of branches that an event has chosen

A failure that no worker tells (a step out of time, a failed item of a loop) begins the tail too, if some branch could
take it up: the server writes `case.started` and hands the rest of the run out. A failure of the call that made a branch
fire is taken up by it, whether it leads anywhere or not. A failure inside a chain is the step's, and no branch sees it.

Where the tail stands is `state.Tail`, folded from these events, so a worker that is lost is followed by one that goes
on behind the last accepted task. What was chosen is never chosen again; a chain that has ended is not run again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from noetl.engine.branches import add_request
from noetl.engine.call import call_names, failed_call
from noetl.engine.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.engine.failures import error_data
from noetl.engine.listen import branch_number
from noetl.engine.net import CasePlan
from noetl.engine.state import Epoch, Progress, StepResult, Tail
from noetl.errors import TemplateError
from noetl.expression import NOW_KEY
from noetl.model.outcome import Error
from noetl.pipeline.plan import TailPlan
from noetl.pipeline.run import Done, Failed, Pipeline, Waiting, template_outcome
from noetl.scope import Scope, StepsView

NOTHING: dict[str, Any] = {"status": "ok", "result": None, "error": None, "meta": {}}


class Taken(NamedTuple):
    """The call failed, and a branch has taken that up."""

    error: Error
    task: str | None
    attempt: int


class Listening(NamedTuple):
    """Nothing is to be done until an event chooses a branch. `finished` is `call` or `case`."""

    finished: str


class TailRun:
    """The whole of a classic step's run, or what is left of it."""

    def __init__(self, plan: TailPlan, call: Pipeline, state: Tail) -> None:
        self.plan, self.call, self.state = plan, call, state
        self.run_id, self.reporter, self.host = call.run_id, call.reporter, call.host
        self.scope = Scope(call.scope)
        self.ended: Done | Failed = Done(None)
        """How the call ended."""

    async def run(self) -> Done | Failed | Waiting | Taken | Listening:
        stop: Failed | Waiting | Listening | None = await self._tool()
        if stop is None and self.plan.cases is not None:
            stop = await (self._listen if self.plan.cases.listens else self._branches)(self.plan.cases)
        if stop is None and "sink" in self.plan.chains and isinstance(self.ended, Done):
            stop = _unfinished(await self._chain("sink"))
        if stop is not None:
            return stop
        if isinstance(self.ended, Failed) and self.state.fired:
            return Taken(*self.ended)
        return self.ended

    # -- the call ---------------------------------------------------------------------------------------------------

    async def _tool(self) -> Waiting | None:
        """Run the tool, unless it has ended before, and extract variables."""
        state = self.state
        if state.failure is not None:
            error, task, attempt = state.failure
            self.ended = Failed(error, task or "", attempt)
        elif state.looped:
            self.ended = Done(state.result)
        else:
            end = await self.call.run()
            if isinstance(end, Waiting):
                return end
            self.ended = end
        outcome = self._outcome()
        ignored = isinstance(self.ended, Done) and outcome["status"] != "ok"
        self._show({**NOTHING, "meta": outcome["meta"]} if ignored else outcome)
        self._hear(self._event(self._point()))
        if "vars" in self.plan.chains and outcome["status"] == "ok" and isinstance(self.ended, Done):
            end = await self._chain("vars")
            if isinstance(end, Waiting):
                return end
            if isinstance(end, Failed):
                self.ended = end
                self._show(failed_call(self._error()))
        return None

    def _outcome(self) -> dict[str, Any]:
        """The outcome of the call, live or as the log has it."""
        tasks = self.call.progress.tasks
        if isinstance(self.ended, Failed):
            return self.call.last or tasks.get(self.ended.task) or failed_call(self._error())
        if self.state.looped:
            return {**NOTHING, "result": self.ended.result}
        return self.call.last or (list(tasks.values())[-1] if tasks else NOTHING)

    def _error(self) -> dict[str, Any]:
        assert isinstance(self.ended, Failed)
        return error_data(self.ended.error, self.plan.step, self.ended.task or None, self.ended.attempt)

    def _show(self, outcome: dict[str, Any]) -> None:
        """Let templates see how the call ended."""
        self.scope.update(call_names(outcome, self.plan.view, self.plan.loop))
        if isinstance(self.ended, Done):
            own = StepResult("succeeded", result=self.ended.result)
        else:
            own = StepResult("failed", error=self._error())
        self.scope["steps"] = StepsView({**self.call.scope["steps"].steps, self.plan.step: own})

    # -- branches ---------------------------------------------------------------------------------------------------

    async def _branches(self, cases: CasePlan) -> Failed | Waiting | None:
        """Look at the branches after the call, then on exit; run what was chosen."""
        for point in (self._point(), "step.exit"):
            if self.state.looked == "step.exit" != point:
                continue  # passed before the run was handed out again
            if self.state.looked != point and not cases.spent(self.state.fired):
                failure = await self._choose(cases, point)
                if failure is not None:
                    return failure
            stop = await self._epoch()
            if stop is not None or self.state.requests:
                return stop
        return None

    async def _listen(self, cases: CasePlan) -> Failed | Waiting | Listening | None:
        """Run what an event has chosen; the server does the choosing."""
        if not self.state.point and self.call.plan.first is not None:
            self.reporter.tell(self._started(self._point()))
            return Listening("call")
        stop = await self._epoch()
        if stop is None and not self.state.requests and not cases.spent(self.state.fired):
            return Listening("case")
        return stop

    def _point(self) -> str:
        return "call.done" if isinstance(self.ended, Done) else "call.error"

    def _started(self, point: str) -> CaseStarted:
        if isinstance(self.ended, Failed):
            return CaseStarted(self.run_id, point, self.ended.error, self.ended.task or None, self.ended.attempt)
        return CaseStarted(self.run_id, point)

    async def _choose(self, cases: CasePlan, point: str) -> Failed | None:
        """Both facts are told together, once it is known what they say."""
        state, failed = self.state, isinstance(self.ended, Failed)
        self._hear(self._event(point))
        try:
            chosen = await self.call.evaluated(
                lambda: cases.chosen(self.scope, state.fired, failed, last=point == "step.exit")
            )
        except TemplateError as error:
            problem = self.host.redact(template_outcome(error)).error
            assert problem is not None
            return Failed(problem, "", 0)
        if state.point != point:  # the server has told it, if the call failed there
            self.reporter.tell(self._started(point))
        matched = tuple(sorted(chosen, key=branch_number))
        self.reporter.tell(
            CaseEvaluated(self.run_id, matched, tuple(chosen), cases.mode, cases.evaluate, trigger_event=point)
        )
        state.point = state.looked = point
        state.fired.extend(chosen)
        state.epochs = [Epoch(chosen)] if chosen else []
        return None

    def _event(self, point: str) -> dict[str, Any]:
        if isinstance(self.ended, Failed):
            return {"name": point, "data": {"error": self._error()}}
        return {"name": point, "data": {"result": self.ended.result}}

    def _hear(self, event: dict[str, Any]) -> None:
        self.scope["event"] = event
        self.scope[NOW_KEY] = self.host.now()

    async def _epoch(self) -> Failed | Waiting | None:
        """Run the chains that were chosen together, one after the other, until one ends the step."""
        epoch = self.state.epochs[0] if self.state.epochs else Epoch([])
        self._hear(epoch.event or self._event(self.state.point or self._point()))
        for place, name in enumerate(epoch.order):
            if name in self.state.suppressed:
                continue
            stop = _unfinished(await self._chain(name))
            if stop is not None:
                return stop
            if any(one.branch == name and one.policy == "end_step" for one in self.state.requests):
                self._suppress(epoch.order[place + 1 :], name)
                return None
        return None

    def _suppress(self, branches: list[str], winner: str) -> None:
        for name in branches:
            if name not in self.state.suppressed:
                self.reporter.tell(BranchSuppressed(self.run_id, name, winner))
                self.state.suppressed.append(name)

    # -- chains -----------------------------------------------------------------------------------------------------

    async def _chain(self, name: str) -> Done | Failed | Waiting:
        """Run a chain from where it stands; at once over if it has ended before."""
        plan, prefix = self.plan.chains[name], f"{name}/"
        progress = self.call.inner.setdefault(prefix, Progress())
        if plan.acts and not progress.ended:
            await self.reporter.durable()
            if self.host.paused():
                return Waiting("resume")
        if not progress.visits:
            progress.prev = self.ended.result if isinstance(self.ended, Done) else None
        scope = Scope(self.scope)
        scope["tasks"] = dict(self.call.scope["tasks"])
        chain = Pipeline(
            plan,
            self.run_id,
            scope,
            progress,
            self.reporter,
            self.host,
            None,
            prefix,
            self.call.inner,
            requested=self._requested,
        )
        end = await chain.run()
        progress.ended = isinstance(end, Done)
        if isinstance(end, Failed):
            return Failed(end.error, prefix + end.task, end.attempt)
        return end._replace(chain=prefix) if isinstance(end, Waiting) and end.until != "resume" else end

    def _requested(self, fact: NextRequested) -> None:
        add_request(self.state, fact)


def _unfinished(end: Done | Failed | Waiting) -> Failed | Waiting | None:
    return None if isinstance(end, Done) else end
