"""Indexes of step runs of stored logs. The latest are cached, and continue with the blocks that have come since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from threading import Lock
from typing import NamedTuple, TypeAlias

from noetl.engine.history.outline import BLOCK_EVENTS, Block, run_names
from noetl.engine.history.run_index import RunIndex
from noetl.latest import Latest
from noetl.runtime.outlines import blocks
from noetl.store.store import Store

MAX_INDEXES = 16  # of whole logs, and as many of logs up to an event
MAX_INDEX_BYTES = 4 << 20  # a larger index is made again for each request
LARGE_LOOP = 10_000  # items; the index of such a loop is made along with the outline


class CachedIndex(NamedTuple):
    latest: RunIndex  # up to the last event when it was made
    complete: RunIndex  # of the complete blocks alone
    last: Block  # the last complete block


Key: TypeAlias = tuple[str, str, int]
"""The execution, the step run, and the number of complete blocks; -1: all."""


class RunIndexes:
    """Threads may share it."""

    def __init__(self) -> None:
        self._of_logs: Latest[Key, CachedIndex] = Latest(MAX_INDEXES)
        self._of_parts: Latest[Key, CachedIndex] = Latest(MAX_INDEXES)  # a slider requests many
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
        self._keep(key, index, complete, last)
        return index

    def index_blocks(self, execution: str, whole_log: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks of a whole log, and index its large loops: a client that reads the outline of an execution
        often requests the items of its loop next."""
        complete: dict[str, RunIndex] = {}
        last, incomplete = None, None
        for block in whole_log:
            if block.events < BLOCK_EVENTS:
                incomplete = block
            else:
                last = block
                for index in _large_loops(block, complete):
                    index.add(block)
            yield block
        for run, index in complete.items():
            latest = index
            if incomplete is not None:
                latest = index.copy()
                latest.add(incomplete)
            self._keep((execution, run, -1), latest, index, last)

    def _keep(self, key: Key, index: RunIndex, complete: RunIndex, last: Block | None) -> None:
        if last is not None and complete.size <= MAX_INDEX_BYTES:
            complete.settle()
            index.settle()
            with self._lock:
                self._cache(key)[key] = CachedIndex(index, complete, last)

    def _cache(self, key: Key) -> Latest[Key, CachedIndex]:
        return self._of_logs if key[2] < 0 else self._of_parts

    def _find(self, execution: str, run: str, at: int | None) -> tuple[Key, CachedIndex | None]:
        """The key of an index and its cached part: that of the whole log, if its blocks end before the event."""
        with self._lock:
            key = execution, run, -1
            whole = self._of_logs.use(key)
            if at is None or (whole is not None and whole.last.number < at // BLOCK_EVENTS):
                return key, whole
            key = execution, run, at // BLOCK_EVENTS
            return key, self._of_parts.use(key)


def _large_loops(block: Block, indexes: dict[str, RunIndex]) -> Collection[RunIndex]:
    """The indexes of large loops, with those that start in a block. One that was scheduled in an earlier block is left
    out: its index would not be complete."""
    if any(part.total >= LARGE_LOOP for part in block.loops):
        names, scheduled = run_names(block), {run for run, _, _ in block.scheduled}
        for part in block.loops:
            if part.total >= LARGE_LOOP and part.run in scheduled and len(indexes) < MAX_INDEXES:
                indexes.setdefault(names[part.run], RunIndex(names[part.run]))
    return indexes.values()
