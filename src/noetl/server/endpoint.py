"""How a route is declared: a decorator names its method and path, the function's signature its types.

    @routes.add("POST", "/tokens", status=201)
    async def add_token(call: ApiCall, body: TokenRequest) -> NewToken: ...

`body` is the JSON body and `query` the query string, both msgspec structs that are decoded and checked before the
function runs. The return annotation is the type of the response; None is an empty one (204). A function with several
kinds of response, or with headers of its own, lists its `responses` and returns a Response. The OpenAPI document is
made from the same declaration.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from noetl.dsl.reader import read_data
from noetl.errors import UsageError
from noetl.json_errors import NOT_JSON
from noetl.reference import encode_json
from noetl.server.parameters import JSON, MIB, YAML, Header, QueryString
from noetl.server.problems import Refused
from noetl.server.query_strings import read_query
from noetl.server.roles import ALLOWED, PREFIX
from noetl.server.traces import Point, caller_of
from noetl.switch_interval import short_switch_interval

if TYPE_CHECKING:
    from noetl.server.api import Api
    from noetl.server.auth import Caller

IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}
MAX_KEY_LENGTH = 200
ANONYMOUS_BYTES = 64 * MIB

Handler = Callable[..., Awaitable[Any]]
Function = TypeVar("Function", bound=Handler)
Result = TypeVar("Result")


class EndpointOptions(TypedDict, total=False):
    status: int  # of the usual response; default: 200, or 204 without content
    raw: tuple[str, ...]  # content types of a body that the function reads itself
    yaml: bool  # whether the body may be YAML, too
    optional: bool  # whether the body may be missing
    any_query: bool  # whether query parameters that are not declared are ignored; default: only outside of the API
    limit: int  # maximum size of the body in bytes; default: 1 MiB
    headers: tuple[Header, ...]
    operation: str  # its id in the OpenAPI document; default: MODULE_FUNCTION
    also: str  # another media type of the usual response, for clients that accept it
    secret: bool  # whether the response has a secret; such a response is never compressed
    responses: dict[int, Any]  # types by status, the usual one first; None: no content; a string: of that media type;
    # a tuple: one of these types


class Endpoint:
    """A method of a path, with everything that is needed to check a request, to answer it and to document it."""

    def __init__(self, method: str, path: str, function: Handler, options: EndpointOptions) -> None:
        types = inspect.get_annotations(function, eval_str=True)
        self.method, self.path, self.function = method, path, function
        self.body: Any = types.get("body")
        self.decoder = None if self.body is None else msgspec.json.Decoder(self.body)
        self.query: type[QueryString] | None = types.get("query")
        self.any_query = options.get("any_query", not path.startswith(PREFIX))
        self.headers, self.optional = options.get("headers", ()), options.get("optional", False)
        self.secret, self.also = options.get("secret", False), options.get("also", "")
        decoded = (JSON, YAML) if options.get("yaml") else (JSON,)
        self.media = options.get("raw") or (decoded if "body" in types else ())
        self.limit = options.get("limit", MIB) if self.media else 0
        name = f"{function.__module__.rpartition('.')[2]}_{function.__name__}"
        self.operation = options.get("operation", name)
        usual = 204 if types["return"] is None else options.get("status", 200)
        self.responses = options.get("responses") or {usual: types["return"]}


class Routes:
    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix
        self.endpoints: list[Endpoint] = []

    def add(self, method: str, path: str, **options: Unpack[EndpointOptions]) -> Callable[[Function], Function]:
        def declare(function: Function) -> Function:
            self.endpoints.append(Endpoint(method, self.prefix + path, function, options))
            return function

        return declare


class BodyMemory:
    """Limits the memory for request bodies of unauthenticated callers."""

    def __init__(self, limit: int = ANONYMOUS_BYTES) -> None:
        self.limit, self.held = limit, 0

    def reserve(self, size: int) -> None:
        if self.held + size > self.limit:
            detail = "the server is receiving too many request bodies; try again later"
            raise Refused(503, detail, headers={"Retry-After": "5"})
        self.held += size


class ApiCall(Request):
    """A request that was routed to an endpoint. `app` is the Guard that has received it."""

    def __init__(self, api: Api, endpoint: Endpoint, scope: Scope, receive: Receive, request_id: str) -> None:
        super().__init__(scope, receive)
        self.api, self.endpoint, self.request_id = api, endpoint, request_id
        self.in_store = api.thread.ask
        self.execution: str | None = self.path_params.get("id")
        self.span: Point | None = None  # the span of the request, if that is known before the response
        self.identity: Caller | None = None  # its sender; None until it is authorized, and on open routes
        self.anonymous_bytes = 0

    @property
    def media(self) -> str:
        """The media type of the request body."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

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
        roles = ALLOWED[self.endpoint.method, self.endpoint.path]
        return roles is None or caller.role in roles

    def starts(self, execution: str) -> None:
        self.execution = execution
        if (traces := self.api.telemetry.traces) is not None:
            self.span = traces.start_request(execution, self.parent_span)

    @property
    def parent_span(self) -> Point | None:
        return caller_of(self.headers.get("traceparent", ""))

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
        if not hasattr(self, "_body"):
            parts = []
            async for part in self.stream():
                if self.identity is None:
                    self.app.anonymous_bodies.reserve(len(part))
                    self.anonymous_bytes += len(part)
                if part:
                    parts.append(part)
            self._body = b"".join(parts)
        return self._body

    def too_large(self) -> Refused:
        return Refused(413, f"the request body must not exceed {self.endpoint.limit:,} bytes")

    async def remember(self, scope: str, record: bytes) -> bytes | None:
        """Store a record under the caller's Idempotency-Key; returns the one of an earlier request."""
        key, api = self.headers["idempotency-key"], self.api
        if not key or len(key) > MAX_KEY_LENGTH or not key.isprintable():
            raise Refused(422, f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} printable characters")
        return await self.in_store(api.store.remember, f"{scope} {self.caller.key}", key, record, api.clock.now())

    async def until_disconnect(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work, which is cancelled when the client disconnects."""
        await self.body()

        async def disconnected() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass

        task, disconnect = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
        try:
            await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refused(499, "the client has disconnected")  # only metrics and logs see it
            return task.result()
        finally:
            disconnect.cancel()
            task.cancel()


async def respond(call: ApiCall) -> Response:
    endpoint = call.endpoint
    arguments: dict[str, Any] = {}
    query = call.scope.get("query_string", b"")
    if endpoint.query is not None:
        arguments["query"] = read_query(query, endpoint.query)
    elif query and not endpoint.any_query:
        read_query(query, QueryString)
    if endpoint.decoder is not None:
        data = await call.body() or (b"{}" if endpoint.optional else b"")
        try:
            if call.media == YAML:
                value = await asyncio.to_thread(short_switch_interval()(read_data), data)  # takes longer than JSON
                arguments["body"] = msgspec.convert(value, endpoint.body)
            else:
                arguments["body"] = endpoint.decoder.decode(data)
        except msgspec.ValidationError as error:
            raise Refused(422, f"invalid request body: {error}") from None
        except UsageError as error:
            raise Refused(400, f"the request body is {error}") from None
        except NOT_JSON as error:
            raise Refused(400, f"the request body is not valid JSON: {error}") from None
    result = await endpoint.function(call, **arguments)
    if isinstance(result, Response):
        return result
    status = next(iter(endpoint.responses))
    return Response(status_code=status) if result is None else json_response(result, status)


def json_response(result: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode_json(result), status, headers, JSON)


def download(name: str) -> dict[str, str]:
    """The headers of a response that a browser stores as a file, and never shows."""
    return {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"}


def created(result: Any, location: str) -> Response:
    return json_response(result, 201, {"Location": PREFIX + location})
