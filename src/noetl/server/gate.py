"""The gate: every request passes here before anything else looks at it.

In this order: is there such a route, byte by byte; is this server meant (Host), and does a page of its own ask
(Origin); who asks, and may they; is the content of a type and size that is taken. What does not pass is answered with
a problem and has touched nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from time import perf_counter
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.errors import NoetlError
from noetl.log import Level
from noetl.server.api import Api
from noetl.server.call import Call, Endpoint
from noetl.server.problems import MEDIA, Refused, document, refused
from noetl.server.roles import ALLOWED, PREFIX, pattern
from noetl.server.traces import Traces, caller_of, trace_of

CHANGES = frozenset(["POST", "PUT", "PATCH", "DELETE"])
SINGLE = frozenset([b"host", b"origin", b"authorization", b"cookie", b"content-type", b"x-csrf-token"])
"""Headers of which two would leave it open which one counts."""
HOST = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
"""A host name, an IPv4 address or an IPv6 address in brackets, with an optional port, and nothing else."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
WORKERS = frozenset(f"{PREFIX}/worker/{verb}" for verb in ("claim", "report", "heartbeat"))
QUIET = frozenset(["/livez", "/readyz", "/metrics", *WORKERS])
"""Routes that are asked all the time: only their failures are worth a line."""
KEPT_HOSTS = 1_000
KEY = "noetl.call"


class Route(NamedTuple):
    """All methods of a path."""

    path: str
    pattern: re.Pattern[str]
    methods: dict[str, Endpoint]


class Table:
    """Finds the route of a path."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        by_path: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        declared = {(method, path) for path, methods in by_path.items() for method in methods}
        if declared != ALLOWED.keys():
            raise ValueError(f"routes and the table of roles differ: {sorted(declared ^ ALLOWED.keys())}")
        routes = [Route(path, pattern(path), methods) for path, methods in by_path.items()]
        self._plain = {route.path: route for route in routes if "{" not in route.path}
        self._open: dict[str, list[Route]] = {}
        for route in routes:
            if "{" in route.path:
                self._open.setdefault(route.path.partition("{")[0], []).append(route)

    def find(self, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route, and the parts of the path that it leaves open."""
        if (plain := self._plain.get(path)) is not None:
            return plain, {}
        for start, routes in self._open.items():
            if path.startswith(start):
                for route in routes:
                    if match := route.pattern.fullmatch(path):
                        params = _decoded(match.groupdict())
                        return None if params is None else (route, params)
        return None


class Gate:
    """Lets requests in, or answers them."""

    def __init__(self, app: ASGIApp, api: Api, endpoints: Iterable[Endpoint]) -> None:
        self.app, self.api, self.table = app, api, Table(endpoints)
        self._names = frozenset(host_name(host) or host.lower() for host in api.settings.hosts)
        self._good_hosts: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:  # a websocket
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, api = perf_counter(), self.api
        headers: dict[bytes, bytes] = {}
        twice = False
        for name, value in scope["headers"]:
            twice = twice or (name in headers and name in SINGLE)
            headers[name] = value
        request_id = _request_id(headers)
        answer = _Answer(send, request_id)
        route = "none"
        call: Call | None = None
        api.metrics.open_requests += 1
        try:
            endpoint, params = self._route(scope)
            route = endpoint.path
            call = Call(api, endpoint, scope, receive, headers, params, request_id)
            await self._let_in(call, twice)
            scope[KEY] = call
            response = await endpoint.function(call)
            await response(scope, receive, answer)
        except NoetlError as error:
            await self._refuse(refused(error), scope, receive, answer, request_id)
        except Exception as error:
            api.log.defect(error, request_id=request_id, route=route)
            await self._refuse(Refused(500, "look into the server's log"), scope, receive, answer, request_id)
        finally:
            if call is not None:
                call.close()
            api.metrics.open_requests -= 1
            seconds = perf_counter() - started
            method = scope["method"] if route != "none" else "none"
            api.metrics.answered(method, route, answer.status, seconds)
            if api.traces is not None and route not in QUIET and KEY in scope:
                _trace(api.traces, scope[KEY], answer.status, seconds)
            if api.settings.log_requests and (route not in QUIET or answer.status >= 400):
                self._note(scope, route, answer.status, seconds, request_id)

    async def _refuse(self, problem: Refused, scope: Scope, receive: Receive, answer: _Answer, request_id: str) -> None:
        if not answer.status:
            response = Response(document(problem, request_id), problem.status, problem.headers, MEDIA)
            await response(scope, receive, answer)

    def _note(self, scope: Scope, route: str, status: int, seconds: float, request_id: str) -> None:
        call: Call | None = scope.get(KEY)
        who = call.caller.key if call is not None and call.is_known else None
        level: Level = "error" if status == 500 else "warning" if status > 500 else "info"
        self.api.log.write(
            level,
            "request",
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 3),
            who=who,
            execution_id=None if call is None else call.execution,
            trace_id=None if call is None else _trace_id(call),
            request_id=request_id,
        )

    # -- what is asked ----------------------------------------------------------------------------------------------

    def _route(self, scope: Scope) -> tuple[Endpoint, dict[str, str]]:
        raw = scope.get("raw_path")
        path = (scope["path"].encode() if raw is None else raw).decode("latin-1")
        found = self.table.find(path)
        if found is None:
            raise Refused(404, "there is no such address on this server")
        route, params = found
        endpoint = route.methods.get(scope["method"])
        if endpoint is None:
            allowed = ", ".join(sorted(route.methods))
            raise Refused(405, f"{route.path} takes {allowed}", headers={"Allow": allowed})
        return endpoint, params

    async def _let_in(self, call: Call, twice: bool) -> None:
        headers, endpoint = call.headers, call.endpoint
        if twice:
            raise Refused(400, "a header that may be there once is there twice")
        self._check_host(headers)
        roles = ALLOWED[endpoint.method, endpoint.path]
        if roles is not None:
            caller = await self.api.doors.caller(headers, changes=endpoint.method in CHANGES)
            if caller.role not in roles:
                needed = ", ".join(sorted(roles))
                raise Refused(403, f"the role {caller.role} may not do this; it takes one of: {needed}")
            call.known_as(caller)
        _check_content(call)

    def _check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """A page that was led here by its name (DNS rebinding) does not get in, nor one of another server."""
        host = headers.get(b"host", b"")
        if host not in self._good_hosts:
            if not self._is_ours(host):
                raise Refused(421, "this server is not known by that name: `noetl server --allow-host NAME` tells it")
            if len(self._good_hosts) < KEPT_HOSTS:
                self._good_hosts.add(host)
        origin = headers.get(b"origin")
        if origin not in (None, b"http://" + host, b"https://" + host):
            raise Refused(403, "pages of other servers may not ask here", kind="origin")

    def _is_ours(self, host: bytes) -> bool:
        """Names that others give out must be listed; an address can't be rebound."""
        name = host_name(host.decode("latin-1"))
        if name is None:
            return False
        return name == "localhost" or name in self._names or is_address(name)


