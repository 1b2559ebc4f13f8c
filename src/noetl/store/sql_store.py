"""The part of a store that is the same in every SQL database: verbs of a query or two each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any

import msgspec

from noetl.store.database import Database
from noetl.store.ports import (
    DAY,
    Backlog,
    CatalogVersion,
    Derived,
    HeldLease,
    Leased,
    Row,
    Snapshot,
    StoredLine,
    Summary,
    WorkerSession,
)
from noetl.store.sql_access import SqlAccess
from noetl.store.sql_credentials import SqlCredentials
from noetl.store.sql_triggers import SqlTriggers

NO_LIMIT = 2**62
ROWS_PER_REMOVAL = 10_000
BLOBS_PER_REMOVAL = 100
LARGE_TABLES = ("remove_events", "remove_output")
"""Removed in several transactions: there may be millions of rows."""
SMALL_TABLES = (
    *("remove_snapshots", "remove_ready", "remove_leases", "remove_timers", "remove_blob_uses"),
    "end_removal",
)

_decode_leases = msgspec.json.Decoder(dict[str, list[int]]).decode


class SqlStore:
    """Subclasses add `commit`, `append_output`, `reopen` and `_remove_unused`."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.credentials = SqlCredentials(database)
        self.access = SqlAccess(database)
        self.triggers = SqlTriggers(database)

    def read_snapshot(self) -> AbstractContextManager[None]:
        return self._db.read_snapshot()

    def changed_elsewhere(self) -> bool:
        return self._db.changed_elsewhere()

    def close(self) -> None:
        self._db.close()

    # -- one execution ----------------------------------------------------------------------------------------------

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = self._db.rows("read_events", self._db.key(execution), after, _or_all(limit))
        return [Row(*row) for row in rows]

    def snapshot(self, execution: str) -> Snapshot | None:
        row = self._db.row("get_snapshot", self._db.key(execution))
        return None if row is None else Snapshot(*row)

    def seq(self, execution: str) -> int:
        seq: int = self._db.row("last_seq", self._db.key(execution))[0]
        return seq

    def derived(self, execution: str) -> Derived:
        key, rows = self._db.key(execution), self._db.rows
        return Derived(
            dict(rows("read_ready", key)),
            {fence: Leased(*lease) for fence, *lease in rows("read_leases", key)},
            dict(rows("read_timers", key)),
        )

    def blob(self, key: str) -> bytes | None:
        row = self._db.row("get_blob", key)
        return None if row is None else row[0]

    def refers(self, execution: str, key: str) -> bool:
        return bool(self._db.row("refers", self._db.key(execution), key)[0])

    def output(self, execution: str, after: int = 0, limit: int | None = None) -> list[StoredLine]:
        return self._db.rows("read_output", self._db.key(execution), after, _or_all(limit))

    # -- executions -------------------------------------------------------------------------------------------------

    def summaries(
        self, *, status: str | None = None, prefix: str = "", before: str = "", limit: int = 1000
    ) -> list[Summary]:
        keys = self._db.key_range(prefix)
        if keys is None:
            return []
        low, high = keys
        if before:
            high, limit = min(high, self._db.key(before)), limit + 1  # the range includes `before` itself
        if status is None:
            summaries = self._summaries("list_executions", low, high, limit)
        else:
            summaries = self._summaries("list_executions_of_status", status, low, high, limit)
        return [summary for summary in summaries if summary.execution_id != before][: limit - bool(before)]

    def children(self, parent: str) -> list[Summary]:
        return self._summaries("list_children", self._db.key(parent))

    def backlog(self) -> Backlog:
        return Backlog(dict(self._db.rows("count_open")), *self._db.row("count_work"))

    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        return self._summaries("list_prunable", before, _or_all(limit))

    def _summaries(self, query: str, *parameters: Any) -> list[Summary]:
        return [self._summary(row) for row in self._db.rows(query, *parameters)]

    def _summary(self, row: tuple[Any, ...]) -> Summary:
        key, name, path, status, started, ended, digest, parent, local = row
        above = None if parent is None else self._db.id(parent)
        return Summary(self._db.id(key), name, path, status, started, ended, digest, above, bool(local))

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        database = self._db
        yesterday = (database.row("read_clock")[0] if now is None else now) - DAY
        removed, *_ = database.write_all(("mark_for_removal", (before, limit)), ("remove_executions", ()))
        for query in LARGE_TABLES:
            while database.delete(query, ROWS_PER_REMOVAL):
                pass
        database.write_all(*((query, ()) for query in SMALL_TABLES))
        while self._remove_unused(yesterday, BLOBS_PER_REMOVAL):
            pass
        database.write_all(("delete_old_answers", (yesterday,)), ("delete_silent_workers", (yesterday,)))
        return len(removed)

    def _remove_unused(self, before: float, limit: int) -> int:
        """Remove contents that nothing uses and that were last stored before that time; how many."""
        raise NotImplementedError

    # -- work -------------------------------------------------------------------------------------------------------

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        return self._ids("find_ready", pool, self._db.key(after), limit)

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        return [(self._db.id(key), name) for key, name in self._db.rows("find_due", now, limit)]

    def next_due(self) -> float | None:
        row = self._db.row("next_due")
        return None if row is None else row[0]

    def expired_leases(self, now: float | None = None, limit: int = 100, max_ttl: float = inf) -> list[tuple[str, int]]:
        rows = self._db.rows("find_expired_leases", now, max_ttl, limit)
        return [(self._db.id(key), fence) for key, fence in rows]

    def leases_of(self, worker: str) -> list[HeldLease]:
        rows = self._db.rows("list_leases_of_worker", worker)
        return [HeldLease(self._db.id(key), fence, since, bool(paused)) for key, fence, since, paused in rows]

    def open_digests(self) -> list[str]:
        return [digest for (digest,) in self._db.rows("list_open_digests")]

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        rows = self._db.rows("list_open_of", msgspec.json.encode(list(digests)).decode())
        return [(self._db.id(key), seq) for key, seq in rows]

    def open_children(self) -> list[str]:
        return self._ids("list_open_children")

    def may_read(self, suffix: str, key: str) -> bool:
        return bool(self._db.row("may_read", suffix, key)[0])

    def orphans(self, limit: int) -> list[str]:
        return self._ids("find_orphans", limit)

    def _ids(self, query: str, *parameters: Any) -> list[str]:
        return [self._db.id(key) for (key,) in self._db.rows(query, *parameters)]

    def record_heartbeat(self, session: WorkerSession, now: float | None = None) -> None:
        leases = msgspec.json.encode(session.leases).decode()
        about = session.worker, session.pool, session.slots, session.host, session.started
        self._db.write("put_worker", *about, leases, session.version, now)

    def worker_session(self, name: str) -> WorkerSession | None:
        return next((_session(*row) for row in self._db.rows("find_worker", name)), None)

    def workers(self) -> list[WorkerSession]:
        return [_session(*row) for row in self._db.rows("list_workers")]

    def forget_worker(self, name: str) -> None:
        self._db.write("delete_worker", name)

    # -- playbooks --------------------------------------------------------------------------------------------------

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self._db.write("put_playbook", digest, self._db.text(file), text)

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        row: tuple[str, bytes] | None = self._db.row("get_playbook", digest)
        return row

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        ((version,),) = self._db.write("register_version", path, digest, self._db.text(label), now)
        return int(version)

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        return [CatalogVersion(*row) for row in self._db.rows("list_versions", path, _or_all(limit))]

    def find(self, path: str, version: int | None = None) -> str | None:
        query = ("find_latest_digest", path) if version is None else ("find_digest", path, version)
        row = self._db.row(*query)
        return None if row is None else row[0]

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "") -> list[str]:
        return [path for (path,) in self._db.rows("list_paths", prefix, after, limit)]

    # -- answers ----------------------------------------------------------------------------------------------------

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        while True:
            if self._db.write("put_answer", scope, key, answer, now):
                return None
            earlier = self._db.row("get_answer", scope, key)
            if earlier is not None:  # else it was deleted between the two queries
                return bytes(earlier[0])


def _session(
    worker: str, pool: str, slots: int, host: str, started: float, beat: float, leases: str, version: str
) -> WorkerSession:
    return WorkerSession(worker, pool, slots, host, started, beat, _decode_leases(leases), version)


def _or_all(limit: int | None) -> int:
    return NO_LIMIT if limit is None else limit
