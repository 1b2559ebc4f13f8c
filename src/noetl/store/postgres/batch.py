"""A batch of changes as the arguments of `commit_changes`: one array for each column of each table.

A row must not come twice in one statement, so what several changes of one execution say is put together first: the
last word counts.
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
OVER = Leased(*[None] * 4)  # type: ignore[arg-type]


def accepted(changes: Sequence[Change], heads: dict[str, int]) -> list[bool]:
    """Which changes find their log where they expect it, the earlier ones of the batch counted in."""
    seqs, good = dict(heads), []
    for change in changes:
        fits = seqs[change.execution] == change.expected
        seqs[change.execution] += len(change.rows) if fits else 0
        good.append(fits)
    return good


def first_guess(changes: Iterable[Change]) -> dict[str, int]:
    """Where the logs are if nobody else has written."""
    heads: dict[str, int] = {}
    for change in changes:
        heads.setdefault(change.execution, change.expected)
    return heads


def arguments(changes: Sequence[Change], heads: dict[str, int], removing: int) -> list[Any]:
    """Everything that `commit_changes` is given: where the logs are to be, and what is written if they are."""
    locks = sorted({_lock(valid_key(execution)) for execution in heads})
    names = [key_of(execution) for execution in heads]
    keyed = [(key_of(change.execution), change) for change in changes]
    blobs = dict(blob for change in changes for blob in change.blobs)
    return [
        ints(locks),
        uuids(names),
        ints(heads.values()),
        *_columns(EVENT, [(key, *row) for key, change in keyed for row in change.rows]),
        *_columns(SUMMARY, {key: _summary(change.summary) for key, change in keyed if change.summary}.values()),
        *_columns(READY, _last((key, change.ready) for key, change in keyed)),
        *_columns(
            LEASE, [(*key, *(lease or OVER)) for *key, lease in _last((key, change.leases) for key, change in keyed)]
        ),
        *_columns(TIMER, _last((key, change.timers) for key, change in keyed)),
        *_columns(SNAPSHOT, {key: _snapshot(key, change) for key, change in keyed if _has_snapshot(change)}.values()),
        *_columns(BLOB, list(blobs.items())),
        *_columns(USE, list({(key, used) for key, change in keyed for used in used_keys(change)})),
        *_columns(PART, list(parts_of(blobs.items()))),
        removing,
    ]


def _columns(kinds: tuple[Column, ...], rows: Collection[tuple[Any, ...]]) -> list[Packed]:
    if not rows:
        return _nothing(kinds)
    return [kind(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


@cache
def _nothing(kinds: tuple[Column, ...]) -> list[Packed]:
    """Most changes touch few tables, and empty columns are always the same."""
    return [kind(()) for kind in kinds]


def _last(moves: Iterable[tuple[bytes, dict[Any, Any]]]) -> list[tuple[Any, ...]]:
    """Execution, name and what the last change says about it; None: it goes."""
    last = {(key, name): value for key, moved in moves for name, value in moved.items()}
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
    """The number of an execution's lock: the half of its id that is not its time. Two of one number just wait."""
    return int.from_bytes(key[8:], signed=True)
