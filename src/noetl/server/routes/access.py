"""/tokens and /users: who may ask for what."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from starlette.responses import Response

from noetl.errors import Conflict, NotFound
from noetl.server import passwords, show
from noetl.server.auth import new_token
from noetl.server.call import Call, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.roles import PREFIX, is_name
from noetl.server.wire import (
    NewToken,
    TokenPage,
    TokenRequest,
    UserChange,
    UserPage,
    UserRequest,
    UserView,
)
from noetl.store.access import Role, Token, User

routes = Routes()

LONGEST_NAME = 200
LONGEST_LIFE = 10 * 365 * 86_400.0


# -- tokens ---------------------------------------------------------------------------------------------------------


@routes.add("GET", "/tokens", answers={200: TokenPage})
async def tokens(call: Call) -> Response:
    """All tokens, also those that have ended; never their secrets."""
    found = await call.in_store(call.api.store.access.tokens)
    return json_response({"items": [_token(one) for one in found]})


@routes.add("POST", "/tokens", body=TokenRequest, answers={201: NewToken})
async def add_token(call: Call) -> Response:
    """Make a token. It is shown this once."""
    request = await call.read(TokenRequest)
    if request.pool is not None and request.role != "worker":
        raise Refused(422, "a pool is for tokens of workers")
    if len(request.name) > LONGEST_NAME or "\0" in request.name + (request.pool or ""):
        raise Refused(422, f"a name has at most {LONGEST_NAME} characters, and no NUL")
    now = call.api.clock.now()
    if request.expires_in is not None and not 0 < request.expires_in <= LONGEST_LIFE:
        raise Refused(422, "expires_in are seconds from now, ten years at most")
    expires = None if request.expires_in is None else now + request.expires_in
    secret, token = new_token(request.role, request.name, now, pool=request.pool, expires=expires)
    await call.in_store(call.api.store.access.add_token, token)
    answer = {
        "id": token.id,
        "token": secret,
        "role": token.role,
        "name": token.name,
        "pool": token.pool,
        "expires": show.stamp(expires),
    }
    return json_response(answer, 201, {"Location": f"{PREFIX}/tokens/{token.id}"})


@routes.add("DELETE", "/tokens/{name}", answers={204: None})
async def revoke_token(call: Call) -> Response:
    """Revoke a token by its id. At other servers it may work for two more seconds."""
    id, api = call.params["name"], call.api
    if not await call.in_store(api.store.access.revoke_token, id, api.clock.now()):
        raise NotFound(f"there is no valid token {id!r}")
    api.doors.forget()
    return Response(status_code=204)


def _token(one: Token) -> dict[str, object]:
    return {
        "id": one.id,
        "role": one.role,
        "name": one.name,
        "pool": one.pool,
        "created": show.stamp(one.created),
        "expires": show.stamp(one.expires),
        "revoked": show.stamp(one.revoked),
    }


# -- users ----------------------------------------------------------------------------------------------------------


@routes.add("GET", "/users", answers={200: UserPage})
async def users(call: Call) -> Response:
    """The people who can sign in."""
    found = await call.in_store(call.api.store.access.users)
    return json_response({"items": [_user(one) for one in found]})


@routes.add("POST", "/users", body=UserRequest, answers={201: UserView})
async def add_user(call: Call) -> Response:
    """Add a person."""
    request, api = await call.read(UserRequest), call.api
    if not is_name(request.name):
        raise Refused(422, "the name of a user has letters, digits and _ . @ -")
    _check_role(request.role)
    hash = await asyncio.to_thread(passwords.hashed, request.password)
    user = User(request.name, request.role, hash, api.clock.now())
    if not await call.in_store(lambda: api.store.access.put_user(user, new=True)):
        raise Conflict(f"there is a user {request.name!r} already")
    return json_response(_user(user), 201, {"Location": f"{PREFIX}/users/{user.name}"})


@routes.add("PUT", "/users/{name}", body=UserChange, answers={200: UserView})
async def change_user(call: Call) -> Response:
    """Give a person another role or password. A new password ends the sessions."""
    request, api, name = await call.read(UserChange), call.api, call.params["name"]
    user = await call.in_store(api.store.access.user, name)
    if user is None:
        raise NotFound(f"there is no user {name!r}")
    if request.role is not None:
        _check_role(request.role)
        user = replace(user, role=request.role)
    if request.password is not None:
        user = replace(user, password=await asyncio.to_thread(passwords.hashed, request.password))
    changed = user
    if not await call.in_store(lambda: api.store.access.put_user(changed, new=False)):
        raise NotFound(f"there is no user {name!r}")
    if request.password is not None:
        await api.sessions.end_all(name)
    await api.sessions.tell(user)
    api.doors.forget()
    return json_response(_user(user))


@routes.add("DELETE", "/users/{name}", answers={204: None})
async def delete_user(call: Call) -> Response:
    """Forget a person, and end the sessions."""
    name = call.params["name"]
    if not await call.api.sessions.delete_user(name):
        raise NotFound(f"there is no user {name!r}")
    call.api.doors.forget()
    return Response(status_code=204)


def _check_role(role: Role) -> None:
    if role == "worker":
        raise Refused(422, "worker is a role of tokens, not of people")


def _user(one: User) -> dict[str, object]:
    return {"name": one.name, "role": one.role, "created": show.stamp(one.created)}
