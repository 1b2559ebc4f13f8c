"""What the runtime asks of a store: a few verbs, each with its promise.

The log is the truth. Everything else in a store can be derived from it or is content that the log refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import NamedTuple, Protocol

import msgspec

from noetl.store.access import Access
from noetl.store.triggers import Triggers


class Row(NamedTuple):
    """One event as it is stored."""

    seq: int
    type: str
    at: float
    data: bytes
    hash: bytes


class Summary(msgspec.Struct, frozen=True):
    """An execution as lists show it; written when its status changes."""

    execution_id: str
    name: str
    path: str
    status: str
    started: float
    ended: float | None = None
    digest: str = ""
    parent: str | None = None
    local: bool = False
    """Whether a process of its own runs it; servers leave such an execution alone."""


class Leased(NamedTuple):
    """Work in a worker's hands, which is taken back when the worker has not been heard for `ttl` seconds."""

    run: str
    worker: str
    since: float
    ttl: float = 30.0


class Held(NamedTuple):
    """A lease of a worker."""

    execution: str
    fence: int
    since: float
    """When it was granted."""
    paused: bool = False
    """Whether its execution is paused."""


class Change(msgspec.Struct):
    """What one decision writes, all or nothing. `expected` is the seq the log must be at."""

    execution: str
    expected: int
    rows: list[Row]
    summary: Summary | None = None
    blobs: list[tuple[str, bytes]] = []
    snapshot: bytes | None = None
    """The state after the last row."""
    ready: dict[str, str | None] = {}
    """Runs that workers of a pool may take; None: no longer."""
    leases: dict[int, Leased | None] = {}
    """Leases by fence; None: over."""
    timers: dict[str, float | None] = {}
    """When each timer is due; None: it is gone."""


class Derived(msgspec.Struct, frozen=True):
    """What the store keeps of an execution beside its log, so that work can be found without folding: each is a part
    of the fold, written in the transaction of the events that changed it."""

    ready: dict[str, str] = {}
    leases: dict[int, Leased] = {}
    timers: dict[str, float] = {}


class Backlog(NamedTuple):
    """Open executions by status, and how many rows of ready work, leases and timers there are."""

    executions: dict[str, int]
    ready: int
    leases: int
    timers: int


class Snapshot(NamedTuple):
    """A stored state: of which seq, the hash of that row, and the state's bytes."""

    seq: int
    hash: bytes
    data: bytes


class SealedCredential(msgspec.Struct, frozen=True):
    """A credential as it is stored. `paths` and `pools` are patterns of who may use it; none means all."""

    name: str
    kind: str
    sealed: bytes
    created: float
    updated: float
    paths: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()


class Credentials(Protocol):
    """Sealed credentials by name. What is inside of them, a store can't know."""

    def all(self) -> list[SealedCredential]:
        """Every credential, by name."""

    def get(self, name: str) -> SealedCredential | None:
        """The credential of that name."""

    def put(self, credential: SealedCredential) -> None:
        """Keep it in the place of what had its name, but remember when that was created."""

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        """Exchange the sealed bytes; False, and nothing done, if they are not as they were."""

    def delete(self, name: str) -> bool:
        """Forget it; False if there was none."""


class WorkerSession(msgspec.Struct, frozen=True):
    """A worker as it last made itself heard, and as a list of workers shows it."""

    worker: str
    pool: str
    slots: int
    host: str = ""
    started: float = 0.0
    beat: float = 0.0
    """When it was last heard, by the clock of the store; what a caller puts here does not count."""
    leases: dict[str, list[int]] = {}
    """The fences it says it holds, by execution."""
    version: str = ""

    @property
    def busy(self) -> int:
        """How many of its slots are taken."""
        return sum(map(len, self.leases.values()))


class CatalogVersion(msgspec.Struct, frozen=True):
    """A version of a playbook under its path. `label` is what the playbook itself calls its version."""

    version: int
    digest: str
    label: str
    registered: float


LogLine = tuple[str, str, float, str, str]
"""Output of a task: execution, task, time, stream, line."""

DAY = 86_400.0
"""How long content and remembered answers stay at least, and sessions of silent workers at most."""


def check_gapless(changes: Sequence[Change]) -> None:
    """Rows must follow `expected` one by one; anything else is a mistake of the caller, and nothing is written."""
    for change in changes:
        rows = change.rows
        if rows and not rows[0].seq - 1 == change.expected == rows[-1].seq - len(rows):
            raise ValueError(f"the rows of {change.execution} do not follow seq {change.expected}")


