"""The database of the Postgres store: how its schema is made, what is said about trouble, and what others see."""

from __future__ import annotations

import random
import resource
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.servers.faulty_proxy import FaultyProxy, faulty_proxy
from tests.servers.patience import PATIENCE_SECONDS, until
from tests.servers.postgres import PASSWORD, Schema, postgres_fixture, schema_fixture  # noqa: F401

from noetl.errors import DiskFull, NewerDatabase, NotFound, StoreError
from noetl.store.codec import ZERO
from noetl.store.database import Mode
from noetl.store.open import open_store
from noetl.store.postgres import PostgresStore, connection
from noetl.store.postgres import store as module
from noetl.store.postgres.database import MIGRATIONS as OURS
from noetl.store.sqlite.database import MIGRATIONS as THEIRS
from noetl.store.store import Change, Leased, Row, Summary

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

A = "0198c0de-0000-7000-8000-00000000000a"
B = "0198c0de-0000-7000-8000-00000000000b"


def change(execution: str, expected: int, count: int = 1, size: int = 10) -> Change:
    rows = [Row(expected + n, "step.done", 1.5, b"x" * size, ZERO) for n in range(1, count + 1)]
    return Change(execution, expected, rows, Summary(execution, "n", "p", "running", 1.5))


@pytest.fixture
def url(schema: Schema) -> str:
    return address(schema)


def address(schema: Schema, password: str = PASSWORD, port: int | None = None) -> str:
    fields = schema.server.fields()
    where = f"{fields['host']}:{port or fields['port']}/{fields['database']}"
    return f"postgresql://{fields['user']}:{quote(password, safe='')}@{where}?schema={schema.name}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    one = PostgresStore(url)
    yield one
    one.close()


def setting(store: PostgresStore, name: str) -> str:
    return str(store._db.run(lambda connection: connection.execute(f"SHOW {name}").fetchall())[0][0])


# -- opening --------------------------------------------------------------------------------------------------------


def test_a_schema_is_made_and_found_again(url: str, schema: Schema) -> None:
    first = open_store(url)
    first.commit([change(A, 0)])
    first.close()
    second = open_store(url, mode="write")
    assert second.seq(A) == 1
    second.close()
    assert schema.rows("SELECT value FROM meta WHERE key = 'schema'") == [(str(len(list(OURS.glob("*.sql")))),)]


def test_migrations_of_both_databases_have_the_same_numbers_and_names() -> None:
    assert [file.name for file in sorted(OURS.glob("*.sql"))] == [file.name for file in sorted(THEIRS.glob("*.sql"))]


def test_a_schema_with_an_odd_name_works(schema: Schema) -> None:
    url = address(schema).replace(schema.name, quote(f'{schema.name} "x" é'))
    store = PostgresStore(url)
    assert store.commit([change(A, 0)]) == [True]
    store.close()
    schema.rows(f'DROP SCHEMA "{schema.name} ""x"" é" CASCADE')


@pytest.mark.parametrize("mode", ["read", "write"])
def test_who_must_not_make_a_schema_says_that_there_is_none(url: str, mode: Mode) -> None:
    with pytest.raises(NotFound, match="noetl server"):
        PostgresStore(url, mode=mode)


def test_who_only_looks_cannot_write(store: PostgresStore, url: str) -> None:
    store.commit([change(A, 0)])
    look = PostgresStore(url, mode="read")
    assert look.seq(A) == 1
    with pytest.raises(StoreError, match="is read-only"):
        look.commit([change(A, 1)])
    look.close()


def test_a_newer_schema_is_refused(store: PostgresStore, url: str, schema: Schema) -> None:
    schema.rows("UPDATE meta SET value = '99'")
    with pytest.raises(NewerDatabase, match="upgrade noetl"):
        PostgresStore(url)


def test_a_schema_of_something_else_is_refused(url: str, schema: Schema) -> None:
    schema.rows("CREATE TABLE orders (id int)")
    with pytest.raises(StoreError, match="belongs to another program"):
        PostgresStore(url)


def test_commits_wait_for_the_disk_unless_asked_otherwise(store: PostgresStore, url: str) -> None:
    assert setting(store, "synchronous_commit") == "on"  # the server of the tests has it off
    fast = PostgresStore(url, synchronous="normal")
    assert setting(fast, "synchronous_commit") == "off"
    fast.close()


# -- trouble --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["wrong-password", "p@ss:w/ord%"])
def test_a_wrong_password_is_said_but_not_shown(schema: Schema, password: str) -> None:
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        PostgresStore(address(schema, password))
    assert password not in str(caught.value)


def test_a_server_that_is_missing_is_said(schema: Schema) -> None:
    with pytest.raises(StoreError, match="cannot reach") as caught:
        PostgresStore(address(schema, port=1))
    assert PASSWORD not in str(caught.value)


def test_a_full_disk_is_said_and_leaves_nothing(store: PostgresStore, schema: Schema) -> None:
    """The server itself says it, from a trigger."""
    schema.rows(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"
    )
    schema.rows("CREATE TRIGGER full_disk BEFORE INSERT ON execution EXECUTE FUNCTION full_disk()")
    with pytest.raises(DiskFull, match="disk of the server is full"):
        store.commit([change(A, 0), change(B, 0)])
    assert (store.seq(A), store.seq(B)) == (0, 0)
    schema.rows("DROP TRIGGER full_disk ON execution")
    assert store.commit([change(A, 0)]) == [True]


