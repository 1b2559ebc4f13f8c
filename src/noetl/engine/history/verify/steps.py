"""Invariants of tokens and step runs, and of the log as a whole: its end, cancelling, forking, and `ctx`."""

from __future__ import annotations

from typing import Any

from noetl.classic.events import BranchSuppressed, CaseEvaluated, NextRequested
from noetl.engine import events as e
from noetl.engine.history.verify.log import Handlers, LogCheck, LogReader, loop_of
from noetl.engine.patch import SET, BadPatch, Patch, apply_patch
from noetl.model.identity import step_of
from noetl.reference import decode_inline
from noetl.wording import counted

OF_RUNS = [kind for kind in e.EVENTS.values() if "run" in kind.__struct_fields__]
OF_TASKS = [kind for kind in e.EVENTS.values() if "task" in kind.__struct_fields__ and kind not in OF_RUNS]

BEGINNINGS: tuple[type[e.Event], ...] = (
    *(e.TokenEnqueued, e.StepScheduled, e.StepStarted, e.StepRegranted),
    *(e.LoopStarted, e.IterationStarted, e.TaskStarted, e.TimerArmed),
)


class Tokens(LogCheck):
    """Every token is consumed by one run, or denied, or still waits or is held; each was enqueued before."""

    name = "tokens"

    def __init__(self, log: LogReader) -> None:
        super().__init__(log)
        self.runs: dict[str, int] = {}  # how many tokens each run has still to send
        self.alive: dict[int, str] = {}
        self.next = 1

    def handlers(self) -> Handlers:
        return {
            e.TokenEnqueued: self._enqueued,
            e.TokenDenied: lambda event: self._end(event.token, "denied"),
            e.TokenHeld: self._held,
            e.StepScheduled: self._scheduled,
            e.NextEvaluated: self._routed,
            e.WorkflowFinished: self._finished,
            e.PlaybookCancelled: self.drop_all,
        }

    def _enqueued(self, event: e.TokenEnqueued) -> None:
        token, run = event.token, event.origin
        if token != self.next:
            self.fail(f"token {token} was created, but token {self.next} is next")
        if run is not None:
            rest = self.runs.pop(run, 0) - 1
            if rest < 0:
                self.fail(f"{run} sent token {token}, which none of its arcs selected")
            elif rest:
                self.runs[run] = rest
        elif token != 1:
            self.fail(f"token {token} has no origin")
        self.next = max(self.next, token) + 1
        self.alive[token] = event.step

    def _held(self, event: e.TokenHeld) -> None:
        if event.token not in self.alive:
            self.fail(f"token {event.token} is held, but does not exist")

    def _scheduled(self, event: e.StepScheduled) -> None:
        step = step_of(event.run)
        for token in event.tokens:
            self._end(token, f"consumed by {event.run}", step)
        if not event.tokens and step != self.log.net.playbook.final:
            self.fail(f"{event.run} consumed no token")

    def _end(self, token: int, fate: str, step: str | None = None) -> None:
        at = self.alive.pop(token, None)
        if at is None:
            self.fail(f"token {token} was {fate}, but does not exist or was consumed before")
        elif step is not None and at != step:
            self.fail(f"token {token} was {fate}, but is at {at}")

    def _routed(self, event: e.NextEvaluated) -> None:
        self.runs[event.run] = len(event.selected) + len(event.to)
        if not self.runs[event.run]:
            del self.runs[event.run]

    def _finished(self, event: e.WorkflowFinished) -> None:
        if event.outcome != "succeeded":
            self.drop_all(event)
            return
        for token, step in self.alive.items():
            self.fail(f"the workflow finished, but token {token} at {step} was neither consumed nor denied")
        for run, count in self.runs.items():
            self.fail(f"{run} selected {counted(count, 'arc')} more than it sent tokens")

    def drop_all(self, event: e.Event) -> None:
        super().drop_all(event)
        self.alive.clear()


class Runs(LogCheck):
    """Each run of a step is scheduled once and ends once; nothing happens in a run before or after."""

    name = "runs"

    def __init__(self, log: LogReader) -> None:
        super().__init__(log)
        self.runs: dict[str, None] = {}
        self.entries: dict[str, int] = {}
        self.ended: dict[str, None] = {}  # runs whose arcs have not been evaluated

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
            e.PlaybookCancelled: self.drop_all,
        }

    def _scheduled(self, event: e.StepScheduled) -> None:
        step = step_of(event.run)
        number = self.entries[step] = self.entries.get(step, 0) + 1
        if event.run != f"{step}#{number}":
            self.fail(f"{event.run} was scheduled, but {step}#{number} is next")
        if step not in self.log.net.steps:
            self.fail(f"the playbook has no step {step!r}")
        self.runs[event.run] = None

    def _routed(self, event: e.NextEvaluated) -> None:
        if event.run not in self.ended:
            self.fail(f"the arcs of {event.run} were evaluated before it ended, or twice")
        self.ended.pop(event.run, None)

    def _inside(self, event: e.StepStarted | e.StepDone | e.StepFailed | e.LoopDone) -> None:
        if event.run not in self.runs:
            self._outside(event.run, event)

    def _inside_task(self, event: e.TaskStarted) -> None:
        if event.task.run not in self.runs:
            self._outside(event.task.run, event)

    def _outside(self, run: str, event: e.Event) -> None:
        self.fail(f"{event.name} of {run}, which had ended or was never scheduled")

    def _looped(self, event: e.LoopDone) -> None:
        plan = self.log.net.steps.get(step_of(event.run))
        if plan is not None and plan.after_call is not None:  # the run continues
            self._inside(event)
        else:
            self._end(event)

    def _end(self, event: e.StepDone | e.StepFailed | e.LoopDone) -> None:
        self._inside(event)
        self.drop_run(event)
        self.ended[event.run] = None

    def _finished(self, event: e.WorkflowFinished) -> None:
        if event.outcome == "succeeded":
            for run in self.runs:
                self.fail(f"the workflow finished, but {run} has not ended")
        self.runs.clear()


