"""The store in a Postgres database, shared by any number of servers.

**A commit is one statement.** All that a batch of changes writes is sent as arrays to the function `commit_changes`,
which locks the executions, checks that their logs are where the changes expect them, and writes: one round trip, one
disk sync. If a log has moved, nothing is written, and the response says where the logs are; the changes that still fit
are sent again. The primary key of `event` would refuse a second writer as well, but then the whole batch would be lost.

**Durability.** `synchronous_commit` is on: a commit is on the server's disk (and on that of its synchronous standbys)
before `commit` returns. With `normal` it is off: the last commits may be missing after a crash of the server, but the
log is consistent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any

from noetl.errors import StoreError
from noetl.settings import Synchronous
from noetl.store.commits import accepted, check_gapless
from noetl.store.database import Database, Mode, key_of, valid_key
from noetl.store.last_commit import LastCommit
from noetl.store.postgres.batch import arguments, byteas, floats, storable, texts, uuids
from noetl.store.postgres.database import Address, PostgresDatabase
from noetl.store.store import Change, LogLine, Store, StoredLine

MAX_BATCH_CHANGES = 1_000
MAX_BATCH_BYTES = 128 << 20
"""Larger batches are written in several transactions: the server's lock table is limited, and a message to 1 GB."""
MIN_INTERVAL_SECONDS = 0.02  # between notifications
CLOSE_SECONDS = 5.0


class PostgresStore(Store):
    """`state` is the folder of this process for the record of its last commit. DatabaseBehind if the store is opened to
    write and lacks that commit, unless `allow_behind` is set."""

    _db: PostgresDatabase

    def __init__(
        self,
        url: str,
        *,
        synchronous: Synchronous = "full",
        mode: Mode = "create",
        state: Path | None = None,
        allow_behind: bool = False,
    ) -> None:
        self.url, self.address, self._state = url, Address.parse(url), state
        self._synchronous: Synchronous = synchronous
        self._mode: Mode = "read" if mode == "read" else "write"
        self._removal_lock = _lock_number(f"removing {self.address.schema}")
        self._pruning_lock = _lock_number(f"pruning {self.address.schema}")
        database = PostgresDatabase(self.address, synchronous, mode, lambda: self.check_last_commit())
        name = self.address.with_schema
        file = None if state is None else state / f"{sha256(name.encode()).hexdigest()[:16]}.last"
        super().__init__(database, LastCommit(database, name, file))
        self._notifier = Notifier(self._db)
        if mode != "read" and not allow_behind:
            self._open_last_commit()

    def reopen(self) -> PostgresStore:
        return PostgresStore(self.url, synchronous=self._synchronous, mode=self._mode, state=self._state)

    def close(self) -> None:
        self._notifier.close()
        super().close()

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        self._last_commit.require()
        check_gapless(changes)
        return [good for batch in _batches(changes) for good in self._commit(batch)]

    def _commit(self, changes: Sequence[Change]) -> list[bool]:
        heads = {change.execution: change.expected for change in reversed(changes)}  # unless others have written
        while True:
            good = accepted(changes, heads)
            fitting = [change for change, fits in zip(changes, good, strict=True) if fits]
            if not fitting:
                return good
            expected = {change.execution: heads[change.execution] for change in fitting}
            ((actual,),) = self._db.write("commit_changes", *arguments(fitting, expected, self._removal_lock))
            if actual == list(expected.values()):
                self._record(fitting)
                self._notifier.notify()
                return good
            heads.update(zip(expected, actual, strict=True))

    def _record(self, changes: Sequence[Change]) -> None:
        for change in reversed(changes):
            if change.rows:
                last = change.rows[-1]
                self._last_commit.record(key_of(change.execution), last.seq, last.hash, last.at)
                return

    def append_output(self, lines: Sequence[LogLine]) -> None:
        if lines:
            executions, tasks, times, streams, contents = zip(*lines, strict=True)
            keys = uuids([valid_key(execution) for execution in executions])
            data = byteas([line.encode("utf-8", "backslashreplace") for line in contents])
            self._db.write("append_output", keys, texts(tasks), floats(times), texts(streams), data)

    def _lines(self, query: str, *parameters: Any) -> list[StoredLine]:
        rows: list[Any] = super()._lines(query, *parameters)
        return [(number, task, at, stream, line.decode()) for number, task, at, stream, line in rows]

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        """Under a lock: two that register at the same time could take the same number."""
        version = ("register_version", (path, digest, storable(label), now))
        _, ((number,),) = self._db.write_all(("lock_path", (path,)), version)
        return int(number)

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        """One process at a time; 0 while another one is pruning."""
        if not self._db.row("lock_pruning", self._pruning_lock)[0]:
            return 0
        try:
            return super().prune(before, limit, now)
        finally:
            with suppress(StoreError):  # the lock ends with its session
                self._db.rows("unlock_pruning", self._pruning_lock)

    def _remove_unused(self, before: float, limit: int) -> int:
        queries = ("lock_blobs", (self._removal_lock,)), ("remove_blobs", (before, limit))
        _, ((count,),) = self._db.write_all(*queries)
        return int(count)


class Notifier:
    """Notifies other processes of commits, in a thread soon after `notify`, once for all calls in the meantime. NOTIFY
    takes a lock on the whole database when its transaction commits, so commits with one would wait for each other's
    disk sync. A process that is killed before notifies nobody: a notification is a hint, listeners also poll."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._pending, self._closed = Event(), Event()
        self._thread: Thread | None = None

    def notify(self) -> None:
        self._pending.set()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="noetl-notifier", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._pending.wait():
            self._pending.clear()
            with suppress(StoreError):
                self._db.rows("notify")
            if self._closed.wait(MIN_INTERVAL_SECONDS) and not self._pending.is_set():
                return

    def close(self) -> None:
        if self._thread is not None:
            self._closed.set()
            self._pending.set()
            self._thread.join(CLOSE_SECONDS)


def _lock_number(name: str) -> int:
    return int.from_bytes(sha256(f"noetl {name}".encode()).digest()[:8], signed=True)


def _batches(changes: Sequence[Change]) -> Iterator[list[Change]]:
    batch: list[Change] = []
    size = 0
    for change in changes:
        more = sum(len(row.data) for row in change.rows) + sum(len(data) for _, data in change.blobs)
        if batch and (len(batch) == MAX_BATCH_CHANGES or size + more > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += more
    if batch:
        yield batch