class Log(Protocol):
    """The log, and what is written in the same transaction."""

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        """Write all changes in one transaction and make them durable.

        False for a change whose log was not at `expected`: nothing of it is written, the others are. After a
        StoreError the changes may be written or not, but none is half: whoever goes on reads again.
        """

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """The events of an execution in order, without gaps."""

    def snapshot(self, execution: str) -> Snapshot | None:
        """The latest stored state of an execution."""

    def moment(self) -> AbstractContextManager[None]:
        """What is read inside is as of one moment, whatever others write meanwhile."""

    def derived(self, execution: str) -> Derived:
        """The rows of ready work, leases and timers."""

    def seq(self, execution: str) -> int:
        """How many events an execution has; 0 if there is none."""

    def blob(self, key: str) -> bytes | None:
        """Stored content."""

    def refers(self, execution: str, key: str) -> bool:
        """Whether an execution has brought the content or refers to it, directly or as a part of other content."""

    def log(self, lines: Sequence[LogLine]) -> None:
        """Keep output of tasks."""

    def logs(self, execution: str, after: int = 0, limit: int | None = None) -> list[tuple[int, str, float, str, str]]:
        """Output of tasks in order: number, task, time, stream, line. No more is read than is returned."""

    def changed(self) -> bool:
        """Whether another process has written since this was last asked. A hint: between machines it comes a little
        late, and not at all if the other process died as it was about to give it."""


class Executions(Protocol):
    """Executions as lists show them."""

    def summaries(
        self, *, status: str | None = None, prefix: str = "", before: str = "", limit: int = 1000
    ) -> list[Summary]:
        """Executions, newest first; behind one id, if that is given."""

    def children(self, parent: str) -> list[Summary]:
        """The open executions that another one has started, by id."""

    def backlog(self) -> Backlog:
        """How much there is to do."""

    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        """Executions that ended before that time and may be removed, the first that ended first. One whose parent is
        open stays, however long ago it ended, and so does the parent of an open one."""

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        """Remove up to `limit` of the prunable executions with all that is theirs, in small transactions; how many.

        Content goes when nothing refers to it any more and it is older than a day; so do remembered answers, and
        sessions of workers that have been silent for a day and hold nothing. Killed half-way, the next call goes on.
        """


class Work(Protocol):
    """What servers look for: work, due timers, lost workers. Local executions are left to the process that has them.

    `now` is the store's own clock where none is given, so that machines need not agree on the time.
    """

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        """Executions that have ready work for a pool and are not paused, in the order of their ids, after one id."""

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        """Timers that are due, the earliest first: execution and name. Those of paused executions wait."""

    def next_due(self) -> float | None:
        """When the next timer is due that `due` would give."""

    def lost(self, now: float | None = None, limit: int = 100, attentive: float = inf) -> list[tuple[str, int]]:
        """Leases, by execution and fence, whose time to live is over since their worker was last heard (or since they
        were given, if that was later, or it was never heard); the longest lost first. Only those that live for less
        than `attentive`, the seconds for which the caller has recorded heartbeats without a pause."""

    def held(self, worker: str) -> list[Held]:
        """The leases of a worker."""

    def open_digests(self) -> list[str]:
        """The playbooks of running and waiting executions."""

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        """Running and waiting executions of these playbooks, and how many events each has."""

    def open_children(self) -> list[str]:
        """The open executions that others have started."""

    def may_read(self, suffix: str, key: str) -> bool:
        """Whether a worker whose name ends so holds a lease of an execution that refers to the content, or that runs
        the playbook with that digest."""

    def orphans(self, limit: int) -> list[str]:
        """Open executions whose parent has ended, by id."""

    def beat(self, session: WorkerSession, now: float | None = None) -> None:
        """A worker has been heard."""

    def worker_session(self, name: str) -> WorkerSession | None:
        """The worker of a name as it was last heard."""

    def workers(self) -> list[WorkerSession]:
        """The workers that have been heard, by name."""

    def forget_worker(self, name: str) -> None:
        """A worker has said good-bye. It must have handed back its leases: nobody will miss them."""


class Catalog(Protocol):
    """Playbooks: texts by digest, and digests by path and version."""

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        """Keep the text of a playbook; the same digest is kept once."""

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        """File name and text of a playbook."""

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        """The version that this content has under the path: the next number, or the one it already has. Either way it
        is what the path means from now on."""

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        """The versions under a path, the one registered last first."""

    def find(self, path: str, version: int | None = None) -> str | None:
        """The digest of a version, without a number of the one registered last."""

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "") -> list[str]:
        """Registered paths that begin so, in order, after a given one."""


class Answers(Protocol):
    """Answers to requests that may be sent twice."""

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        """Keep the answer, None; or what was kept first under that key, which then stays. Kept for a day at least."""


class Store(Log, Executions, Work, Catalog, Answers, Protocol):
    """A store. Its methods block; the runtime calls them in a thread of its own."""

    @property
    def credentials(self) -> Credentials:
        """The credentials beside the log."""

    @property
    def access(self) -> Access:
        """Tokens, users and sessions beside the log."""

    @property
    def triggers(self) -> Triggers:
        """Schedules and hooks beside the log."""

    def again(self) -> Store:
        """Another connection to the same store, for long work beside this one; who asks closes it. A store that has no
        connections gives itself."""

    def close(self) -> None:
        """Give everything back."""
