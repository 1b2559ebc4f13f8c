"""A store in dicts: the oracle of the conformance suite, and a quick store for tests of the engine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from math import inf
from typing import TypeVar

from msgspec.structs import replace

from noetl.store.access import ApiToken, Session, User
from noetl.store.commits import check_gapless, parts_of, used_keys
from noetl.store.credentials import SealedCredential
from noetl.store.store import (
    DAY,
    NO_LIMIT,
    Backlog,
    CatalogVersion,
    Change,
    Derived,
    HeldLease,
    Leased,
    LogLine,
    Queue,
    Row,
    RunPosition,
    Snapshot,
    StoredLine,
    Summary,
    WorkerDirective,
    WorkerSession,
)
from noetl.store.triggers import Hook, Schedule

Key = TypeVar("Key")
Value = TypeVar("Value")


class MemoryCatalog:
    def __init__(self) -> None:
        self.playbooks: dict[str, tuple[str, bytes]] = {}
        self.catalog: dict[str, list[CatalogVersion]] = {}
        """Versions by path, the one registered last at the end."""

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self.playbooks.setdefault(digest, (file, text))

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        return self.playbooks.get(digest)

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        versions = self.catalog.setdefault(path, [])
        same = next((version for version in versions if version.digest == digest), None)
        if same is not None:
            versions.remove(same)
        number = len(versions) + 1 if same is None else same.version
        versions.append(CatalogVersion(number, digest, label, or_clock(now)))
        return number

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        return self.catalog.get(path, [])[::-1][:limit]

    def version_of(self, path: str, digest: str) -> int | None:
        return next((entry.version for entry in self.versions(path) if entry.digest == digest), None)

    def versions_of(self, contents: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        result = {content: self.version_of(*content) for content in contents}
        return {content: version for content, version in result.items() if version is not None}

    def find(self, path: str, version: int | None = None) -> str | None:
        return next((entry.digest for entry in self.versions(path) if version in (None, entry.version)), None)

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "", contains: str = "") -> list[str]:
        paths = [path for path in sorted(self.catalog) if path.startswith(prefix) and path > after]
        return [path for path in paths if contains.lower() in path.lower()][:limit]


class MemoryCredentials:
    def __init__(self) -> None:
        self._credentials: dict[str, SealedCredential] = {}

    def all(self) -> list[SealedCredential]:
        return [self._credentials[name] for name in sorted(self._credentials)]

    def get(self, name: str) -> SealedCredential | None:
        return self._credentials.get(name)

    def put(self, credential: SealedCredential) -> None:
        created = self._credentials.get(credential.name, credential).created
        self._credentials[credential.name] = replace(credential, created=created)

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        credential = self._credentials.get(name)
        if credential is None or credential.sealed != before:
            return False
        self._credentials[name] = replace(credential, sealed=after)
        return True

    def delete(self, name: str) -> bool:
        return self._credentials.pop(name, None) is not None


class MemoryAccess:
    def __init__(self) -> None:
        self._tokens: dict[str, ApiToken] = {}
        self._users: dict[str, User] = {}
        self._sessions: dict[str, Session] = {}

    def add_token(self, token: ApiToken) -> None:
        self._tokens[token.id] = token

    def token(self, hash: bytes) -> ApiToken | None:
        return next((token for token in self._tokens.values() if token.hash == hash), None)

    def token_by_id(self, id: str) -> ApiToken | None:
        return self._tokens.get(id)

    def tokens(self) -> list[ApiToken]:
        return sorted(self._tokens.values(), key=lambda token: (token.created, token.id))

    def revoke_token(self, id: str, now: float) -> bool:
        token = self._tokens.get(id)
        if token is None or token.revoked is not None:
            return False
        self._tokens[id] = replace(token, revoked=now)
        return True

    def put_user(self, user: User, *, new: bool) -> bool:
        if (user.name in self._users) is new:
            return False
        self._users[user.name] = user
        return True

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def users(self) -> list[User]:
        return [self._users[name] for name in sorted(self._users)]

    def delete_user(self, name: str) -> bool:
        self.delete_sessions(name)
        return self._users.pop(name, None) is not None

    def add_session(self, session: Session) -> None:
        self._sessions = {id: other for id, other in self._sessions.items() if other.expires > session.created}
        self._sessions[session.id] = session

    def session(self, hash: bytes) -> Session | None:
        return next((session for session in self._sessions.values() if session.hash == hash), None)

    def sessions(self, user: str | None = None) -> list[Session]:
        sessions = [session for session in self._sessions.values() if user in (None, session.user)]
        return sorted(sessions, key=lambda session: (session.created, session.id), reverse=True)

    def touch_session(self, id: str, at: float) -> None:
        if (session := self._sessions.get(id)) is not None:
            self._sessions[id] = replace(session, last_used=max(session.last_used, at))

    def delete_session(self, id: str) -> bool:
        return self._sessions.pop(id, None) is not None

    def delete_sessions(self, user: str) -> int:
        return sum(self.delete_session(session.id) for session in self.sessions(user))


class MemoryTriggers:
    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._hooks: dict[str, Hook] = {}

    def add_schedule(self, schedule: Schedule) -> bool:
        return self._schedules.setdefault(schedule.name, schedule) is schedule

    def schedule(self, name: str) -> Schedule | None:
        return self._schedules.get(name)

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        return [self._schedules[name] for name in sorted(self._schedules) if name > after][:limit]

    def change_schedule(self, schedule: Schedule) -> bool:
        stored = self._schedules.get(schedule.name)
        if stored is None or (stored.id, stored.revision) != (schedule.id, schedule.revision - 1):
            return False
        self._schedules[schedule.name] = schedule
        return True

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        checks = [(schedule.look, name) for name, schedule in self._schedules.items() if schedule.look is not None]
        return [self._schedules[name] for look, name in sorted(checks) if look <= now][:limit]

    def delete_schedule(self, name: str) -> bool:
        return self._schedules.pop(name, None) is not None

    def put_hook(self, hook: Hook) -> None:
        created = self._hooks.get(hook.name, hook).created
        self._hooks[hook.name] = replace(hook, created=created)

    def hook(self, name: str) -> Hook | None:
        return self._hooks.get(name)

    def hooks(self) -> list[Hook]:
        return [self._hooks[name] for name in sorted(self._hooks)]

    def delete_hook(self, name: str) -> bool:
        return self._hooks.pop(name, None) is not None


def _is_at(run: Summary, path: str | None) -> bool:
    return path is None or (run.path.startswith(path[:-1]) if path.endswith("*") else run.path == path)


def or_clock(now: float | None) -> float:
    return time.time() if now is None else now


class MemoryStore(MemoryCatalog):
    """Keeps everything in dicts by execution."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, list[Row]] = {}
        self.runs: dict[str, Summary] = {}
        self.snapshots: dict[str, dict[int, Snapshot]] = {}
        self.outlines: dict[str, dict[int, bytes]] = {}
        self.derived_rows: dict[str, Derived] = {}
        self.queued_at: dict[tuple[str, str], float] = {}
        self.lines: dict[int, LogLine] = {}
        self.blobs: dict[str, bytes] = {}
        self.stored_at: dict[str, float] = {}
        """When each blob was last stored."""
        self.uses: dict[str, set[str]] = {}
        """The blobs that each execution refers to."""
        self.parts: set[tuple[str, str]] = set()
        """Blobs, and those that they refer to."""
        self.granted_at: dict[tuple[str, int], float] = {}
        self.sessions: dict[str, WorkerSession] = {}
        self.responses: dict[tuple[str, str], tuple[float, bytes]] = {}
        self.credentials = MemoryCredentials()
        self.access = MemoryAccess()
        self.triggers = MemoryTriggers()

    def reopen(self) -> MemoryStore:
        return self

    def read_snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def changed_elsewhere(self) -> bool:
        return False

    def close(self) -> None:
        pass

    # -- the last commit: what is in memory does not go backwards -----------------------------------------------------

    def check_last_commit(self) -> None:
        pass

    def missing_commit(self) -> None:
        return None

    # -- one execution ----------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        check_gapless(changes)
        return [self._commit(change) for change in changes]

    def _commit(self, change: Change) -> bool:
        if self.seq(change.execution) != change.expected:
            return False
        self.events.setdefault(change.execution, []).extend(change.rows)
        self.blobs.update(change.blobs)
        self.stored_at.update((key, time.time()) for key, _ in change.blobs)
        self.uses.setdefault(change.execution, set()).update(used_keys(change))
        self.parts |= parts_of(change.blobs)
        if change.summary is not None:
            self.runs[change.execution] = change.summary
        if change.snapshot is not None and change.rows:
            last = change.rows[-1]
            snapshots = self.snapshots.setdefault(change.execution, {})
            snapshots[last.seq] = Snapshot(last.seq, last.hash, change.snapshot)
        for seq in change.stale_snapshots:
            self.snapshots.get(change.execution, {}).pop(seq, None)
        self.put_outline(change.execution, change.outline)
        before = self.derived(change.execution)
        for run, pool in change.ready.items():
            if pool is None:
                self.queued_at.pop((change.execution, run), None)
            else:
                self.queued_at.setdefault((change.execution, run), time.time())
        for fence in change.leases:
            self.granted_at.setdefault((change.execution, fence), time.time())
        self.derived_rows[change.execution] = Derived(
            _merged(before.ready, change.ready),
            _merged(before.leases, change.leases),
            _merged(before.timers, change.timers),
        )
        return True

    def derived(self, execution: str) -> Derived:
        return self.derived_rows.get(execution, Derived())

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = self.events.get(execution, [])[after:]
        return rows if limit is None else rows[:limit]

    def read_backwards(
        self, execution: str, before: int, types: Collection[str], limit: int, after: int = 0
    ) -> list[Row]:
        rows = self.events.get(execution, [])[after : before - 1]
        return [row for row in reversed(rows) if row.type in types][:limit]

    def snapshot(self, execution: str, until: int = NO_LIMIT) -> Snapshot | None:
        snapshots = self.snapshots.get(execution, {})
        return snapshots.get(max((seq for seq in snapshots if seq <= until), default=0))

    def copy_snapshots(self, source: str, target: str, until: int) -> None:
        copied = {seq: found for seq, found in self.snapshots.get(source, {}).items() if seq <= until}
        if copied:
            self.snapshots[target] = copied | self.snapshots.get(target, {})

    def snapshot_seqs(self, execution: str) -> list[int]:
        return sorted(self.snapshots.get(execution, {}))

    def outline(self, execution: str, first: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        blocks = sorted(self.outlines.get(execution, {}).items())
        return [block for block in blocks if block[0] >= first][:limit]

    def put_outline(self, execution: str, blocks: Sequence[tuple[int, bytes]]) -> None:
        self.outlines.setdefault(execution, {}).update(blocks)

    def seq(self, execution: str) -> int:
        return len(self.events.get(execution, ()))

    def blob(self, key: str) -> bytes | None:
        return self.blobs.get(key)

    def blob_size(self, key: str) -> int | None:
        return len(self.blobs[key]) if key in self.blobs else None

    def blob_part(self, key: str, start: int, size: int) -> bytes | None:
        return self.blobs[key][start : start + size] if key in self.blobs else None

    def refers(self, execution: str, key: str) -> bool:
        wholes, reached = {key}, {key}
        while wholes:
            wholes = {whole for whole, part in self.parts if part in wholes} - reached
            reached |= wholes
        return not reached.isdisjoint(self.uses.get(execution, ()))

    def append_output(self, lines: Sequence[LogLine]) -> None:
        first = max(self.lines, default=0) + 1
        self.lines.update(enumerate(lines, start=first))

    def output(self, execution: str, after: int = 0, limit: int | None = None) -> list[StoredLine]:
        lines = ((n, *line[1:]) for n, line in self.lines.items() if line[0] == execution and n > after)
        return list(islice(lines, limit))

    def output_before(self, execution: str, before: int, limit: int) -> list[StoredLine]:
        lines = ((n, *line[1:]) for n, line in reversed(self.lines.items()) if line[0] == execution and n < before)
        return list(islice(lines, limit))

    def output_number(self, execution: str, row: int) -> int | None:
        numbers = [line[0] for line in self.output(execution)]
        return numbers[row] if row < len(numbers) else None

    def output_rows(self, execution: str, before: int) -> int:
        return len(self.output_before(execution, before, len(self.lines)))

    # -- executions -------------------------------------------------------------------------------------------------

    def summaries(
        self,
        *,
        prefix: str = "",
        parent: str | None = None,
        source: str | None = None,
        top: bool = False,
        path: str | None = None,
        statuses: Collection[str] = (),
        name: str | None = None,
        waits: str | None = None,
        pools: Collection[str] | None = None,
        contains: str = "",
        since: float = 0.0,
        until: float = inf,
        before: RunPosition | None = None,
        limit: int = 1000,
    ) -> list[Summary]:
        origin = parent is not None or source is not None or waits is not None or pools is not None

        def is_selected(run: Summary) -> bool:
            if prefix:
                return run.execution_id.startswith(prefix)
            if top and run.parent is not None:
                return False
            if parent not in (None, run.parent) or source not in (None, run.source):
                return False
            if waits is not None and f" {waits} " not in run.waits:
                return False
            return pools is None or not set(self.derived(run.execution_id).ready.values()).isdisjoint(pools)

        def has(run: Summary) -> bool:
            part = contains.lower()
            if origin:
                return part in run.name.lower() or part in run.path.lower() or run.execution_id.startswith(part)
            names = {other.path: other.name for other in sorted(self.runs.values(), key=lambda other: other.started)}
            return part in names[run.path].lower() or part in run.path.lower() or run.execution_id.startswith(part)

        runs = [
            run
            for run in sorted(self.runs.values(), key=lambda run: run.position, reverse=True)
            if is_selected(run)
            and (not statuses or run.status in statuses)
            and _is_at(run, path)
            and name in (None, run.name)
            and (not contains or has(run))
            and since <= run.started < until
            and (before is None or run.position < before)
        ]
        return runs[:limit]

    def counts(self, *, since: float = 0.0, path: str | None = None, top: bool = False) -> dict[str, int]:
        return dict(Counter(run.status for run in self.summaries(since=since, path=path, top=top, limit=10**9)))

    def count_related(self, execution: str) -> tuple[int, int]:
        runs = self.runs.values()
        return sum(run.parent == execution for run in runs), sum(run.source == execution for run in runs)

    def ready_of(self, executions: Collection[str]) -> dict[str, dict[str, tuple[str, float]]]:
        return {
            execution: {run: (pool, self.queued_at[execution, run]) for run, pool in derived.ready.items()}
            for execution in executions
            if (derived := self.derived(execution)).ready
        }

    def ready_pools(self) -> list[str]:
        return sorted({pool for derived in self.derived_rows.values() for pool in derived.ready.values()})

    def children(self, parent: str) -> list[Summary]:
        return [run for run in self._open() if run.parent == parent]

    def backlog(self) -> Backlog:
        rows = self.derived_rows.values()
        return Backlog(
            dict(Counter(run.status for run in self._open())),
            sum(len(derived.ready) for derived in rows),
            sum(len(derived.leases) for derived in rows),
            sum(len(derived.timers) for derived in rows),
        )

    def queues(self) -> list[Queue]:
        times: dict[str, list[float]] = {}
        for execution, derived in self._served():
            for run, pool in derived.ready.items() if self.runs[execution].status != "paused" else ():
                times.setdefault(pool, []).append(self.queued_at[execution, run])
        return [Queue(pool, len(times[pool]), min(times[pool])) for pool in sorted(times)]

    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        ended = [(run.ended, name) for name, run in self.runs.items() if run.ended is not None and run.ended < before]
        parents = {run.parent for run in self._open()}
        runs = [self.runs[name] for _, name in sorted(ended) if name not in parents]
        return [run for run in runs if not self._is_open(run.parent)][:limit]

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        yesterday = or_clock(now) - DAY
        removed = [run.execution_id for run in self.prunable(before, limit)]
        for execution in removed:
            for table in (self.runs, self.events, self.snapshots, self.outlines, self.derived_rows, self.uses):
                table.pop(execution, None)
        self.lines = {number: line for number, line in self.lines.items() if line[0] not in removed}
        self.responses = {key: saved for key, saved in self.responses.items() if saved[0] >= yesterday}
        holders = {lease.worker for _, _, lease in self._leases()}
        for name, session in list(self.sessions.items()):
            if session.beat < yesterday and name not in holders:
                del self.sessions[name]
        self._remove_unused(yesterday)
        return len(removed)

    def _remove_unused(self, before: float) -> None:
        used = {key for keys in self.uses.values() for key in keys} | {part for _, part in self.parts}
        unused = {key for key, at in self.stored_at.items() if key not in used and at < before}
        if unused:
            for key in unused:
                del self.blobs[key], self.stored_at[key]
            self.parts = {(whole, part) for whole, part in self.parts if whole not in unused}
            self._remove_unused(before)

    def _open(self) -> list[Summary]:
        return [run for _, run in sorted(self.runs.items()) if run.ended is None]

    def _is_open(self, execution: str | None) -> bool:
        run = self.runs.get(execution or "")
        return run is not None and run.ended is None

    # -- work -------------------------------------------------------------------------------------------------------

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        ready = [execution for execution, derived in self._served() if pool in derived.ready.values()]
        return [name for name in sorted(ready) if name > after and self.runs[name].status != "paused"][:limit]

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        return [(execution, name) for due, execution, name in self._timers() if due <= now][:limit]

    def next_due(self) -> float | None:
        return next((due for due, _, _ in self._timers()), None)

    def _timers(self) -> list[tuple[float, str, str]]:
        return sorted(
            (due, execution, name)
            for execution, derived in self._served()
            if self.runs[execution].status != "paused"
            for name, due in derived.timers.items()
        )

    def expired_leases(self, now: float | None = None, limit: int = 100, max_ttl: float = inf) -> list[tuple[str, int]]:
        ends = []
        for execution, fence, lease in self._leases():
            session = self.sessions.get(lease.worker)
            heartbeat = session.beat if session is not None else 0.0
            if self._is_served(execution) and lease.ttl < max_ttl:
                ends.append((max(heartbeat, self.granted_at[execution, fence]) + lease.ttl, execution, fence))
        return [(execution, fence) for end, execution, fence in sorted(ends) if end < or_clock(now)][:limit]

    def clock(self) -> float:
        return time.time()

    def leases_of(self, worker: str) -> list[HeldLease]:
        now = time.time()
        return sorted(
            HeldLease(
                execution, fence, now - self.granted_at[execution, fence], self.runs[execution].status == "paused"
            )
            for execution, fence, lease in self._leases()
            if lease.worker == worker and self._is_served(execution)
        )

    def may_read(self, suffix: str, key: str) -> bool:
        return any(
            self.refers(execution, key) or (execution in self.runs and self.runs[execution].digest == key)
            for execution, _, lease in self._leases()
            if lease.worker.endswith(suffix)
        )

    def _leases(self) -> Iterator[tuple[str, int, Leased]]:
        for execution, derived in self.derived_rows.items():
            for fence, lease in derived.leases.items():
                yield execution, fence, lease

    def _served(self) -> list[tuple[str, Derived]]:
        return [(execution, derived) for execution, derived in self.derived_rows.items() if self._is_served(execution)]

    def _is_served(self, execution: str) -> bool:
        run = self.runs.get(execution)
        return run is not None and not run.local

    def open_digests(self) -> list[str]:
        return sorted({run.digest for run in self._active()})

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        return [(run.execution_id, self.seq(run.execution_id)) for run in self._active() if run.digest in digests]

    def _active(self) -> list[Summary]:
        return [run for run in self._open() if run.status in ("running", "waiting") and not run.local]

    def open_children(self) -> list[str]:
        children = [(run.parent, run.execution_id) for run in self._open() if run.parent is not None]
        return [execution for _, execution in sorted(children)]

    def stray_children(self, limit: int) -> list[str]:
        children = [run for run in self._open() if run.parent is not None and not run.local]
        return [run.execution_id for run in children if not self._follows(run)][:limit]

    def _follows(self, child: Summary) -> bool:
        parent = self.runs.get(child.parent or "")
        is_open = parent is not None and parent.ended is None
        return is_open and (parent.status == "paused") == (child.status == "paused")  # type: ignore[union-attr]

    def record_heartbeat(self, session: WorkerSession, now: float | None = None) -> bool:
        before = self.sessions.get(session.worker)
        directive = ""
        if before is not None and before.started == session.started:
            if 0 < session.number <= before.number:
                return False
            directive = before.directive
        self.sessions[session.worker] = replace(session, beat=or_clock(now), directive=directive)
        return True

    def direct_worker(self, name: str, directive: WorkerDirective) -> None:
        if name in self.sessions:
            self.sessions[name] = replace(self.sessions[name], directive=directive)

    def worker_session(self, name: str) -> WorkerSession | None:
        return self.sessions.get(name)

    def workers(self) -> list[WorkerSession]:
        return [self.sessions[name] for name in sorted(self.sessions)]

    # -- responses --------------------------------------------------------------------------------------------------

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        saved = self.responses.get((scope, key))
        if saved is None:
            self.responses[scope, key] = or_clock(now), answer
        return None if saved is None else saved[1]


def _merged(before: dict[Key, Value], changes: dict[Key, Value | None]) -> dict[Key, Value]:
    return {key: value for key, value in {**before, **changes}.items() if value is not None}
