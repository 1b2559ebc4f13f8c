"""The store in one SQLite file, shared by any number of processes.

**Why apsw.** SQLite before 3.51.3 can lose committed pages when two connections write to one file and the write-ahead
log is reset under one of them. Two connections that write are the normal case here: `noetl run` in one terminal and
`runs cancel` in another. The standard library brings whatever SQLite the machine has; apsw brings its own, and the
version is checked when the store is opened. apsw is also a thin layer: statements are cached, nothing is committed
or begun behind our back, and errors keep SQLite's own classes.

**Durability.** WAL with `synchronous=FULL`: a commit is on the disk before `commit` returns, also after a power cut.
With `normal` a commit survives the death of the process but not of the machine; the file stays sound either way, and
commits are several times faster. There is one transaction for everything that arrives together, so the price of a
sync is shared.

**Several processes.** Readers never wait and see one moment of the database. Writers take turns: a transaction begins
with `BEGIN IMMEDIATE`, takes the write lock before it reads, and so can trust what it reads; who finds the lock taken
tries again for half a minute, and goes first when it is free (`fair_lock.py`). Optimistic concurrency lies on top: a
change says which seq its log must be at, and one that comes late is refused while the rest of its batch is written. The
primary key of `event` would refuse it too. Other processes' writes are noticed by `PRAGMA data_version`, a look into
shared memory. None of this works over a network file system, which has none: keep the file on a local disk.

**Versions.** `meta` holds the version of the schema. Migrations are numbered files, applied in one transaction under
the write lock, so of two processes that open an old file one migrates and the other finds it done. A database of a
newer version is refused, and so is a file that is something else.

**Trouble.** A full disk, an I/O error or a read-only file is a StoreError; the transaction is rolled back and nothing
of it is left. The store can be used again when the trouble is over.

**Threads.** Every method holds one lock, so any thread may call, and `close` waits for what is under way.

**Files.** Database, `-wal` and `-shm` have mode 0600, a folder made for them 0700. The database file is never opened
here except by SQLite: closing a second descriptor would drop the locks that SQLite holds on the first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeVar, get_args

import apsw

from noetl.errors import DiskFull, FileMissing, StoreError, UsageError
from noetl.file_access import protect
from noetl.store.keys import id_of, key_of, readable, span_of, valid_key
from noetl.store.migrate import Migration, migrations_in, pending
from noetl.store.ports import Change, LogLine, Row, StoredLine, Summary, check_gapless
from noetl.store.queries import load_queries
from noetl.store.sqlite.fair_lock import FairLock, pause
from noetl.store.uses import parts_of, used_keys
from noetl.store.verbs import Bindings, SqlVerbs

HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
QUERIES = load_queries(HERE)
OLDEST_SQLITE = (3, 51, 3)
BUSY_SECONDS = 30.0
WAL_BYTES_KEPT = 16 * 1024 * 1024
ALL = -1

Synchronous = Literal["full", "normal"]
Mode = Literal["create", "write", "read"]
Result = TypeVar("Result")


class SqliteStore(SqlVerbs):
    """A store in a file, which is made if it is missing."""

    def __init__(self, path: str | Path, *, synchronous: Synchronous = "full", mode: Mode = "create") -> None:
        self.path = Path(path).absolute()
        protect(self.path)
        self._synchronous = synchronous
        self._lock = RLock()
        self._fair_lock = FairLock(self.locks / f"{self.path.name}.turn")
        _check_sqlite(apsw.sqlite_lib_version())
        if synchronous not in get_args(Synchronous):
            raise UsageError(f"synchronous is full or normal, not {synchronous!r}")
        if mode == "create":
            _create(self.path)
        try:
            self._db = _connect(self.path, mode)
        except apsw.Error as error:
            raise self._fault(error) from error
        try:
            self._set_up(mode, synchronous)
            self._version: int = self._value("PRAGMA data_version")
        except BaseException:
            self.close()
            raise

    @classmethod
    def open_existing(cls, path: str | Path, *, mode: Literal["write", "read"] = "read") -> SqliteStore:
        """A store that must be there already, by default only to look at it. It may be in use by others."""
        if not Path(path).is_file():
            raise FileMissing(f"there is no database {path}: nothing has been run here yet")
        return cls(path, mode=mode)

    @property
    def locks(self) -> Path:
        """The folder of the files that `Owner` and `FairLock` lock."""
        return self.path.parent / "locks"

    _key, _id, _text, _span = staticmethod(key_of), staticmethod(id_of), staticmethod(readable), staticmethod(span_of)

    # -- events -----------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        check_gapless(changes)
        with self._lock:
            return self._transaction(lambda: self._commit(changes))

    def _commit(self, changes: Sequence[Change]) -> list[bool]:
        accepted = self._accepted(changes)
        written = [change for change, good in zip(changes, accepted, strict=True) if good]
        insert = self._db.executemany
        insert(QUERIES["append_event"], [(key_of(change.execution), *row) for change in written for row in change.rows])
        if blobs := [blob for change in written for blob in change.blobs]:
            insert(QUERIES["put_blob"], blobs)
            insert(QUERIES["put_blob_part"], parts_of(blobs))
        if used := [(key_of(change.execution), key) for change in written for key in used_keys(change)]:
            insert(QUERIES["put_blob_use"], used)
        if summaries := [_summary_row(change.summary) for change in written if change.summary is not None]:
            insert(QUERIES["put_execution"], summaries)
        if snapshots := [_snapshot_row(change) for change in written if change.snapshot is not None and change.rows]:
            insert(QUERIES["put_snapshot"], snapshots)
        for change in written:
            self._derive(change)
        return accepted

    def _derive(self, change: Change) -> None:
        """Ready work, leases and timers follow the events."""
        key = key_of(change.execution)
        for run, pool in change.ready.items():
            self._keep("ready", (key, run), None if pool is None else (pool,))
        for fence, lease in change.leases.items():
            self._keep("lease", (key, fence), lease)
        for name, due in change.timers.items():
            self._keep("timer", (key, name), None if due is None else (due,))

    def _keep(self, table: str, key: tuple[Any, ...], rest: tuple[Any, ...] | None) -> None:
        if rest is None:
            self._db.execute(QUERIES[f"delete_{table}"], key)
        else:
            self._db.execute(QUERIES[f"put_{table}"], (*key, *rest))

    @contextmanager
    def read_snapshot(self) -> Iterator[None]:
        with self._lock:
            try:
                self._db.execute("BEGIN")
                yield
            except apsw.Error as error:
                raise self._fault(error) from error
            finally:
                self._roll_back()  # nothing was written

    def _accepted(self, changes: Sequence[Change]) -> list[bool]:
        """Which changes find their log where they expect it, the earlier ones of the batch counted in."""
        seqs: dict[str, int] = {}
        accepted = []
        for change in changes:
            execution = change.execution
            seq = seqs.get(execution)
            if seq is None:
                seq = self._value(QUERIES["last_seq"], (valid_key(execution),))
            good = seq == change.expected
            seqs[execution] = seq + len(change.rows) if good else seq
            accepted.append(good)
        return accepted

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = self._rows("read_events", (key_of(execution), after, ALL if limit is None else limit))
        return [Row(*row) for row in rows]

    # -- output of tasks, and others --------------------------------------------------------------------------------

    def append_output(self, lines: Sequence[LogLine]) -> None:
        rows = [(valid_key(execution), task, at, stream, readable(line)) for execution, task, at, stream, line in lines]
        with self._lock:
            self._transaction(lambda: self._db.executemany(QUERIES["append_output"], rows))

    def output(self, execution: str, after: int = 0, limit: int | None = None) -> list[StoredLine]:
        return self._rows("read_output", (key_of(execution), after, ALL if limit is None else limit))

    def changed_elsewhere(self) -> bool:
        with self._lock:
            try:
                version = self._value("PRAGMA data_version")
            except apsw.Error as error:
                raise self._fault(error) from error
            before, self._version = self._version, version
            return before != self._version

    def reopen(self) -> SqliteStore:
        return SqliteStore(self.path, synchronous=self._synchronous, mode="write")

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._fair_lock.close()

    # -- how --------------------------------------------------------------------------------------------------------

    def _rows(self, name: str, bindings: Bindings) -> list[Any]:
        with self._lock:
            try:
                return self._db.execute(QUERIES[name], bindings).fetchall()
            except apsw.Error as error:
                raise self._fault(error) from error

    def _written(self, queries: Iterable[tuple[str, Bindings]]) -> list[list[Any]]:
        with self._lock:
            return self._transaction(
                lambda: [self._db.execute(QUERIES[name], bindings).fetchall() for name, bindings in queries]
            )

    def _removed(self, name: str, bindings: Bindings) -> int:
        with self._lock:
            return self._transaction(lambda: self._remove(name, bindings))

    def _remove(self, name: str, bindings: Bindings) -> int:
        self._db.execute(QUERIES[name], bindings)
        return self._db.changes()

    def _remove_unused(self, before: float, limit: int) -> int:
        with self._lock:
            return self._transaction(lambda: self._remove_blobs(before, limit))

    def _remove_blobs(self, before: float, limit: int) -> int:
        gone = self._db.execute(QUERIES["remove_blobs"], (before, limit)).fetchall()
        self._db.executemany(QUERIES["remove_blob_parts"], gone)
        return len(gone)

    def _value(self, query: str, bindings: tuple[Any, ...] = ()) -> Any:
        return self._db.execute(query, bindings).get

    def _transaction(self, action: Callable[[], Result]) -> Result:
        """Do it all and make it durable, or leave no trace of it."""
        execute = self._db.execute
        try:
            with self._fair_lock:
                execute("BEGIN IMMEDIATE")
            done = action()
            execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, apsw.Error):
                raise self._fault(error) from error
            raise
        return done

    def _roll_back(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error:  # SQLite has rolled back by itself, or the connection is closed
            pass

    def _set_up(self, mode: Mode, synchronous: Synchronous) -> None:
        try:
            if mode != "read":
                _use_wal(self._db)
                self._db.execute(f"PRAGMA synchronous = {synchronous}")
                self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
            self._migrate(mode)
        except apsw.Error as error:
            raise self._fault(error) from error

    def _migrate(self, mode: Mode) -> None:
        migrations = migrations_in(MIGRATIONS)
        if not pending(migrations, self._schema(), str(self.path)):
            return
        if mode == "read":  # old, or just being made by another process
            SqliteStore(self.path, mode="write").close()
        else:
            self._transaction(lambda: self._apply(migrations))

    def _apply(self, migrations: Sequence[Migration]) -> None:
        for migration in pending(migrations, self._schema(), str(self.path)):
            self._db.execute(QUERIES["create_meta"])
            self._db.execute(migration.sql)
            self._db.execute(QUERIES["put_version"], (str(migration.version),))

    def _schema(self) -> int:
        """The version of the database; 0 if it is empty."""
        ((tables, ours),) = self._db.execute(QUERIES["find_schema"])
        if tables and not ours:
            raise StoreError(f"{self.path} is a database of something else")
        version: int = self._value(QUERIES["get_version"]) if ours else 0
        return version

    def _fault(self, error: apsw.Error) -> StoreError:
        """What SQLite says, in words that help."""
        path = self.path
        match error:
            case apsw.FullError():
                return DiskFull(f"{path}: the disk is full; nothing of the last change was written")
            case apsw.BusyError():
                return StoreError(f"{path}: another process has kept it locked for {BUSY_SECONDS:g} seconds")
            case apsw.ReadOnlyError():
                return StoreError(f"{path}: it can only be read, not written")
            case apsw.NotADBError():
                return StoreError(f"{path} is not a database")
            case apsw.CorruptError():
                return StoreError(f"{path} is damaged ({error}); restore it from a backup")
            case apsw.CantOpenError():
                return StoreError(f"{path} can't be opened; look at the rights of the file and its folder")
            case apsw.ConnectionClosedError():
                return StoreError(f"{path}: the store has been closed")
            case _:
                return StoreError(f"{path}: {error}; nothing of the last change was written")


# -- opening --------------------------------------------------------------------------------------------------------


def _check_sqlite(found: str) -> None:
    if tuple(map(int, found.split("."))) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"SQLite {found} can lose data when two processes write to one file; noetl needs {oldest} or newer: "
            "install a newer apsw"
        )


def _create(path: Path) -> None:
    """Make the file, readable by its owner alone; SQLite gives the files beside it the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.parent.is_dir():
            raise StoreError(f"{path} can't be made: {path.parent} is not a folder") from None
    except OSError as error:
        raise StoreError(f"{path} can't be made: {error.strerror}") from error


