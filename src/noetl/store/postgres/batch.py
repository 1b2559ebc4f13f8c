"""A batch of changes as the arguments of `commit_changes`: one array for each column of each table.

A statement must not write a row twice, so of several changes of one execution only the last value of a row is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any

from noetl.store.commits import parts_of, snapshot_rows, summary_rows, used_keys
from noetl.store.keys import key_of, valid_key
from noetl.store.postgres.arrays import Packed, bools, byteas, floats, ints, texts, uuids
from noetl.store.store import Change, Leased

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


def arguments(changes: Sequence[Change], heads: dict[str, int], removal_lock: int) -> list[Any]:
    """The seqs at which the logs must be, and what is written if they are."""
    names = [valid_key(execution) for execution in heads]
    # The lock of an execution is the half of its id that is not its time. Executions with the same number wait.
    locks = sorted({int.from_bytes(name[8:], signed=True) for name in names})
    keyed = [(key_of(change.execution), change) for change in changes]
    leases = _last((key, change.leases) for key, change in keyed)
    blobs = dict(blob for change in changes for blob in change.blobs)
    return [
        ints(locks),
        uuids(names),
        ints(heads.values()),
        *_columns(EVENT, [(key, *row) for key, change in keyed for row in change.rows]),
        *_columns(SUMMARY, summary_rows(changes).values()),
        *_columns(READY, _last((key, change.ready) for key, change in keyed)),
        *_columns(LEASE, [(*key, *(lease or NO_LEASE)) for *key, lease in leases]),
        *_columns(TIMER, _last((key, change.timers) for key, change in keyed)),
        *_columns(SNAPSHOT, snapshot_rows(changes).values()),
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
