"""Traces for OpenTelemetry: requests as they are answered, executions when they have ended.

The server that stores the end of an execution makes its spans from the log, so they do not depend on which servers and
workers took part, or crashed. They are sent in the background, and dropped if the receiver is down.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from noetl.engine.state import Execution
from noetl.errors import StoreError, UsageError
from noetl.model.identity import span_id
from noetl.server.spans import Spans, TraceSpan
from noetl.store.store import Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from noetl.server.call import Call

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
ROWS_PER_READ = 1_000
MAX_REQUESTS = 10_000
MISSING = "traces need packages that are not installed: pip install 'noetl-engine[otel]'"


class Point(NamedTuple):
    """A span: its trace and its id, in hex."""

    trace: str
    span: str


class Traces:
    def __init__(
        self, exporter: SpanExporter, store: Store, in_store: Callable[..., Awaitable[Any]], version: str
    ) -> None:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.store, self.in_store = store, in_store
        own = Resource.create({"service.name": "noetl", "service.version": version})
        self.resource = own.merge(OTELResourceDetector().detect())  # the environment wins
        self.scope = InstrumentationScope("noetl", version)
        self.sending = BatchSpanProcessor(exporter)
        self.requests: dict[str, Point] = {}
        """The spans of the requests that have started executions."""
        self.reading: set[asyncio.Task[None]] = set()

    # -- requests ---------------------------------------------------------------------------------------------------

    def start_request(self, execution: str, caller: Point | None) -> Point:
        """The span of a request that starts an execution. Without a trace of the caller it is the root of the trace of
        the execution; otherwise the two traces are linked."""
        point = Point(trace_of(execution) if caller is None else caller.trace, os.urandom(8).hex())
        self.requests[execution] = point
        while len(self.requests) > MAX_REQUESTS:
            del self.requests[next(iter(self.requests))]
        return point

    def answered(self, call: Call, status: int, seconds: float) -> None:
        """Send the span of a request."""
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

    # -- executions -------------------------------------------------------------------------------------------------

    def ended(self, state: Execution) -> None:
        """Read the log of an ended execution in the background, and send its spans."""
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
                    if span.id == span_id(execution):
                        self._send(trace, replace(span, parent=root), links)
                    else:
                        self._send(trace, span)
                after = rows[-1].seq
        except StoreError as error:  # the execution itself is stored; only its spans are missing
            logging.getLogger(__name__).warning("cannot read the spans of %s: %s", execution, error)

    # -- sending ----------------------------------------------------------------------------------------------------

    def _send(self, trace: str, span: TraceSpan, links: list[Point] | None = None, server: bool = False) -> None:
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
                links=[Link(_context(*point)) for point in links or ()],
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


def open_traces(endpoint: str, store: Store, in_store: Callable[..., Awaitable[Any]], version: str) -> Traces:
    """Traces that go to an OTLP receiver over HTTP; UsageError if the packages are missing."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise UsageError(MISSING) from None
    return Traces(OTLPSpanExporter(endpoint), store, in_store, version)


def caller_of(traceparent: str) -> Point | None:
    """The span that a request names as its caller (W3C Trace Context); None if the header is missing or invalid."""
    match = TRACEPARENT.fullmatch(traceparent)
    if match is None or match[0].startswith("ff") or not int(match[1], 16) or not int(match[2], 16):
        return None
    return Point(match[1], match[2])


def trace_of(execution: str) -> str:
    """The trace of an execution has its id."""
    return execution.replace("-", "")


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
