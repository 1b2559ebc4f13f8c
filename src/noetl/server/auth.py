"""Authenticates callers: the bearer of a token, or a user with a session.

Secrets are random and long, so the store keeps and finds them by a plain SHA-256. Callers are cached for a moment, so
that the requests of a busy worker need no store query; for that long a token that another server has revoked keeps
working here.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Literal, NamedTuple

from noetl.clock import Clock
from noetl.server.problems import Refused
from noetl.server.sessions import Sessions
from noetl.store.access import MAX_SESSION_SECONDS, Access, Role, Session, Token

TOKEN_START = "noetl_"
COOKIE = "__Host-noetl"
CSRF_HEADER = "x-csrf-token"
CACHE_SECONDS = 2.0
MAX_CACHED_CALLERS = 10_000

InStore = Callable[..., Awaitable[Any]]
Kind = Literal["token", "session"]


class Caller(NamedTuple):
    """An authenticated caller: a token, or a user with a session."""

    role: Role
    name: str
    token: Token | None = None
    session: Session | None = None

    @property
    def key(self) -> str:
        return f"token:{self.token.id}" if self.token is not None else f"user:{self.name}"


def new_token(
    role: Role, name: str, now: float, *, pool: str | None = None, expires: float | None = None
) -> tuple[str, Token]:
    """The secret of a new token, and the record to store."""
    secret = TOKEN_START + secrets.token_urlsafe(32)
    return secret, Token(f"t{secrets.token_hex(6)}", hash_of(secret), role, name, now, pool, expires)


def new_session(user: str, now: float, agent: str = "", address: str = "") -> tuple[str, Session]:
    """The secret of a new session, and the record to store."""
    secret = secrets.token_urlsafe(32)
    session = Session(
        f"s{secrets.token_hex(6)}", hash_of(secret), user, now, now, now + MAX_SESSION_SECONDS, agent[:200], address
    )
    return secret, session


def hash_of(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def csrf_of(secret: str) -> str:
    """The CSRF token of a session. It is derived from the secret, which no page can read."""
    return sha256(b"noetl csrf\0" + secret.encode()).hexdigest()


def cookie(secret: str, seconds: int) -> str:
    """The Set-Cookie header; with 0 seconds it deletes the cookie."""
    return f"{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"


class Authenticator:
    """Finds the caller of a request."""

    def __init__(self, access: Access, sessions: Sessions, clock: Clock, in_store: InStore) -> None:
        self.access, self.sessions, self.clock, self.in_store = access, sessions, clock, in_store
        self._cache: dict[tuple[Kind, bytes], tuple[float, Caller]] = {}
        """Keyed by kind of credential too: a token is never accepted as a session, or the reverse."""

    async def caller(self, headers: Mapping[str, str], *, changes: bool) -> Caller:
        """The caller by token or session; Refused if there is none. Changes in a session need its CSRF token."""
        if (authorization := headers.get("authorization")) is not None:
            scheme, _, secret = authorization.partition(" ")
            if scheme.lower() != "bearer" or not secret.startswith(TOKEN_START):
                raise unauthorised("`Authorization` must be `Bearer` and a token that begins with noetl_")
            return await self._cached("token", hash_of(secret), self._by_token)
        secret = cookie_of(headers)
        if not secret:
            raise unauthorised("send a token (`Authorization: Bearer noetl_...`), or sign in at POST /api/v1/sessions")
        caller = await self._cached("session", hash_of(secret), self._by_session)
        sent = headers.get(CSRF_HEADER, "")
        if changes and not compare_digest(sent.encode(), csrf_of(secret).encode()):
            raise Refused(403, "send the CSRF token of the session in X-CSRF-Token", kind="csrf")
        return caller

    def clear_cache(self) -> None:
        self._cache.clear()

    async def _cached(self, kind: Kind, hash: bytes, find: Callable[[bytes], Awaitable[Caller]]) -> Caller:
        now, key = self.clock.now(), (kind, hash)
        until, caller = self._cache.get(key, (0.0, None))
        if caller is not None and now < until:
            return caller
        self._cache.pop(key, None)
        caller = await find(hash)
        if len(self._cache) >= MAX_CACHED_CALLERS:
            self._cache.clear()
        self._cache[key] = (min(now + CACHE_SECONDS, _end(caller)), caller)
        return caller

    async def _by_token(self, hash: bytes) -> Caller:
        token: Token | None = await self.in_store(self.access.token, hash)
        if token is None or not compare_digest(token.hash, hash):
            raise unauthorised("unknown token", invalid=True)
        if not token.is_valid(self.clock.now()):
            raise unauthorised("this token was revoked or has expired", invalid=True)
        return Caller(token.role, token.name, token)

    async def _by_session(self, hash: bytes) -> Caller:
        signed_in = await self.sessions.find(hash)
        if signed_in is None or not compare_digest(signed_in[0].hash, hash):
            raise ended()
        session, user = signed_in
        now = self.clock.now()
        used = await self.sessions.used(session, user, now)
        if used is None or now >= used.end:
            raise ended()
        return Caller(user.role, user.name, session=used)


def ended() -> Refused:
    return unauthorised("the session has ended; sign in again", invalid=True)


def unauthorised(detail: str, *, invalid: bool = False) -> Refused:
    """401 Unauthorized."""
    challenge = 'Bearer realm="noetl"' + (', error="invalid_token"' if invalid else "")
    return Refused(401, detail, kind="unauthorized", headers={"WWW-Authenticate": challenge})


def _end(caller: Caller) -> float:
    """When the token or session expires."""
    if caller.token is not None:
        return caller.token.expires if caller.token.expires is not None else float("inf")
    assert caller.session is not None
    return caller.session.end


def cookie_of(headers: Mapping[str, str]) -> str:
    """The secret of the session in the cookie; empty if there is none, or more than one."""
    start = f"{COOKIE}="
    parts = [part.strip() for part in headers.get("cookie", "").split(";")]
    secrets = [part.removeprefix(start) for part in parts if part.startswith(start)]
    return secrets[0] if len(secrets) == 1 else ""
