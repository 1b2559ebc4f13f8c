"""Columns of values as arrays in the binary format of Postgres.

psycopg looks at the type of every value; these functions know it. A thousand events are six thousand values, and
packing them must not take longer than storing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

LENGTH, INT8, FLOAT8 = Struct("!i"), Struct("!iq"), Struct("!id")
HEADER, EMPTY = Struct("!iiIii"), Struct("!iiI")
NULL = LENGTH.pack(-1)


class Packed:
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class PackedDumper(Dumper):
    """Sends it as it is; the query names its type."""

    format = Format.BINARY

    def dump(self, obj: Packed) -> Buffer:
        return obj.data


def storable(value: str) -> str:
    """The text with zeros and lone surrogates escaped, which Postgres cannot store."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _packer(oid: int, pack: Callable[[Any], bytes]) -> Callable[[Iterable[Any]], Packed]:
    def packed(values: Iterable[Any]) -> Packed:
        parts = [NULL if value is None else pack(value) for value in values]
        if not parts:
            return Packed(EMPTY.pack(0, 0, oid))
        return Packed(HEADER.pack(1, 1, oid, len(parts), 1) + b"".join(parts))

    return packed


def _bytes(value: bytes) -> bytes:
    return LENGTH.pack(len(value)) + value


def _text(value: str) -> bytes:
    plain = value.encode() if value.isascii() and "\0" not in value else storable(value).encode()
    return LENGTH.pack(len(plain)) + plain


bools = _packer(16, lambda value: b"\0\0\0\1\1" if value else b"\0\0\0\1\0")
byteas = _packer(17, _bytes)
ints = _packer(20, lambda value: INT8.pack(8, value))
texts = _packer(25, _text)
floats = _packer(701, lambda value: FLOAT8.pack(8, value))
uuids = _packer(2950, _bytes)
