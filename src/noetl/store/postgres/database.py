"""One session of a Postgres server: reconnecting, retries, migrations, and errors with advice.

**A lost connection.** Reads are repeated on a new connection. A commit whose response was lost may have been written or
not, and only the log can tell: it is a StoreError, and the caller reads again. A connection that the server closed
while it was idle (it was restarted) is replaced before anything is sent.

**Sessions.** Settings, prepared statements and LISTEN belong to a session: a connection pooler must give each client
one of its own. Every method holds one lock, so any thread may call. Migrations are applied under a lock of the server,
so of two servers that start at once one migrates and the other finds it done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier
from psycopg.types.string import ByteaBinaryLoader

from noetl.errors import DiskFull, NotFound, StoreError, UsageError
from noetl.printable import has_raw_password
from noetl.settings import Synchronous
from noetl.store.database import Database, ExecutionKey, Mode, Query, load_queries, migrations_in, pending
from noetl.store.postgres.batch import KeyDumper, Packed, PackedDumper, storable
from noetl.store.postgres.connection import WatchedConnection

HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
QUERIES = load_queries(HERE, "%s")
OLDEST_SERVER = 14
MAX_ATTEMPTS = 3
DEFAULT_SCHEMA = "noetl"

MESSAGES: dict[type[psycopg.Error], str] = {
    errors.DiskFull: "{database}: the disk of the server is full; nothing of the last change was written",
    errors.LockNotAvailable: "{database}: another session has locked it for half a minute",
    errors.QueryCanceled: "{database}: the server cancelled the statement ({reason})",
    errors.ReadOnlySqlTransaction: "{database} is read-only",
    errors.InsufficientPrivilege: "{database}: the database user lacks a privilege ({reason})",
}
BROKEN = "{database}: the connection was lost ({reason}); the last change may be written or not"

Result = TypeVar("Result")

DEFAULTS: dict[str, str | int] = {
    "application_name": "noetl",
    "client_encoding": "utf-8",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A machine that does not respond is detected within half a minute; WatchedConnection detects a silent server."""


class Address(NamedTuple):
    """`postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME`, or anything else that libpq accepts after
    `postgresql://`. The default schema is `noetl`."""

    conninfo: str
    schema: str
    redacted: str  # for messages: without the password
    password: str

    @classmethod
    def parse(cls, url: str) -> Address:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(options).get("schema") or DEFAULT_SCHEMA
        query = urlencode([(name, value) for name, value in options if name != "schema"])
        try:
            parameters = None if has_raw_password(url) else conninfo_to_dict(urlunsplit(parts._replace(query=query)))
        except psycopg.ProgrammingError:  # its message contains the password
            parameters = None
        if parameters is None:
            raise UsageError(
                "the address of the database is invalid: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with special characters of the password as %XX"
            ) from None
        host, port, database = (parameters.get(name) or "" for name in ("host", "port", "dbname"))
        redacted = f"postgresql://{host}{f':{port}' if port else ''}/{database}"
        password = str(parameters.get("password") or "")
        return cls(make_conninfo("", **{**DEFAULTS, **parameters}), schema, redacted, password)

    @property
    def with_schema(self) -> str:
        """For commands: without the password, with the schema if it is not the default."""
        return self.redacted if self.schema == DEFAULT_SCHEMA else f"{self.redacted}?schema={self.schema}"

    def without_password(self, text: str) -> str:
        return text.replace(self.password, "***") if self.password else text


