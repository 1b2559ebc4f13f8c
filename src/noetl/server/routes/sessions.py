from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from noetl.access import new_session
from noetl.errors import NotFound
from noetl.server.auth import cookie, cookie_of, csrf_of, unauthorised
from noetl.server.endpoint import ApiCall, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.record_views import RecordView
from noetl.server.schema import QueryString, RequestBody, text
from noetl.store.access import MAX_SESSION_SECONDS, Role
from noetl.timestamps import rfc3339

routes = Routes()


class LoginRequest(RequestBody, frozen=True):
    """Name and password."""

    user: str
    password: str


class NewSession(msgspec.Struct, frozen=True):
    """A new session, whose secret is in the cookie. Changes need `csrf_token` in the header X-CSRF-Token."""

    session_id: str
    user: str
    role: Role
    csrf_token: str
    expires: str


@routes.add("POST", "/sessions", limit=16_384, answers={201: NewSession})
async def login(call: ApiCall, body: LoginRequest) -> Response:
    """Sign in. The response sets the cookie of the session."""
    api = call.api
    address = call.client.host if call.client is not None else ""
    user = await api.authenticator.user(body.user, body.password, address)
    if user is None:
        api.telemetry.metrics.count("noetl_logins_failed_total")
        raise unauthorised("wrong user name or password")
    agent = call.headers.get("user-agent", "").encode("ascii", "replace").decode()
    secret, session = new_session(user.name, api.clock.now(), agent, address)
    await api.authenticator.sessions.begin(session, user)
    answer = NewSession(session.id, user.name, user.role, csrf_of(secret), rfc3339(session.expires))
    return json_response(answer, 201, {"Set-Cookie": cookie(secret, int(MAX_SESSION_SECONDS))})


class SessionQuery(QueryString, frozen=True):
    user: Annotated[str, text("Sessions of this user (admin only); `*` lists all.")] = ""


class SessionView(RecordView, frozen=True):
    """A session of a user."""

    id: str
    user: str
    created: str
    last_seen: str
    expires: str
    agent: str
    address: str
    current: bool


class SessionPage(msgspec.Struct, frozen=True):
    """The caller, and sessions; `csrf_token` if the caller has a session."""

    name: str
    role: Role
    csrf_token: str | None
    items: list[SessionView]


@routes.add("GET", "/sessions")
async def list_all(call: ApiCall, query: SessionQuery) -> SessionPage:
    """The caller, and the caller's sessions."""
    caller = call.caller
    own = caller.name if caller.session is not None else ""  # the name of a token is not that of a user
    if query.user not in ("", own) and caller.role != "admin":
        raise Refused(403, "only the role admin may list sessions of others")
    user = None if query.user == "*" else query.user or own
    csrf = None if caller.session is None else csrf_of(cookie_of(call.headers))
    current = None if caller.session is None else caller.session.id
    views = []
    for session in await call.api.authenticator.sessions.of(user) if user != "" else []:
        views.append(SessionView.of(session, last_seen=rfc3339(session.last_used), current=session.id == current))
    return SessionPage(caller.name, caller.role, csrf, views)


@routes.add("DELETE", "/sessions", answers={204: None})
async def logout(call: ApiCall) -> Response:
    """Sign out."""
    if call.caller.session is None:
        raise Refused(422, "a token has no session; revoke it with DELETE /api/v1/tokens/ID")
    await call.api.authenticator.sessions.end(call.caller.session)
    call.api.authenticator.clear_cache()
    return Response(status_code=204, headers={"Set-Cookie": cookie("", 0)})


@routes.add("DELETE", "/sessions/{name}")
async def end(call: ApiCall) -> None:
    """End a session by its id: one's own, or as admin any."""
    id, sessions, caller = call.path_params["name"], call.api.authenticator.sessions, call.caller
    user = None if caller.role == "admin" else caller.name if caller.session is not None else ""
    session = next((session for session in await sessions.of(user) if session.id == id), None)
    if session is None or not await sessions.end(session):
        raise NotFound(f"there is no session {id!r}")
    call.api.authenticator.clear_cache()
