"""Traces for OpenTelemetry: requests as they are answered, executions when they have ended.

The spans of an execution are made from its log by the server that stores its end, so they are the same whichever
servers and workers took part, and none is missing because one of them died before. They go out in the background; where
nobody takes them they are dropped, and the work goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from noetl.engine.state import Execution
from noetl.errors import StoreError, UsageError
from noetl.server.spans import Span, Spans, execution_span, run_span
from noetl.store.ports import Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
PAGE = 1_000
KEPT_REQUESTS = 10_000
MISSING = "traces need packages that are not installed: pip install 'noetl-engine[otel]'"


class Point(NamedTuple):
    """A span somewhere: its trace and its id, in hex."""

    trace: str
    span: str


class Traces:
    """Takes what happened, makes spans of it, and sends them."""

    def __init__(
        self, exporter: SpanExporter, store: Store, in_store: Callable[..., Awaitable[Any]], version: str
    ) -> None:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.store, self.in_store = store, in_store
        own = Resource.create({"service.name": "noetl", "service.version": version})
        self.resource = own.merge(OTELResourceDetector().detect())  # what the environment says goes first
        self.scope = InstrumentationScope("noetl", version)
        self.sending = BatchSpanProcessor(exporter)
        self.requests: dict[str, Point] = {}
        """The requests that have begun executions."""
        self.reading: set[asyncio.Task[None]] = set()

    # -- requests ---------------------------------------------------------------------------------------------------

    def asked(self, execution: str, caller: Point | None) -> Point:
        """A request begins an execution: where its span is. Without a caller's trace it is the root of the execution's
        own; else the two traces are linked."""
        request = os.urandom(8).hex()
        point = Point(trace_of(execution), request) if caller is None else Point(caller.trace, request)
        self.requests[execution] = point
        while len(self.requests) > KEPT_REQUESTS:
            del self.requests[next(iter(self.requests))]
        return point

    def answered(
        self,
        point: Point | None,
        caller: Point | None,
        seconds: float,
        attributes: dict[str, Any],
        execution: str | None,
    ) -> None:
        """A request is done."""
        trace = caller.trace if caller is not None else os.urandom(16).hex()
        point = point or Point(trace, os.urandom(8).hex())
        now, status = time.time(), attributes["http.response.status_code"]
        name = f"{attributes['http.request.method']} {attributes['http.route']}"
        error = str(status) if status >= 500 else None
        linked = [Point(trace_of(execution), execution_span(execution))] if execution is not None else []
        links = [one for one in linked if one.trace != point.trace]
        span = Span(name, point.span, caller.span if caller else None, now - seconds, now, attributes, error)
        self._send(point.trace, span, links, server=True)

    # -- executions -------------------------------------------------------------------------------------------------

    def ended(self, state: Execution) -> None:
        """An execution has ended: its log is read, a page at a time, and its spans are sent."""
        task = asyncio.create_task(self._told(state.id, state.net.playbook.path, state.parent))
        self.reading.add(task)
        task.add_done_callback(self.reading.discard)

    async def _told(self, execution: str, path: str, parent: tuple[str, str, int] | None) -> None:
        trace, request, spans = trace_of(execution), self.requests.pop(execution, None), Spans(execution, path)
        links = [Point(trace_of(parent[0]), run_span(parent[0], parent[1]))] if parent is not None else []
        above = None
        if request is not None and request.trace == trace:
            above = request.span
        elif request is not None:
            links.append(request)
        after = 0
        try:
            while rows := await self.in_store(self.store.read, execution, after, PAGE):
                for span in spans.of(rows):
                    if span.id == execution_span(execution):
                        self._send(trace, replace(span, parent=above), links)
                    else:
                        self._send(trace, span)
                after = rows[-1].seq
        except StoreError as error:  # the execution itself is stored; only its picture is missing
            logging.getLogger(__name__).warning("the spans of %s can't be read: %s", execution, error)

    # -- sending ----------------------------------------------------------------------------------------------------

    def _send(self, trace: str, span: Span, links: list[Point] | None = None, server: bool = False) -> None:
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
        """Send what is left; who does not take it within a few seconds does not get it."""
        await asyncio.gather(*self.reading, return_exceptions=True)
        await asyncio.to_thread(self.sending.shutdown)


def open_traces(endpoint: str, store: Store, in_store: Callable[..., Awaitable[Any]], version: str) -> Traces:
    """Traces that go to an OTLP receiver over HTTP; UsageError if the packages are missing."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise UsageError(MISSING) from None
    return Traces(OTLPSpanExporter(endpoint), store, in_store, version)


def caller_of(headers: Mapping[bytes, bytes]) -> Point | None:
    """The span that a request says it comes from (W3C Trace Context); None if it says nothing that makes sense."""
    match = TRACEPARENT.fullmatch(headers.get(b"traceparent", b"").decode("latin-1"))
    if match is None or match[0].startswith("ff") or not int(match[1], 16) or not int(match[2], 16):
        return None
    return Point(match[1], match[2])


def trace_of(execution: str) -> str:
    """The trace of an execution has its id."""
    return execution.replace("-", "")


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
