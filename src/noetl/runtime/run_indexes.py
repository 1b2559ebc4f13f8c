"""Indexes of step runs of stored logs. The latest are cached, and continue with the blocks that have come since."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple, TypeAlias

from noetl.engine.history.outline import BLOCK_EVENTS, Block
from noetl.engine.history.run_index import RunIndex
from noetl.latest import Latest
from noetl.runtime.outlines import blocks
from noetl.store.store import Store

MAX_INDEXES = 16
MAX_INDEX_BYTES = 4 << 20  # a larger index is made again for each request


class CachedIndex(NamedTuple):
    latest: RunIndex  # up to the last event when it was made
    complete: RunIndex  # of the complete blocks alone
    last: Block  # the last complete block


Key: TypeAlias = tuple[str, str, int | None]
"""The execution, the step run, and the number of complete blocks; None: all."""


class RunIndexes:
    """Threads may share it."""

    def __init__(self) -> None:
        self._indexes: Latest[Key, CachedIndex] = Latest(MAX_INDEXES)
        self._lock = Lock()

    def of(self, store: Store, execution: str, run: str, at: int | None = None) -> RunIndex:
        """The index of a step run up to an event, or the last one; its `scheduled` is 0 if there is no such step
        run."""
        key, cached = self._find(execution, run, at)
        if cached is not None and cached.latest.seq == (store.seq(execution) if at is None else at):
            return cached.latest
        complete, last = (cached.complete, cached.last) if cached else (RunIndex(run), None)
        index = complete
        for block in blocks(store, execution, last.number + 1 if last else 0, last, at):
            if (cached is not None and index is cached.complete) or block.events < BLOCK_EVENTS:
                index = complete.copy()
            index.add(block)
            if block.events == BLOCK_EVENTS:
                complete, last = index, block
        if last is not None and complete.size <= MAX_INDEX_BYTES:
            complete.settle()
            index.settle()
            with self._lock:
                self._indexes[key] = CachedIndex(index, complete, last)
        return index

    def _find(self, execution: str, run: str, at: int | None) -> tuple[Key, CachedIndex | None]:
        """The key of an index and its cached part: that of the whole log, if its blocks end before the event."""
        with self._lock:
            whole = self._indexes.get((execution, run, None))
            if at is None or (whole is not None and whole.last.number < at // BLOCK_EVENTS):
                return (execution, run, None), whole
            key = execution, run, at // BLOCK_EVENTS
            return key, self._indexes.get(key)
