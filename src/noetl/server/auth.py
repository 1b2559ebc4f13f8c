"""Who asks: the bearer of a token, or a person with a session.

Secrets are random and long, so a plain SHA-256 of one is as good as the secret for finding it and useless for making
it. What was found is kept for a moment, so that a busy worker does not cost a look into the store at every request;
that is also how long a token that was revoked at another server goes on to work here.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Literal, NamedTuple

from noetl.clock import Clock
from noetl.server.problems import Refused
from noetl.server.sessions import Sessions
from noetl.store.access import MAX_SESSION_SECONDS, Access, Role, Session, Token

TOKEN_START = "noetl_"
COOKIE = "__Host-noetl"
CSRF_HEADER = b"x-csrf-token"
KEPT_SECONDS = 2.0
KEPT = 10_000

InStore = Callable[..., Awaitable[Any]]
Kind = Literal["token", "session"]


class Caller(NamedTuple):
    """Who asks, and what for: a token by its id, or a person by name."""

    role: Role
    name: str
    token: Token | None = None
    session: Session | None = None

    @property
    def key(self) -> str:
        """Tells callers apart."""
        return f"token:{self.token.id}" if self.token is not None else f"user:{self.name}"


def new_secret() -> str:
    """A secret that nobody guesses."""
    return secrets.token_urlsafe(32)


def new_token(
    role: Role, name: str, now: float, *, pool: str | None = None, expires: float | None = None
) -> tuple[str, Token]:
    """A token, and what is kept of it."""
    secret = TOKEN_START + new_secret()
    return secret, Token(f"t{secrets.token_hex(6)}", hash_of(secret), role, name, now, pool, expires)


def new_session(user: str, now: float, agent: str = "", address: str = "") -> tuple[str, Session]:
    """The secret of a new session, and what is kept of it."""
    secret = new_secret()
    session = Session(
        f"s{secrets.token_hex(6)}", hash_of(secret), user, now, now, now + MAX_SESSION_SECONDS, agent[:200], address
    )
    return secret, session


def hash_of(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def csrf_of(secret: str) -> str:
    """What a page sends with a request that changes something. It follows from the secret, which no page can read."""
    return sha256(b"noetl csrf\0" + secret.encode()).hexdigest()


def cookie(secret: str, seconds: int) -> str:
    """The header that sets the cookie, or with 0 seconds takes it away."""
    return f"{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"


class Doors:
    """Finds out who asks."""

    def __init__(self, access: Access, sessions: Sessions, clock: Clock, in_store: InStore) -> None:
        self.access, self.sessions, self.clock, self.in_store = access, sessions, clock, in_store
        self._known: dict[tuple[Kind, bytes], tuple[float, Caller]] = {}
        """Keyed by kind of credential too: a token is never accepted as a session, or the reverse."""

    async def caller(self, headers: dict[bytes, bytes], *, changes: bool) -> Caller:
        """Who asks; Refused if that can't be said. A person who changes something has to bring the CSRF token."""
        if (given := headers.get(b"authorization")) is not None:
            scheme, _, secret = given.decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not secret.startswith(TOKEN_START):
                raise unauthorised("`Authorization` must be `Bearer` and a token that begins with noetl_")
            return await self._found("token", hash_of(secret), self._bearer)
        secret = cookie_of(headers)
        if not secret:
            raise unauthorised("send a token (`Authorization: Bearer noetl_...`), or sign in at POST /api/v1/sessions")
        caller = await self._found("session", hash_of(secret), self._person)
        sent = headers.get(CSRF_HEADER, b"")
        if changes and not compare_digest(sent, csrf_of(secret).encode()):
            raise Refused(403, "send the CSRF token of the session in X-CSRF-Token", kind="csrf")
        return caller

    def forget(self) -> None:
        """Something was revoked: look again."""
        self._known.clear()

    async def _found(self, kind: Kind, hash: bytes, look: Callable[[bytes], Awaitable[Caller]]) -> Caller:
        now, key = self.clock.now(), (kind, hash)
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        self._known.pop(key, None)
        caller = await look(hash)
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = (min(now + KEPT_SECONDS, _end(caller)), caller)
        return caller

    async def _bearer(self, hash: bytes) -> Caller:
        token: Token | None = await self.in_store(self.access.token, hash)
        if token is None or not compare_digest(token.hash, hash):
            raise unauthorised("this token is not known here", invalid=True)
        if not token.is_valid(self.clock.now()):
            raise unauthorised("this token was revoked or has run out", invalid=True)
        return Caller(token.role, token.name, token)

    async def _person(self, hash: bytes) -> Caller:
        found = await self.sessions.find(hash)
        if found is None or not compare_digest(found[0].hash, hash):
            raise ended()
        session, user = found
        now = self.clock.now()
        used = await self.sessions.used(session, user, now)
        if used is None or now >= used.end:
            raise ended()
        return Caller(user.role, user.name, session=used)


def ended() -> Refused:
    """Whoever asks was signed in, perhaps."""
    return unauthorised("the session has ended: sign in again", invalid=True)


def unauthorised(detail: str, *, invalid: bool = False) -> Refused:
    """Nobody knows who asks."""
    challenge = 'Bearer realm="noetl"' + (', error="invalid_token"' if invalid else "")
    return Refused(401, detail, kind="unauthorized", headers={"WWW-Authenticate": challenge})


def _end(caller: Caller) -> float:
    """When what was found is over by itself."""
    if caller.token is not None:
        return caller.token.expires if caller.token.expires is not None else float("inf")
    assert caller.session is not None
    return caller.session.end


def cookie_of(headers: dict[bytes, bytes]) -> str:
    """The secret of the session in the cookie; empty if there is none, or more than one."""
    start = f"{COOKIE}=".encode()
    found = [part.strip() for part in headers.get(b"cookie", b"").split(b";")]
    values = [part[len(start) :] for part in found if part.startswith(start)]
    return values[0].decode("latin-1") if len(values) == 1 else ""
