"""Traces for OpenTelemetry: requests as they are answered, executions when they have ended.

The server that stores the end of an execution makes spans of it, its step runs, iterations and tasks from the log, so
they do not depend on which servers and workers took part, or crashed. They are dropped if the receiver is down. The
trace of an execution has the id of the execution, and the ids of spans are derived from their subjects: a worker knows
the id of its task without a request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine.state import Execution
from noetl.errors import StoreError, UsageError
from noetl.latest import Latest
from noetl.model.identity import action_id, iteration_id, span_id, step_of
from noetl.runtime.store_thread import InStore
from noetl.store.codec import decode
from noetl.store.store import Row, Store

if TYPE_CHECKING:
    from noetl.server.endpoint import ApiCall

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
ROWS_PER_READ = 1_000
MAX_REQUESTS = 10_000
MAX_SPANS = 10_000  # maximum number of spans of an execution; its own span has the number of those left out


class Point(NamedTuple):
    trace: str  # ids in hex
    span: str


class TraceSpan(msgspec.Struct, frozen=True):
    name: str
    id: str
    parent: str | None
    start: float
    end: float
    attributes: dict[str, Any] = {}
    error: str | None = None  # the kind of the error that it ended with


class Spans:
    def __init__(self, execution: str, path: str) -> None:
        self.execution, self.path = execution, path
        self.open: dict[str, TraceSpan] = {}
        self.count = self.left_out = 0

    def of(self, rows: Iterable[Row]) -> Iterator[TraceSpan]:
        for row in rows:
            event = decode(row.type, row.data)
            for span in self._ended(event, row.at):
                if isinstance(event, e.PlaybookProcessed) or self.count < MAX_SPANS:
                    self.count += 1
                    yield span
                else:
                    self.left_out += 1

    def _ended(self, event: e.Event, at: float) -> Iterator[TraceSpan]:
        """The spans that an event ends; one that it begins is opened, once even if a lease is granted again."""
        root = span_id(self.execution)
        match event:
            case e.ExecutionRequested():
                attributes: dict[str, Any] = {"noetl.execution_id": self.execution, "noetl.path": self.path}
                self.open.setdefault(
                    self.execution, TraceSpan(f"execution {self.path}", root, None, at, at, attributes)
                )
            case e.StepScheduled(run=run):
                attributes, id = {"noetl.step": step_of(run), "noetl.step_run_id": run}, span_id(self.execution, run)
                self.open.setdefault(run, TraceSpan(f"step {step_of(run)}", id, root, at, at, attributes))
            case e.IterationStarted(run=run, index=index):
                key, attributes = iteration_id(run, index), {"noetl.step_run_id": run, "noetl.iteration": index}
                id, parent = span_id(self.execution, key), span_id(self.execution, run)
                self.open.setdefault(key, TraceSpan(f"iteration {step_of(run)}", id, parent, at, at, attributes))
            case e.StepDone(run=run) | e.LoopDone(run=run):
                yield from self._end(run, at)
            case e.StepFailed(run=run, error=error):
                yield from self._end(run, at, error.kind)
            case e.IterationDone(run=run, index=index):
                yield from self._end(iteration_id(run, index), at)
            case e.IterationFailed(run=run, index=index, error=error):
                yield from self._end(iteration_id(run, index), at, error.kind)
            case e.TaskDone(skipped=False, task=task, outcome=outcome):
                iteration = iteration_id(task.run, task.index)
                yield TraceSpan(
                    f"task {task.label}",
                    span_id(action_id(self.execution, task), str(event.attempt)),
                    span_id(self.execution, iteration if iteration in self.open else task.run),
                    at - event.duration_ms / 1000,  # its start is stored with its end at the latest
                    at,
                    {"noetl.task": task.label, "noetl.task_run_id": str(task), "noetl.attempt": event.attempt},
                    None if outcome.ok else outcome.error.kind if outcome.error is not None else "error",
                )
            case e.PlaybookProcessed():
                for key in [key for key in self.open if key != self.execution]:  # cut off by the end
                    yield from self._end(key, at)
                kind = (event.error or {}).get("kind") or event.outcome
                status = {"noetl.status": event.outcome}
                more = status | ({"noetl.spans_left_out": self.left_out} if self.left_out else {})
                yield from self._end(self.execution, at, kind if event.outcome == "failed" else None, **more)

    def _end(self, key: str, at: float, error: str | None = None, **more: Any) -> Iterator[TraceSpan]:
        if (span := self.open.pop(key, None)) is not None:
            yield replace(span, end=at, attributes=span.attributes | more, error=error)


class Traces:
    """Sends spans to an OTLP receiver over HTTP; UsageError if the packages are missing."""

    def __init__(self, url: str, store: Store, in_store: InStore, version: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError:
            raise UsageError("traces need packages that are not installed: pip install 'noetl-engine[otel]'") from None
        self.store, self.in_store = store, in_store
        own = Resource.create({"service.name": "noetl", "service.version": version})
        self.resource = own.merge(OTELResourceDetector().detect())  # the environment wins
        self.scope = InstrumentationScope("noetl", version)
        self.sending = BatchSpanProcessor(OTLPSpanExporter(url))
        self.requests: Latest[str, Point] = Latest(
            MAX_REQUESTS
        )  # the spans of the requests that have started executions
        self.reading: set[asyncio.Task[None]] = set()

    def start_request(self, execution: str, caller: Point | None) -> Point:
        point = Point(trace_of(execution) if caller is None else caller.trace, os.urandom(8).hex())
        self.requests[execution] = point
        return point

    def answered(self, call: ApiCall, status: int, seconds: float) -> None:
        point, caller, execution = call.span, call.parent_span, call.execution
        attributes = {
            "http.request.method": call.endpoint.method,
            "http.route": call.endpoint.path,
            "http.response.status_code": status,
            "noetl.request_id": call.request_id,
        }
        if execution is not None:
            attributes["noetl.execution_id"] = execution
        if point is None:
            point = Point(caller.trace if caller is not None else os.urandom(16).hex(), os.urandom(8).hex())
        links = []
        if execution is not None and trace_of(execution) != point.trace:
            links.append(Point(trace_of(execution), span_id(execution)))
        name, now = f"{call.endpoint.method} {call.endpoint.path}", time.time()
        error = str(status) if status >= 500 else None
        span = TraceSpan(name, point.span, caller.span if caller else None, now - seconds, now, attributes, error)
        self._send(point.trace, span, links, server=True)

    def ended(self, state: Execution) -> None:
        task = asyncio.create_task(self._read(state.id, state.net.playbook.path, state.parent))
        self.reading.add(task)
        task.add_done_callback(self.reading.discard)

    async def _read(self, execution: str, path: str, parent: tuple[str, str, int] | None) -> None:
        trace, request, spans = trace_of(execution), self.requests.pop(execution, None), Spans(execution, path)
        links = [Point(trace_of(parent[0]), span_id(parent[0], parent[1]))] if parent is not None else []
        root = request.span if request is not None and request.trace == trace else None
        if request is not None and root is None:
            links.append(request)
        after = 0
        try:
            while rows := await self.in_store(self.store.read, execution, after, ROWS_PER_READ):
                for span in spans.of(rows):
                    is_root = span.id == span_id(execution)
                    self._send(trace, replace(span, parent=root) if is_root else span, links if is_root else [])
                after = rows[-1].seq
        except StoreError as error:  # the execution itself is stored; only its spans are missing
            logging.getLogger(__name__).warning("cannot read the spans of %s: %s", execution, error)

    def _send(self, trace: str, span: TraceSpan, links: list[Point], server: bool = False) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        attributes = span.attributes | ({"error.type": span.error} if span.error is not None else {})
        self.sending.on_end(
            ReadableSpan(
                span.name,
                _context(trace, span.id),
                None if span.parent is None else _context(trace, span.parent),
                self.resource,
                attributes,
                links=[Link(_context(*point)) for point in links],
                kind=SpanKind.SERVER if server else SpanKind.INTERNAL,
                status=Status(StatusCode.ERROR if span.error is not None else StatusCode.UNSET),
                start_time=int(span.start * 1e9),
                end_time=int(span.end * 1e9),
                instrumentation_scope=self.scope,
            )
        )

    async def close(self) -> None:
        """Send the remaining spans, for a few seconds at most."""
        await asyncio.gather(*self.reading, return_exceptions=True)
        await asyncio.to_thread(self.sending.shutdown)


def caller_of(traceparent: str) -> Point | None:
    """The span that a request names as its caller (W3C Trace Context); None if the header is missing or invalid."""
    match = TRACEPARENT.fullmatch(traceparent)
    if match is None or match[0].startswith("ff") or not int(match[1], 16) or not int(match[2], 16):
        return None
    return Point(match[1], match[2])


def trace_of(execution: str) -> str:
    return execution.replace("-", "")


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
