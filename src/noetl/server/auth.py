"""Authenticates callers: the bearer of a token, or a user with a session.

Callers are cached for a moment, so that the requests of a busy worker need no store query; for that long a token that
another server has revoked keeps working here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from math import inf
from typing import Any, Literal, NamedTuple

from noetl.access.tokens import TOKEN_START, hash_of
from noetl.clock import Clock
from noetl.server.problems import Refused
from noetl.server.sessions import Sessions
from noetl.store.access import Access, ApiToken, Role, Session

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
    token: ApiToken | None = None
    session: Session | None = None

    @property
    def key(self) -> str:
        return f"token:{self.token.id}" if self.token is not None else f"user:{self.name}"

    @property
    def end(self) -> float:
        end = self.session.end if self.session is not None else self.token.expires if self.token is not None else None
        return inf if end is None else end


def csrf_of(secret: str) -> str:
    """The CSRF token of a session. It is derived from the secret, which no page can read."""
    return sha256(b"noetl csrf\0" + secret.encode()).hexdigest()


def cookie(secret: str, seconds: int) -> str:
    """The Set-Cookie header; with 0 seconds it deletes the cookie."""
    return f"{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"


class Authenticator:
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
        self._cache[key] = (min(now + CACHE_SECONDS, caller.end), caller)
        return caller

    async def _by_token(self, hash: bytes) -> Caller:
        token: ApiToken | None = await self.in_store(self.access.token, hash)
        if token is None or not compare_digest(token.hash, hash):
            raise unauthorised("unknown token", invalid=True)
        if not token.is_valid(self.clock.now()):
            raise unauthorised("this token was revoked or has expired", invalid=True)
        return Caller(token.role, token.name, token)

    async def _by_session(self, hash: bytes) -> Caller:
        signed_in = await self.sessions.find(hash)
        if signed_in is not None and compare_digest(signed_in[0].hash, hash):
            session, user = signed_in
            now = self.clock.now()
            used = await self.sessions.used(session, user, now)
            if used is not None and now < used.end:
                return Caller(user.role, user.name, session=used)
        raise unauthorised("the session has ended; sign in again", invalid=True)


def unauthorised(detail: str, *, invalid: bool = False) -> Refused:
    challenge = 'Bearer realm="noetl"' + (', error="invalid_token"' if invalid else "")
    return Refused(401, detail, kind="unauthorized", headers={"WWW-Authenticate": challenge})


def cookie_of(headers: Mapping[str, str]) -> str:
    """The secret of the session in the cookie; empty if there is none, or more than one."""
    cookies = [part.strip() for part in headers.get("cookie", "").split(";")]
    secrets = [cookie.removeprefix(f"{COOKIE}=") for cookie in cookies if cookie.startswith(f"{COOKIE}=")]
    return secrets[0] if len(secrets) == 1 else ""