def test_a_closed_store_reports_it(store: PostgresStore) -> None:
    store.close()
    with pytest.raises(StoreError, match="the store is closed"):
        store.seq(A)


def test_a_bad_id_spoils_nothing(store: PostgresStore) -> None:
    with pytest.raises(StoreError, match="not an execution id"):
        store.commit([change(A, 0), change("x", 0)])
    with pytest.raises(StoreError, match="not an execution id"):
        store.append_output([("x", "t", 1.5, "stdout", "line")])
    assert store.seq(A) == 0
    assert store.commit([change(A, 0)]) == [True]


def test_text_that_the_database_cannot_hold_is_kept_readable(store: PostgresStore) -> None:
    run = Summary(A, "a\0b", "c\udcffd", "running", 1.5)
    store.commit([Change(A, 0, [], run, ready={"a#1": "p\0"})])
    (result,) = store.summaries()
    assert (result.name, result.path) == ("a\\x00b", "c\\udcffd")
    assert store.derived(A).ready == {"a#1": "p\\x00"}
    store.append_output([(A, "t", 1.5, "stdout", "x\udcff")])
    assert store.output(A)[0][4] == "x\\udcff"


def test_a_commit_whose_answer_is_lost_is_an_error_and_the_store_continues(
    store: PostgresStore, schema: Schema
) -> None:
    """A trigger ends the session from inside, after the rows are written and before they are committed."""
    schema.rows(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
    )
    schema.rows("CREATE TRIGGER die AFTER INSERT ON event EXECUTE FUNCTION die()")
    with pytest.raises(StoreError, match=r"connection was lost|stopped the statement|terminating"):
        store.commit([change(A, 0)])
    schema.rows("DROP TRIGGER die ON event")
    assert store.seq(A) == 0
    assert store.commit([change(A, 0)]) == [True]


def test_what_is_read_is_read_again_when_the_session_was_ended(store: PostgresStore, schema: Schema) -> None:
    store.commit([change(A, 0)])
    for _ in range(3):
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'noetl'"
        assert schema.rows(ended)
        assert store.seq(A) == 1


@pytest.fixture
def link(schema: Schema) -> Iterator[FaultyProxy]:
    """A proxy before the database."""
    with faulty_proxy(f"http://127.0.0.1:{schema.server.port}", random.Random(1)) as proxy:
        yield proxy


@pytest.fixture
def distant(schema: Schema, link: FaultyProxy) -> Iterator[PostgresStore]:
    """A store that reaches its database through the proxy."""
    one = PostgresStore(address(schema, port=link.port))
    yield one
    one.close()


def test_a_connection_that_has_gone_silent_is_given_up(
    store: PostgresStore, distant: PostgresStore, link: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands between acknowledges every packet, and nothing comes back."""
    store.commit([change(A, 0)])  # `distant` would notify after it, and wait for the response with the usual timeout
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 1.0)
    link.silence()
    assert distant.seq(A) == 1
    link.silence()
    with pytest.raises(StoreError, match=r"connection was lost \(no response within 1 s\)"):
        distant.commit([change(A, 1)])
    assert distant.commit([change(A, distant.seq(A))]) == [True]


def test_a_response_that_takes_long_is_read_to_its_end(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a large result over a slow network: data keeps arriving."""
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 1.5)
    query = "SELECT repeat('x', 100000), pg_sleep(0.15) FROM generate_series(1, 20)"
    assert len(store._db.run(lambda session: session.execute(query).fetchall())) == 20


def test_too_many_open_files_are_an_error_of_the_store(distant: PostgresStore, link: FaultyProxy) -> None:
    link.cut()
    until(lambda: not link.sockets)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(StoreError, match="cannot reach"):
            distant.seq(A)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert distant.seq(A) == 0


# -- many -----------------------------------------------------------------------------------------------------------


def test_a_moment_stays_what_it_was(store: PostgresStore, url: str) -> None:
    other = PostgresStore(url)
    store.commit([change(A, 0)])
    with store.read_snapshot():
        assert store.seq(A) == 1
        other.commit([change(A, 1)])
        assert store.seq(A) == 1
        assert len(store.read(A)) == 1
    assert store.seq(A) == 2
    other.close()


def test_a_large_batch_is_written_in_parts(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_CHANGES", 2)
    changes = [change(A, 0), change(B, 0), change(A, 1), change(A, 1), change(B, 1)]
    assert store.commit(changes) == [True, True, True, False, True]
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1000)
    assert store.commit([change(A, 2, size=900), change(B, 2, size=900), change(A, 3)]) == [True] * 3
    assert (store.seq(A), store.seq(B)) == (4, 3)


def test_many_threads_may_call_and_close(store: PostgresStore) -> None:
    wins: list[bool] = []

    def write() -> None:
        for _ in range(20):
            wins.extend(store.commit([change(A, store.seq(A))]))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert store.seq(A) == sum(wins)


def test_rows_of_the_tables_can_be_read_by_people(store: PostgresStore, schema: Schema) -> None:
    one = change(A, 0)
    one.timers, one.leases = {"t": 2.5}, {1: Leased("a#1", "w", 1.5, 30.0)}
    store.commit([one])
    assert schema.rows("SELECT id::text, name, status, local FROM execution") == [(A, "n", "running", False)]
    assert schema.rows("SELECT execution::text, name, due FROM timer") == [(A, "t", 2.5)]
    assert schema.rows("SELECT fence, run, worker, since, ttl FROM lease") == [(1, "a#1", "w", 1.5, 30.0)]
