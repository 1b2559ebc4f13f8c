"""An execution as spans: the execution, its step runs, their iterations and tasks, derived from its log.

The trace of an execution has the id of the execution (`trace_id` of every event), and the ids of spans are derived from
their subjects. So every server makes the same spans, and a worker knows the id of its task without a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.engine import events as e
from noetl.model.identity import action_id, iteration_id, span_id, step_of
from noetl.store.codec import decode
from noetl.store.store import Row

MOST_SPANS = 10_000
"""Maximum number of spans of an execution; its own span has the number of those left out."""


class TraceSpan(msgspec.Struct, frozen=True):
    name: str
    id: str
    parent: str | None
    start: float
    end: float
    attributes: dict[str, Any] = {}
    error: str | None = None
    """The kind of the error that it ended with."""


class Spans:
    def __init__(self, execution: str, path: str) -> None:
        self.execution, self.path = execution, path
        self.open: dict[str, TraceSpan] = {}
        self.made = self.left_out = 0

    def of(self, rows: Iterable[Row]) -> Iterator[TraceSpan]:
        """The spans that end in these rows, which come in order."""
        for row in rows:
            event = decode(row.type, row.data)
            for span in self._ended(event, row.at):
                if isinstance(event, e.PlaybookProcessed) or self.made < MOST_SPANS:
                    self.made += 1
                    yield span
                else:
                    self.left_out += 1

    def _ended(self, event: e.Event, at: float) -> Iterator[TraceSpan]:
        """The spans that an event ends; one that it begins is opened."""
        attributes: dict[str, Any]
        match event:
            case e.ExecutionRequested():
                attributes = {"noetl.execution_id": self.execution, "noetl.path": self.path}
                self._begin(self.execution, TraceSpan(f"execution {self.path}", self._id(), None, at, at, attributes))
            case e.StepScheduled(run=run):
                attributes = {"noetl.step": step_of(run), "noetl.step_run_id": run}
                self._begin(run, TraceSpan(f"step {step_of(run)}", self._id(run), self._id(), at, at, attributes))
            case e.IterationStarted(run=run, index=index):
                key, name = iteration_id(run, index), f"iteration {step_of(run)}"
                attributes = {"noetl.step_run_id": run, "noetl.iteration": index}
                self._begin(key, TraceSpan(name, self._id(key), self._id(run), at, at, attributes))
            case e.StepDone(run=run) | e.LoopDone(run=run):
                yield from self._end(run, at)
            case e.StepFailed(run=run, error=error):
                yield from self._end(run, at, error.kind)
            case e.IterationDone(run=run, index=index):
                yield from self._end(iteration_id(run, index), at)
            case e.IterationFailed(run=run, index=index, error=error):
                yield from self._end(iteration_id(run, index), at, error.kind)
            case e.TaskDone(skipped=False):
                yield self._task(event, at)
            case e.PlaybookProcessed():
                for key in [key for key in self.open if key != self.execution]:  # cut off by the end
                    yield from self._end(key, at)
                kind = (event.error or {}).get("kind") or event.outcome
                status = {"noetl.status": event.outcome}
                more = status | ({"noetl.spans_left_out": self.left_out} if self.left_out else {})
                yield from self._end(self.execution, at, kind if event.outcome == "failed" else None, **more)

    def _id(self, *run: str) -> str:
        """The id of the span of the execution, or of a step run or an iteration."""
        return span_id(self.execution, *run)

    def _begin(self, key: str, span: TraceSpan) -> None:
        self.open.setdefault(key, span)  # a lease that is granted again does not begin it anew

    def _end(self, key: str, at: float, error: str | None = None, **more: Any) -> Iterator[TraceSpan]:
        if (span := self.open.pop(key, None)) is not None:
            yield replace(span, end=at, attributes=span.attributes | more, error=error)

    def _task(self, event: e.TaskDone, at: float) -> TraceSpan:
        """A task by its duration: its start is stored with its end at the latest."""
        task, error = event.task, event.outcome.error
        iteration = iteration_id(task.run, task.index)
        return TraceSpan(
            f"task {task.label}",
            span_id(action_id(self.execution, task), str(event.attempt)),
            self._id(iteration if iteration in self.open else task.run),
            at - event.duration_ms / 1000,
            at,
            {"noetl.task": task.label, "noetl.task_run_id": str(task), "noetl.attempt": event.attempt},
            None if event.outcome.ok else error.kind if error is not None else "error",
        )
