"""The store in one SQLite file, shared by any number of processes. Changes that arrive together are written in one
transaction, so they share the price of a disk sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from noetl.file_access import protect
from noetl.settings import Synchronous
from noetl.store.commits import accepted, check_gapless, parts_of, snapshot_rows, summary_rows, used_keys
from noetl.store.database import Mode, key_of, readable, valid_key
from noetl.store.last_commit import LastCommit
from noetl.store.sqlite.database import IN_MEMORY, QUERIES, SqliteDatabase
from noetl.store.store import Change, LogLine, Store

ROWS_PER_INSERT = 50  # Events in one statement: each statement gives up the interpreter lock and takes it again
APPEND_EVENTS = QUERIES["append_event"] + ", (?, ?, ?, ?, ?, ?)" * (ROWS_PER_INSERT - 1)


class SqliteCommits(Store):
    _db: SqliteDatabase

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        self._last_commit.require()
        check_gapless(changes)
        fitting, events = self._db.transaction(lambda: self._commit(changes))
        if events:
            key, seq, _, at, _, hash = events[-1]
            self._last_commit.record(key, seq, hash, at)
        return fitting

    def _commit(self, changes: Sequence[Change]) -> tuple[list[bool], list[Any]]:
        """Which changes fit, and the rows of the events that were written."""
        heads: dict[str, int] = {}
        for change in changes:
            if (execution := change.execution) not in heads:
                heads[execution] = self._db.connection.execute(QUERIES["last_seq"], (valid_key(execution),)).get
        fitting = accepted(changes, heads)
        written = [change for change, fits in zip(changes, fitting, strict=True) if fits]
        insert = self._db.connection.executemany
        keyed = ((key_of(change.execution), change.rows) for change in written)
        events = [(key, *row) for key, rows in keyed for row in rows]
        single = len(events) % ROWS_PER_INSERT
        insert(QUERIES["append_event"], events[:single])
        for at in range(single, len(events), ROWS_PER_INSERT):
            self._db.connection.execute(APPEND_EVENTS, tuple(chain.from_iterable(events[at : at + ROWS_PER_INSERT])))
        if blobs := [blob for change in written for blob in change.blobs]:
            insert(QUERIES["put_blob"], blobs)
            insert(QUERIES["put_blob_part"], parts_of(blobs))
        if used := [(key_of(change.execution), key) for change in written for key in used_keys(change)]:
            insert(QUERIES["put_blob_use"], used)
        if summaries := summary_rows(written):
            insert(QUERIES["put_execution"], summaries.values())
        if snapshots := snapshot_rows(written):
            insert(QUERIES["put_snapshot"], snapshots.values())
        if stale := [(key_of(change.execution), seq) for change in written for seq in change.stale_snapshots]:
            insert(QUERIES["delete_snapshot"], stale)
        if blocks := [(key_of(change.execution), *block) for change in written for block in change.outline]:
            insert(QUERIES["put_outline"], blocks)
        execute = self._db.connection.execute
        for change in written:
            tables: tuple[tuple[str, dict[Any, Any]], ...]
            tables = ("ready", change.ready), ("lease", change.leases), ("timer", change.timers)
            for table, rows in tables:
                for name, value in rows.items():
                    key = (key_of(change.execution), name)
                    if value is None:
                        execute(QUERIES[f"delete_{table}"], key)
                    else:
                        execute(QUERIES[f"put_{table}"], (*key, *(value if isinstance(value, tuple) else (value,))))
        return fitting, events

    def append_output(self, lines: Sequence[LogLine]) -> None:
        rows = [(valid_key(execution), task, at, stream, readable(line)) for execution, task, at, stream, line in lines]
        self._db.transaction(lambda: self._db.connection.executemany(QUERIES["append_output"], rows))

    def _remove_unused(self, before: float, limit: int) -> int:
        connection = self._db.connection

        def remove() -> int:
            removed = connection.execute(QUERIES["remove_blobs"], (before, limit)).fetchall()
            connection.executemany(QUERIES["remove_blob_parts"], removed)
            return len(removed)

        return self._db.transaction(remove)


class SqliteStore(SqliteCommits):
    """DatabaseBehind if it is opened to write and lacks commits, unless `allow_behind` is set."""

    def __init__(
        self, path: str | Path, *, synchronous: Synchronous = "full", mode: Mode = "create", allow_behind: bool = False
    ) -> None:
        self.path = Path(path).absolute()
        protect(self.path)
        self._synchronous: Synchronous = synchronous
        self._mode: Mode = "read" if mode == "read" else "write"
        database = SqliteDatabase(self.path, synchronous, mode, self.locks / f"{self.path.name}.turn")
        record = self.locks / f"{self.path.name}.last"
        protect(record)
        super().__init__(database, LastCommit(database, str(path), record))
        if mode != "read" and not allow_behind:
            self._open_last_commit()

    @property
    def locks(self) -> Path:
        return self.path.parent / "locks"

    def reopen(self) -> SqliteStore:
        return SqliteStore(self.path, synchronous=self._synchronous, mode=self._mode)


class InMemoryStore(SqliteCommits):
    def __init__(self) -> None:
        database = SqliteDatabase(IN_MEMORY, "normal", "write", None)
        super().__init__(database, LastCommit(database, str(IN_MEMORY), None))

    def reopen(self) -> InMemoryStore:
        return self

    def close(self) -> None:
        pass
