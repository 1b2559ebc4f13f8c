"""Invariants of tokens, step runs and the branches of classic steps."""

from __future__ import annotations

import msgspec

from noetl.engine import events as e
from noetl.engine.history.verify.check import Check, Handlers, Watched
from noetl.model.identity import TaskId, step_of


class Tokens(Check):
    """Every token is consumed by one run, or denied, or still waits or is held; none comes from nowhere."""

    name = "tokens"

    def __init__(self, log: Watched) -> None:
        super().__init__(log)
        self.alive: dict[int, str] = {}
        self.next = 1
        self.owed: dict[str, int] = {}
        """How many tokens each run has still to send."""

    def handlers(self) -> Handlers:
        return {
            e.TokenEnqueued: self._enqueued,
            e.TokenDenied: self._denied,
            e.TokenHeld: self._held,
            e.StepScheduled: self._scheduled,
            e.NextEvaluated: self._routed,
            e.WorkflowFinished: self._finished,
            e.PlaybookCancelled: self._cancelled,
        }

    def _enqueued(self, event: e.TokenEnqueued) -> None:
        if event.token != self.next:
            self.fail(f"token {event.token} was made where {self.next} is next")
        if event.origin is not None:
            self._sent(event.origin, event.token)
        elif event.token != 1:
            self.fail(f"token {event.token} comes from nowhere")
        self.next = max(self.next, event.token) + 1
        self.alive[event.token] = event.step

    def _sent(self, run: str, token: int) -> None:
        left = self.owed.pop(run, 0) - 1
        if left < 0:
            self.fail(f"{run} sent token {token}, which none of its arcs selected")
        elif left:
            self.owed[run] = left

    def _denied(self, event: e.TokenDenied) -> None:
        self._gone(event.token, "denied")

    def _held(self, event: e.TokenHeld) -> None:
        if event.token not in self.alive:
            self.fail(f"token {event.token} is held and does not exist")

    def _scheduled(self, event: e.StepScheduled) -> None:
        step = step_of(event.run)
        for token in event.tokens:
            self._gone(token, f"consumed by {event.run}", step)
        if not event.tokens and step != self.log.net.playbook.final:
            self.fail(f"{event.run} consumed no token")

    def _gone(self, token: int, how: str, step: str | None = None) -> None:
        at = self.alive.pop(token, None)
        if at is None:
            self.fail(f"token {token} was {how} and does not exist, or not any more")
        elif step is not None and at != step:
            self.fail(f"token {token} was {how} and is at {at}")

    def _routed(self, event: e.NextEvaluated) -> None:
        count = len(event.selected) + len(event.to)
        if count:
            self.owed[event.run] = count
        else:
            self.owed.pop(event.run, None)

    def _finished(self, event: e.WorkflowFinished) -> None:
        if event.outcome != "succeeded":
            self._cancelled(event)
            return
        for token, step in self.alive.items():
            self.fail(f"token {token} at {step} is neither consumed nor denied, and the workflow finished")
        for run, count in self.owed.items():
            self.fail(f"{run} selected {count} arc{'s' * (count != 1)} more than it sent tokens")

    def _cancelled(self, event: e.Event) -> None:
        self.alive.clear()
        self.owed.clear()


class Runs(Check):
    """Each run of a step is scheduled once and ends once; nothing happens in a run before or after."""

    name = "runs"

    def __init__(self, log: Watched) -> None:
        super().__init__(log)
        self.entries: dict[str, int] = {}
        self.alive: dict[str, None] = {}
        self.ended: dict[str, None] = {}
        """Runs whose arcs have not been looked at."""

    def handlers(self) -> Handlers:
        return {
            **dict.fromkeys(OF_RUNS, self._inside),
            **dict.fromkeys(OF_TASKS, self._inside_task),
            e.StepScheduled: self._scheduled,
            e.NextEvaluated: self._routed,
            e.LoopDone: self._looped,
            e.StepDone: self._end,
            e.StepFailed: self._end,
            e.WorkflowFinished: self._finished,
            e.PlaybookCancelled: self._cancelled,
        }

    def _scheduled(self, event: e.StepScheduled) -> None:
        step = step_of(event.run)
        number = self.entries[step] = self.entries.get(step, 0) + 1
        if event.run != f"{step}#{number}":
            self.fail(f"{event.run} was scheduled where {step}#{number} is next")
        if step not in self.log.net.steps:
            self.fail(f"the playbook has no step {step!r}")
        self.alive[event.run] = None

    def _routed(self, event: e.NextEvaluated) -> None:
        if event.run not in self.ended:
            self.fail(f"the arcs of {event.run} were looked at, and it had not ended or they had been looked at")
        self.ended.pop(event.run, None)

    def _inside(self, event: e.StepStarted) -> None:
        if event.run not in self.alive:
            self._outside(event.run, event)

    def _inside_task(self, event: e.TaskStarted) -> None:
        if event.task.run not in self.alive:
            self._outside(event.task.run, event)

    def _outside(self, run: str, event: e.Event) -> None:
        self.fail(f"{event.name} of {run}, which had ended or was never scheduled")

    def _looped(self, event: e.LoopDone) -> None:
        plan = self.log.net.steps.get(step_of(event.run))
        if plan is not None and plan.step.tail is not None:  # its case comes next
            if event.run not in self.alive:
                self._outside(event.run, event)
        else:
            self._end(event)

    def _end(self, event: e.StepDone | e.StepFailed | e.LoopDone) -> None:
        if event.run not in self.alive:
            self._outside(event.run, event)
        self.alive.pop(event.run, None)
        self.ended[event.run] = None

    def _finished(self, event: e.WorkflowFinished) -> None:
        if event.outcome == "succeeded":
            for run in self.alive:
                self.fail(f"{run} has not ended, and the workflow finished")
        self.alive.clear()

    def _cancelled(self, event: e.PlaybookCancelled) -> None:
        self.alive.clear()


class Branches(Check):
    """A branch of a classic step fires once in a run, in exclusive mode one at most, and only what fired asks for a way
    out or is suppressed."""

    name = "branches"

    def __init__(self, log: Watched) -> None:
        super().__init__(log)
        self.fired: dict[str, list[str]] = {}

    def handlers(self) -> Handlers:
        return {
            e.CaseEvaluated: self._evaluated,
            e.NextRequested: self._chosen,
            e.BranchSuppressed: self._chosen,
            e.StepDone: self._ended,
            e.StepFailed: self._ended,
        }

    def _evaluated(self, event: e.CaseEvaluated) -> None:
        fired = self.fired.setdefault(event.run, [])
        for branch in event.order:
            if branch in fired:
                self.fail(f"{branch} of {event.run} fired twice")
            fired.append(branch)
        if event.case_mode == "exclusive" and len(fired) > 1:
            self.fail(f"{len(fired)} branches of {event.run} fired, and one may")

    def _chosen(self, event: e.NextRequested | e.BranchSuppressed) -> None:
        if event.branch not in self.fired.get(event.run, ()):
            self.fail(f"{event.name} of {event.branch} of {event.run}, which has not fired")

    def _ended(self, event: e.StepDone | e.StepFailed) -> None:
        self.fired.pop(event.run, None)


def _has(kind: type[e.Event], field: str, expected: type) -> bool:
    return any((found.name, found.type) == (field, expected) for found in msgspec.structs.fields(kind))


OF_TASKS = tuple(kind for kind in e.EVENTS.values() if _has(kind, "task", TaskId))
OF_RUNS = tuple(kind for kind in e.EVENTS.values() if _has(kind, "run", str))
