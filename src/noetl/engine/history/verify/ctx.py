"""The invariant of `ctx`."""

from __future__ import annotations

from typing import Any

from noetl.engine import events as e
from noetl.engine.history.verify.check import Check, Handlers, Watched, loop_of
from noetl.engine.patch import SET, BadPatch, Patch, apply_patch
from noetl.reference import decode_inline


class Ctx(Check):
    """`ctx` is the fold of its patches, and in a parallel loop each key is written by one item."""

    name = "ctx"
    part = "fold"

    def __init__(self, log: Watched) -> None:
        super().__init__(log)
        self.ctx: dict[str, Any] = {}
        self.contents: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.writers: dict[str, dict[str, tuple[int, Any]]] = {}
        """Which item of a loop wrote a key, and what, by run."""

    def handlers(self) -> Handlers:
        return {
            e.CtxPatched: self._patched,
            e.ExecutionForked: self._forked,
            e.TaskDone: self._done,
            e.LoopDone: self._ended,
            e.StepFailed: self._ended,
        }

    def _patched(self, event: e.CtxPatched) -> None:
        if event.spelled is not None:
            self._inline(event.spelled)
        self._apply(event.patch)

    def _inline(self, part: e.InlinedPart) -> None:
        text = self.texts.pop(part.key, "") + part.text
        if part.more:
            self.texts[part.key] = text
        else:
            self.contents[part.key] = decode_inline(text)

    def _forked(self, event: e.ExecutionForked) -> None:
        self._apply(event.set_ctx)

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
            self.fail(f"a patch was accepted that can't be applied: {error}")

    def _write_once(self, event: e.TaskDone) -> None:
        run, index = event.task.run, event.task.index
        loop = loop_of(self.log.net, run)
        if index is None or loop is None or loop.mode != "parallel":
            return
        written = self.writers.setdefault(run, {})
        for key, operator, value in event.set_ctx:
            if operator != SET:
                continue
            writer, old = written.setdefault(key, (index, value))
            if writer != index and old != value:
                self.fail(f"ctx.{key} was written by items {writer} and {index} of {run} with different values")
            elif writer == index:
                written[key] = (index, value)

    def _ended(self, event: e.LoopDone | e.StepFailed) -> None:
        self.writers.pop(event.run, None)

    def end(self) -> None:
        if self.log.foldable and self.ctx != self.log.state.ctx:
            self.fail("ctx is not what its patches make it")
