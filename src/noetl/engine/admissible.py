"""Which facts (events) a worker may report: those that follow from its lease, the compiled step and the progress.

The server trusts a worker with the output of its tools (outcomes, results and messages) and with nothing else. The
server knows the position of the run, the next task, its visit and attempt, the loop items of the lease, the child that
the task waits for and the inputs of that child. It rejects a fact that contradicts them, and then stores nothing of the
report.

    check_fact(state, fence, fact, previous, budget)     raises Inadmissible with the reason

Facts are checked one by one, each against the state after the previous ones. The rules accept every fact that
`noetl.pipeline` emits, also after a lost worker, a pause, a fork or a retry: both use the same formulas on the same
`Progress`.

The inputs of a child are derived again as far as the server knows them; see `noetl.engine.known_values`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from noetl.engine import events as e
from noetl.engine.known_values import KnownValues, fits, fits_text
from noetl.engine.net import StepPlan
from noetl.engine.patch import BadPatch, apply_patch, operator_of
from noetl.engine.state import Execution, Progress, Run
from noetl.engine.tasks import item_of, split_path
from noetl.errors import NoetlError
from noetl.expression import Budget
from noetl.model.identity import TaskId, action_id, child_id
from noetl.model.playbook import Goto, Task
from noetl.scope import Scope

ITEM = re.compile(r"(.+)#([1-9][0-9]{0,8})\[(0|[1-9][0-9]{0,8})\]")
"""The item of an iterator task in a path: `each#1[3]`."""

Link = Task | Goto


class Inadmissible(NoetlError):
    """A worker reported a fact that does not follow from its lease. Nothing of the report is stored."""


def check_fact(state: Execution, fence: int, fact: e.Event, previous: e.Event | None, budget: Budget) -> None:
    """Raise Inadmissible unless the holder of the lease may report this fact now. `previous` is the one before it in
    the same report, whose facts share the budget for templates."""
    facts = Facts(state, fence, previous, budget)
    rules = facts.plan.after_call
    check = CHECKS.get(type(fact)) or (rules.checks.get(type(fact)) if rules is not None else None)
    if check is None:
        raise Inadmissible(f"{fact.name}: workers must not report this event")
    facts.check(check, fact)


class Facts:
    """The facts of one lease, and what they are checked against."""

    __slots__ = ("budget", "fence", "plan", "previous", "run", "state")

    def __init__(self, state: Execution, fence: int, previous: e.Event | None, budget: Budget) -> None:
        self.state, self.fence, self.previous, self.budget = state, fence, previous, budget
        self.run: Run = state.runs[state.leases[fence].run]
        self.plan: StepPlan = state.net.steps[self.run.step]

    def check(self, check: Callable[[Facts, Any], None], fact: Any) -> None:
        task = getattr(fact, "task", None)
        run = task.run if isinstance(task, TaskId) else fact.run
        if run != self.run.id:
            raise Inadmissible(f"{fact.name}: the lease belongs to run {self.run.id!r}, not to {run[:200]!r}")
        try:
            check(self, fact)
        except _Refusal as refusal:
            raise Inadmissible(f"{fact.name} of {self.run.id}: {refusal}") from None

    # -- position of the run ----------------------------------------------------------------------------------------

    def holds(self, index: int | None) -> None:
        """The lease covers the item (the whole run without one), and it is the item's turn."""
        if index is None:
            require(self.run.fence == self.fence, "the lease covers items of the loop, not the whole run")
            return
        lane = self.run.loop.lanes.get(self.fence) if self.run.loop is not None else None
        if lane is None or lane[0] != index:
            refuse(f"item {index} is not the next one of the lease")

    def progress(self, index: int | None, prefix: str) -> Progress:
        return self.run.pipelines(index).get(prefix) or Progress()

    def links(self, index: int | None, prefix: str) -> Sequence[Link]:
        """The pipeline of a prefix: the step's own, that of a chain, or the body of an iterator task under way."""
        if not prefix:
            require(index is not None or self.run.loop is None, "the items of the loop run the tasks of the step")
            return self.plan.step.tasks
        outer, slash, last = prefix[:-1].rpartition("/")
        if not slash and "#" not in last:
            require(index is None, f"{last!r} does not belong to an item")
            rules = self.plan.after_call
            if rules is None:
                refuse(f"the step has no chain {last[:200]!r}")
            return rules.chain(self, last)
        item = ITEM.fullmatch(last)
        if item is None:
            refuse(f"{prefix[:200]!r} is not a position in this step")
        label, visit = item[1], int(item[2])
        task = _named(self.links(index, outer + slash), label)
        at = self.progress(index, outer + slash)
        under_way = at.started and at.at == label and at.visits.get(label) == visit
        require(isinstance(task, Task) and bool(task.body) and under_way, f"iterator task {label!r} is not running")
        assert isinstance(task, Task)
        return task.body

    def next_link(self, index: int | None, prefix: str) -> tuple[Sequence[Link], Link, Progress]:
        """The pipeline, and its current task or `next`."""
        links, at = self.links(index, prefix), self.progress(index, prefix)
        link = _named(links, at.at) if at.at is not None else links[0] if links else None
        if at.ended or link is None:
            refuse("all its tasks have ended")
        return links, link, at

    def task(self, task: TaskId, attempt: int | None) -> tuple[Sequence[Link], Task, Progress]:
        """The current task of the pipeline, if the fact names it with its visit and attempt."""
        self.holds(task.index)
        prefix, label, visit = _split(task)
        links, link, at = self.next_link(task.index, prefix)
        if not isinstance(link, Task) or link.label != label:
            refuse(f"the next task is {link.label!r}, not {label[:200]!r}")
        fresh = not at.started and at.attempt == 1 and at.delivered is None
        due = at.visits.get(label, 0) + fresh
        if visit != due or (attempt is not None and attempt != at.attempt):
            refuse(f"{label!r} is at visit {due} and attempt {at.attempt}, not at {visit} and {attempt}")
        return links, link, at

    def failed_at(self, index: int | None, place: str | None, attempt: int) -> None:
        """Require that a failure names the task and attempt at which the pipeline failed or currently is."""
        if not place:
            require(attempt == 0, "an attempt without a task")
            return
        after = self.run.after_call
        if after is not None and after.failure is not None and after.failure[1:] == (place, attempt):
            return
        chain, slash, label = place.rpartition("/")
        links, at = self.links(index, chain + slash), self.progress(index, chain + slash)
        if at.failure is not None:
            require((label, attempt) == at.failure[1:], f"it failed at {at.failure[1]!r}, attempt {at.failure[2]}")
            return
        current = at.at or next((link.label for link in links), "")
        require(label == current and attempt in (at.attempt, 1), f"it is at {current!r}, attempt {at.attempt}")


