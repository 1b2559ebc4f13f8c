"""A store: every method with its contract, and the query that does it.

The log is the truth. Everything else in a store is derived from it, or is content that the log refers to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Literal, NamedTuple

import msgspec

from noetl.store.access import Access
from noetl.store.credentials import Credentials
from noetl.store.database import Database, id_of, key_of, key_range
from noetl.store.last_commit import LastCommit, MissingCommit
from noetl.store.triggers import Triggers


class Row(NamedTuple):
    seq: int
    type: str
    at: float
    data: bytes
    hash: bytes


class Summary(msgspec.Struct, frozen=True):
    """An execution in lists. Its playbook, its start and its origin never change; see `noetl.runtime.activity` for when
    the rest is written."""

    execution_id: str
    name: str
    path: str
    status: str
    started: float
    ended: float | None = None
    digest: str = ""
    parent: str | None = None
    local: bool = False  # whether `noetl run` runs it in a process of its own; servers ignore such an execution
    continued_errors: int = 0  # errors that policies continued past
    source: str | None = None  # the execution from which it was forked
    activity: str = ""  # its activity, its wait or its error, in one sentence
    waits: str = ""  # the kinds of its waits, each between spaces
    details: bytes = b"{}"  # JSON

    @property
    def position(self) -> RunPosition:
        return RunPosition(self.started, self.execution_id)


class RunPosition(NamedTuple):
    """A place in a list of executions, which is in the order of their start, and then of their ids."""

    started: float
    execution_id: str


class Leased(NamedTuple):
    run: str
    worker: str
    since: float
    ttl: float  # seconds without a heartbeat of the worker after which it expires


class HeldLease(NamedTuple):
    execution: str
    fence: int
    age: float  # seconds since it was granted, by the clock of the store
    paused: bool = False  # whether its execution is paused


class Change(msgspec.Struct):
    """The changes of one decision, written all or nothing. `expected` is the seq that the log must be at."""

    execution: str
    expected: int
    rows: list[Row]
    summary: Summary | None = None
    blobs: list[tuple[str, bytes]] = []
    snapshot: bytes | None = None  # the state after the last row
    stale_snapshots: list[int] = []  # the seqs of earlier snapshots that are removed
    outline: list[tuple[int, bytes]] = []  # the blocks that the rows complete, by number
    ready: dict[str, str | None] = {}  # the pool of each run that is ready; None removes it
    leases: dict[int, Leased | None] = {}  # leases by fence; None removes one
    timers: dict[str, float | None] = {}  # when each timer is due; None removes it


class Derived(msgspec.Struct, frozen=True):
    """The parts of the fold that a store also keeps as rows, to find work without folding. They are written in the
    transaction of the events that change them."""

    ready: dict[str, str] = {}
    leases: dict[int, Leased] = {}
    timers: dict[str, float] = {}


class Backlog(NamedTuple):
    executions: dict[str, int]
    ready: int
    leases: int
    timers: int


class Queue(NamedTuple):
    """The runs that wait for a worker of a pool."""

    pool: str
    runs: int
    oldest: float  # since when the first of them waits


class Snapshot(NamedTuple):
    seq: int  # of its last row
    hash: bytes
    data: bytes


WorkerDirective = Literal["", "drain", "stop"]
"""`drain`: finish running work, and claim no more; `stop`: end as after SIGTERM."""


class WorkerSession(msgspec.Struct, frozen=True):
    worker: str
    pool: str
    slots: int
    host: str = ""
    started: float = 0.0
    beat: float = 0.0  # when it was recorded, by the clock of the store; the store ignores the value of the caller
    leases: dict[str, list[int]] = {}  # the fences of the leases that it reports, by execution
    version: str = ""
    directive: WorkerDirective = ""  # the directive of an operator; the store ignores the value that a caller sets
    number: int = 0  # counts the heartbeats of its process; 0: they arrive in their order, and each once

    @property
    def busy(self) -> int:
        return sum(map(len, self.leases.values()))


class CatalogVersion(msgspec.Struct, frozen=True):
    version: int
    digest: str
    label: str  # the version that the playbook states
    registered: float


LogLine = tuple[str, str, float, str, str]  # output of a task: execution, task, time, stream, line
StoredLine = tuple[int, str, float, str, str]  # output of a task as it is read: number, task, time, stream, line

Options = dict[str, tuple[Any, ...]]  # optional lines of a query, with their parameters
LIST_OPTIONS = ("parent", "source", "top", "waits", "pool", "status", "path", "prefix", "name", "contains")
"""In the order of their lines in every query."""
MAX_PATHS = 20  # how many paths are searched one by one

DAY = 86_400.0  # minimum lifetime of content and saved responses, maximum of the sessions of silent workers
NO_LIMIT = 2**62
ROWS_PER_REMOVAL = 10_000
BLOBS_PER_REMOVAL = 100


class Store(ABC):
    """A store in a SQL database. Its methods block; the runtime calls them in a thread of its own."""

    def __init__(self, database: Database, last_commit: LastCommit) -> None:
        self._db, self._last_commit = database, last_commit
        self.credentials = Credentials(database)
        self.access = Access(database)
        self.triggers = Triggers(database)

    @abstractmethod
    def reopen(self) -> Store:
        """Another connection to the same store, for long work; the caller closes it. It only reads if this one does."""

    def close(self) -> None:
        self._last_commit.close()
        self._db.close()

    # -- the last commit --------------------------------------------------------------------------------------------

    def check_last_commit(self) -> None:
        """DatabaseBehind, now and on every later commit, if the store lacks the last commit of this process, or if a
        restore was accepted meanwhile."""
        self._last_commit.check()

    def missing_commit(self) -> MissingCommit | None:
        """The last commit that any process has recorded outside the store, if the store lacks it."""
        return self._last_commit.missing()

    def _open_last_commit(self) -> None:
        try:
            self._last_commit.open()
        except BaseException:
            self.close()
            raise

    def start_incarnation(self) -> None:
        """Accept the present state of a store that lacks commits. Call it after all earlier leases are void."""
        self._last_commit.start_incarnation()

    # -- one execution ----------------------------------------------------------------------------------------------

    @abstractmethod
    def commit(self, changes: Sequence[Change]) -> list[bool]:
        """Write all changes in one transaction and make them durable. False for a change whose log was not at
        `expected`: nothing of it is written, the others are. After a StoreError each change is either written
        completely or not at all; the caller reads again."""

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        return self._db.all(Row, "read_events", key_of(execution), after, _or_all(limit))

    def read_backwards(
        self, execution: str, before: int, types: Collection[str], limit: int, after: int = 0
    ) -> list[Row]:
        """Rows of these types between two seqs, the latest first. It reads the log back to the last one it returns."""
        names = msgspec.json.encode(list(types)).decode()
        return self._db.all(Row, "read_events_backwards", key_of(execution), after, before, names, limit)

    def snapshot(self, execution: str, until: int = NO_LIMIT) -> Snapshot | None:
        """The latest snapshot, up to that seq."""
        return self._db.get(Snapshot, "get_snapshot", key_of(execution), until)

    def copy_snapshots(self, source: str, target: str, until: int) -> None:
        """Copy the snapshots of an execution, up to that seq, to a fork of it."""
        self._db.write("copy_snapshots", key_of(target), key_of(source), until)

    def snapshot_seqs(self, execution: str) -> list[int]:
        return self._db.all(int, "list_snapshots", key_of(execution))

    def outline(self, execution: str, first: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        """The stored blocks of the outline from a number on, in order. Some may be missing."""
        return self._db.all(lambda block, data: (block, data), "get_outline", key_of(execution), first, _or_all(limit))

    def put_outline(self, execution: str, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Store blocks that were missing."""
        self._db.write_all(*(("put_outline", (key_of(execution), *block)) for block in blocks))

    def read_snapshot(self) -> AbstractContextManager[None]:
        """Everything that is read inside comes from one state of the store, even if others write meanwhile."""
        return self._db.read_snapshot()

    def seq(self, execution: str) -> int:
        """The number of events of an execution; 0 if there is none."""
        return int(self._db.row("last_seq", key_of(execution))[0])

    def derived(self, execution: str) -> Derived:
        key, rows = key_of(execution), self._db.rows
        return Derived(
            dict(rows("read_ready", key)),
            {fence: Leased(*lease) for fence, *lease in rows("read_leases", key)},
            dict(rows("read_timers", key)),
        )

    def blob(self, key: str) -> bytes | None:
        return self._db.get(bytes, "get_blob", key)

    def blob_size(self, key: str) -> int | None:
        return self._db.get(int, "get_blob_size", key)

    def blob_part(self, key: str, start: int, size: int) -> bytes | None:
        """Bytes of a content from a position on; fewer than `size` at its end."""
        return self._db.get(bytes, "get_blob_part", start + 1, size, key)

    def refers(self, execution: str, key: str) -> bool:
        """Whether an execution has stored the content or refers to it, directly or as a part of other content."""
        return bool(self._db.row("refers", key_of(execution), key)[0])

    @abstractmethod
    def append_output(self, lines: Sequence[LogLine]) -> None: ...

    def output(self, execution: str, after: int = 0, limit: int | None = None) -> list[StoredLine]:
        return self._lines("read_output", key_of(execution), after, _or_all(limit))

    def output_before(self, execution: str, before: int, limit: int) -> list[StoredLine]:
        """The lines before a number, the last one first."""
        return self._lines("read_output_before", key_of(execution), before, limit)

    def output_number(self, execution: str, row: int) -> int | None:
        """The number of the line with that many lines before it; None if there are fewer."""
        return self._db.get(int, "output_number", key_of(execution), row)

    def output_rows(self, execution: str, before: int) -> int:
        """How many lines come before a number."""
        return int(self._db.row("count_output", key_of(execution), before)[0])

    def _lines(self, query: str, *parameters: Any) -> list[StoredLine]:
        return self._db.rows(query, *parameters)

    def changed_elsewhere(self) -> bool:
        """Whether another process has written since the last call. Only a hint: between machines it comes late, and
        not at all if the other process died before it could notify."""
        return self._db.changed_elsewhere()

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
        """Executions by start time and id, newest first; with `before`, only those after that position of the list.

        A prefix of ids excludes `parent`, `source`, `top`, `waits` and `pools`. `source` selects forks of an execution,
        `top` those without a parent, a path that ends with `*` all paths that begin so, `waits` those with a wait of
        this kind, `pools` those with ready work of one of these pools. `contains` is a part of their path or name, or
        the start of their id; where neither a path nor an origin selects them, the latest name of a path counts.
        """
        end = min(before or RunPosition(inf, ""), RunPosition(until, ""))
        window = since, end.started, key_of(end.execution_id)
        searches: list[tuple[str, tuple[Any, ...], Options]] = []
        origin: Options = {"top": ()} if top else {}
        named: Options = {} if name is None else {"name": (name,)}
        at_path, containing = _path_option(path), _contains_option(contains)
        if prefix:
            if (keys := key_range(prefix)) is not None:
                searches = [("find_executions", (*window, *keys), named | at_path)]
        elif parent is source is waits is pools is None:
            options = self._path_options(at_path, containing)
            searches = [("list_executions", window, origin | named | option) for option in options]
            if contains and (keys := key_range(contains.lower())) is not None:
                searches.append(("find_executions", (*window, *keys), origin | named | at_path))
        else:
            options = _origin_options(parent, source, waits, pools)
            filters = origin | named | at_path
            searches = [("list_executions", window, option | filters | containing) for option in options]
            if contains and (keys := key_range(contains.lower())) is not None:
                searches += [("find_executions", (*window, *keys), option | filters) for option in options]
        alternatives: list[Options] = [{"status": (status,)} for status in dict.fromkeys(statuses)] or [{}]
        summaries = {
            summary.execution_id: summary
            for query, parameters, options in searches
            for status in alternatives
            for summary in map(_summary_of, self._rows(query, parameters, options | status, limit))
        }
        return sorted(summaries.values(), key=lambda summary: summary.position, reverse=True)[:limit]

    def _path_options(self, at_path: Options, containing: Options) -> list[Options]:
        """Options that find the executions of some paths by the index of paths, unless there are many paths."""
        if "path" in at_path or not (at_path or containing):
            return [at_path | containing]
        paths = self._rows("list_run_paths", (), at_path | containing, MAX_PATHS + 1)
        return [{"path": (path,)} for (path,) in paths] if len(paths) <= MAX_PATHS else [at_path | containing]

    def _rows(self, query: str, parameters: Sequence[Any], options: Options, *more: Any) -> list[Any]:
        """The rows of a query with some of its optional lines."""
        selected = [option for option in LIST_OPTIONS if option in options]
        values = [value for option in selected for value in options[option]]
        return self._db.rows(f"{query}: {' '.join(selected)}" if selected else query, *parameters, *values, *more)

    def counts(self, *, since: float = 0.0, path: str | None = None, top: bool = False) -> dict[str, int]:
        """Number of executions by status; the filters are those of `summaries`."""
        return dict(self._rows("count_executions", (since,), _path_option(path) | ({"top": ()} if top else {})))

    def count_related(self, execution: str) -> tuple[int, int]:
        """Number of its children, and of its forks."""
        key = key_of(execution)
        return self._db.row("count_children", key)[0], self._db.row("count_forks", key)[0]

    def ready_of(self, executions: Collection[str]) -> dict[str, dict[str, tuple[str, float]]]:
        """The ready runs of executions with their pools and since when they are ready, without executions that have
        none."""
        keys = msgspec.json.encode([key_of(execution).hex() for execution in executions]).decode()
        ready: dict[str, dict[str, tuple[str, float]]] = {}
        for key, run, pool, at in self._db.rows("list_ready_of", keys):
            ready.setdefault(id_of(key), {})[run] = pool, at
        return ready

    def ready_pools(self) -> list[str]:
        """The pools with ready work."""
        return self._db.all(str, "list_ready_pools")

    def children(self, parent: str) -> list[Summary]:
        return self._summaries("list_children", key_of(parent))

    def backlog(self) -> Backlog:
        return Backlog(dict(self._db.rows("count_open")), *self._db.row("count_work"))

    def queues(self) -> list[Queue]:
        """The pools with runs that a server may hand out, by name."""
        return self._db.all(Queue, "count_queued")

    def prunable(self, before: float, limit: int | None = None) -> list[Summary]:
        """Executions that ended before that time and may be removed, the first that ended first. A child of an open
        execution stays, however long ago it ended, and so does the parent of an open one."""
        return self._summaries("list_prunable", before, _or_all(limit))

    def _summaries(self, query: str, *parameters: Any) -> list[Summary]:
        return [_summary(*row) for row in self._db.rows(query, *parameters)]

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        """Remove up to `limit` of the prunable executions with all their data, in small transactions; how many. Also
        remove contents that nothing refers to, saved responses, and sessions of workers without leases, all after a day
        without use. If it is killed half-way, the next call continues."""
        database = self._db
        yesterday = (database.row("read_clock")[0] if now is None else now) - DAY
        mark = ("mark_for_removal", (before, limit)), ("put_pruned", ()), ("remove_executions", ())
        removed, *_ = database.write_all(*mark)
        for table in ("events", "output"):  # in several transactions: there may be millions of rows
            while database.write(f"remove_{table}", ROWS_PER_REMOVAL):
                pass
        small_tables = ("snapshots", "outlines", "ready", "leases", "timers", "blob_uses")
        database.write_all(*((f"remove_{table}", ()) for table in small_tables), ("end_removal", ()))
        while self._remove_unused(yesterday, BLOBS_PER_REMOVAL):
            pass
        database.write_all(("delete_old_answers", (yesterday,)), ("delete_silent_workers", (yesterday,)))
        return len(removed)

    @abstractmethod
    def _remove_unused(self, before: float, limit: int) -> int:
        """Remove contents that nothing uses and that were last stored before that time; how many."""

    # -- work of all executions that are not `local` ------------------------------------------------------------------
    # Without `now`, the clock of the store counts, so that machines need not agree on the time.

    def waiting(self, pool: str, limit: int, after: str = "") -> list[str]:
        """Executions that have ready work for a pool and are not paused, in the order of their ids, after an id."""
        return self._db.all(id_of, "find_ready", pool, key_of(after), limit)

    def due(self, now: float, limit: int) -> list[tuple[str, str]]:
        """Due timers, the earliest first: execution and name. Those of paused executions wait."""
        return self._with_ids("find_due", now, limit)

    def next_due(self) -> float | None:
        """When the next timer is due that `due` would return."""
        return self._db.get(float, "next_due")

    def expired_leases(self, now: float | None = None, limit: int = 100, max_ttl: float = inf) -> list[tuple[str, int]]:
        """Leases, by execution and fence, that have outlived their `ttl` since the last heartbeat of their worker (or
        since they were granted, if that was later), all by the clock of the store; the longest expired first. Only
        those with a `ttl` below `max_ttl`, the seconds for which the caller has recorded heartbeats without a
        pause."""
        return self._with_ids("find_expired_leases", now, max_ttl, limit)

    def leases_of(self, worker: str) -> list[HeldLease]:
        rows = self._db.rows("list_leases_of_worker", worker)
        return [HeldLease(id_of(key), fence, age, bool(paused)) for key, fence, age, paused in rows]

    def clock(self) -> float:
        """The time of the store, by which leases expire."""
        return float(self._db.row("read_clock")[0])

    def leases(self) -> list[tuple[str, int]]:
        """All leases, by execution and fence."""
        return self._with_ids("list_leases")

    def open_digests(self) -> list[str]:
        return self._db.all(str, "list_open_digests")

    def open_of(self, digests: Sequence[str]) -> list[tuple[str, int]]:
        return self._with_ids("list_open_of", msgspec.json.encode(list(digests)).decode())

    def open_children(self) -> list[str]:
        return self._db.all(id_of, "list_open_children")

    def may_read(self, suffix: str, key: str) -> bool:
        """Whether a worker whose name has this suffix holds a lease of an execution that refers to the content, or runs
        the playbook with that digest."""
        return bool(self._db.row("may_read", suffix, key)[0])

    def stray_children(self, limit: int) -> list[str]:
        """Open children that do not follow their parent: it has ended, or only one of the two is paused."""
        return self._db.all(id_of, "find_stray_children", limit)

    def _with_ids(self, query: str, *parameters: Any) -> list[tuple[str, Any]]:
        return [(id_of(key), value) for key, value in self._db.rows(query, *parameters)]

    def record_heartbeat(self, session: WorkerSession, now: float | None = None) -> bool:
        """Whether it was recorded; a duplicate, or one that a later one of its process has overtaken, is not."""
        leases = msgspec.json.encode(session.leases).decode()
        about = session.worker, session.pool, session.slots, session.host, session.started
        return bool(self._db.write("put_worker", *about, leases, session.version, session.number, now))

    def worker_session(self, name: str) -> WorkerSession | None:
        return self._db.get(_session, "find_worker", name)

    def workers(self) -> list[WorkerSession]:
        return self._db.all(_session, "list_workers")

    def direct_worker(self, name: str, directive: WorkerDirective) -> None:
        """Store a directive for a worker. It does not apply to a process that starts later under the same name."""
        self._db.write("direct_worker", directive, name)

    # -- playbooks: texts by digest, and digests by path and version --------------------------------------------------

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self._db.write("put_playbook", digest, self._db.text(file), text)

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        return self._db.get(lambda file, text: (file, text), "get_playbook", digest)

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        """The version of this content under the path: the next number, or the one it has. It becomes the latest."""
        ((version,),) = self._db.write("register_version", path, digest, self._db.text(label), now)
        return int(version)

    def version_of(self, path: str, digest: str) -> int | None:
        """The version that this content has under the path; None if it is not registered there."""
        return self.versions_of([(path, digest)]).get((path, digest))

    def versions_of(self, contents: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The versions of pairs of a path and a digest, without those that are not registered."""
        pairs = msgspec.json.encode(list(contents)).decode()
        rows = self._db.all(lambda path, digest, version: ((path, digest), int(version)), "find_versions", pairs)
        return dict(rows)

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        return self._db.all(CatalogVersion, "list_versions", path, _or_all(limit))

    def find(self, path: str, version: int | None = None) -> str | None:
        query = ("find_latest_digest", path) if version is None else ("find_digest", path, version)
        return self._db.get(str, *query)

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "", contains: str = "") -> list[str]:
        """Paths of registered playbooks; `contains` is a part of them, compared without case."""
        return self._db.all(str, "list_paths", prefix, after, contains, limit)

    # -- responses to requests that clients may repeat ----------------------------------------------------------------

    def remember(self, scope: str, key: str, answer: bytes, now: float | None = None) -> bytes | None:
        """Save a response under a key, for a day at least: None; or the response that is already there."""
        while True:
            if self._db.write("put_answer", scope, key, answer, now):
                return None
            earlier = self._db.row("get_answer", scope, key)
            if earlier is not None:  # else it was deleted between the two queries
                return bytes(earlier[0])


def _or_all(limit: int | None) -> int:
    return NO_LIMIT if limit is None else limit


def _path_option(path: str | None) -> Options:
    if path is None:
        return {}
    return {"prefix": (len(path) - 1, path[:-1])} if path.endswith("*") else {"path": (path,)}


def _contains_option(part: str) -> Options:
    escaped = part.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return {"contains": (f"%{escaped}%",) * 2} if part else {}


def _origin_options(
    parent: str | None, source: str | None, waits: str | None, pools: Collection[str] | None
) -> list[Options]:
    options: Options = {} if parent is None else {"parent": (key_of(parent),)}
    options |= {} if source is None else {"source": (key_of(source),)}
    options |= {} if waits is None else {"waits": (f"% {waits} %",)}
    return [options] if pools is None else [options | {"pool": (pool,)} for pool in pools]


def _summary_of(row: Sequence[Any]) -> Summary:
    return _summary(*row)


def _summary(key: bytes, *row: Any) -> Summary:
    *about, parent, local, errors, source, activity, waits, details = row
    more = parent and id_of(parent), bool(local), errors, source and id_of(source), activity, waits, bytes(details)
    return Summary(id_of(key), *about, *more)  # type: ignore[call-arg]


def _session(*row: Any) -> WorkerSession:
    *about, leases, version, directive, number = row
    return WorkerSession(*(*about, msgspec.json.decode(leases, type=dict[str, list[int]]), version, directive, number))
