"""The store in a Postgres database, shared by any number of servers.

**A commit is one statement.** All that a batch of changes writes goes as arrays to the function `commit_changes`, which
locks the executions, looks whether their logs are where they are expected, and writes: one round trip, one sync of the
disk. If a log has moved, nothing is written, and the answer says where the logs are; what still fits is sent again. The
primary key of `event` would refuse a second writer, too, but then the whole batch would have to be thrown away.

**Durability.** `synchronous_commit` is on: a commit is on the server's disk (and on that of its synchronous standbys)
before `commit` returns. With `normal` it is off: the last commits may be missing after a crash of the server, but the
log is sound.

**A lost connection.** What is read is read again on a new connection. A commit whose answer was lost may have been
written or not, and nobody can tell but the log: so it is a StoreError, and whoever goes on reads again. A connection
that the server closed while it was idle (it was restarted) is replaced before anything is sent.

**Others' writes** are noticed by LISTEN; see `notifier.py` for the other end.

**Versions.** `meta` holds the version of the schema. Migrations are applied in one transaction under a lock, so of two
servers that start at once one migrates and the other finds it done. A newer version is refused, and so is a schema that
holds something else.

**Sessions.** Settings, prepared statements and LISTEN belong to a session: a pooler in between must give each client
one of its own.

**Threads.** Every method holds one lock, so any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from noetl.errors import DiskFull, NotFound, StoreError
from noetl.store.keys import key_of, span_of, valid_key
from noetl.store.migrate import Migration, migrations_in, pending
from noetl.store.ports import Change, LogLine, Row, StoredLine, check_gapless
from noetl.store.postgres.address import Address
from noetl.store.postgres.arrays import Packed, PackedDumper, byteas, floats, storable, texts, uuids
from noetl.store.postgres.batch import accepted, arguments, first_guess
from noetl.store.postgres.notifier import Notifier
from noetl.store.queries import load_queries
from noetl.store.verbs import Bindings, SqlVerbs

HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
QUERIES = {name: query.encode() for name, query in load_queries(HERE, "%s").items()}
OLDEST_SERVER = 14
CHANNEL = "noetl_events"
PART_CHANGES = 1_000
PART_BYTES = 128 << 20
"""A larger batch is written in several transactions: the server has room for so many locks, and messages have a limit
of 1 GB."""
TRIES = 3

Connection = psycopg.Connection[tuple[Any, ...]]
Synchronous = Literal["full", "normal"]
Mode = Literal["create", "write", "read"]
Result = TypeVar("Result")


class PostgresStore(SqlVerbs):
    """A store in a schema of a database; the schema is made if it is missing."""

    def __init__(self, url: str, *, synchronous: Synchronous = "full", mode: Mode = "create") -> None:
        self.url, self.address, self.mode = url, Address.parse(url), mode
        self._relaxed = synchronous == "normal"
        self._removing, self._pruning = (_number(f"{what} {self.address.schema}") for what in ("removing", "pruning"))
        self._lock = RLock()
        self._notifier = Notifier(self._tell_others)
        self._connection: Connection | None = None
        self._closed = self._heard = self._in_moment = False
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _key(execution: str) -> UUID:
        return UUID(bytes=key_of(execution) or bytes(16))

    @staticmethod
    def _id(key: UUID) -> str:
        return str(key)

    @staticmethod
    def _span(prefix: str) -> tuple[UUID, UUID] | None:
        span = span_of(prefix)
        return None if span is None else (UUID(bytes=span[0]), UUID(bytes=span[1]))

    _text = staticmethod(storable)

    # -- events -----------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        check_gapless(changes)
        return [good for part in _parts(changes) for good in self._commit(part)]

    def _commit(self, changes: Sequence[Change]) -> list[bool]:
        heads = first_guess(changes)
        while True:
            good = accepted(changes, heads)
            fitting = [change for change, fits in zip(changes, good, strict=True) if fits]
            if not fitting:
                return good
            expected = {change.execution: heads[change.execution] for change in fitting}
            given = arguments(fitting, expected, self._removing)
            ((found,),) = self._done(lambda connection: _rows(connection, "commit_changes", given))  # noqa: B023
            if found == list(expected.values()):
                self._notifier.notify()
                return good
            heads.update(zip(expected, found, strict=True))

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        return [Row(*row) for row in self._rows("read_events", (self._key(execution), after, limit))]

    @contextmanager
    def read_snapshot(self) -> Iterator[None]:
        with self._lock:
            connection = self._live()
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._in_moment = True
                yield
            except psycopg.Error as error:
                raise self._fault(error, _is_broken(connection)) from error
            finally:
                self._in_moment = False
                with suppress(psycopg.Error):  # nothing was written
                    connection.execute("ROLLBACK")

    # -- output of tasks, and others --------------------------------------------------------------------------------

    def append_output(self, lines: Sequence[LogLine]) -> None:
        if not lines:
            return
        names, tasks, times, streams, said = zip(*lines, strict=True)
        keys = uuids([valid_key(name) for name in names])
        written = byteas([line.encode("utf-8", "backslashreplace") for line in said])
        self._written([("append_output", (keys, texts(tasks), floats(times), texts(streams), written))])

    def output(self, execution: str, after: int = 0, limit: int | None = None) -> list[StoredLine]:
        rows = self._rows("read_output", (self._key(execution), after, limit))
        return [(number, task, at, stream, line.decode()) for number, task, at, stream, line in rows]

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        """Under a lock: of two that register at once, both could take the same number."""
        queries = [("lock_path", (path,)), ("register_version", (path, digest, storable(label), now))]
        _, ((version,),) = self._written(queries)
        return int(version)

    def prune(self, before: float, limit: int, now: float | None = None) -> int:
        """One process at a time; for all others there is nothing to do."""
        if not self._rows("lock_pruning", (self._pruning,))[0][0]:
            return 0
        try:
            return super().prune(before, limit, now)
        finally:
            with suppress(StoreError):  # the lock is gone with its session
                self._rows("unlock_pruning", (self._pruning,))

    def changed_elsewhere(self) -> bool:
        with self._lock:
            self._live()
            heard, self._heard = self._heard, False
            return heard

    def reopen(self) -> PostgresStore:
        return PostgresStore(self.url, synchronous="normal" if self._relaxed else "full", mode="write")

    def close(self) -> None:
        self._notifier.close()
        with self._lock:
            self._closed = True
            self._drop()

    # -- how --------------------------------------------------------------------------------------------------------

    def _rows(self, name: str, bindings: Bindings) -> list[Any]:
        return self._done(lambda connection: _rows(connection, name, bindings), reading=True)

    def _written(self, queries: Iterable[tuple[str, Bindings]]) -> list[list[Any]]:
        todo = list(queries)
        if len(todo) == 1:
            return [self._done(lambda connection: _rows(connection, *todo[0]))]

        def write(connection: Connection) -> list[list[Any]]:
            with connection.transaction():
                return [_rows(connection, name, bindings) for name, bindings in todo]

        return self._done(write)

    def _removed(self, name: str, bindings: Bindings) -> int:
        return self._done(lambda connection: connection.execute(QUERIES[name], bindings).rowcount)

    def _remove_unused(self, before: float, limit: int) -> int:
        _, ((count,),) = self._written([("lock_blobs", (self._removing,)), ("remove_blobs", (before, limit))])
        return int(count)

    def _done(self, action: Callable[[Connection], Result], *, reading: bool = False) -> Result:
        """The result of the action, which is done again where that can't do harm: after a deadlock, of which the server
        has undone one side, and reading on a new connection."""
        with self._lock:
            for turn in range(1, TRIES + 1):
                connection = self._live()
                try:
                    return action(connection)
                except psycopg.Error as error:
                    broken = _is_broken(connection)
                    harmless = reading if broken else isinstance(error, errors.DeadlockDetected)
                    if turn == TRIES or self._in_moment or not harmless:
                        raise self._fault(error, broken) from error
            raise AssertionError("the last turn has raised")

    def _live(self) -> Connection:
        """The connection; a new one if it was cut."""
        if self._closed:
            raise StoreError(f"{self.address.shown}: the store has been closed")
        if self._connection is not None and not self._in_moment:
            _look(self._connection)
            if _is_broken(self._connection):
                self._drop()
                self._heard = True  # whatever was said meanwhile
        if self._connection is None:
            self._connection = self._connected()
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        try:
            connection = psycopg.connect(self.address.conninfo, autocommit=True)
        except psycopg.Error as error:
            said = self.address.hidden(str(error).partition("\n")[0])
            raise StoreError(f"{self.address.shown} can't be reached: {said}") from None
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise self._fault(error, broken=False) from error
            raise
        return connection

    def _prepare(self, connection: Connection) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            raise StoreError(f"{self.address.shown} is PostgreSQL {version}; noetl needs {OLDEST_SERVER} or newer")
        connection.adapters.register_dumper(Packed, PackedDumper)
        ((*_, encoding),) = connection.execute(QUERIES["configure_session"], (self.address.schema, self._relaxed))
        if encoding != "UTF8":
            raise StoreError(f"{self.address.shown} keeps text as {encoding}; noetl needs a database in UTF8")
        own = connection.info.backend_pid
        connection.add_notify_handler(lambda notice: self._hear(notice.pid != own))
        connection.execute(f"LISTEN {CHANNEL}")
        if self.mode == "read":
            connection.execute("SET default_transaction_read_only = on")

    def _hear(self, others: bool) -> None:
        self._heard = self._heard or others

    def _tell_others(self) -> None:
        with suppress(StoreError):
            self._rows("notify", ())

    # -- versions ---------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        migrations = migrations_in(MIGRATIONS)
        if not self._done(lambda connection: self._pending(connection, migrations), reading=True):
            return
        if self.mode == "read":  # old, or just being made by another process
            PostgresStore(self.url, mode="write").close()
        else:
            self._done(lambda connection: self._migrate(connection, migrations))

    def _pending(self, connection: Connection, migrations: Sequence[Migration]) -> Sequence[Migration]:
        """The migrations that are to be applied; NotFound if there is nothing here and nothing may be made."""
        schema, shown = self.address.schema, self.address.shown
        rows = connection.execute(QUERIES["find_schema"], (schema,)).fetchall()
        tables, ours = rows[0] if rows else (0, False)
        if tables and not ours:
            raise StoreError(
                f"the schema {schema!r} of {shown} belongs to something else: name another with ?schema=NAME"
            )
        if not ours and self.mode != "create":
            raise NotFound(f"there is no schema {schema!r} of noetl in {shown}: `noetl server` makes it")
        version = connection.execute(QUERIES["get_version"]).fetchall()[0][0] if ours else 0
        return pending(migrations, version, shown)

    def _migrate(self, connection: Connection, migrations: Sequence[Migration]) -> None:
        schema = self.address.schema
        with connection.transaction():
            connection.execute(QUERIES["lock_migration"], (schema,))
            todo = self._pending(connection, migrations)
            if todo and todo[0].version == 1:
                connection.execute("SET LOCAL client_min_messages = warning")
                connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
                connection.execute(QUERIES["create_meta"])
            for migration in todo:
                connection.execute(migration.sql.encode())
                connection.execute(QUERIES["put_version"], (str(migration.version),))

    def _fault(self, error: psycopg.Error, broken: bool) -> StoreError:
        """What Postgres says, in words that help."""
        shown = self.address.shown
        said = self.address.hidden((error.diag.message_primary or str(error)).partition("\n")[0])
        match error:
            case errors.DiskFull():
                return DiskFull(f"{shown}: the disk of the server is full; nothing of the last change was written")
            case errors.LockNotAvailable():
                return StoreError(f"{shown}: another session has kept it locked for half a minute")
            case errors.QueryCanceled():
                return StoreError(f"{shown}: the server has stopped the statement ({said})")
            case errors.ReadOnlySqlTransaction():
                return StoreError(f"{shown}: it can only be read, not written")
            case errors.InsufficientPrivilege():
                return StoreError(f"{shown}: the user of the database may not do this ({said})")
            case _ if broken:
                return StoreError(f"{shown}: the connection was lost ({said}); the last change is written or it is not")
            case _:
                return StoreError(f"{shown}: {said}; nothing of the last change was written")


# -- connections ----------------------------------------------------------------------------------------------------


def _rows(connection: Connection, name: str, bindings: Sequence[Any]) -> list[Any]:
    cursor = connection.execute(QUERIES[name], bindings, prepare=True, binary=True)
    return cursor.fetchall() if cursor.description else []


def _look(connection: Connection) -> None:
    """Take what the server has sent unasked: notifications, or that it has gone, which takes two looks if it has said
    good-bye."""
    with suppress(psycopg.Error):
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
        while (notice := connection.pgconn.notifies()) is not None:
            assert connection.pgconn.notify_handler is not None
            connection.pgconn.notify_handler(notice)


def _is_broken(connection: Connection) -> bool:
    return connection.closed or connection.broken


def _number(name: str) -> int:
    """The number of a lock."""
    return int.from_bytes(sha256(f"noetl {name}".encode()).digest()[:8], signed=True)


# -- batches --------------------------------------------------------------------------------------------------------


def _parts(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """The changes in parts that the server can take."""
    part: list[Change] = []
    size = 0
    for change in changes:
        more = _size(change)
        if part and (len(part) == PART_CHANGES or size + more > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(change)
        size += more
    if part:
        yield part


def _size(change: Change) -> int:
    return sum(len(row.data) for row in change.rows) + sum(len(data) for _, data in change.blobs)