# -- tasks ----------------------------------------------------------------------------------------------------------


def _task_started(facts: Facts, fact: e.TaskStarted) -> None:
    _, task, _ = facts.task(fact.task, fact.attempt)
    _check_sink(task, isinstance(fact, e.SinkStarted))


def _task_done(facts: Facts, fact: e.TaskDone) -> None:
    links, task, _ = facts.task(fact.task, fact.attempt)
    _check_sink(task, isinstance(fact, e.SinkProcessed))
    if fact.skipped != (fact.do == "skip") or fact.to not in _targets(facts, links, task, fact):
        refuse(f"`{fact.do[:200]}` does not lead from {task.label!r} to {str(fact.to)[:200]!r}")
    if fact.do == "fail":
        require(fact.error is not None or not fact.outcome.ok, "it fails without an error")
    elif fact.do == "continue":
        require(fact.outcome.ok or task.policy is not None, "no rule lets it continue after an error")
    if fact.set_iter or fact.set_ctx:
        reported = [[(key, operator) for key, operator, _ in patch] for patch in (fact.set_iter, fact.set_ctx)]
        written = [(rule.then.set_iter, rule.then.set_ctx) for rule in task.policy or ()]
        patches = [[[(key, operator_of(patch[key])[0]) for key in patch] for patch in pair] for pair in written]
        require(reported in patches, "no rule of the task writes that")


def _check_sink(task: Task, reported: bool) -> None:
    if task.sink != reported:
        refuse(f"{task.label!r} is {'a' if task.sink else 'no'} sink")


