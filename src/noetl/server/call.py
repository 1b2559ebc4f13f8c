"""One request on its way to the endpoint that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope

from noetl.server.problems import Refused
from noetl.server.roles import PREFIX, may
from noetl.server.traces import Point, caller_of

if TYPE_CHECKING:
    from noetl.server.api import Api
    from noetl.server.auth import Caller

Value = TypeVar("Value")
Answer = TypeVar("Answer")
Function = Callable[["Call"], Awaitable[Response]]

JSON = "application/json"
YAML = "application/yaml"
BYTES = "application/octet-stream"
MIB = 1 << 20
LEFT = 499
"""The status of requests whose client has left: nobody reads it, and counts of failures leave it out."""


class Query(msgspec.Struct, frozen=True):
    """A parameter behind the question mark."""

    name: str
    kind: str = "string"
    says: str = ""
    low: int = 0
    high: int = 2**31 - 1
    required: bool = False


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A route and what stands behind it; enough to guard it and to describe it."""

    method: str
    path: str
    function: Function
    body: Any = None
    """The type of the content; None if there is none."""
    media: tuple[str, ...] = ()
    optional: bool = False
    """Whether the content may be missing."""
    limit: int = 0
    """How many bytes of content are taken."""
    query: tuple[Query, ...] = ()
    headers: tuple[Query, ...] = ()
    answers: dict[int, Any] = {}
    """Types of the answers by status; None for one without content, a text for one of another media type."""

    @property
    def says(self) -> str:
        return (self.function.__doc__ or "").strip()


class Routes:
    """The endpoints of a module."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        media: tuple[str, ...] = (JSON,),
        optional: bool = False,
        limit: int = MIB,
        query: tuple[Query, ...] = (),
        headers: tuple[Query, ...] = (),
        answers: dict[int, Any],
        prefix: str = PREFIX,
    ) -> Callable[[Function], Function]:
        """Declare an endpoint."""

        def declare(function: Function) -> Function:
            self.endpoints.append(
                Endpoint(
                    method=method,
                    path=prefix + path,
                    function=function,
                    body=body,
                    media=media if body is not None else (),
                    optional=optional,
                    limit=limit if body is not None else 0,
                    query=query,
                    headers=headers,
                    answers=answers,
                )
            )
            return function

        return declare


class Call:
    """A request that has been let in, with all that its endpoint needs."""

    def __init__(
        self,
        api: Api,
        endpoint: Endpoint,
        scope: Scope,
        receive: Receive,
        headers: dict[bytes, bytes],
        params: dict[str, str],
        request_id: str,
    ) -> None:
        self.api, self.endpoint, self.scope, self.receive = api, endpoint, scope, receive
        self.headers, self.params, self.request_id = headers, params, request_id
        self.execution: str | None = params.get("id")
        """Which execution it is about, where it is about one."""
        self.span: Point | None = None
        """Its span, where that is known before it is answered."""
        self._caller: Caller | None = None
        self._body: bytes | None = None
        self._held = 0
        """Bytes counted toward the limit of unauthenticated callers."""

    @property
    def is_known(self) -> bool:
        """Whether it is known who asks; at routes for anybody it is not."""
        return self._caller is not None

    @property
    def caller(self) -> Caller:
        assert self._caller is not None
        return self._caller

    def known_as(self, caller: Caller) -> None:
        self._caller = caller

    async def is_still_let_in(self) -> bool:
        """Whether who asks would be let in now: an answer that goes on and on must not outlive its token."""
        try:
            caller = await self.api.doors.caller(self.headers, changes=False)
        except Refused:
            return False
        return may(caller.role, self.endpoint.method, self.endpoint.path)

    def begins(self, execution: str) -> None:
        """The request begins an execution: lines and spans of the one name the other."""
        self.execution = execution
        if self.api.traces is not None:
            self.span = self.api.traces.asked(execution, caller_of(self.headers))

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    # -- content ----------------------------------------------------------------------------------------------------

    async def content(self) -> bytes:
        """The whole content, up to its limit."""
        if self._body is not None:
            return self._body
        parts = []
        async for part in self.parts():
            if not self.is_known:
                self.api.anonymous_bodies.take(len(part))
                self._held += len(part)
            parts.append(part)
        self._body = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._body

    async def parts(self) -> AsyncIterator[bytes]:
        """The request body as a stream, up to its limit; nothing is buffered."""
        size, more = 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the request body ended early")
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > self.endpoint.limit:
                raise self.too_large()
            yield part
            more = message.get("more_body", False)

    def close(self) -> None:
        """Release the request body after the response."""
        self.api.anonymous_bodies.give_back(self._held)
        self._held = 0

    def too_large(self) -> Refused:
        return Refused(413, f"more than {self.endpoint.limit:,} bytes of content are not taken here")

    async def read(self, kind: type[Value]) -> Value:
        """The content as JSON of a type."""
        data = await self.content()
        if not data and self.endpoint.optional:
            data = b"{}"
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as error:
            raise Refused(422, f"the content is not as it should be: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the content is no valid JSON: {error}") from None

    # -- query ------------------------------------------------------------------------------------------------------

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters behind the question mark, each known and given once."""
        text = self.scope.get("query_string", b"")
        if not text:
            return {}
        try:
            pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
        except (ValueError, UnicodeDecodeError):
            raise Refused(400, "what stands behind the question mark can't be read") from None
        known = {one.name for one in self.endpoint.query}
        found: dict[str, str] = {}
        for name, value in pairs:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise Refused(422, f"there is no parameter {name!r} here; there are: {listed}")
            if name in found:
                raise Refused(422, f"the parameter {name!r} is given twice")
            found[name] = value
        return found

    def text(self, name: str, default: str = "") -> str:
        value = self.query.get(name, default)
        if "\0" in value:
            raise Refused(422, f"{name} can't hold a NUL")
        return value

    def number(self, name: str, default: int) -> int:
        """A parameter that is a number in its bounds."""
        text = self.query.get(name)
        if text is None:
            return default
        declared = next(one for one in self.endpoint.query if one.name == name)
        if not text.isascii() or not text.isdigit() or len(text) > 15 or not declared.low <= int(text) <= declared.high:
            raise Refused(422, f"{name} must be a number from {declared.low} to {declared.high}")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise Refused(422, f"{name} is true or false")
        return text == "true"

    # -- answers ----------------------------------------------------------------------------------------------------

    async def in_store(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        """Ask the store, in its own thread."""
        return await self.api.in_store(ask, *arguments)

    async def unless_gone(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for something as long as somebody waits for the answer."""
        await self.content()
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refused(LEFT, "nobody waits for the answer any more")
            return task.result()
        finally:
            gone.cancel()
            task.cancel()

    async def _gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


def json_response(
    data: Any, status: int = 200, headers: dict[str, str] | None = None, enc_hook: Callable[[Any], Any] | None = None
) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(data, enc_hook=enc_hook), status, headers, JSON)
