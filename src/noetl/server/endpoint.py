"""How a route is declared: a decorator names its method and path, the function's signature its types.

    @routes.add("POST", "/tokens", status=201)
    async def add_token(call: Call, body: TokenRequest) -> NewToken: ...

`body` is the JSON body and `query` the query string, both msgspec structs that are decoded and checked before the
function runs. The return annotation is the type of the answer; None is an empty answer (204). A function with several
kinds of answer, or with headers of its own, lists its `answers` and returns a Response. The OpenAPI document is made
from the same declaration.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import msgspec

from noetl.server.roles import PREFIX

JSON = "application/json"
YAML = "application/yaml"
BYTES = "application/octet-stream"
MIB = 1 << 20

Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON body; unknown keys are errors."""


class Nothing(RequestBody, frozen=True):
    """An empty object."""


class QueryString(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters; unknown ones are errors."""


def text(description: str) -> msgspec.Meta:
    """A text parameter. Databases cannot store NUL."""
    return msgspec.Meta(pattern=r"^[^\0]*$", description=description)


VersionNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Cursor = Annotated[str, text("The `next` of the page before this one.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="Maximum number of items.")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="Only items after this number.")]


class Page(QueryString, frozen=True):
    """Which part of a list."""

    cursor: Cursor = ""
    limit: Limit = 100


class Header(msgspec.Struct, frozen=True):
    name: str
    description: str


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A method of a path, with everything that is needed to check a request, to answer it and to document it."""

    method: str
    path: str
    function: Callable[..., Awaitable[Any]]
    body: Any = None
    """Type of the JSON body; None if there is none, or if the function reads the body itself."""
    media: tuple[str, ...] = ()
    """Accepted content types; empty if there is no body."""
    optional: bool = False
    limit: int = 0
    """Maximum size of the body in bytes."""
    decoder: msgspec.json.Decoder[Any] | None = None
    query: type[QueryString] | None = None
    headers: tuple[Header, ...] = ()
    answers: dict[int, Any] = {}
    """Types of the answers by status, the usual one first. None: no content; a string: content of that media type."""

    @property
    def description(self) -> str:
        return " ".join((self.function.__doc__ or "").split())


class Routes:
    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix
        self.endpoints: list[Endpoint] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        status: int = 200,
        raw: tuple[str, ...] = (),
        optional: bool = False,
        limit: int = MIB,
        headers: tuple[Header, ...] = (),
        answers: dict[int, Any] | None = None,
    ) -> Callable[[Function], Function]:
        """`raw` are the content types of a body that the function reads itself."""

        def declare(function: Function) -> Function:
            types = inspect.get_annotations(function, eval_str=True)
            answer = types["return"]
            media = raw or ((JSON,) if "body" in types else ())
            self.endpoints.append(
                Endpoint(
                    method=method,
                    path=self.prefix + path,
                    function=function,
                    body=types.get("body"),
                    decoder=msgspec.json.Decoder(types["body"]) if "body" in types else None,
                    media=media,
                    optional=optional,
                    limit=limit if media else 0,
                    query=types.get("query"),
                    headers=headers,
                    answers=answers or {204 if answer is None else status: answer},
                )
            )
            return function

        return declare
