"""The verbs that are a query or two, the same on every SQL database. The queries are not: each database has its own
under the same names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from typing import Any

import msgspec

from noetl.store.credentials import SqlCredentials
from noetl.store.ports import (
    DAY,
    Backlog,
    CatalogVersion,
    Derived,
    Held,
    Leased,
    Snapshot,
    Summary,
    WorkerSession,
)
from noetl.store.sql_access import SqlAccess
from noetl.store.sql_triggers import SqlTriggers

EVERYTHING = 2**62
"""A limit that is none."""
ROWS_AT_ONCE = 10_000
BLOBS_AT_ONCE = 100
LONG = ("remove_events", "remove_lines")
SHORT = ("remove_snapshots", "remove_ready", "remove_leases", "remove_timers", "remove_uses", "end_removal")
"""What is removed of an execution: in small transactions what may be millions of rows, the rest in one."""

Bindings = tuple[Any, ...]
_leases = msgspec.json.Decoder(dict[str, list[int]])


class SqlVerbs:
    """What a store does with one query of its database each. Who inherits brings the database."""

    # -- the database -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _rows(self, name: str, bindings: Bindings) -> list[Any]:
        """What a query finds."""

    @abstractmethod
    def _written(self, queries: Iterable[tuple[str, Bindings]]) -> list[list[Any]]:
        """Run queries in one transaction; the rows that each gives back."""

    @abstractmethod
    def _removed(self, name: str, bindings: Bindings) -> int:
        """Run a query in a transaction; how many rows it removed."""

    @abstractmethod
    def _remove_unused(self, before: float, limit: int) -> int:
        """Remove contents that nothing uses and that were last brought before that time; how many."""

    @staticmethod
    @abstractmethod
    def _key(execution: str) -> Any:
        """An id as the database has it; something that finds nothing if it is not one."""

    @staticmethod
    @abstractmethod
    def _id(key: Any) -> str:
        """The id again."""

    @staticmethod
    @abstractmethod
    def _text(value: str) -> str:
        """The text as the database can keep it."""

    @staticmethod
    @abstractmethod
    def _span(prefix: str) -> tuple[Any, Any] | None:
        """The smallest and the largest key of ids that begin so; None if no id can."""

    # -- an execution -----------------------------------------------------------------------------------------------

    def snapshot(self, execution: str) -> Snapshot | None:
        rows = self._rows("get_snapshot", (self._key(execution),))
        return Snapshot(*rows[0]) if rows else None

    def seq(self, execution: str) -> int:
        found: int = self._rows("last_seq", (self._key(execution),))[0][0]
        return found

    def derived(self, execution: str) -> Derived:
        key = (self._key(execution),)
        return Derived(
            dict(self._rows("read_ready", key)),
            {fence: Leased(*rest) for fence, *rest in self._rows("read_leases", key)},
            dict(self._rows("read_timers", key)),
        )

    def blob(self, key: str) -> bytes | None:
        rows = self._rows("get_blob", (key,))
        return rows[0][0] if rows else None

    def refers(self, execution: str, key: str) -> bool:
        return bool(self._rows("refers", (self._key(execution), key))[0][0])

    # -- executions -------------------------------------------------------------------------------------------------

    def summaries(
        self, *, status: str | None = None, prefix: str = "", before: str = "", limit: int = 1000
    ) -> list[Summary]:
        span = self._span(prefix)
        if span is None:
            return []
        low, high = span
        if before:
            high, limit = min(high, self._key(before)), limit + 1  # the one it stands behind is found as well
        if status is None:
            found = self._summaries("list_executions", (low, high, limit))
        else:
            found = self._summaries("list_executions_of_status", (status, low, high, limit))
        return [one for one in found if one.execution_id != before][: limit - bool(before)]

    def children(self, parent: str) -> list[Summary]:
        return self._summaries("list_children", (self._key(parent),))

    def backlog(self) -> Backlog:
        return Backlog(dict(self._rows("count_open", ())), *self._rows("count_work", ())[0])

    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        return self._summaries("list_prunable", (before, EVERYTHING if limit is None else limit))

    def _summaries(self, name: str, bindings: Bindings) -> list[Summary]:
        return [self._summary(row) for row in self._rows(name, bindings)]

    def _summary(self, row: Bindings) -> Summary:
        key, name, path, status, started, ended, digest, parent, local = row
        above = None if parent is None else self._id(parent)
        return Summary(self._id(key), name, path, status, started, ended, digest, above, bool(local))

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        yesterday = (self._rows("clock", ())[0][0] if now is None else now) - DAY
        doomed, *_ = self._written([("doom_executions", (before, limit)), ("unlist_doomed", ())])
        for name in LONG:
            _repeat(partial(self._removed, name, (ROWS_AT_ONCE,)))
        self._written([(name, ()) for name in SHORT])
        _repeat(partial(self._remove_unused, yesterday, BLOBS_AT_ONCE))
        self._written([("forget_answers", (yesterday,)), ("forget_silent_workers", (yesterday,))])
        return len(doomed)

    # -- work -------------------------------------------------------------------------------------------------------

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        return [self._id(key) for (key,) in self._rows("find_waiting", (pool, self._key(after), limit))]

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        return [(self._id(key), name) for key, name in self._rows("find_due", (now, limit))]

    def next_due(self) -> float | None:
        rows = self._rows("next_due", ())
        return rows[0][0] if rows else None

    def lost(self, now: float | None = None, limit: int = 100, attentive: float = inf) -> list[tuple[str, int]]:
        return [(self._id(key), fence) for key, fence in self._rows("find_lost", (now, attentive, limit))]

    def held(self, worker: str) -> list[Held]:
        rows = self._rows("list_held", (worker,))
        return [Held(self._id(key), fence, since, bool(paused)) for key, fence, since, paused in rows]

    def open_digests(self) -> list[str]:
        return [digest for (digest,) in self._rows("list_open_digests", ())]

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        known = msgspec.json.encode(list(digests)).decode()
        return [(self._id(key), seq) for key, seq in self._rows("list_open_of", (known,))]

    def open_children(self) -> list[str]:
        return [self._id(key) for (key,) in self._rows("list_open_children", ())]

    def may_read(self, suffix: str, key: str) -> bool:
        return bool(self._rows("may_read", (suffix, key))[0][0])

    def orphans(self, limit: int) -> list[str]:
        return [self._id(key) for (key,) in self._rows("find_orphans", (limit,))]

    def beat(self, session: WorkerSession, now: float | None = None) -> None:
        leases = msgspec.json.encode(session.leases).decode()
        row = (session.worker, session.pool, session.slots, session.host, session.started, leases, session.version, now)
        self._written([("put_worker", row)])

    def worker_session(self, name: str) -> WorkerSession | None:
        return next((_session(*row) for row in self._rows("find_worker", (name,))), None)

    def workers(self) -> list[WorkerSession]:
        return [_session(*row) for row in self._rows("list_workers", ())]

    def forget_worker(self, name: str) -> None:
        self._written([("delete_worker", (name,))])

    # -- playbooks --------------------------------------------------------------------------------------------------

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self._written([("put_playbook", (digest, self._text(file), text))])

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        rows = self._rows("get_playbook", (digest,))
        return rows[0] if rows else None

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        ((version,),) = self._written([("register_version", (path, digest, self._text(label), now))])[-1]
        return int(version)

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        rows = self._rows("list_versions", (path, EVERYTHING if limit is None else limit))
        return [CatalogVersion(*row) for row in rows]

    def find(self, path: str, version: int | None = None) -> str | None:
        name, bindings = ("find_latest", (path,)) if version is None else ("find_version", (path, version))
        rows = self._rows(name, bindings)
        return rows[0][0] if rows else None

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "") -> list[str]:
        return [path for (path,) in self._rows("list_paths", (prefix, after, limit))]

    # -- the rest ---------------------------------------------------------------------------------------------------

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        while True:
            (kept,) = self._written([("put_answer", (scope, key, answer, now))])
            if kept:
                return None
            if known := self._rows("get_answer", (scope, key)):  # else it was forgotten this very moment
                return bytes(known[0][0])

    @property
    def credentials(self) -> SqlCredentials:
        return SqlCredentials(self._rows, lambda name, bindings: self._written([(name, bindings)])[0])

    @property
    def access(self) -> SqlAccess:
        return SqlAccess(self._rows, self._written)

    @property
    def triggers(self) -> SqlTriggers:
        return SqlTriggers(self._rows, lambda name, bindings: self._written([(name, bindings)])[0])


def _session(
    worker: str, pool: str, slots: int, host: str, started: float, beat: float, leases: str, version: str
) -> WorkerSession:
    return WorkerSession(worker, pool, slots, host, started, beat, _leases.decode(leases), version)


def _repeat(remove: partial[int]) -> None:
    """Remove until nothing is left to be removed."""
    while remove():
        pass
