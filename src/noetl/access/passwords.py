"""Passwords: argon2id hashes. Making or checking one takes tens of milliseconds of a core, on purpose."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from noetl.errors import NoetlError, UsageError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_LENGTH, MAX_LENGTH = 12, 1_000
MEMORY_KIB, ROUNDS, LANES = 19 * 1024, 2, 1


def check(password: str) -> None:
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise UsageError(f"a password must have {MIN_LENGTH} to {MAX_LENGTH:,} characters (got {len(password):,})")


def hashed(password: str) -> str:
    check(password)
    return _hasher().hash(password)


def matches(hash: str, password: str) -> bool:
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
