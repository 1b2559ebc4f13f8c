"""The parts of a commit that are the same in every database: which changes fit, and which of their rows are written.

An execution uses the contents that it stores and those that its events refer to. Contents that hold references, and the
list of the chunks of a loop, use other contents in turn. A store removes unused content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noetl.model.marks import KEY_PATTERN, MARK, referenced_keys
from noetl.store.database import ExecutionKey, key_of, readable, valid_key
from noetl.store.store import Change

_MARK = MARK.encode()
_CHUNKS = b'{"chunks":['
_ANY_KEY = re.compile(KEY_PATTERN)


def check_gapless(changes: Sequence[Change]) -> None:
    """ValueError if the rows of a change do not follow `expected` one by one."""
    for change in changes:
        rows = change.rows
        if rows and not rows[0].seq - 1 == change.expected == rows[-1].seq - len(rows):
            raise ValueError(f"the rows of {change.execution} do not follow seq {change.expected}")


def accepted(changes: Sequence[Change], heads: Mapping[str, int]) -> list[bool]:
    """Whether each change finds its log where it expects it; `heads` has the seq of each log before the first."""
    seqs, fitting = dict(heads), []
    for change in changes:
        fits = seqs[change.execution] == change.expected
        seqs[change.execution] += len(change.rows) if fits else 0
        fitting.append(fits)
    return fitting


def summary_rows(changes: Iterable[Change]) -> dict[ExecutionKey, tuple[Any, ...]]:
    rows = {}
    for summary in (change.summary for change in changes if change.summary is not None):
        key = valid_key(summary.execution_id)
        parent, source = (other and valid_key(other) for other in (summary.parent, summary.source))
        about = readable(summary.name), readable(summary.path), summary.status, summary.started, summary.ended
        more = summary.digest, parent, summary.local, summary.continued_errors, source
        rows[key] = (key, *about, *more, readable(summary.activity), summary.waits, summary.details)
    return rows


def snapshot_rows(changes: Iterable[Change]) -> dict[ExecutionKey, tuple[Any, ...]]:
    rows = {}
    for change in changes:
        if change.snapshot is not None and change.rows:
            key, last = key_of(change.execution), change.rows[-1]
            rows[key] = (key, last.seq, last.hash, change.snapshot)
    return rows


def used_keys(change: Change) -> set[str]:
    """The keys of the contents that a change stores or refers to."""
    used = {key for key, _ in change.blobs}
    if _MARK in b"\n".join([row.data for row in change.rows]):  # one search for all, since most have none
        for row in change.rows:
            used.update(referenced_keys(row.data))
    return used


def parts_of(blobs: Iterable[tuple[str, bytes]]) -> set[tuple[str, str]]:
    """Pairs of a content and one that it refers to."""
    parts = set()
    for whole, content in blobs:
        if content.startswith(_CHUNKS):
            parts |= {(whole, key.decode()) for key in _ANY_KEY.findall(content)}
        if _MARK in content:
            parts |= {(whole, key) for key in referenced_keys(content)}
        parts.discard((whole, whole))
    return parts