def _connect(path: Path, mode: Mode) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY if mode == "read" else apsw.SQLITE_OPEN_READWRITE
    db = apsw.Connection(str(path), flags=flags)
    db.set_busy_handler(_waiting())
    return db


def _waiting() -> Callable[[int], bool]:
    """What SQLite calls when a lock is taken, with the number of calls so far; False gives up."""
    give_up = 0.0

    def wait(calls: int) -> bool:
        nonlocal give_up
        if calls == 0:
            give_up = time.monotonic() + BUSY_SECONDS
        time.sleep(pause(calls))
        return time.monotonic() < give_up

    return wait


def _use_wal(db: apsw.Connection) -> None:
    """SQLite does not wait for others here, lest two of them wait for each other; so try again."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.002)


# -- rows -----------------------------------------------------------------------------------------------------------


def _snapshot_row(change: Change) -> tuple[Any, ...]:
    last = change.rows[-1]
    return key_of(change.execution), last.seq, last.hash, change.snapshot


def _summary_row(run: Summary) -> tuple[Any, ...]:
    parent = None if run.parent is None else valid_key(run.parent)
    key = valid_key(run.execution_id)
    return (
        key,
        readable(run.name),
        readable(run.path),
        run.status,
        run.started,
        run.ended,
        run.digest,
        parent,
        run.local,
    )
