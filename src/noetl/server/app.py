"""The application: all endpoints behind the guard, which checks every request before its endpoint sees it.

The order of the checks: the route exists, byte by byte; no header is ambiguous; the request is meant for this server
(Host) and not sent by a page of another one (Origin); the caller's role may use the route; the body has an accepted
type and size. A rejected request gets a problem document.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cached_property
from ipaddress import ip_address
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from noetl.clock import Clock
from noetl.errors import NoetlError
from noetl.log import Level
from noetl.server.api import Api
from noetl.server.compression import compressed
from noetl.server.endpoint import ApiCall, BodyMemory, Endpoint, respond
from noetl.server.openapi import describe, public
from noetl.server.problems import MEDIA, Refused, document, refused
from noetl.server.roles import ALLOWED, FORMS, PREFIX
from noetl.server.routes import (
    access,
    executions,
    exports,
    health,
    history,
    items,
    language,
    logs,
    maintenance,
    outline,
    pages,
    playbooks,
    results,
    step_runs,
    triggers,
    worker,
    workers,
)
from noetl.server.server_settings import ServerSettings
from noetl.server.traces import trace_of
from noetl.store.store import Store

MODULES = (
    executions,
    exports,
    history,
    items,
    step_runs,
    logs,
    outline,
    results,
    worker,
    playbooks,
    language,
    triggers,
    access,
    maintenance,
    workers,
    health,
    pages,
)
CHANGES = frozenset(["POST", "PUT", "PATCH", "DELETE"])
UNREPEATABLE = frozenset([b"host", b"origin", b"authorization", b"cookie", b"content-type", b"x-csrf-token"])
"""Headers that must not be repeated, because it would be open which one counts."""
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]|([A-Za-z0-9_][A-Za-z0-9_.-]{0,252}))(?::([0-9]{1,5}))?")
"""A host name, an IPv4 address or an IPv6 address in brackets, with an optional port, and nothing else."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
WORKER_ROUTES = frozenset(f"{PREFIX}/worker/{verb}" for verb in ("claim", "report", "heartbeat"))
FREQUENT_ROUTES = frozenset(["/livez", "/readyz", "/metrics", *WORKER_ROUTES])  # without spans, logged if they fail
MAX_CACHED_HOSTS = 1_000
NO_ROUTE = "none"


def create_app(store: Store, clock: Clock, settings: ServerSettings | None = None) -> Guard:
    """A server as an ASGI application. Call `api.stop()` before it ends, and `api.close()` after that."""
    return Guard(Api(store, clock, settings or ServerSettings()), endpoints())


def endpoints() -> Iterator[Endpoint]:
    for module in MODULES:
        yield from module.routes.endpoints


def not_found() -> Refused:
    return Refused(404, "route not found: GET /api/v1/openapi.json lists all routes")


def path_pattern(path: str) -> re.Pattern[str]:
    first, *rest = re.split(r"\{(\w+)\}", path)
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return re.compile(re.escape(first) + "".join(f"(?P<{name}>{FORMS[name]}){re.escape(text)}" for name, text in pairs))


def path_params(match: re.Match[str]) -> dict[str, str]:
    """The parts of a path, decoded; 404 if their percent signs hide more than plain names."""
    params = match.groupdict()
    for name, value in params.items():
        if "%" in value or "." in value:
            try:
                segments = [unquote_to_bytes(segment).decode() for segment in value.split("/")]
            except UnicodeDecodeError:
                raise not_found() from None
            for text in segments:
                if text in (".", "..") or not text.isprintable() or "/" in text or "\\" in text:
                    raise not_found()
            params[name] = "/".join(segments)
    return params


