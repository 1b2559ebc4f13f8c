from __future__ import annotations

import asyncio

from starlette.responses import Response

from noetl.access import hash_password, new_token
from noetl.errors import Conflict, NotFound
from noetl.model.identity import is_name
from noetl.server.endpoint import ApiCall, Routes, created
from noetl.server.problems import Refused
from noetl.server.record_views import NewToken, TokenItem, UserView
from noetl.server.schema import ItemList, RequestBody
from noetl.store.access import Role, User

routes = Routes()

MAX_TOKEN_NAME_LENGTH = 200
MAX_LIFETIME_SECONDS = 10 * 365 * 86_400.0


class TokenPage(ItemList[TokenItem], frozen=True):
    pass


@routes.add("GET", "/tokens")
async def tokens(call: ApiCall) -> TokenPage:
    """All tokens, including revoked and expired ones; never their secrets."""
    return TokenPage(list(map(TokenItem.of, await call.in_store(call.api.store.access.tokens))))


class TokenRequest(RequestBody, frozen=True):
    """A token to create. `expires_in` is in seconds; `pool` limits a worker's token to one pool."""

    role: Role
    name: str = ""
    pool: str | None = None
    expires_in: float | None = None


@routes.add("POST", "/tokens", answers={201: NewToken})
async def add_token(call: ApiCall, body: TokenRequest) -> Response:
    """Create a token. Its secret is sent only in this response."""
    if body.pool is not None and body.role != "worker":
        raise Refused(422, "`pool` is only for tokens of the role worker")
    if len(body.name) > MAX_TOKEN_NAME_LENGTH or "\0" in body.name + (body.pool or ""):
        raise Refused(422, f"`name` must have at most {MAX_TOKEN_NAME_LENGTH} characters, and no NUL")
    now = call.api.clock.now()
    if body.expires_in is not None and not 0 < body.expires_in <= MAX_LIFETIME_SECONDS:
        raise Refused(422, "`expires_in` must be a number of seconds, at most ten years")
    expires = None if body.expires_in is None else now + body.expires_in
    secret, token = new_token(body.role, body.name, now, pool=body.pool, expires=expires)
    await call.in_store(call.api.store.access.add_token, token)
    return created(NewToken.of(token, token=secret), f"/tokens/{token.id}")


@routes.add("DELETE", "/tokens/{name}")
async def revoke_token(call: ApiCall) -> None:
    """Revoke a token by its id. Other servers may accept it for two more seconds."""
    id, api = call.path_params["name"], call.api
    if not await call.in_store(api.store.access.revoke_token, id, api.clock.now()):
        raise NotFound(f"there is no valid token {id!r}")
    api.authenticator.clear_cache()


class UserPage(ItemList[UserView], frozen=True):
    pass


@routes.add("GET", "/users")
async def users(call: ApiCall) -> UserPage:
    """The people who can sign in."""
    return UserPage(list(map(UserView.of, await call.in_store(call.api.store.access.users))))


class UserRequest(RequestBody, frozen=True):
    """A user to create."""

    name: str
    password: str
    role: Role = "viewer"


@routes.add("POST", "/users", answers={201: UserView})
async def add_user(call: ApiCall, body: UserRequest) -> Response:
    """Create a user."""
    if not is_name(body.name):
        raise Refused(422, "`name` must consist of letters, digits and _ . @ -")
    _check_role(body.role)
    hash = await asyncio.to_thread(hash_password, body.password)
    user = User(body.name, body.role, hash, call.api.clock.now())
    if not await call.in_store(lambda: call.api.store.access.put_user(user, new=True)):
        raise Conflict(f"user {body.name!r} exists")
    return created(UserView.of(user), f"/users/{user.name}")


class UserChange(RequestBody, frozen=True):
    """The changes; a new password ends the sessions."""

    password: str | None = None
    role: Role | None = None


@routes.add("PUT", "/users/{name}")
async def change_user(call: ApiCall, body: UserChange) -> UserView:
    """Change the role or the password of a user. A new password ends the sessions."""
    api, name = call.api, call.path_params["name"]
    user = await call.in_store(api.store.access.user, name)
    if user is None:
        raise NotFound(f"there is no user {name!r}")
    if body.role is not None:
        _check_role(body.role)
    hash = user.password if body.password is None else await asyncio.to_thread(hash_password, body.password)
    changed = User(name, body.role or user.role, hash, user.created)
    if not await call.in_store(lambda: api.store.access.put_user(changed, new=False)):
        raise NotFound(f"there is no user {name!r}")
    if body.password is not None:
        await api.authenticator.sessions.end_all(name)
    await api.authenticator.sessions.publish(changed)
    api.authenticator.clear_cache()
    return UserView.of(changed)


@routes.add("DELETE", "/users/{name}")
async def delete_user(call: ApiCall) -> None:
    """Delete a user, and end the sessions."""
    name, authenticator = call.path_params["name"], call.api.authenticator
    if not await authenticator.sessions.delete_user(name):
        raise NotFound(f"there is no user {name!r}")
    authenticator.clear_cache()


def _check_role(role: Role) -> None:
    if role == "worker":
        raise Refused(422, "the role worker is only for tokens")
