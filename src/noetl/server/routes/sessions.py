"""/sessions: people sign in, see where they are signed in, and sign out."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from noetl.errors import NotFound
from noetl.server import passwords, show
from noetl.server.auth import (
    cookie,
    cookie_of,
    csrf_of,
    new_session,
    unauthorised,
)
from noetl.server.call import Call, Query, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.wire import Login, LoginRequest, SessionPage
from noetl.store.access import MAX_SESSION_SECONDS, Session

routes = Routes()

LOGIN_BYTES = 16_384


@routes.add("POST", "/sessions", body=LoginRequest, limit=LOGIN_BYTES, answers={201: Login})
async def login(call: Call) -> Response:
    """Sign in. The answer sets the cookie of the session."""
    request, api = await call.read(LoginRequest), call.api
    address = (call.scope.get("client") or ("",))[0]
    guess = (request.user[:100], address)
    api.throttle.check(*guess)
    api.throttle.failed(*guess)  # in advance, so that concurrent guesses are all counted
    user = None if "\0" in request.user else await call.in_store(api.store.access.user, request.user)
    async with api.hashing:
        good = await asyncio.to_thread(passwords.matches, user.password if user else "", request.password)
    if user is None or not good:
        api.metrics.count("noetl_logins_failed_total")
        raise unauthorised("no user has this name and password")
    api.throttle.succeeded(*guess)
    agent = call.header(b"user-agent").encode("ascii", "replace").decode()
    secret, session = new_session(user.name, api.clock.now(), agent, address)
    await api.sessions.begin(session, user)
    answer = {
        "session_id": session.id,
        "user": user.name,
        "role": user.role,
        "csrf_token": csrf_of(secret),
        "expires": show.stamp(session.expires),
    }
    return json_response(answer, 201, {"Set-Cookie": cookie(secret, int(MAX_SESSION_SECONDS))})


@routes.add(
    "GET",
    "/sessions",
    query=(Query("user", says="Sessions of this user (admin only); `*` stands for all."),),
    answers={200: SessionPage},
)
async def list_all(call: Call) -> Response:
    """Who asks, and where that person is signed in."""
    caller, asked = call.caller, call.text("user")
    own = caller.name if caller.session is not None else ""  # what a token is called says nothing about people
    if asked not in ("", own) and caller.role != "admin":
        raise Refused(403, "sessions of others are shown to the role admin")
    user = None if asked == "*" else asked or own
    found = await call.api.sessions.of(user) if user != "" else []
    current = caller.session.id if caller.session is not None else None
    answer = {
        "name": caller.name,
        "role": caller.role,
        "csrf_token": csrf_of(cookie_of(call.headers)) if caller.session is not None else None,
        "items": [_shown(one, current) for one in found],
    }
    return json_response(answer)


@routes.add("DELETE", "/sessions", answers={204: None})
async def logout(call: Call) -> Response:
    """Sign out."""
    if call.caller.session is None:
        raise Refused(422, "a token has no session: revoke it at /tokens")
    await call.api.sessions.end(call.caller.session)
    call.api.doors.forget()
    return Response(status_code=204, headers={"Set-Cookie": cookie("", 0)})


@routes.add("DELETE", "/sessions/{name}", answers={204: None})
async def end(call: Call) -> Response:
    """End a session by its id: one's own, or as admin anybody's."""
    id, sessions, caller = call.params["name"], call.api.sessions, call.caller
    user = None if caller.role == "admin" else caller.name if caller.session is not None else ""
    found = next((one for one in await sessions.of(user) if one.id == id), None)
    if found is None or not await sessions.end(found):
        raise NotFound(f"there is no session {id!r}")
    call.api.doors.forget()
    return Response(status_code=204)


def _shown(one: Session, current: str | None) -> dict[str, object]:
    return {
        "id": one.id,
        "user": one.user,
        "created": show.stamp(one.created),
        "last_seen": show.stamp(one.seen),
        "expires": show.stamp(one.expires),
        "agent": one.agent,
        "address": one.address,
        "current": one.id == current,
    }
