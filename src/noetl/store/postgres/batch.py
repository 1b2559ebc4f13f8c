"""A batch of changes as the arguments of `commit_changes`: one array for each column of each table.

A statement must not write a row twice, so of several changes of one execution only the last value of a row is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any

from noetl.store.keys import key_of, valid_key
from noetl.store.ports import Change, Leased, Summary
from noetl.store.postgres.arrays import Packed, bools, byteas, floats, ints, texts, uuids
from noetl.store.uses import parts_of, used_keys

Column = Callable[[Iterable[Any]], Packed]

EVENT = (uuids, ints, texts, floats, byteas, byteas)
SUMMARY = (uuids, texts, texts, texts, floats, floats, texts, uuids, bools)
READY = (uuids, texts, texts)
LEASE = (uuids, ints, texts, texts, floats, floats)
TIMER = (uuids, texts, floats)
SNAPSHOT = (uuids, ints, byteas, byteas)
BLOB = (texts, byteas)
USE = (uuids, texts)
PART = (texts, texts)
NO_LEASE = (None,) * len(Leased._fields)


def expected_heads(changes: Iterable[Change]) -> dict[str, int]:
    """The seq of each log, if nobody else has written."""
    heads: dict[str, int] = {}
    for change in changes:
        heads.setdefault(change.execution, change.expected)
    return heads


def arguments(changes: Sequence[Change], heads: dict[str, int], removal_lock: int) -> list[Any]:
    """The seqs at which the logs must be, and what is written if they are."""
    locks = sorted({_lock(valid_key(execution)) for execution in heads})
    names = [key_of(execution) for execution in heads]
    keyed = [(key_of(change.execution), change) for change in changes]
    leases = _last((key, change.leases) for key, change in keyed)
    blobs = dict(blob for change in changes for blob in change.blobs)
    return [
        ints(locks),
        uuids(names),
        ints(heads.values()),
        *_columns(EVENT, [(key, *row) for key, change in keyed for row in change.rows]),
        *_columns(SUMMARY, {key: _summary(change.summary) for key, change in keyed if change.summary}.values()),
        *_columns(READY, _last((key, change.ready) for key, change in keyed)),
        *_columns(LEASE, [(*key, *(lease or NO_LEASE)) for *key, lease in leases]),
        *_columns(TIMER, _last((key, change.timers) for key, change in keyed)),
        *_columns(SNAPSHOT, {key: _snapshot(key, change) for key, change in keyed if _has_snapshot(change)}.values()),
        *_columns(BLOB, list(blobs.items())),
        *_columns(USE, list({(key, used) for key, change in keyed for used in used_keys(change)})),
        *_columns(PART, list(parts_of(blobs.items()))),
        removal_lock,
    ]


def _columns(kinds: tuple[Column, ...], rows: Collection[tuple[Any, ...]]) -> list[Packed]:
    if not rows:
        return _no_rows(kinds)
    return [kind(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


@cache
def _no_rows(kinds: tuple[Column, ...]) -> list[Packed]:
    """Cached: most changes touch few tables."""
    return [kind(()) for kind in kinds]


def _last(changes: Iterable[tuple[bytes, dict[Any, Any]]]) -> list[tuple[Any, ...]]:
    """Execution, name and last value of each row; None deletes it."""
    last = {(key, name): value for key, values in changes for name, value in values.items()}
    return [(*key, value) for key, value in last.items()]


def _summary(run: Summary) -> tuple[Any, ...]:
    parent = None if run.parent is None else valid_key(run.parent)
    key = valid_key(run.execution_id)
    return key, run.name, run.path, run.status, run.started, run.ended, run.digest, parent, run.local


def _has_snapshot(change: Change) -> bool:
    return change.snapshot is not None and bool(change.rows)


def _snapshot(key: bytes, change: Change) -> tuple[Any, ...]:
    last = change.rows[-1]
    return key, last.seq, last.hash, change.snapshot


def _lock(key: bytes) -> int:
    """The lock of an execution: the half of its id that is not its time. Executions with the same number wait."""
    return int.from_bytes(key[8:], signed=True)
