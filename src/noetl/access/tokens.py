"""Secrets of tokens and sessions. They are long and random, so the store needs only their plain SHA-256."""

from __future__ import annotations

import secrets
from hashlib import sha256

from noetl.store.access import MAX_SESSION_SECONDS, ApiToken, Role, Session

TOKEN_START = "noetl_"


def new_token(
    role: Role, name: str, now: float, *, pool: str | None = None, expires: float | None = None
) -> tuple[str, ApiToken]:
    """The secret of a new token, and the record to store."""
    secret = TOKEN_START + secrets.token_urlsafe(32)
    return secret, ApiToken(f"t{secrets.token_hex(6)}", hash_of(secret), role, name, now, pool, expires)


def new_session(user: str, now: float, agent: str, address: str) -> tuple[str, Session]:
    secret, id = secrets.token_urlsafe(32), f"s{secrets.token_hex(6)}"
    return secret, Session(id, hash_of(secret), user, now, now, now + MAX_SESSION_SECONDS, agent[:200], address)


def hash_of(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
