"""A store in memory: the oracle of the conformance suite, and enough for tests of the runtime."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from math import inf
from typing import TypeVar

import msgspec

from noetl.store.memory_access import MemoryAccess
from noetl.store.memory_triggers import MemoryTriggers
from noetl.store.ports import (
    DAY,
    Backlog,
    CatalogVersion,
    Change,
    Derived,
    Held,
    LogLine,
    Row,
    SealedCredential,
    Snapshot,
    Summary,
    WorkerSession,
    check_gapless,
)
from noetl.store.uses import parts_of, used_keys

Key = TypeVar("Key")
Value = TypeVar("Value")


class MemoryStore:
    """Keeps everything in dicts; durable as long as the process."""

    def __init__(self) -> None:
        self.events: dict[str, list[Row]] = {}
        self.runs: dict[str, Summary] = {}
        self.playbooks: dict[str, tuple[str, bytes]] = {}
        self.catalog: dict[str, list[CatalogVersion]] = {}
        self.blobs: dict[str, bytes] = {}
        self.brought: dict[str, float] = {}
        self.uses: dict[str, set[str]] = {}
        self.parts: set[tuple[str, str]] = set()
        self.snapshots: dict[str, Snapshot] = {}
        self.lines: dict[int, LogLine] = {}
        self.kept: dict[str, Derived] = {}
        self.sessions: dict[str, WorkerSession] = {}
        self.answers: dict[tuple[str, str], tuple[float, bytes]] = {}
        self.credentials = MemoryCredentials()
        self.access = MemoryAccess()
        self.triggers = MemoryTriggers()

    # -- events -----------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        check_gapless(changes)
        return [self._commit(change) for change in changes]

    def _commit(self, change: Change) -> bool:
        if self.seq(change.execution) != change.expected:
            return False
        self.events.setdefault(change.execution, []).extend(change.rows)
        self.blobs.update(change.blobs)
        self.brought.update((key, time.time()) for key, _ in change.blobs)
        self.uses.setdefault(change.execution, set()).update(used_keys(change))
        self.parts |= parts_of(change.blobs)
        if change.summary is not None:
            self.runs[change.execution] = change.summary
        if change.snapshot is not None and change.rows:
            last = change.rows[-1]
            self.snapshots[change.execution] = Snapshot(last.seq, last.hash, change.snapshot)
        kept = self.derived(change.execution)
        self.kept[change.execution] = Derived(
            _moved(kept.ready, change.ready), _moved(kept.leases, change.leases), _moved(kept.timers, change.timers)
        )
        return True

    def moment(self) -> AbstractContextManager[None]:
        return nullcontext()

    def derived(self, execution: str) -> Derived:
        return self.kept.get(execution, Derived())

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = self.events.get(execution, [])[after:]
        return rows if limit is None else rows[:limit]

    def snapshot(self, execution: str) -> Snapshot | None:
        return self.snapshots.get(execution)

    def seq(self, execution: str) -> int:
        return len(self.events.get(execution, ()))

    def blob(self, key: str) -> bytes | None:
        return self.blobs.get(key)

    def refers(self, execution: str, key: str) -> bool:
        wholes, found = {key}, {key}
        while wholes:
            wholes = {whole for whole, part in self.parts if part in wholes} - found
            found |= wholes
        return not found.isdisjoint(self.uses.get(execution, ()))

    def log(self, lines: Sequence[LogLine]) -> None:
        first = max(self.lines, default=0) + 1
        self.lines.update(enumerate(lines, start=first))

    def logs(self, execution: str, after: int = 0, limit: int | None = None) -> list[tuple[int, str, float, str, str]]:
        found = ((n, *line[1:]) for n, line in self.lines.items() if line[0] == execution and n > after)
        return list(islice(found, limit))

    def changed(self) -> bool:
        return False

    # -- executions -------------------------------------------------------------------------------------------------

    def summaries(
        self, *, status: str | None = None, prefix: str = "", before: str = "", limit: int = 1000
    ) -> list[Summary]:
        found = [
            run
            for run in self.runs.values()
            if run.execution_id.startswith(prefix)
            and (status is None or run.status == status)
            and (not before or run.execution_id < before)
        ]
        return sorted(found, key=lambda run: run.execution_id, reverse=True)[:limit]

    def children(self, parent: str) -> list[Summary]:
        return [run for run in self._open() if run.parent == parent]

    def backlog(self) -> Backlog:
        kept = self.kept.values()
        return Backlog(
            dict(Counter(run.status for run in self._open())),
            sum(len(one.ready) for one in kept),
            sum(len(one.leases) for one in kept),
            sum(len(one.timers) for one in kept),
        )

    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        found = [(run.ended, name, run) for name, run in self.runs.items() if run.ended is not None]
        above = {run.parent for run in self._open()}
        return [
            run
            for ended, name, run in sorted(found)
            if ended < before and not self._is_open(run.parent) and name not in above
        ][:limit]

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        yesterday = _or_clock(now) - DAY
        gone = [run.execution_id for run in self.prunable(before, limit)]
        for name in gone:
            for rows in (self.runs, self.events, self.snapshots, self.kept, self.uses):
                rows.pop(name, None)
        self.lines = {number: line for number, line in self.lines.items() if line[0] not in gone}
        self.answers = {key: answer for key, answer in self.answers.items() if answer[0] >= yesterday}
        holding = {lease.worker for kept in self.kept.values() for lease in kept.leases.values()}
        self.sessions = {name: one for name, one in self.sessions.items() if one.beat >= yesterday or name in holding}
        self._sweep(yesterday)
        return len(gone)

    def _sweep(self, yesterday: float) -> None:
        used = {key for keys in self.uses.values() for key in keys} | {part for _, part in self.parts}
        unused = {key for key, at in self.brought.items() if key not in used and at < yesterday}
        if unused:
            for key in unused:
                del self.blobs[key], self.brought[key]
            self.parts = {(whole, part) for whole, part in self.parts if whole not in unused}
            self._sweep(yesterday)

    def _open(self) -> list[Summary]:
        return [self.runs[name] for name in sorted(self.runs) if self._is_open(name)]

    def _is_open(self, name: str | None) -> bool:
        run = self.runs.get(name or "")
        return run is not None and run.ended is None

    # -- work -------------------------------------------------------------------------------------------------------

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        found = [name for name, kept in self.kept.items() if pool in kept.ready.values() and self._goes_on(name)]
        return [name for name in sorted(found) if name > after][:limit]

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        return [(execution, name) for due, execution, name in self._timers() if due <= now][:limit]

    def next_due(self) -> float | None:
        return next((due for due, _, _ in self._timers()), None)

    def _timers(self) -> list[tuple[float, str, str]]:
        goes_on = [(execution, kept) for execution, kept in self.kept.items() if self._goes_on(execution)]
        return sorted((due, execution, name) for execution, kept in goes_on for name, due in kept.timers.items())

    def _goes_on(self, execution: str) -> bool:
        return self._is_served(execution) and self.runs[execution].status != "paused"

    def _is_served(self, execution: str) -> bool:
        run = self.runs.get(execution)
        return run is not None and not run.local

    def lost(self, now: float | None = None, limit: int = 100, attentive: float = inf) -> list[tuple[str, int]]:
        at, found = _or_clock(now), []
        for execution, kept in self.kept.items():
            for fence, lease in kept.leases.items():
                session = self.sessions.get(lease.worker)
                heard = session.beat if session is not None else 0.0
                if self._is_served(execution) and lease.ttl < attentive:
                    found.append((max(heard, lease.since) + lease.ttl, execution, fence))
        return [(execution, fence) for end, execution, fence in sorted(found) if end < at][:limit]

    def held(self, worker: str) -> list[Held]:
        return sorted(
            Held(execution, fence, lease.since, self.runs[execution].status == "paused")
            for execution, kept in self.kept.items()
            for fence, lease in kept.leases.items()
            if lease.worker == worker and self._is_served(execution)
        )

    def may_read(self, suffix: str, key: str) -> bool:
        held = [
            execution
            for execution, kept in self.kept.items()
            if any(lease.worker.endswith(suffix) for lease in kept.leases.values())
        ]
        return any(self.refers(one, key) or (one in self.runs and self.runs[one].digest == key) for one in held)

    def open_digests(self) -> list[str]:
        return sorted({run.digest for run in self._moving()})

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        return [(run.execution_id, self.seq(run.execution_id)) for run in self._moving() if run.digest in digests]

    def open_children(self) -> list[str]:
        children = [(run.parent, run.execution_id) for run in self._open() if run.parent is not None]
        return [execution for _, execution in sorted(children)]

    def _moving(self) -> list[Summary]:
        return [run for run in self._open() if run.status in ("running", "waiting") and not run.local]

    def orphans(self, limit: int) -> list[str]:
        served = (run for run in self._open() if self._is_served(run.execution_id))
        return [run.execution_id for run in served if run.parent is not None and not self._is_open(run.parent)][:limit]

    def beat(self, session: WorkerSession, now: float | None = None) -> None:
        self.sessions[session.worker] = msgspec.structs.replace(session, beat=_or_clock(now))

    def worker_session(self, name: str) -> WorkerSession | None:
        return self.sessions.get(name)

    def workers(self) -> list[WorkerSession]:
        return [self.sessions[name] for name in sorted(self.sessions)]

    def forget_worker(self, name: str) -> None:
        self.sessions.pop(name, None)

    # -- playbooks --------------------------------------------------------------------------------------------------

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self.playbooks.setdefault(digest, (file, text))

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        return self.playbooks.get(digest)

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        known = self.catalog.setdefault(path, [])
        same = next((one for one in known if one.digest == digest), None)
        if same is not None:
            known.remove(same)
        version = len(known) + 1 if same is None else same.version
        known.append(CatalogVersion(version, digest, label, _or_clock(now)))
        return version

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        return self.catalog.get(path, [])[::-1][:limit]

    def find(self, path: str, version: int | None = None) -> str | None:
        return next((one.digest for one in self.versions(path) if version in (None, one.version)), None)

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "") -> list[str]:
        return [path for path in sorted(self.catalog) if path.startswith(prefix) and path > after][:limit]

    # -- the rest ---------------------------------------------------------------------------------------------------

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        known = self.answers.get((scope, key))
        if known is None:
            self.answers[scope, key] = _or_clock(now), answer
        return None if known is None else known[1]

    def again(self) -> MemoryStore:
        return self

    def close(self) -> None:
        pass


def _or_clock(now: float | None) -> float:
    return time.time() if now is None else now


def _moved(before: dict[Key, Value], moved: dict[Key, Value | None]) -> dict[Key, Value]:
    after = {**before, **moved}
    return {key: value for key, value in after.items() if value is not None}


class MemoryCredentials:
    """Sealed credentials in a dict."""

    def __init__(self) -> None:
        self.rows: dict[str, SealedCredential] = {}

    def all(self) -> list[SealedCredential]:
        return [self.rows[name] for name in sorted(self.rows)]

    def get(self, name: str) -> SealedCredential | None:
        return self.rows.get(name)

    def put(self, credential: SealedCredential) -> None:
        created = self.rows.get(credential.name, credential).created
        self.rows[credential.name] = msgspec.structs.replace(credential, created=created)

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        row = self.rows.get(name)
        if row is None or row.sealed != before:
            return False
        self.rows[name] = msgspec.structs.replace(row, sealed=after)
        return True

    def delete(self, name: str) -> bool:
        return self.rows.pop(name, None) is not None
