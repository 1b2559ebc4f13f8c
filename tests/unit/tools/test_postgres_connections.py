"""Connections of `kind: postgres`: kept, found dead, cancelled; and what is done exactly once."""

from __future__ import annotations

import asyncio
import socket

import psycopg
import pytest
from tests.servers.patience import PATIENCE_SECONDS, until, until_async
from tests.servers.postgres import PostgresServer, Schema, postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.postgres_calls import Database, database_fixture  # noqa: F401

from noetl.model.outcome import Outcome
from noetl.tools import postgres as kind
from noetl.tools.postgres_client import connections as pools

OURS = "FROM pg_stat_activity WHERE application_name = 'noetl'"


def running(schema: Schema, text: str) -> int:
    """How many statements with this text run on the server."""
    ((count,),) = schema.rows(f"SELECT count(*) {OURS} AND state = 'active' AND strpos(query, %s) > 0", [text])
    return int(count)


# --- the pool ----------------------------------------------------------------------------------------


def pid(database: Database) -> int:
    return int(database.value("SELECT pg_backend_pid() AS pid"))


def test_calls_one_after_the_other_share_a_connection(database: Database) -> None:
    first = pid(database)
    database.error("SELECT nope")
    database.error("BEGIN; SELECT 1")
    assert {pid(database) for _ in range(20)} == {first}


def test_calls_at_once_have_their_own_and_never_more_than_the_pool_has(database: Database) -> None:
    async def many() -> list[Outcome]:
        return await asyncio.gather(
            *(database.ask("SELECT pg_backend_pid() AS pid, pg_sleep(0.05)") for _ in range(40))
        )

    outcomes = database.whole(many())
    assert all(outcome.ok for outcome in outcomes)
    assert 1 < len({outcome.result["rows"][0]["pid"] for outcome in outcomes}) <= pools.SIZE


def test_other_fields_are_another_connection(database: Database) -> None:
    first = pid(database)
    auth = database.schema.fields(application_name="other")
    assert database.value("SELECT pg_backend_pid() AS pid", auth=auth) != first


def test_a_connection_that_the_server_has_ended_is_replaced(database: Database) -> None:
    first = pid(database)
    database.schema.rows("SELECT pg_terminate_backend(%s)", [first])
    until(lambda: not database.schema.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [first]))
    assert pid(database) != first


def test_a_statement_whose_backend_is_ended_may_be_tried_again(database: Database) -> None:
    async def ended() -> Outcome:
        call = asyncio.create_task(database.ask("SELECT pg_sleep(200), 'to be ended'"))
        await until_async(lambda: running(database.schema, "to be ended"))
        query = f"SELECT pg_terminate_backend(pid) {OURS} AND query LIKE '%to be ended%'"
        await asyncio.to_thread(database.schema.rows, query)
        return await call

    outcome = database.whole(ended())
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable, outcome.extra["pg"]["sqlstate"]) == ("connect", True, "57P01")
    assert database.value("SELECT 1 AS one") == 1


def test_a_statement_that_somebody_cancels(database: Database) -> None:
    async def cancelled() -> Outcome:
        call = asyncio.create_task(database.ask("SELECT pg_sleep(200), 'to be cancelled'"))
        await until_async(lambda: running(database.schema, "to be cancelled"))
        query = f"SELECT pg_cancel_backend(pid) {OURS} AND query LIKE '%to be cancelled%'"
        await asyncio.to_thread(database.schema.rows, query)
        return await call

    outcome = database.whole(cancelled())
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("cancelled", False)


def test_idle_connections_are_closed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.05)
    first = pid(database)
    gone = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
    database.whole(until_async(lambda: not database.schema.rows(gone, [first])))
    assert pools._pools[database.runner.get_loop()] == {}
    assert pid(database) != first


def test_close_ends_what_is_idle(schema: Schema) -> None:
    with asyncio.Runner() as runner:
        database = Database(schema, runner)
        first = pid(database)
        runner.run(kind.close())
        runner.run(kind.close())
    until(lambda: not schema.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [first]))


def test_a_restart_of_the_server_is_survived() -> None:
    server = PostgresServer()
    try:
        with asyncio.Runner() as runner:
            database = Database(Schema(server), runner)
            assert database.value("SELECT 1 AS one") == 1
            server.stop()
            error = database.error("SELECT 1")
            assert (error.kind, error.retryable) == ("connect", True)
            server.start()
            assert database.value("SELECT 1 AS one") == 1
            runner.run(kind.close())
    finally:
        server.close()


