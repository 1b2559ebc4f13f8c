"""Invariants of a log as a whole: its end, cancelling, forking, and `ctx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.engine import events as e
from noetl.engine.history.verify.check import Handlers, LogCheck, loop_of
from noetl.engine.patch import SET, BadPatch, Patch, apply_patch
from noetl.reference import decode_inline

if TYPE_CHECKING:
    from noetl.engine.history.verify.log import Log

BEGINNINGS: tuple[type[e.Event], ...] = (
    *(e.TokenEnqueued, e.StepScheduled, e.StepStarted, e.StepRegranted),
    *(e.LoopStarted, e.IterationStarted, e.TaskStarted, e.TimerArmed),
)


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
        self.fail(f"{event.name} comes after the end, which is {self.processed}")


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
    """What a fork says of its source is true: all that came before it are the source's events."""

    name = "fork"

    def handlers(self) -> Handlers:
        return {e.ExecutionForked: self._forked}

    def _forked(self, event: e.ExecutionForked) -> None:
        if event.source_id == self.log.execution:
            self.fail("is said to be a fork of itself")
        if event.source_seq != self.log.seq - 1:
            self.fail(f"follows {self.log.seq - 1} events, and is said to share {event.source_seq} with its source")


class Ctx(LogCheck):
    """`ctx` is the fold of its patches, and in a parallel loop each key is written by one item."""

    name = "ctx"
    part = "fold"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.runs: dict[str, dict[str, tuple[int, Any]]] = {}
        """Which item of a loop wrote a key, and which value."""
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
            self.fail("ctx is not what its patches make it")
