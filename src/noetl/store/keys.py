"""Ids of executions as keys of a database, and text that a database can store."""

from __future__ import annotations

from functools import lru_cache

from noetl.errors import StoreError


@lru_cache(4096)
def key_of(execution: str) -> bytes:
    """The 16 bytes of an id; empty, which matches nothing, if it is not one."""
    try:
        key = bytes.fromhex(execution.replace("-", ""))
    except ValueError:
        return b""
    return key if len(key) == 16 and id_of(key) == execution else b""


def valid_key(execution: str) -> bytes:
    key = key_of(execution)
    if not key:
        raise StoreError(f"{execution!r} is not an execution id")
    return key


def id_of(key: bytes) -> str:
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def key_range(prefix: str) -> tuple[bytes, bytes] | None:
    """The smallest and the largest key of ids with this prefix; None if no id has it."""
    digits = prefix.replace("-", "")
    try:
        low, high = bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))
    except ValueError:
        return None
    return (low, high) if id_of(low).startswith(prefix) else None


def readable(value: str) -> str:
    """The text with lone surrogates escaped, which stand for bytes that are not UTF-8."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