class Guard:
    def __init__(self, api: Api, endpoints: Iterable[Endpoint]) -> None:
        self.api, self.endpoints = api, {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints}
        if self.endpoints.keys() != ALLOWED.keys():
            raise ValueError(f"routes and the table of roles differ: {sorted(self.endpoints.keys() ^ ALLOWED.keys())}")
        self._methods: dict[str, dict[str, Endpoint]] = {path: {} for _, path in ALLOWED}
        for (method, path), endpoint in self.endpoints.items():
            self._methods[path][method] = endpoint
        self._patterns = {path: path_pattern(path) for path in self._methods if "{" in path}
        self.anonymous_bodies = BodyMemory()
        self._names = frozenset(["localhost", *(host_name(host) or host.lower() for host in api.settings.hosts)])
        self._accepted_hosts: set[str] = set()

    @cached_property
    def openapi(self) -> dict[str, Any]:
        return describe(public(self.endpoints.values()), self.api.settings.version)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008})
        started, telemetry = perf_counter(), self.api.telemetry
        scope["app"] = self
        request_id = Headers(scope=scope).get("x-request-id", "")
        reply = Reply(send, request_id if REQUEST_ID.fullmatch(request_id) else os.urandom(8).hex())
        if (raw := scope.get("raw_path")) is not None:
            scope["path"] = raw.decode("latin-1")  # compared as it was sent, not decoded
        telemetry.metrics.open_requests += 1
        try:
            await self._answer(scope, receive, reply)
        except NoetlError as error:
            await reply.problem(refused(error), scope, receive)
        except Exception as error:
            telemetry.log.defect(error, request_id=reply.request_id, route=reply.route)
            await reply.problem(Refused(500, "see the server's log"), scope, receive)
        finally:
            telemetry.metrics.open_requests -= 1
            self._record(scope["method"], reply, perf_counter() - started)

    def _route(self, raw_path: str) -> tuple[str, dict[str, str]]:
        if raw_path in self._methods and raw_path not in self._patterns:
            return raw_path, {}
        for path, pattern in self._patterns.items():
            if (match := pattern.fullmatch(raw_path)) is not None:
                return path, path_params(match)
        raise not_found()

    async def _answer(self, scope: Scope, receive: Receive, reply: Reply) -> None:
        try:
            path, scope["path_params"] = self._route(scope["path"])
        except Refused:
            headers = Headers(scope=scope)
            if not pages.is_navigation(scope, headers):
                raise
            self._check_host(headers)
            return await pages.unknown_page(self.api.page.files(), headers)(scope, receive, reply)
        methods, is_head = self._methods[path], scope["method"] == "HEAD"
        endpoint = methods.get("GET" if is_head else scope["method"])
        if endpoint is None:
            allowed = ", ".join(sorted([*methods, "HEAD"] if "GET" in methods else methods))
            raise Refused(405, f"{path} supports {allowed}", headers={"Allow": allowed})
        reply.route = path
        call = ApiCall(self.api, endpoint, scope, receive, reply.request_id)
        try:
            await self.authorize(call)
            reply.call = call
            response = await compressed(await respond(call), endpoint, call.headers)
            if endpoint.also:
                response.headers.add_vary_header("Accept")
            await (headers_only(response) if is_head else response)(scope, receive, reply)
        finally:
            self.anonymous_bodies.held -= call.anonymous_bytes

    async def authorize(self, call: ApiCall) -> None:
        names = [name for name, _ in call.scope["headers"] if name in UNREPEATABLE]
        if len(names) != len(set(names)):
            twice = next(name for name in names if names.count(name) > 1)
            raise Refused(400, f"duplicate header `{twice.decode().title()}`")
        self._check_host(call.headers)
        endpoint = call.endpoint
        roles = ALLOWED[endpoint.method, endpoint.path]
        if roles is not None:
            caller = await self.api.authenticator.caller(call.headers, changes=endpoint.method in CHANGES)
            if caller.role not in roles:
                required = ", ".join(sorted(roles))
                raise Refused(403, f"the role {caller.role} may not do this; it requires one of: {required}")
            call.identity = caller
        length = call.headers.get("content-length", "0")
        has_content = length != "0" or "transfer-encoding" in call.headers
        if not has_content and (not endpoint.media or endpoint.optional):
            return
        if length.isdigit() and int(length) > endpoint.limit:
            raise call.too_large()
        if endpoint.media and call.media not in endpoint.media:  # forms of other pages cannot send the accepted types
            detail = f"`Content-Type` must be {' or '.join(endpoint.media)}"
            raise Refused(415, detail, headers={"Accept": ", ".join(endpoint.media)})

    def _check_host(self, headers: Headers) -> None:
        """Reject names that others direct here (DNS rebinding), and pages of other servers."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._accepted_hosts:
            name = host_name(host)
            if name not in self._names:
                try:
                    ip_address(name or "")  # an address cannot be rebound
                except ValueError:
                    detail = "invalid `Host` header"
                    if name is not None:
                        detail = f"unknown host name {name!r}; allow it with `noetl server --allow-host {name}`"
                    raise Refused(421, detail) from None
            if len(self._accepted_hosts) < MAX_CACHED_HOSTS:
                self._accepted_hosts.add(host)
        if origin not in (None, f"http://{host}", f"https://{host}"):
            raise Refused(403, "cross-origin request refused", kind="origin")

    def _record(self, method: str, reply: Reply, seconds: float) -> None:
        telemetry, route, status, call = self.api.telemetry, reply.route, reply.status, reply.call
        label = method if route != NO_ROUTE else NO_ROUTE
        telemetry.metrics.count("noetl_http_requests_total", 1, label, route, str(status))
        telemetry.metrics.observe("noetl_http_request_duration_seconds", seconds, label, route)
        is_frequent = route in FREQUENT_ROUTES
        if telemetry.traces is not None and not is_frequent and call is not None:
            telemetry.traces.answered(call, status, seconds)
        if self.api.settings.log_requests and (not is_frequent or status >= 400):
            level: Level = "error" if status == 500 else "warning" if status > 500 else "info"
            execution, parent = (None, None) if call is None else (call.execution, call.parent_span)
            telemetry.log.write(
                level,
                "request",
                method=method,
                route=route,
                status=status,
                ms=round(seconds * 1000, 3),
                who=None if call is None or call.identity is None else call.identity.key,
                execution_id=execution,
                trace_id=parent.trace if parent else trace_of(execution) if execution else None,
                request_id=reply.request_id,
            )


class Reply:
    def __init__(self, send: Send, request_id: str) -> None:
        self.send, self.request_id, self.status = send, request_id, 0
        self.route = NO_ROUTE
        self.call: ApiCall | None = None  # the request, once it is authorized

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers.append((b"x-request-id", self.request_id.encode()))
            headers.append((b"x-content-type-options", b"nosniff"))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
        await self.send(message)

    async def problem(self, problem: Refused, scope: Scope, receive: Receive) -> None:
        if not self.status:
            response = Response(document(problem, self.request_id), problem.status, problem.headers, MEDIA)
            await (headers_only(response) if scope["method"] == "HEAD" else response)(scope, receive, self)


def headers_only(response: Response) -> Response:
    """The response to HEAD: that to GET, without its body. A stream does not start."""
    if isinstance(response, StreamingResponse):
        response.body_iterator = _nothing()
    else:
        response.body = b""
    return response


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


def host_name(host: str) -> str | None:
    """The name or address in a Host header, in lower case and without the port; None if the header is invalid."""
    match = HOST.fullmatch(host)
    return None if match is None or int(match[3] or 0) > 65_535 else (match[1] or match[2]).lower()