def _targets(facts: Facts, links: Sequence[Link], task: Task, fact: e.TaskDone) -> Sequence[str | None]:
    """Where a directive can lead from a task; nowhere if no rule has it."""
    if fact.do == "continue":
        return (label_after(links, task),)
    rules = [rule.then for rule in task.policy or () if rule.then.do == fact.do]
    match fact.do:
        case "jump":
            polled = [task.label] if task.poll is not None else []
            after_call = facts.plan.after_call
            is_retried = after_call is not None and _split(fact.task)[0] in after_call.retried_chains
            return [*(then.to for then in rules), *polled, *([links[0].label] if is_retried else [])]
        case "skip":
            return [label_after(links, task)] if rules else []
        case "retry":
            repeats = "retry" in task.spec and fact.outcome.error is not None and fact.outcome.error.retryable
            return [task.label] if (repeats if fact.layer == "spec" else rules) else []
        case "break":
            return [None] if rules else []
        case "fail":
            return [None]
    return []


def label_after(links: Sequence[Link], link: Link) -> str | None:
    """The label after one."""
    labels = [other.label for other in links]
    after = labels[labels.index(link.label) + 1 :]
    return after[0] if after else None


def _task_retry(facts: Facts, fact: e.TaskRetryScheduled) -> None:
    outcome = facts.previous
    follows = isinstance(outcome, e.TaskDone) and outcome.do == "retry" and outcome.task == fact.task
    require(follows and fact.attempt == outcome.attempt + 1, "it does not follow an attempt")  # type: ignore[union-attr]


def _poll_started(facts: Facts, fact: e.PollStarted) -> None:
    _, task, _ = facts.task(fact.task, None)
    require(task.poll is not None, f"{task.label!r} is not repeated until it is ready")


def _poll_counted(facts: Facts, fact: e.PollIteration | e.PollFinished) -> None:
    _, link, at = facts.task(fact.task, None)
    poll = at.polls.get(link.label)
    count = fact.iteration if isinstance(fact, e.PollIteration) else fact.iterations
    require(poll is not None and count == _split(fact.task)[2] - poll.first + 1, "it is not that call of the poll")


# -- items and steps ------------------------------------------------------------------------------------------------


def _iteration_started(facts: Facts, fact: e.IterationStarted) -> None:
    facts.holds(fact.index)
    resumes = facts.state.leases[facts.fence].facts == 0
    started = fact.index in facts.run.item_progress
    require(resumes or not started, f"item {fact.index} was started under this lease")


def _iteration_failed(facts: Facts, fact: e.IterationFailed) -> None:
    facts.holds(fact.index)
    facts.failed_at(fact.index, fact.task, fact.attempt)


def _step_failed(facts: Facts, fact: e.StepFailed) -> None:
    """A worker that cannot run a step at all may report that under any lease of it."""
    if fact.task is not None or fact.taken:
        facts.holds(None)
    facts.failed_at(None, fact.task, fact.attempt)
    handled = facts.run.after_call is not None and facts.run.after_call.failure_handled
    require(handled or not fact.taken, "the step has not handled the failure")


# -- waiting --------------------------------------------------------------------------------------------------------


def _step_paused(facts: Facts, fact: e.StepPaused) -> None:
    require(fact.fence == facts.fence, "the fence belongs to another lease")
    require(fact.reason in ("waiting", "returned"), "only the server may report a lost lease")
    require((fact.reason == "waiting") == (fact.until is not None), "a run waits for something, or is returned")
    match fact.until:
        case None:
            rest = (fact.index, fact.key, fact.due, fact.request, fact.chain, fact.keys)
            require(rest == (None, "", None, None, "", ()), "a lease that is returned waits for nothing")
        case "event":
            if facts.plan.after_call is None:
                refuse("the step waits for no event")
            facts.plan.after_call.check_wait(facts, fact)
        case _:
            _waits_for_task(facts, fact)


