"""A batch of changes as the arguments of `commit_changes`: one array for each column of each table.

A statement must not write a row twice, so of several changes of one execution only the last value of a row is sent.

The arrays are packed here, in the binary format of Postgres: psycopg checks the type of every value, and these
functions know it. A thousand events are six thousand values, and packing them must not take longer than storing them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

from noetl.store.commits import parts_of, snapshot_rows, summary_rows, used_keys
from noetl.store.database import ExecutionKey, key_of, valid_key
from noetl.store.store import Change, Leased

LENGTH, INT8, FLOAT8 = Struct("!i"), Struct("!iq"), Struct("!id")
HEADER, EMPTY = Struct("!iiIii"), Struct("!iiI")
NULL = LENGTH.pack(-1)
UUID_OID = 2950


class Packed(NamedTuple):
    data: bytes


class PackedDumper(Dumper):
    """Sends it as it is; the query names its type."""

    format = Format.BINARY

    def dump(self, obj: Packed) -> Buffer:
        return obj.data


class KeyDumper(Dumper):
    format, oid = Format.BINARY, UUID_OID

    def dump(self, obj: ExecutionKey) -> Buffer:
        return obj


def storable(value: str) -> str:
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
uuids = _packer(UUID_OID, _bytes)

Column = Callable[[Iterable[Any]], Packed]
NO_LEASE = (None,) * len(Leased._fields)
SUMMARY: tuple[Column, ...] = (
    uuids,
    texts,
    texts,
    texts,
    floats,
    floats,
    texts,
    uuids,
    bools,
    ints,
    uuids,
    texts,
    texts,
    byteas,
)


def arguments(changes: Sequence[Change], heads: dict[str, int], removal_lock: int) -> list[Any]:
    """The seqs at which the logs must be, and the rows that are written if they are."""
    names = [valid_key(execution) for execution in heads]
    # The lock of an execution is the half of its id that is not its time. Executions with the same number wait.
    locks = sorted({int.from_bytes(name[8:], signed=True) for name in names})
    keyed = [(key_of(change.execution), change) for change in changes]
    events = [(key, *row) for key, change in keyed for row in change.rows]
    leases = _last((key, change.leases) for key, change in keyed)
    lease_rows = [(*key, *(lease or NO_LEASE)) for *key, lease in leases]
    blobs = dict(blob for change in changes for blob in change.blobs)
    return [
        ints(locks),
        uuids(names),
        ints(heads.values()),
        *_columns((uuids, ints, texts, floats, byteas, byteas), events),
        *_columns(SUMMARY, summary_rows(changes).values()),
        *_columns((uuids, texts, texts), _last((key, change.ready) for key, change in keyed)),
        *_columns((uuids, ints, texts, texts, floats, floats), lease_rows),
        *_columns((uuids, texts, floats), _last((key, change.timers) for key, change in keyed)),
        *_columns((uuids, ints, byteas, byteas), snapshot_rows(changes).values()),
        *_columns((uuids, ints), [(key, seq) for key, change in keyed for seq in change.stale_snapshots]),
        *_columns((uuids, ints, byteas), [(key, *block) for key, change in keyed for block in change.outline]),
        *_columns((texts, byteas), list(blobs.items())),
        *_columns((uuids, texts), list({(key, used) for key, change in keyed for used in used_keys(change)})),
        *_columns((texts, texts), list(parts_of(blobs.items()))),
        removal_lock,
    ]


def _columns(kinds: tuple[Column, ...], rows: Collection[tuple[Any, ...]]) -> list[Packed]:
    if not rows:
        return _no_rows(kinds)
    return [kind(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


@cache
def _no_rows(kinds: tuple[Column, ...]) -> list[Packed]:
    return [kind(()) for kind in kinds]


def _last(changes: Iterable[tuple[bytes, dict[Any, Any]]]) -> list[tuple[Any, ...]]:
    """Execution, name and last value of each row; None deletes it."""
    last = {(key, name): value for key, values in changes for name, value in values.items()}
    return [(*key, value) for key, value in last.items()]
