"""Passwords, and the secrets of tokens and sessions.

Secrets are long and random, so the store needs only their plain SHA-256. The hash of a password is argon2id: making or
checking one takes tens of milliseconds of a core, on purpose.
"""

from __future__ import annotations

import secrets
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from noetl.errors import NoetlError, UsageError
from noetl.store.access import MAX_SESSION_SECONDS, ApiToken, Role, Session

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_LENGTH, MAX_LENGTH = 12, 1_000
MEMORY_KIB, ROUNDS, LANES = 19 * 1024, 2, 1
TOKEN_START = "noetl_"


def new_token(
    role: Role, name: str, now: float, *, pool: str | None = None, expires: float | None = None
) -> tuple[str, ApiToken]:
    """The secret of a new token, and the record to store."""
    secret = TOKEN_START + secrets.token_urlsafe(32)
    return secret, ApiToken(f"t{secrets.token_hex(6)}", hash_of(secret), role, name, now, pool, expires)


def new_session(
    account: str, now: float, agent: str, address: str, expires: float | None = None
) -> tuple[str, Session]:
    """The secret of a new session, and the record to store; it ends at `expires` at the latest."""
    secret, id, end = secrets.token_urlsafe(32), f"s{secrets.token_hex(6)}", now + MAX_SESSION_SECONDS
    end = end if expires is None else min(end, expires)
    return secret, Session(id, hash_of(secret), account, now, now, end, agent[:200], address)


def hash_of(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def check_password(password: str) -> None:
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise UsageError(f"a password must have {MIN_LENGTH} to {MAX_LENGTH:,} characters (got {len(password):,})")


def hash_password(password: str) -> str:
    check_password(password)
    return _hasher().hash(password)


def password_matches(hash: str, password: str) -> bool:
    """Whether the password is correct. An empty hash means an unknown user: False, after the same time."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(hash or _dummy_hash(), password[: MAX_LENGTH + 1]) and bool(hash)
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False


@cache
def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise NoetlError("passwords need a package that is not installed: pip install 'noetl-engine[server]'") from None
    return PasswordHasher(time_cost=ROUNDS, memory_cost=MEMORY_KIB, parallelism=LANES)


@cache
def _dummy_hash() -> str:
    return _hasher().hash("nobody has this password")
