"""An execution as spans: the execution, its step runs, their iterations and tasks, derived from its log.

The trace of an execution has the id of the execution, as every event says (`trace_id`), and the ids of spans are
derived from what they are about. So whoever makes them, at whichever server, makes the same, and a worker knows the id
of its task without asking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.model.identity import action_id, iteration_id, span_id, step_of
from noetl.store.codec import decode
from noetl.store.ports import Row

MOST_SPANS = 10_000
"""Of one execution; of a longer loop the rest is left out, and the execution's span says how much."""


class Span(msgspec.Struct, frozen=True):
    """Something that took some time."""

    name: str
    id: str
    parent: str | None
    start: float
    end: float
    attributes: dict[str, Any] = {}
    error: str | None = None
    """The kind of the error it ended with."""


class Opened(msgspec.Struct):
    """A span whose end is not known yet."""

    name: str
    parent: str | None
    start: float
    attributes: dict[str, Any]


def execution_span(execution: str) -> str:
    """The id of the span of an execution."""
    return span_id(execution)


def run_span(execution: str, run: str) -> str:
    """The id of the span of a step run or an iteration."""
    return span_id(execution, run)


class Spans:
    """Makes the spans of one execution out of its rows."""

    def __init__(self, execution: str, path: str) -> None:
        self.execution, self.path = execution, path
        self.open: dict[str, Opened] = {}
        self.made = self.left_out = 0

    def of(self, rows: Iterable[Row]) -> Iterator[Span]:
        """Those that end in these rows, which come in order."""
        for row in rows:
            event = decode(row.type, row.data)
            take = TAKES.get(type(event))
            for span in take(self, event, row.at) if take is not None else ():
                last = isinstance(event, e.PlaybookProcessed)
                if last or self.made < MOST_SPANS:
                    self.made += 1
                    yield span
                else:
                    self.left_out += 1

    def _begin(self, event: Any, at: float) -> Iterator[Span]:
        attributes = {"noetl.execution_id": self.execution, "noetl.path": self.path}
        self.open[self.execution] = Opened(f"execution {self.path}", None, at, attributes)
        yield from ()

    def _end(self, event: Any, at: float) -> Iterator[Span]:
        """The execution, and before it what was cut off by its end."""
        for key in [key for key in self.open if key != self.execution]:
            yield from self._closed(key, at)
        kind = (event.error or {}).get("kind") or event.outcome
        said = {"noetl.status": event.outcome} | ({"noetl.spans_left_out": self.left_out} if self.left_out else {})
        yield from self._closed(self.execution, at, kind if event.outcome == "failed" else None, **said)

    def _step(self, event: Any, at: float) -> Iterator[Span]:
        step = step_of(event.run)
        attributes = {"noetl.step": step, "noetl.step_run_id": event.run}
        opened = Opened(f"step {step}", execution_span(self.execution), at, attributes)
        self.open.setdefault(event.run, opened)  # a lease that is granted again does not begin it anew
        yield from ()

    def _step_done(self, event: Any, at: float) -> Iterator[Span]:
        yield from self._closed(event.run, at)

    def _step_failed(self, event: Any, at: float) -> Iterator[Span]:
        yield from self._closed(event.run, at, event.error.kind)

    def _item(self, event: Any, at: float) -> Iterator[Span]:
        key = iteration_id(event.run, event.index)
        attributes = {"noetl.step_run_id": event.run, "noetl.iteration": event.index}
        name = f"iteration {step_of(event.run)}"
        self.open.setdefault(key, Opened(name, run_span(self.execution, event.run), at, attributes))
        yield from ()

    def _item_done(self, event: Any, at: float) -> Iterator[Span]:
        yield from self._closed(iteration_id(event.run, event.index), at)

    def _item_failed(self, event: Any, at: float) -> Iterator[Span]:
        yield from self._closed(iteration_id(event.run, event.index), at, event.error.kind)

    def _task(self, event: Any, at: float) -> Iterator[Span]:
        """When a task began is stored with its end at the latest: how long it took is what is known exactly."""
        if event.skipped:
            return
        task, error = event.task, event.outcome.error
        above = iteration_id(task.run, task.index)
        yield Span(
            f"task {task.label}",
            span_id(action_id(self.execution, task), str(event.attempt)),
            run_span(self.execution, above if above in self.open else task.run),
            at - event.duration_ms / 1000,
            at,
            {"noetl.task": task.label, "noetl.task_run_id": str(task), "noetl.attempt": event.attempt},
            None if event.outcome.ok else error.kind if error is not None else "error",
        )

    def _closed(self, key: str, at: float, error: str | None = None, **more: Any) -> Iterator[Span]:
        opened = self.open.pop(key, None)
        if opened is not None:
            id = execution_span(key) if key == self.execution else run_span(self.execution, key)
            yield Span(opened.name, id, opened.parent, opened.start, at, opened.attributes | more, error)


TAKES: dict[type[e.Event], Callable[[Spans, Any, float], Iterator[Span]]] = {
    e.ExecutionRequested: Spans._begin,
    e.PlaybookProcessed: Spans._end,
    e.StepScheduled: Spans._step,
    e.StepDone: Spans._step_done,
    e.StepFailed: Spans._step_failed,
    e.LoopDone: Spans._step_done,
    e.IterationStarted: Spans._item,
    e.IterationDone: Spans._item_done,
    e.IterationFailed: Spans._item_failed,
    e.TaskDone: Spans._task,
}