class Branches(LogCheck):
    """A branch of a classic step fires at most once in a run; in exclusive mode, at most one branch does. Only branches
    that fired request a target or are suppressed."""

    name = "branches"

    def handlers(self) -> Handlers:
        return {
            CaseEvaluated: self._evaluated,
            NextRequested: self._chosen,
            BranchSuppressed: self._chosen,
            e.StepDone: self.drop_run,
            e.StepFailed: self.drop_run,
        }

    def _evaluated(self, event: CaseEvaluated) -> None:
        fired: list[str] = self.runs.setdefault(event.run, [])
        for branch in event.order:
            if branch in fired:
                self.fail(f"{branch} of {event.run} fired twice")
            fired.append(branch)
        if event.case_mode == "exclusive" and len(fired) > 1:
            self.fail(f"{len(fired)} branches of {event.run} fired in exclusive mode")

    def _chosen(self, event: NextRequested | BranchSuppressed) -> None:
        if event.branch not in self.runs.get(event.run, ()):
            self.fail(f"{event.name} of {event.branch} of {event.run}, which has not fired")


class OneEnd(LogCheck):
    """There is one terminal event, and nothing after it."""

    name = "terminal"
    finished = False
    processed = 0

    def handlers(self) -> Handlers:
        return {e.WorkflowFinished: self._finish, e.PlaybookProcessed: self._process}

    def _finish(self, event: e.WorkflowFinished) -> None:
        if self.finished:
            self.fail("the workflow finished twice")
        self.finished = True

    def _process(self, event: e.PlaybookProcessed) -> None:
        if not self.processed:
            self.log.watch(dict.fromkeys(e.EVENTS.values(), self._late))
        self.processed = self.log.seq

    def _late(self, event: e.Event) -> None:
        self.fail(f"{event.name} comes after the end, which is event {self.processed}")


class Cancelled(LogCheck):
    """After a cancel nothing is scheduled, granted or started."""

    name = "cancel"
    cancelled = False

    def handlers(self) -> Handlers:
        return {e.PlaybookCancelled: self._cancel}

    def _cancel(self, event: e.PlaybookCancelled) -> None:
        if not self.cancelled:
            self.log.watch(dict.fromkeys(BEGINNINGS, lambda event: self.fail(f"{event.name} comes after the cancel")))
        self.cancelled = True


class Forks(LogCheck):
    """A fork begins with the events of the source that it names, and with no others."""

    name = "fork"

    def handlers(self) -> Handlers:
        return {e.ExecutionForked: self._forked}

    def _forked(self, event: e.ExecutionForked) -> None:
        if event.source_id == self.log.execution:
            self.fail("names itself as the source of the fork")
        if event.source_seq != self.log.seq - 1:
            self.fail(f"follows {self.log.seq - 1} events, but names event {event.source_seq} of its source")


class Ctx(LogCheck):
    """`ctx` is the fold of its patches, and in a parallel loop each key is written by one item."""

    name = "ctx"
    part = "fold"

    def __init__(self, log: LogReader) -> None:
        super().__init__(log)
        self.runs: dict[str, dict[str, tuple[int, Any]]] = {}  # which item of a loop wrote a key, and which value
        self.ctx: dict[str, Any] = {}
        self.contents: dict[str, Any] = {}
        self.texts: dict[str, str] = {}

    def handlers(self) -> Handlers:
        return {
            e.CtxPatched: self._patched,
            e.ExecutionForked: lambda event: self._apply(event.set_ctx),
            e.TaskDone: self._done,
            e.LoopDone: self.drop_run,
            e.StepFailed: self.drop_run,
        }

    def _patched(self, event: e.CtxPatched) -> None:
        part = event.spelled
        if part is not None:
            text = self.texts.pop(part.key, "") + part.text
            if part.more:
                self.texts[part.key] = text
            else:
                self.contents[part.key] = decode_inline(text)
        self._apply(event.patch)

    def _done(self, event: e.TaskDone) -> None:
        if event.set_ctx:
            self._apply(event.set_ctx)
            self._write_once(event)
        if self.contents:
            self.contents.clear()

    def _apply(self, patch: Patch) -> None:
        try:
            apply_patch(self.ctx, patch, self.contents)
        except BadPatch as error:
            self.fail(f"a patch was accepted that cannot be applied: {error}")

    def _write_once(self, event: e.TaskDone) -> None:
        run, index = event.task.run, event.task.index
        loop = loop_of(self.log.net, run)
        if index is None or loop is None or loop.mode != "parallel":
            return
        written = self.runs.setdefault(run, {})
        for key, operator, value in event.set_ctx:
            if operator != SET:
                continue
            writer, old = written.setdefault(key, (index, value))
            if writer != index and old != value:
                self.fail(f"ctx.{key} was written by items {writer} and {index} of {run} with different values")
            elif writer == index:
                written[key] = (index, value)

    def end(self) -> None:
        if self.log.foldable and self.ctx != self.log.state.ctx:
            self.fail("ctx differs from the fold of its patches")