def test_a_refused_connection_may_be_tried_again() -> None:
    server = PostgresServer()
    try:
        with asyncio.Runner() as runner:
            database = Database(Schema(server), runner)
            server.stop()
            refused = database.error("SELECT 1 AS one")
            assert (refused.kind, refused.retryable) == ("connect", True)
            server.start()
            assert database.outcome("SELECT 1 AS one").ok
            runner.run(kind.close())
    finally:
        server.close()


def test_too_many_connections_may_be_tried_again(database: Database) -> None:
    server = database.schema.server
    with server.connect() as admin:
        admin.execute("DROP ROLE IF EXISTS narrow")
        admin.execute("CREATE ROLE narrow LOGIN PASSWORD 'narrow-word' CONNECTION LIMIT 1")
        try:
            with server.connect(user="narrow", password="narrow-word"):
                error = database.error("SELECT 1", auth=server.fields(user="narrow", password="narrow-word"))
        finally:
            until(lambda: not database.schema.rows("SELECT 1 FROM pg_stat_activity WHERE usename = 'narrow'"))
            admin.execute("DROP ROLE narrow")
    assert (error.kind, error.retryable, error.details["sqlstate"]) == ("connect", True, "53300")


def test_a_session_that_reads_strings_and_dates_otherwise(database: Database) -> None:
    """A server may have other defaults; values and results are the same."""
    options = f"-c search_path={database.schema.name} -c datestyle=SQL,DMY"
    auth = database.schema.fields(options=options)
    query = "SELECT {{ x }} AS x, timestamp '2024-02-29 12:00' AS t"
    for _ in range(2):
        assert database.rows(query, {"x": "a\\'b"}, auth=auth) == [{"x": "a\\'b", "t": "2024-02-29T12:00:00"}]


# --- cancelling --------------------------------------------------------------------------------------