class _Answer:
    """Passes the answer on, with the headers that all have."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.send, self.request_id, self.status = send, request_id, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers.append((b"x-request-id", self.request_id.encode()))
            headers.append((b"x-content-type-options", b"nosniff"))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
        await self.send(message)


def _trace_id(call: Call) -> str | None:
    """The trace that a request belongs to, where it says so or begins an execution."""
    caller = caller_of(call.headers)
    if caller is not None:
        return caller.trace
    return None if call.execution is None else trace_of(call.execution)


def _trace(traces: Traces, call: Call, status: int, seconds: float) -> None:
    """The span of a request."""
    attributes = {
        "http.request.method": call.endpoint.method,
        "http.route": call.endpoint.path,
        "http.response.status_code": status,
        "noetl.request_id": call.request_id,
    }
    if call.execution is not None:
        attributes["noetl.execution_id"] = call.execution
    traces.answered(call.span, caller_of(call.headers), seconds, attributes, call.execution)


def _check_content(call: Call) -> None:
    """The type has to be said: a form of another page can't say these."""
    endpoint, headers = call.endpoint, call.headers
    length = headers.get(b"content-length", b"0")
    has_content = length != b"0" or b"transfer-encoding" in headers
    if not has_content and (endpoint.body is None or endpoint.optional):
        return
    if length.isdigit() and int(length) > endpoint.limit:
        raise call.too_large()
    if endpoint.body is None:
        return
    media = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if media not in endpoint.media:
        wanted = " or ".join(endpoint.media)
        raise Refused(415, f"`Content-Type` must be {wanted}", headers={"Accept": ", ".join(endpoint.media)})


def _decoded(parts: dict[str, str]) -> dict[str, str] | None:
    """Parts of a path as text; None if what stands behind the signs is no plain name."""
    if not any("%" in part or "." in part for part in parts.values()):
        return parts
    found = {}
    for name, part in parts.items():
        for segment in part.split("/"):
            try:
                text = unquote_to_bytes(segment).decode()
            except UnicodeDecodeError:
                return None
            if text in (".", "..") or not text.isprintable() or "/" in text or "\\" in text:
                return None
        found[name] = unquote_to_bytes(part).decode()
    return found


def host_name(host: str) -> str | None:
    """The name or address in a Host header, in lower case and without the port; None if the header is invalid."""
    match = HOST.fullmatch(host)
    if match is None or (match["port"] and int(match["port"]) > 65_535):
        return None
    if match["six"] is not None:
        return match["six"].lower() if is_address(match["six"]) else None
    return match["name"].lower()


def is_address(name: str) -> bool:
    """Whether it is an IP address, which can't be rebound."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _request_id(headers: Mapping[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id", b"").decode("latin-1")
    return given if REQUEST_ID.fullmatch(given) else os.urandom(8).hex()
