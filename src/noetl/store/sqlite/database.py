"""One connection to an SQLite file: locks, transactions, migrations, and errors with advice.

**Why apsw.** SQLite before 3.51.3 can lose committed pages when two connections write to one file and the write-ahead
log is reset under one of them, and two writers are normal here (`noetl run` and `runs cancel`). The standard library
uses the SQLite of the machine; apsw ships its own, begins no transaction by itself, and keeps SQLite's error classes.

**Durability.** WAL with `synchronous=FULL`: a commit is on the disk before `transaction` returns. With `normal` a
commit survives the death of the process but not of the machine; the file stays consistent either way.

**Several processes.** Readers never wait and see one state of the database. `BEGIN IMMEDIATE` takes the write lock
before a transaction reads, so rows that it has read cannot change. A writer that finds the lock taken tries again for
half a minute, and goes before writers that come later (`locks.py`). None of this works on a network file system.
Migrations are applied under the write lock, so of two processes that open an old file one migrates and the other finds
it done.

**Errors.** After a StoreError the transaction is rolled back, and the connection can be used again once the cause is
gone. Every method holds one lock, so any thread may call, and `close` waits for running calls.

**Files.** Database, `-wal` and `-shm` have mode 0600, a folder made for them 0700. Only SQLite opens the database file:
closing a second descriptor would drop the locks that SQLite holds on the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, get_args

import apsw

from noetl.errors import DiskFull, StoreError, UsageError
from noetl.settings import Synchronous
from noetl.store.database import Database, Mode, Query, load_queries, migrations_in, pending, readable
from noetl.store.sqlite.locks import FairLock, busy_handler

IN_MEMORY = Path(":memory:")
HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
QUERIES = load_queries(HERE)
OWN_FOLDER = ".noetl"
OLDEST_SQLITE = (3, 51, 3)
BUSY_SECONDS = 30.0
MAX_WAL_BYTES = 16 * 1024 * 1024

MESSAGES: dict[type[apsw.Error], str] = {
    apsw.FullError: "{path}: the disk is full; nothing of the last change was written",
    apsw.BusyError: "{path}: another process has locked it for {seconds:g} seconds",
    apsw.ReadOnlyError: "{path} is read-only: noetl writes to it and its folder, also to read; change the permissions",
    apsw.NotADBError: "{path} is not a database",
    apsw.CorruptError: "{path} is damaged ({error}); restore it from a backup",
    apsw.CantOpenError: "cannot open {path}: check the permissions of the file and its folder",
    apsw.ConnectionClosedError: "{path}: the store is closed",
    apsw.Error: "{path}: {error}; nothing of the last change was written",
}

Result = TypeVar("Result")


class SqliteDatabase(Database):
    text = staticmethod(readable)

    def __init__(self, path: Path, synchronous: Synchronous, mode: Mode, lock_file: Path | None) -> None:
        self.path = path
        self._lock, self._fair_lock = RLock(), FairLock(lock_file)
        version, oldest = apsw.sqlite_lib_version(), ".".join(map(str, OLDEST_SQLITE))
        if tuple(map(int, version.split("."))) < OLDEST_SQLITE:
            raise StoreError(
                f"SQLite {version} can lose data when two processes write to one file; noetl needs {oldest} or newer: "
                "pip install --upgrade apsw"
            )
        if synchronous not in get_args(Synchronous):
            raise UsageError(f"synchronous must be full or normal (got {synchronous!r})")
        if mode == "create":
            _create(path)
        with self._explaining():
            flags = apsw.SQLITE_OPEN_READONLY if mode == "read" else apsw.SQLITE_OPEN_READWRITE
            self.connection = apsw.Connection(str(path), flags=flags)
            self.connection.set_busy_handler(busy_handler(BUSY_SECONDS))
        try:
            with self._explaining():
                self._set_up(mode, synchronous)
            self._version: int = self.connection.execute("PRAGMA data_version").get
        except BaseException:
            self.close()
            raise

    def rows(self, name: str, *parameters: Any) -> list[Any]:
        with self._lock:
            try:
                return self.connection.execute(QUERIES[name], parameters).fetchall()
            except apsw.Error as error:
                raise self._explained(error) from error

    def write_all(self, *queries: Query) -> list[list[Any]]:
        execute = self.connection.execute
        return self.transaction(lambda: [execute(QUERIES[name], values).fetchall() for name, values in queries])

    def transaction(self, action: Callable[[], Result]) -> Result:
        """Run the action and make its writes durable, or roll all of them back."""
        execute = self.connection.execute
        with self._lock:
            try:
                with self._fair_lock:
                    execute("BEGIN IMMEDIATE")
                result = action()
                execute("COMMIT")
            except BaseException as error:
                self._roll_back()
                if isinstance(error, apsw.Error):
                    raise self._explained(error) from error
                raise
            return result

    @contextmanager
    def read_snapshot(self) -> Iterator[None]:
        with self._lock, self._explaining():
            try:
                self.connection.execute("BEGIN")
                yield
            finally:
                self._roll_back()  # nothing was written

    def changed_elsewhere(self) -> bool:
        with self._lock, self._explaining():
            before, self._version = self._version, self.connection.execute("PRAGMA data_version").get
            return before != self._version

    def close(self) -> None:
        with self._lock:
            self.connection.close()
            self._fair_lock.close()

    def _roll_back(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except apsw.Error:  # SQLite has rolled back by itself, or the connection is closed
            pass

    def _set_up(self, mode: Mode, synchronous: Synchronous) -> None:
        if mode != "read":
            _use_wal(self.connection)
            self.connection.execute(f"PRAGMA synchronous = {synchronous}")
            self.connection.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
        migrations = migrations_in(MIGRATIONS)

        def migrate() -> None:
            for version, sql in self._pending(migrations).items():
                self.connection.execute(QUERIES["create_meta"])
                self.connection.execute(sql)
                self.connection.execute(QUERIES["put_version"], (str(version),))

        if self._pending(migrations):
            if mode == "read":  # an old file, or one that another process is creating
                SqliteDatabase(self.path, synchronous, "write", self._fair_lock.path).close()
            else:
                self.transaction(migrate)
                # The file itself gets the id of the database: without its -wal it must not look like a new one.
                self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _pending(self, migrations: dict[int, str]) -> dict[int, str]:
        ((tables, has_meta),) = self.connection.execute(QUERIES["find_schema"])
        if tables and not has_meta:
            raise StoreError(f"{self.path} is a database of another program")
        version: int = self.connection.execute(QUERIES["get_version"]).get if has_meta else 0
        return pending(migrations, version, str(self.path))

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: apsw.Error) -> StoreError:
        message = next(text for kind, text in MESSAGES.items() if isinstance(error, kind))
        kind = DiskFull if isinstance(error, apsw.FullError) else StoreError
        return kind(message.format(path=self.path, error=error, seconds=BUSY_SECONDS))


def _create(path: Path) -> None:
    """Create the file, readable by its owner only; SQLite gives the files next to it the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.name == OWN_FOLDER:  # payloads and results do not belong in a repository
            ignore = path.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.parent.is_dir():
            raise StoreError(f"cannot create {path}: {path.parent} is not a folder") from None
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file in it, such as {path / 'noetl.db'}") from None
    except OSError as error:
        raise StoreError(f"cannot create {path}: {error.strerror}") from error


def _use_wal(connection: apsw.Connection) -> None:
    """SQLite does not call the busy handler here, because two connections could wait for each other."""
    wait = busy_handler(BUSY_SECONDS)
    for attempt in count():
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if not wait(attempt):
                raise
