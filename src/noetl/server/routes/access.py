"""/tokens, /users, /sessions and /credentials."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from noetl.access import hash_password, new_session, new_token
from noetl.errors import Conflict, NotFound
from noetl.model.identity import is_name
from noetl.server.auth import cookie, cookie_of, csrf_of, unauthorised
from noetl.server.endpoint import ApiCall, Routes, created, json_response
from noetl.server.parameters import ItemList, QueryString, RequestBody, text
from noetl.server.problems import Refused
from noetl.server.record_views import CredentialDetails, CredentialView, NewToken, RecordView, TokenItem, UserView
from noetl.server.sessions import Owner
from noetl.store.access import TOKEN_ACCOUNT, Role, User
from noetl.store.credentials import SealedCredential
from noetl.timestamps import rfc3339

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


@routes.add("POST", "/tokens", responses={201: NewToken}, secret=True)
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
    """Revoke a token by its id, and end its sessions. Other servers may accept it for two more seconds."""
    id, api = call.path_params["name"], call.api
    if not await call.in_store(api.store.access.revoke_token, id, api.clock.now()):
        raise NotFound(f"valid token {id!r} not found: `noetl token list` lists all tokens")
    await api.authenticator.sessions.end_all(TOKEN_ACCOUNT + id)
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


@routes.add("POST", "/users", responses={201: UserView})
async def add_user(call: ApiCall, body: UserRequest) -> Response:
    """Create a user."""
    if not is_name(body.name):
        raise Refused(422, "`name` must consist of letters, digits and _ . @ -")
    _check_role(body.role)
    hash = await asyncio.to_thread(hash_password, body.password)
    user = User(body.name, body.role, hash, call.api.clock.now())
    if not await call.in_store(lambda: call.api.store.access.put_user(user, new=True)):
        raise Conflict(f"user {body.name!r} exists; delete it first with `noetl user delete {body.name}`")
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
        raise NotFound(f"user {name!r} not found: `noetl user list` lists all users")
    if body.role is not None:
        _check_role(body.role)
    hash = user.password if body.password is None else await asyncio.to_thread(hash_password, body.password)
    changed = User(name, body.role or user.role, hash, user.created)
    if not await call.in_store(lambda: api.store.access.put_user(changed, new=False)):
        raise NotFound(f"user {name!r} not found: `noetl user list` lists all users")
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
        raise NotFound(f"user {name!r} not found: `noetl user list` lists all users")
    authenticator.clear_cache()


def _check_role(role: Role) -> None:
    if role == "worker":
        raise Refused(422, "the role worker is only for tokens")


class CredentialPage(ItemList[CredentialView], frozen=True):
    pass


@routes.add("GET", "/credentials", operation="credentials_list_all")
async def credentials(call: ApiCall) -> CredentialPage:
    """The credentials, their kinds and restrictions."""
    return CredentialPage(list(map(CredentialView.of, await call.in_store(call.api.store.credentials.all))))


@routes.add("GET", "/credentials/{path}", operation="credentials_show_one")
async def show_credential(call: ApiCall) -> CredentialDetails:
    """A credential with the fields that are not secret."""
    credential, fields = await call.in_store(call.api.safe().describe, call.path_params["path"])
    return CredentialDetails.of(credential, fields=fields)


class CredentialRequest(RequestBody, frozen=True):
    """A credential: its fields, and the playbooks and pools that may use it (default: all)."""

    kind: str
    data: dict[str, Any]
    paths: list[str] = []
    pools: list[str] = []


@routes.add("PUT", "/credentials/{path}", operation="credentials_put")
async def put_credential(call: ApiCall, body: CredentialRequest) -> CredentialView:
    """Store a credential, or replace it."""
    name, safe, now = call.path_params["path"], call.api.safe(), call.api.clock.now()

    def store() -> SealedCredential | None:
        safe.put(name, body.kind, dict(body.data), paths=body.paths, pools=body.pools, now=now)
        return safe.store.get(name)

    sealed = await call.in_store(store)
    if sealed is None:
        raise NotFound(f"credential {name!r} was deleted at the same time")
    return CredentialView.of(sealed)


@routes.add("DELETE", "/credentials/{path}", operation="credentials_delete")
async def delete_credential(call: ApiCall) -> None:
    """Delete a credential."""
    name = call.path_params["path"]
    if not await call.in_store(call.api.store.credentials.delete, name):
        raise NotFound(f"credential {name!r} not found: `noetl credential list` lists all credentials")


class LoginRequest(RequestBody, frozen=True):
    """`user` and `password`, or a `token` (not of a worker)."""

    user: str | None = None
    password: str | None = None
    token: str | None = None


class NewSession(msgspec.Struct, frozen=True):
    """A new session, whose secret is in the cookie. Changes need `csrf_token` in the header X-CSRF-Token."""

    session_id: str
    user: str
    role: Role
    csrf_token: str
    expires: str


@routes.add("POST", "/sessions", limit=16_384, responses={201: NewSession}, secret=True, operation="sessions_login")
async def login(call: ApiCall, body: LoginRequest) -> Response:
    """Sign in. The response sets the cookie of the session. A session that is begun with a token has its role, and ends
    with it."""
    api = call.api
    address = call.client.host if call.client is not None else ""
    try:
        owner = await _owner(call, body, address)
    except Refused as refusal:
        if refusal.status == 401:
            api.telemetry.metrics.count("noetl_logins_failed_total")
        raise
    agent, now = call.headers.get("user-agent", "").encode("ascii", "replace").decode(), api.clock.now()
    account, expires = (owner.name, None) if isinstance(owner, User) else (owner.account, owner.expires)
    secret, session = new_session(account, now, agent, address, expires)
    await api.authenticator.sessions.begin(session, owner)
    created = NewSession(session.id, owner.name, owner.role, csrf_of(secret), rfc3339(session.expires))
    return json_response(created, 201, {"Set-Cookie": cookie(secret, int(session.expires - now))})


async def _owner(call: ApiCall, body: LoginRequest, address: str) -> Owner:
    """Who signs in; Refused if the password or the token is wrong."""
    authenticator = call.api.authenticator
    if body.token is not None and (body.user, body.password) == (None, None):
        return await authenticator.token(body.token)
    if body.token is not None or body.user is None or body.password is None:
        raise Refused(422, "sign in with `user` and `password`, or with `token`")
    user = await authenticator.user(body.user, body.password, address)
    if user is None:
        raise unauthorised("wrong user name or password")
    return user


class SessionQuery(QueryString, frozen=True):
    user: Annotated[str, text("Sessions of this user (admin only); `*` lists all.")] = ""


class SessionView(RecordView, frozen=True):
    """A session. `user` is the name of a user, or `token:ID` if it was begun with a token."""

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


@routes.add("GET", "/sessions", secret=True, operation="sessions_list_all")
async def sessions(call: ApiCall, query: SessionQuery) -> SessionPage:
    """The caller, and the caller's sessions."""
    caller = call.caller
    own = caller.session.user if caller.session is not None else ""  # the name of a token is not that of a user
    if query.user not in ("", own) and caller.role != "admin":
        raise Refused(403, "only the role admin may list sessions of others")
    user = None if query.user == "*" else query.user or own
    csrf = None if caller.session is None else csrf_of(cookie_of(call.headers))
    current = None if caller.session is None else caller.session.id
    views = []
    for session in await call.api.authenticator.sessions.of(user) if user != "" else []:
        views.append(SessionView.of(session, last_seen=rfc3339(session.last_used), current=session.id == current))
    return SessionPage(caller.name, caller.role, csrf, views)


@routes.add("DELETE", "/sessions", responses={204: None}, operation="sessions_logout")
async def logout(call: ApiCall) -> Response:
    """Sign out."""
    if call.caller.session is None:
        raise Refused(422, "a token has no session; revoke it with DELETE /api/v1/tokens/ID")
    await call.api.authenticator.sessions.end(call.caller.session)
    call.api.authenticator.clear_cache()
    return Response(status_code=204, headers={"Set-Cookie": cookie("", 0)})


@routes.add("DELETE", "/sessions/{name}", operation="sessions_end")
async def end_session(call: ApiCall) -> None:
    """End a session by its id: one's own, or as admin any."""
    id, sessions, caller = call.path_params["name"], call.api.authenticator.sessions, call.caller
    user = None if caller.role == "admin" else caller.session.user if caller.session is not None else ""
    session = next((session for session in await sessions.of(user) if session.id == id), None)
    if session is None or not await sessions.end(session):
        raise NotFound(f"session {id!r} not found")
    call.api.authenticator.clear_cache()
