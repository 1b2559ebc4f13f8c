"""The port of a store: every verb with its promise.

The log is the truth. Everything else in a store is derived from it, or is content that the log refers to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import NamedTuple, Protocol

import msgspec

from noetl.store.access import Access
from noetl.store.triggers import Triggers


class Row(NamedTuple):
    """A stored event."""

    seq: int
    type: str
    at: float
    data: bytes
    hash: bytes


class Summary(msgspec.Struct, frozen=True):
    """An execution in lists; written when its status changes."""

    execution_id: str
    name: str
    path: str
    status: str
    started: float
    ended: float | None = None
    digest: str = ""
    parent: str | None = None
    local: bool = False
    """Whether `noetl run` runs it in a process of its own; servers ignore such an execution."""


class Leased(NamedTuple):
    """A lease on a run, which expires when its worker has sent no heartbeat for `ttl` seconds."""

    run: str
    worker: str
    since: float
    ttl: float


class HeldLease(NamedTuple):
    """A lease of a worker; `since` is when it was granted, `paused` whether its execution is paused."""

    execution: str
    fence: int
    since: float
    paused: bool = False


class Change(msgspec.Struct):
    """What one decision writes, all or nothing. `expected` is the seq that the log must be at."""

    execution: str
    expected: int
    rows: list[Row]
    summary: Summary | None = None
    blobs: list[tuple[str, bytes]] = []
    snapshot: bytes | None = None
    """The state after the last row."""
    ready: dict[str, str | None] = {}
    """The pool of each run that is ready; None removes it."""
    leases: dict[int, Leased | None] = {}
    """Leases by fence; None removes one."""
    timers: dict[str, float | None] = {}
    """When each timer is due; None removes it."""


class Derived(msgspec.Struct, frozen=True):
    """The parts of the fold that a store also keeps as rows, to find work without folding. They are written in the
    transaction of the events that change them."""

    ready: dict[str, str] = {}
    leases: dict[int, Leased] = {}
    timers: dict[str, float] = {}


class Backlog(NamedTuple):
    """The number of open executions by status, and of rows of ready work, leases and timers."""

    executions: dict[str, int]
    ready: int
    leases: int
    timers: int


class Snapshot(NamedTuple):
    """A stored state: the seq and hash of its last row, and its bytes."""

    seq: int
    hash: bytes
    data: bytes


class SealedCredential(msgspec.Struct, frozen=True):
    """A stored credential. `paths` and `pools` are patterns of who may use it; none means all."""

    name: str
    kind: str
    sealed: bytes
    created: float
    updated: float
    paths: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()


class Credentials(Protocol):
    """Sealed credentials by name. A store cannot open them."""

    def all(self) -> list[SealedCredential]: ...
    def get(self, name: str) -> SealedCredential | None: ...
    def put(self, credential: SealedCredential) -> None:
        """Add or replace a credential; `created` stays."""

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        """Replace the sealed bytes; False if they are no longer `before`."""

    def delete(self, name: str) -> bool:
        """False if there is none."""


class WorkerSession(msgspec.Struct, frozen=True):
    """The last heartbeat of a worker."""

    worker: str
    pool: str
    slots: int
    host: str = ""
    started: float = 0.0
    beat: float = 0.0
    """When it was recorded, by the clock of the store; the store ignores what a caller sets."""
    leases: dict[str, list[int]] = {}
    """The fences of the leases that it reports, by execution."""
    version: str = ""

    @property
    def busy(self) -> int:
        return sum(map(len, self.leases.values()))


class CatalogVersion(msgspec.Struct, frozen=True):
    """A version of a playbook under its path. `label` is the version that the playbook states."""

    version: int
    digest: str
    label: str
    registered: float


LogLine = tuple[str, str, float, str, str]
"""Output of a task: execution, task, time, stream, line."""
StoredLine = tuple[int, str, float, str, str]
"""Output of a task as it is read: number, task, time, stream, line."""

DAY = 86_400.0
"""Minimum lifetime of content and saved responses, maximum of the sessions of silent workers."""


def check_gapless(changes: Sequence[Change]) -> None:
    """ValueError if the rows of a change do not follow `expected` one by one."""
    for change in changes:
        rows = change.rows
        if rows and not rows[0].seq - 1 == change.expected == rows[-1].seq - len(rows):
            raise ValueError(f"the rows of {change.execution} do not follow seq {change.expected}")


def accepted(changes: Sequence[Change], heads: Mapping[str, int]) -> list[bool]:
    """Whether each change finds its log where it expects it, after the earlier changes of the batch. `heads` has the
    seq of each log before the batch."""
    seqs, fitting = dict(heads), []
    for change in changes:
        fits = seqs[change.execution] == change.expected
        seqs[change.execution] += len(change.rows) if fits else 0
        fitting.append(fits)
    return fitting


class EventLog(Protocol):
    """The log of each execution, and what is written in the same transaction."""

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        """Write all changes in one transaction and make them durable.

        False for a change whose log was not at `expected`: nothing of it is written, the others are. After a
        StoreError each change is either written completely or not at all; the caller reads again.
        """

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """The events of an execution in order, without gaps."""

    def snapshot(self, execution: str) -> Snapshot | None:
        """The latest stored state of an execution."""

    def read_snapshot(self) -> AbstractContextManager[None]:
        """Everything that is read inside comes from one state of the store, whatever others write meanwhile."""

    def derived(self, execution: str) -> Derived: ...
    def seq(self, execution: str) -> int:
        """The number of events of an execution; 0 if there is none."""

    def blob(self, key: str) -> bytes | None:
        """Stored content."""

    def refers(self, execution: str, key: str) -> bool:
        """Whether an execution has stored the content or refers to it, directly or as a part of other content."""

    def append_output(self, lines: Sequence[LogLine]) -> None: ...
    def output(self, execution: str, after: int = 0, limit: int | None = None) -> list[StoredLine]:
        """The output of the tasks of an execution, after a number. No more is read than is returned."""

    def changed_elsewhere(self) -> bool:
        """Whether another process has written since the last call. Only a hint: between machines it comes late, and
        not at all if the other process died before it could notify."""


class ExecutionList(Protocol):
    """Summaries of executions."""

    def summaries(
        self, *, status: str | None = None, prefix: str = "", before: str = "", limit: int = 1000
    ) -> list[Summary]:
        """Executions whose id has the prefix, newest first; with `before`, only older ones."""

    def children(self, parent: str) -> list[Summary]:
        """The open executions that another one has started, by id."""

    def backlog(self) -> Backlog: ...
    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        """Executions that ended before that time and may be removed, the first that ended first. A child of an open
        execution stays, however long ago it ended, and so does the parent of an open one."""

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        """Remove up to `limit` of the prunable executions with all their data, in small transactions; how many.

        Contents that nothing refers to any more are removed after a day; so are saved responses, and sessions of
        workers that were silent for a day and hold no lease. If it is killed half-way, the next call continues.
        """


class WorkQueue(Protocol):
    """Ready work, due timers and expired leases of all executions that are not `local`.

    Without `now`, the clock of the store counts, so that machines need not agree on the time.
    """

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        """Executions that have ready work for a pool and are not paused, in the order of their ids, after an id."""

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        """Due timers, the earliest first: execution and name. Those of paused executions wait."""

    def next_due(self) -> float | None:
        """When the next timer is due that `due` would return."""

    def expired_leases(self, now: float | None = None, limit: int = 100, max_ttl: float = inf) -> list[tuple[str, int]]:
        """Leases, by execution and fence, that have outlived their `ttl` since the last heartbeat of their worker (or
        since they were granted, if that was later); the longest expired first. Only those with a `ttl` below `max_ttl`,
        the seconds for which the caller has recorded heartbeats without a pause."""

    def leases_of(self, worker: str) -> list[HeldLease]: ...
    def open_digests(self) -> list[str]:
        """The playbooks of running and waiting executions."""

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        """Running and waiting executions of these playbooks, and how many events each has."""

    def open_children(self) -> list[str]:
        """The open executions that others have started."""

    def may_read(self, suffix: str, key: str) -> bool:
        """Whether a worker whose name has this suffix holds a lease of an execution that refers to the content, or that
        runs the playbook with that digest."""

    def orphans(self, limit: int) -> list[str]:
        """Open executions whose parent has ended, by id."""

    def record_heartbeat(self, session: WorkerSession, now: float | None = None) -> None: ...

    def worker_session(self, name: str) -> WorkerSession | None:
        """The worker as of its last heartbeat; None if there is no such worker."""

    def workers(self) -> list[WorkerSession]:
        """The workers that have sent a heartbeat, by name."""

    def forget_worker(self, name: str) -> None:
        """Remove a worker that has shut down. It must have returned its leases: they are not reported as expired."""


class PlaybookCatalog(Protocol):
    """Playbooks: texts by digest, and digests by path and version."""

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        """Store the text of a playbook, unless its digest is there."""

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        """File name and text of a playbook."""

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        """The version of this content under the path: the next number, or the one that it has. It becomes the latest
        version in both cases."""

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        """The versions under a path, the one registered last first."""

    def find(self, path: str, version: int | None = None) -> str | None:
        """The digest of a version, by default of the one registered last."""

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "") -> list[str]:
        """Registered paths with a prefix, in order, after a path."""


class SavedResponses(Protocol):
    """Responses to requests that clients may repeat."""

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        """Save a response under a key, for a day at least: None; or the response that is already there."""


class Store(EventLog, ExecutionList, WorkQueue, PlaybookCatalog, SavedResponses, Protocol):
    """A store. Its methods block; the runtime calls them in a thread of its own."""

    @property
    def credentials(self) -> Credentials: ...
    @property
    def access(self) -> Access: ...
    @property
    def triggers(self) -> Triggers: ...
    def reopen(self) -> Store:
        """Another connection to the same store, for long work; the caller closes it. A store without connections
        returns itself."""

    def close(self) -> None: ...