def test_cancelling_a_call_stops_its_statement_on_the_server(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")

    async def stopped() -> None:
        query = "INSERT INTO t VALUES (1); SELECT pg_sleep(200), 'to be stopped'"
        call = asyncio.create_task(database.ask(query))
        await until_async(lambda: running(database.schema, "to be stopped"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until_async(lambda: not running(database.schema, "to be stopped"))

    database.whole(stopped())
    assert database.rows("SELECT * FROM t") == []


def test_cancelling_while_rows_arrive(database: Database) -> None:
    async def stopped() -> None:
        query = "SELECT pg_sleep(0.005), n FROM generate_series(1, 100000) n"
        call = asyncio.create_task(database.ask(query))
        await until_async(lambda: running(database.schema, "generate_series"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until_async(lambda: not running(database.schema, "generate_series"))

    database.whole(stopped())
    assert database.value("SELECT 1 AS one") == 1


def test_cancelling_a_copy_leaves_nothing(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")

    async def stopped() -> None:
        with psycopg.connect(database.schema.dsn()) as other:  # its lock keeps the copy waiting
            other.execute("LOCK TABLE t")
            call = asyncio.create_task(database.ask(table="t", rows=[{"n": 1}]))
            await until_async(lambda: running(database.schema, "COPY"))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until_async(lambda: not running(database.schema, "COPY"))

    database.whole(stopped())
    assert database.rows("SELECT * FROM t") == []


def test_cancelling_a_call_that_waits_for_its_connection() -> None:
    async def stopped(port: int) -> None:
        dsn = f"host=127.0.0.1 port={port} user=ada password=s3cret-word dbname=db sslmode=disable"
        call = asyncio.create_task(Database(None, None).ask("SELECT 1", dsn=dsn))  # type: ignore[arg-type]
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(asyncio.wait_for(stopped(silent.getsockname()[1]), PATIENCE_SECONDS))


# --- exactly once ------------------------------------------------------------------------------------

ONCE = {"spec": {"exactly_once": True}}


def test_a_call_that_was_committed_is_not_made_again(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    query = "INSERT INTO t VALUES (1), (2) RETURNING n"
    first = database.outcome(query, call=ONCE)
    again = database.outcome(query, call=ONCE | {"attempt": 2})
    assert first.result == again.result == {"rows": [{"n": 1}, {"n": 2}], "row_count": 2, "columns": ["n"]}
    assert (first.extra["pg"]["repeated"], again.extra["pg"]["repeated"]) == (False, True)
    assert database.value("SELECT count(*) AS c FROM t") == 2
    database.outcome(query, call=ONCE | {"action": "a2"})
    assert database.value("SELECT count(*) AS c FROM t") == 4


def test_a_call_that_failed_is_made_again(database: Database) -> None:
    database.result("CREATE TABLE t (n int UNIQUE)")
    database.result("INSERT INTO t VALUES (1)")
    assert database.error("INSERT INTO t VALUES (2), (1)", call=ONCE).kind == "sql"
    database.result("DELETE FROM t")
    assert database.result("INSERT INTO t VALUES (2), (1)", call=ONCE)["row_count"] == 2
    assert database.error("SELECT * FROM nowhere", call=ONCE | {"action": "a2"}).details["sqlstate"] == "42P01"


def test_rows_are_copied_exactly_once(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    for _ in range(3):
        assert database.result(table="t", rows=[{"n": 1}], call=ONCE)["row_count"] == 1
    assert database.value("SELECT count(*) AS c FROM t") == 1


def test_the_same_call_at_once_is_made_once_and_the_ledger_made_once(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")

    async def many() -> list[Outcome]:
        calls = [database.ask("INSERT INTO t VALUES (1); SELECT pg_sleep(0.05)", call=ONCE) for _ in range(6)]
        other = [database.ask("INSERT INTO t VALUES (2)", call=ONCE | {"action": f"b{n}"}) for n in range(6)]
        return await asyncio.gather(*calls, *other)

    assert [outcome.error for outcome in database.whole(many()) if outcome.error is not None] == []
    assert database.rows("SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n") == [{"n": 1, "c": 1}, {"n": 2, "c": 6}]
    assert database.schema.rows("SELECT count(*) FROM noetl_ledger") == [(7,)]


def test_a_call_that_is_killed_before_its_commit_leaves_no_row(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")

    async def killed() -> None:
        call = asyncio.create_task(database.ask("INSERT INTO t VALUES (1); SELECT pg_sleep(200), 'killed'", call=ONCE))
        await until_async(lambda: running(database.schema, "killed"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    database.whole(killed())
    assert database.result("INSERT INTO t VALUES (1)", call=ONCE)["row_count"] == 1
    assert database.value("SELECT count(*) AS c FROM t") == 1


def test_a_large_result_is_repeated_without_its_rows(database: Database) -> None:
    query = "SELECT repeat('x', 2000000) AS text, '\\x00'::bytea AS raw"
    assert len(database.result(query, call=ONCE)["rows"]) == 1
    assert database.result(query, call=ONCE) == {
        "rows": [],
        "row_count": 1,
        "columns": ["text", "raw"],
        "rows_omitted": True,
    }


def test_the_ledger_is_found_when_the_statements_move_elsewhere(database: Database) -> None:
    for _ in range(2):
        assert database.result("SET LOCAL search_path = pg_catalog; SELECT 1 AS one", call=ONCE)["rows"] == [{"one": 1}]


def test_transactions_of_the_author_and_vacuum_do_not_go_with_it(database: Database) -> None:
    assert database.error("BEGIN; SELECT 1; COMMIT", call=ONCE).kind == "input"
    assert database.error("VACUUM", call=ONCE).details["sqlstate"] == "25001"


def test_a_user_who_may_not_make_the_ledger_is_told_how(database: Database) -> None:
    server, name = database.schema.server, database.schema.name
    with server.connect() as admin:
        admin.execute("DROP ROLE IF EXISTS guest")
        admin.execute("CREATE ROLE guest LOGIN PASSWORD 'guest-word'")
        admin.execute(f"GRANT USAGE ON SCHEMA {name} TO guest")
        error = database.error("SELECT 1", auth=database.schema.fields(user="guest", password="guest-word"), call=ONCE)
        database.runner.run(kind.close())
        admin.execute("DROP OWNED BY guest")
        admin.execute("DROP ROLE guest")
    assert error.kind == "sql"
    assert "CREATE TABLE noetl_ledger (action text PRIMARY KEY" in error.message
