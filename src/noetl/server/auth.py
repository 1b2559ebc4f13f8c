"""Authenticates callers: the bearer of a token, or a user with a session.

Callers are cached for a moment, so that the requests of a busy worker need no store query; for that long a token that
another server has revoked keeps working here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, NamedTuple

from noetl.access import TOKEN_START, hash_of, password_matches
from noetl.clock import Clock
from noetl.latest import Latest
from noetl.model.actor import Actor
from noetl.runtime.store_thread import InStore
from noetl.server.problems import Refused
from noetl.server.sessions import Sessions
from noetl.store.access import Access, ApiToken, Role, Session, User

COOKIE = "__Host-noetl"
CACHE_SECONDS = 2.0
MAX_CACHED_CALLERS = 10_000
FREE_TRIES, FREE_TRIES_PER_USER = 5, 50  # wrong passwords without a delay; each further one doubles the delay
MIN_DELAY, MAX_DELAY, MAX_DELAY_PER_USER = 2.0, 900.0, 60.0
RESET_SECONDS = 3600.0
MAX_SUBJECTS = 10_000

Kind = Literal["token", "session"]
Subject = tuple[str, ...]


class Caller(NamedTuple):
    role: Role
    name: str
    token: ApiToken | None = None
    session: Session | None = None

    @property
    def key(self) -> str:
        return f"token:{self.token.id}" if self.token is not None else f"user:{self.name}"

    @property
    def actor(self) -> Actor:
        return Actor("user" if self.token is None else "token", self.name)


def csrf_of(secret: str) -> str:
    """The CSRF token of a session. It is derived from the secret, which no page can read."""
    return sha256(b"noetl csrf\0" + secret.encode()).hexdigest()


def cookie(secret: str, seconds: int) -> str:
    """The Set-Cookie header; with 0 seconds it deletes the cookie."""
    return f"{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"


def cookie_of(headers: Mapping[str, str]) -> str:
    """The secret of the session in the cookie; empty if there is none, or more than one."""
    cookies = [part.strip() for part in headers.get("cookie", "").split(";")]
    secrets = [cookie.removeprefix(f"{COOKIE}=") for cookie in cookies if cookie.startswith(f"{COOKIE}=")]
    return secrets[0] if len(secrets) == 1 else ""


def unauthorised(detail: str, *, invalid: bool = False) -> Refused:
    challenge = 'Bearer realm="noetl"' + (', error="invalid_token"' if invalid else "")
    return Refused(401, detail, kind="unauthorized", headers={"WWW-Authenticate": challenge})


class Authenticator:
    def __init__(self, access: Access, sessions: Sessions, clock: Clock, in_store: InStore) -> None:
        self.access, self.sessions, self.clock, self.in_store = access, sessions, clock, in_store
        self.throttle = Throttle(clock)
        self._hashing = asyncio.Semaphore(1)  # passwords are checked one at a time: each check takes a core and 19 MB
        self._cache: Latest[tuple[Kind, bytes], tuple[float, Caller]] = Latest(MAX_CACHED_CALLERS)
        """Keyed by kind of credential too: a token is never accepted as a session, or the reverse."""

    async def caller(self, headers: Mapping[str, str], *, changes: bool) -> Caller:
        """The caller by token or session; Refused if there is none. Changes in a session need its CSRF token."""
        kind: Kind = "token"
        if (authorization := headers.get("authorization")) is not None:
            scheme, _, secret = authorization.partition(" ")
            if scheme.lower() != "bearer" or not secret.startswith(TOKEN_START):
                raise unauthorised("`Authorization` must be `Bearer` and a token that begins with noetl_")
        else:
            kind, secret = "session", cookie_of(headers)
            if not secret:
                hint = "send a token (`Authorization: Bearer noetl_...`), or sign in at POST /api/v1/sessions"
                raise unauthorised(hint)
        now, key = self.clock.now(), (kind, hash_of(secret))
        until, caller = self._cache.get(key, (0.0, None))
        if caller is None or now >= until:
            self._cache.pop(key, None)
            caller, end = await (self._by_token if kind == "token" else self._by_session)(key[1])
            self._cache[key] = (min(now + CACHE_SECONDS, end), caller)
        if kind == "session" and changes:
            csrf_token = headers.get("x-csrf-token", "")
            if not compare_digest(csrf_token.encode(), csrf_of(secret).encode()):
                raise Refused(403, "send the CSRF token of the session in X-CSRF-Token", kind="csrf")
        return caller

    async def _by_token(self, hash: bytes) -> tuple[Caller, float]:
        """The caller, and until when the token is valid."""
        token: ApiToken | None = await self.in_store(self.access.token, hash)
        if token is None or not compare_digest(token.hash, hash):
            raise unauthorised("unknown token", invalid=True)
        if not token.is_valid(self.clock.now()):
            raise unauthorised("this token was revoked or has expired", invalid=True)
        return Caller(token.role, token.name, token), math.inf if token.expires is None else token.expires

    async def _by_session(self, hash: bytes) -> tuple[Caller, float]:
        now = self.clock.now()
        signed_in = await self.sessions.find(hash, now)
        if signed_in is not None and compare_digest(signed_in[0].hash, hash):
            session, owner = signed_in
            used = await self.sessions.used(session, owner, now)
            if used is not None and now < used.end:
                token = owner if isinstance(owner, ApiToken) else None
                return Caller(owner.role, owner.name, token, used), used.end
        raise unauthorised("the session has ended; sign in again", invalid=True)

    async def token(self, secret: str) -> ApiToken:
        """The token of a person who signs in with it; Refused if there is none."""
        if not secret.startswith(TOKEN_START):
            raise unauthorised("a token begins with noetl_", invalid=True)
        caller, _ = await self._by_token(hash_of(secret))
        assert caller.token is not None
        if caller.role == "worker":
            raise Refused(
                403, "a token of the role worker cannot sign in; use one of a viewer, operator, author or admin"
            )
        return caller.token

    async def user(self, name: str, password: str, address: str) -> User | None:
        """The user with this name and password; Refused after too many failures."""
        subject = name[:100], address
        self.throttle.check(*subject)
        self.throttle.failed(*subject)  # in advance, so that concurrent guesses are all counted
        user: User | None = None if "\0" in name else await self.in_store(self.access.user, name)
        async with self._hashing:
            matches = await asyncio.to_thread(password_matches, user.password if user else "", password)
        if not matches:
            return None
        self.throttle.succeeded(*subject)
        return user

    def clear_cache(self) -> None:
        self._cache.clear()


class Throttle:
    """Limits failed logins. The counts are in memory only: a restart resets them.

    Failures are counted per user and address, so that guesses delay nobody else. All failures of a user are counted as
    well, against guesses from many addresses; they do not delay addresses from which that user has signed in before.
    There is no count per address alone, because all users behind a proxy may share one.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._failures: Latest[Subject, tuple[int, float]] = Latest(MAX_SUBJECTS)  # their number, and the last
        self._signed_in: Latest[Subject, None] = Latest(MAX_SUBJECTS)

    def check(self, user: str, address: str) -> None:
        until = self._until((user, address), FREE_TRIES, MAX_DELAY)
        if (user, address) not in self._signed_in:
            until = max(until, self._until((user,), FREE_TRIES_PER_USER, MAX_DELAY_PER_USER))
        seconds = until - self.clock.now()
        if seconds > 0:
            retry = {"Retry-After": str(math.ceil(seconds))}
            raise Refused(429, "too many wrong passwords; try again later", headers=retry)

    def _until(self, subject: Subject, tries: int, longest: float) -> float:
        number, last = self._failures.get(subject, (0, 0.0))
        return 0.0 if number < tries else last + min(longest, MIN_DELAY * 2.0 ** min(number - tries, 20))

    def failed(self, user: str, address: str) -> None:
        now = self.clock.now()
        for subject in ((user, address), (user,)):
            number, last = self._failures.get(subject, (0, 0.0))
            self._failures[subject] = (1 if now - last > RESET_SECONDS else number + 1, now)

    def succeeded(self, user: str, address: str) -> None:
        """Reset the failures after a successful login, including the one counted in advance."""
        self._failures.pop((user, address), None)
        if (user,) in self._failures:
            number, last = self._failures[(user,)]
            self._failures[(user,)] = (number - 1, last)
        self._signed_in[user, address] = None