class PostgresDatabase(Database):
    """`on_reconnect` is called before a connection that replaces a lost one is used, and may raise."""

    text = staticmethod(storable)

    def __init__(
        self, address: Address, synchronous: Synchronous, mode: Mode, on_reconnect: Callable[[], None] = lambda: None
    ) -> None:
        self.address, self._synchronous, self._mode = address, synchronous, mode
        self._on_reconnect, self._was_connected = on_reconnect, False
        self._lock = RLock()
        self._connection: WatchedConnection | None = None
        self._closed = self._notified = self._in_snapshot = False
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def rows(self, name: str, *parameters: Any) -> list[Any]:
        return self.run(lambda connection: _rows(connection, name, parameters), reading=True)

    def write_all(self, *queries: Query) -> list[list[Any]]:
        if len(queries) == 1:
            return [self.run(lambda connection: _rows(connection, *queries[0]))]

        def write(connection: WatchedConnection) -> list[list[Any]]:
            with connection.transaction():
                return [_rows(connection, name, parameters) for name, parameters in queries]

        return self.run(write)

    def run(self, action: Callable[[WatchedConnection], Result], *, reading: bool = False) -> Result:
        """The result of the action. It is repeated where that is harmless: after a deadlock, of which the server has
        rolled back one side, and for reads on a new connection."""
        with self._lock:
            for attempt in range(1, MAX_ATTEMPTS + 1):
                connection = self._live()
                try:
                    return action(connection)
                except psycopg.Error as error:
                    broken = _is_broken(connection)
                    harmless = reading if broken else isinstance(error, errors.DeadlockDetected)
                    if attempt == MAX_ATTEMPTS or self._in_snapshot or not harmless:
                        raise self._explained(error, broken) from error
            raise AssertionError("the last attempt has raised")

    @contextmanager
    def read_snapshot(self) -> Iterator[None]:
        with self._lock:
            connection = self._live()
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._in_snapshot = True
                yield
            except psycopg.Error as error:
                raise self._explained(error, _is_broken(connection)) from error
            finally:
                self._in_snapshot = False
                with suppress(psycopg.Error):  # nothing was written
                    connection.execute("ROLLBACK")

    def changed_elsewhere(self) -> bool:
        with self._lock:
            self._live()
            notified, self._notified = self._notified, False
            return notified

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _live(self) -> WatchedConnection:
        if self._closed:
            raise StoreError(f"{self.address.redacted}: the store is closed")
        if self._connection is not None and not self._in_snapshot:
            # Read what the server has sent on its own: notifications, or the end of the session, which takes two calls
            # to notice after a farewell message.
            with suppress(psycopg.Error):
                pgconn = self._connection.pgconn
                pgconn.consume_input()
                pgconn.consume_input()
                while (notice := pgconn.notifies()) is not None:
                    assert pgconn.notify_handler is not None
                    pgconn.notify_handler(notice)
            if _is_broken(self._connection):
                self._connection.close()
                self._connection = None
                self._notified = True  # notifications may have been missed
        if self._connection is None:
            connection = self._connection = self._connect()
            reconnected, self._was_connected = self._was_connected, True
            if reconnected:
                self._on_reconnect()
            return connection
        return self._connection

    def _connect(self) -> WatchedConnection:
        try:
            connection = WatchedConnection.connect(self.address.conninfo, autocommit=True)
        except (psycopg.Error, OSError) as error:  # OSError: the process has too many open files
            reason = self.address.without_password(str(error).partition("\n")[0])
            raise StoreError(f"cannot reach {self.address.redacted}: {reason}") from None
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise self._explained(error, broken=False) from error
            raise
        return connection

    def _prepare(self, connection: WatchedConnection) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            raise StoreError(f"{self.address.redacted} is PostgreSQL {version}; noetl needs {OLDEST_SERVER} or newer")
        connection.adapters.register_dumper(Packed, PackedDumper)
        connection.adapters.register_dumper(ExecutionKey, KeyDumper)
        connection.adapters.register_loader("uuid", ByteaBinaryLoader)
        settings = self.address.schema, self._synchronous == "normal"
        ((*_, encoding),) = connection.execute(QUERIES["configure_session"], settings)
        if encoding != "UTF8":
            raise StoreError(f"{self.address.redacted} has the encoding {encoding}; noetl needs a database in UTF8")

        def note(notice: psycopg.Notify) -> None:
            self._notified = self._notified or notice.pid != connection.info.backend_pid

        connection.add_notify_handler(note)
        connection.execute("LISTEN noetl_events")
        if self._mode == "read":
            connection.execute("SET default_transaction_read_only = on")

    def _set_up(self) -> None:
        migrations, schema = migrations_in(MIGRATIONS), self.address.schema

        def migrate(connection: WatchedConnection) -> None:
            connection.watched = False  # it takes as long as the tables are large
            with connection.transaction():
                connection.execute(QUERIES["lock_migration"], (schema,))
                todo = self._pending(connection, migrations)
                if 1 in todo:
                    connection.execute("SET LOCAL client_min_messages = warning")
                    connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
                    connection.execute(QUERIES["create_meta"])
                for version, sql in todo.items():
                    connection.execute(sql.encode())
                    connection.execute(QUERIES["put_version"], (str(version),))
            connection.watched = True

        if self.run(lambda connection: self._pending(connection, migrations), reading=True):
            if self._mode == "read":  # an old schema, or one that another process is creating
                PostgresDatabase(self.address, self._synchronous, "write").close()
            else:
                self.run(migrate)

    def _pending(self, connection: WatchedConnection, migrations: dict[int, str]) -> dict[int, str]:
        """The migrations to apply; NotFound if there is no schema and the mode does not allow to create it."""
        schema, database = self.address.schema, self.address.redacted
        rows = connection.execute(QUERIES["find_schema"], (schema,)).fetchall()
        tables, has_meta = rows[0] if rows else (0, False)
        if tables and not has_meta:
            raise StoreError(
                f"the schema {schema!r} of {database} belongs to another program: name another with ?schema=NAME"
            )
        if not has_meta and self._mode != "create":
            raise NotFound(f"{database} has no noetl schema {schema!r}: start `noetl server` to create it")
        version = connection.execute(QUERIES["get_version"]).fetchall()[0][0] if has_meta else 0
        return pending(migrations, version, database)

    def _explained(self, error: psycopg.Error, broken: bool) -> StoreError:
        reason = self.address.without_password((error.diag.message_primary or str(error)).partition("\n")[0])
        message = BROKEN if broken else "{database}: {reason}; nothing of the last change was written"
        message = next((text for kind, text in MESSAGES.items() if isinstance(error, kind)), message)
        kind = DiskFull if isinstance(error, errors.DiskFull) else StoreError
        return kind(message.format(database=self.address.redacted, reason=reason))


def _rows(connection: WatchedConnection, name: str, parameters: Sequence[Any]) -> list[Any]:
    cursor = connection.execute(QUERIES[name].encode(), parameters, prepare=True, binary=True)
    return cursor.fetchall() if cursor.description else []


def _is_broken(connection: WatchedConnection) -> bool:
    return connection.closed or connection.broken
