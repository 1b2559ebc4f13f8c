"""A request that was routed to an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from noetl.server.endpoint import JSON, Endpoint, QueryString
from noetl.server.execution_views import encode_reference
from noetl.server.problems import Refused
from noetl.server.roles import may
from noetl.server.traces import Point, caller_of, trace_of

if TYPE_CHECKING:
    from noetl.server.api import Api
    from noetl.server.auth import Caller

Result = TypeVar("Result")

CLIENT_DISCONNECTED = 499
"""Status of requests whose client has disconnected: only metrics and logs see it."""
MAX_PARAMETERS = 50
ANONYMOUS_BYTES = 64 << 20
BODY_RETRY_SECONDS = 5


class BodyMemory:
    """Limits the memory for request bodies of unauthenticated callers."""

    def __init__(self, limit: int = ANONYMOUS_BYTES) -> None:
        self.limit, self.held = limit, 0

    def reserve(self, size: int) -> None:
        """Reserve memory; Refused if the sum over all requests exceeds the limit."""
        if self.held + size > self.limit:
            detail = "the server is receiving too many request bodies; try again later"
            raise Refused(503, detail, headers={"Retry-After": str(BODY_RETRY_SECONDS)})
        self.held += size

    def release(self, size: int) -> None:
        self.held -= size


class Call(Request):
    def __init__(self, api: Api, endpoint: Endpoint, scope: Scope, receive: Receive, request_id: str) -> None:
        super().__init__(scope, receive)
        self.api, self.endpoint, self.request_id = api, endpoint, request_id
        self.execution: str | None = self.path_params.get("id")
        self.span: Point | None = None
        """The span of the request, if that is known before the answer."""
        self.identity: Caller | None = None
        """Its sender; None until it is authorized, and on routes that are open to anybody."""
        self._unauthenticated_bytes = 0

    @property
    def caller(self) -> Caller:
        assert self.identity is not None
        return self.identity

    async def is_still_authorized(self) -> bool:
        """Whether the caller would be authorized now; an endless response must not outlive its token."""
        try:
            caller = await self.api.authenticator.caller(self.headers, changes=False)
        except Refused:
            return False
        return may(caller.role, self.endpoint.method, self.endpoint.path)

    def starts(self, execution: str) -> None:
        """Record that the request starts an execution, for its log line and its span."""
        self.execution = execution
        if self.api.traces is not None:
            self.span = self.api.traces.start_request(execution, self.parent_span)

    @property
    def parent_span(self) -> Point | None:
        return caller_of(self.headers.get("traceparent", ""))

    @property
    def trace_id(self) -> str | None:
        """The trace that the request names, or that of its execution."""
        if (parent := self.parent_span) is not None:
            return parent.trace
        return None if self.execution is None else trace_of(self.execution)

    # -- request ----------------------------------------------------------------------------------------------------

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The request body in parts, up to the endpoint's limit; nothing is buffered."""
        size = 0
        try:
            async for part in super().stream():
                size += len(part)
                if size > self.endpoint.limit:
                    raise self.too_large()
                yield part
        except ClientDisconnect:
            raise Refused(400, "the request body ended early") from None

    async def body(self) -> bytes:
        """The whole request body. Memory for bodies of unauthenticated callers is limited."""
        if not hasattr(self, "_body"):
            parts = []
            async for part in self.stream():
                if self.identity is None:
                    self.api.anonymous_bodies.reserve(len(part))
                    self._unauthenticated_bytes += len(part)
                if part:
                    parts.append(part)
            self._body = b"".join(parts)
        return self._body

    def release(self) -> None:
        self.api.anonymous_bodies.release(self._unauthenticated_bytes)
        self._unauthenticated_bytes = 0

    def too_large(self) -> Refused:
        return Refused(413, f"the request body must not exceed {self.endpoint.limit:,} bytes")

    async def read_body(self, decoder: msgspec.json.Decoder[Any]) -> Any:
        data = await self.body()
        if not data and self.endpoint.optional:
            data = b"{}"
        try:
            return decoder.decode(data)
        except msgspec.ValidationError as error:
            raise Refused(422, f"invalid request body: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the request body is not valid JSON: {error}") from None

    def read_query(self, declared: type[QueryString]) -> QueryString:
        """The query string as a struct; each parameter is declared, and given once."""
        try:
            text = self.scope.get("query_string", b"").decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
        except (ValueError, UnicodeDecodeError):
            raise Refused(400, "invalid query string") from None
        values: dict[str, str] = {}
        for name, value in pairs:
            if name not in declared.__struct_fields__:
                available = ", ".join(sorted(declared.__struct_fields__)) or "none"
                raise Refused(422, f"unknown query parameter {name!r}; available: {available}")
            if name in values:
                raise Refused(422, f"duplicate query parameter {name!r}")
            values[name] = value
        try:
            query = msgspec.convert(values, declared, strict=False)
        except msgspec.ValidationError as error:
            raise Refused(422, f"invalid query parameter: {error}") from None
        for name, value in values.items():  # other spellings are accepted above: 1e3, 1.0, null
            result = getattr(query, name)
            if not isinstance(result, str) and str(result).lower() != value:
                raise Refused(422, f"invalid query parameter {name!r}: {value[:100]!r}")
        return query

    # -- response ---------------------------------------------------------------------------------------------------

    async def in_store(self, query: Callable[..., Result], *arguments: Any) -> Result:
        """Run a store query in the store's thread."""
        return await self.api.in_store(query, *arguments)

    async def until_disconnect(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work, which is cancelled when the client disconnects."""
        await self.body()
        task = asyncio.ensure_future(work)
        disconnect = asyncio.ensure_future(self._disconnected())
        try:
            await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refused(CLIENT_DISCONNECTED, "the client has disconnected")
            return task.result()
        finally:
            disconnect.cancel()
            task.cancel()

    async def _disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


async def respond(call: Call) -> Response:
    """Call the endpoint's function with what it declares; its result as a response."""
    endpoint = call.endpoint
    arguments: dict[str, Any] = {}
    if endpoint.query is not None:
        arguments["query"] = call.read_query(endpoint.query)
    if endpoint.decoder is not None:
        arguments["body"] = await call.read_body(endpoint.decoder)
    result = await endpoint.function(call, **arguments)
    if isinstance(result, Response):
        return result
    status = next(iter(endpoint.answers))
    return Response(status_code=status) if result is None else json_response(result, status)


def json_response(result: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(result, enc_hook=encode_reference), status, headers, JSON)