def _waits_for_task(facts: Facts, fact: e.StepPaused) -> None:
    facts.holds(fact.index)
    require(not fact.chain or "#" not in fact.chain, "a task inside an iterator cannot wait")
    require(not fact.chain or fact.chain.endswith("/"), f"the step has no chain {fact.chain[:200]!r}")
    _, link, at = facts.next_link(fact.index, fact.chain)
    if fact.until == "retry":
        require((fact.key, fact.request) == ("", None), "a pause before an attempt waits for its time only")
        require(
            fact.due is not None and (at.attempt == 1 or fact.due == at.due), "the due time does not match the retry"
        )
        return
    kind = "playbook" if fact.until == "child" else "wait"
    if not isinstance(link, Task) or link.kind != kind or not at.started or at.delivered is not None:
        refuse(f"no task of kind {kind} is running")
    if fact.until == "child":
        _waits_for_child(facts, fact, link, at)
    else:
        require(fact.request is None, "a signal takes no request")
        values = known_values(facts, fact.index, fact.chain)
        if "signals" in link.inputs:
            fitting = not fact.key and fits(link.inputs["signals"], list(fact.keys), values)
        else:
            fitting = not fact.keys and fits_text(link.inputs["signal"], fact.key, values)
        require(fitting, "the task waits for another signal")


def known_values(facts: Facts, index: int | None, chain: str) -> KnownValues:
    state, run = facts.state, facts.run
    scope = Scope(workload=state.workload, args=run.args, args_by=run.args_by, execution_id=state.id)
    rules = facts.plan.after_call
    if rules is None or not rules.observes:  # else it may have changed while the worker was running it
        scope["ctx"] = ctx = dict(run.ctx)
        if item_of(state, run, TaskId(run.id, "", index)) is not None:
            with suppress(BadPatch):
                apply_patch(ctx, facts.progress(index, "").writes)
    loop = facts.plan.step.loop
    if not chain and index is not None and run.loop is not None and loop is not None:
        items = run.loop.items
        if isinstance(items, list):
            scope["iter"] = {loop.iterator: items[index], "index": index, **facts.progress(index, "").iter}
    return KnownValues(scope, facts.budget)


def _waits_for_child(facts: Facts, fact: e.StepPaused, task: Task, at: Progress) -> None:
    """Path, version, payload and id of the child must be those of the compiled task."""
    path = f"{fact.chain}{task.label}#{at.visits.get(task.label, 0)}"
    action = action_id(facts.state.id, TaskId(facts.run.id, path, fact.index))
    require(fact.key == child_id(action, at.attempt), "the child id does not match the task")
    request = fact.request or {}
    require(set(request) == {"path", "version", "payload", "step"}, "the child request has unexpected fields")
    require(request["step"] == facts.run.step, "the child request names another step")
    values = known_values(facts, fact.index, fact.chain)
    require(fits(task.args, request["payload"], values), "the payload does not match the task")
    values = values.with_args(request["payload"])
    require(fits_text(task.inputs["path"], request["path"], values), "the path does not match the task")
    require(fits_text(task.inputs.get("version"), request["version"], values), "the version does not match the task")


CHECKS: dict[type[e.Event], Callable[[Facts, Any], None]] = {
    e.TaskStarted: _task_started,
    e.SinkStarted: _task_started,
    e.TaskDone: _task_done,
    e.SinkProcessed: _task_done,
    e.TaskRetryScheduled: _task_retry,
    e.PollStarted: _poll_started,
    e.PollIteration: _poll_counted,
    e.PollFinished: _poll_counted,
    e.IterationStarted: _iteration_started,
    e.IterationDone: lambda facts, fact: facts.holds(fact.index),
    e.IterationFailed: _iteration_failed,
    e.StepDone: lambda facts, fact: facts.holds(None),
    e.StepFailed: _step_failed,
    e.StepPaused: _step_paused,
}


# -- helpers --------------------------------------------------------------------------------------------------------


class _Refusal(Exception):
    """Why a fact is not admissible."""


def refuse(reason: str) -> NoReturn:
    raise _Refusal(reason)


def require(holds: bool, reason: str) -> None:
    if not holds:
        raise _Refusal(reason)


def _named(links: Sequence[Link], label: str) -> Link | None:
    return next((link for link in links if link.label == label), None)


def _split(task: TaskId) -> tuple[str, str, int]:
    """Prefix, label and visit of a path, which must have the format of the pipeline."""
    try:
        prefix, label, visit = split_path(task.path)
    except ValueError:
        refuse(f"{task.path[:200]!r} is not the path of a task")
    if f"{prefix}{label}#{visit}" != task.path:
        refuse(f"{task.path[:200]!r} is not the path of a task")
    return prefix, label, visit
