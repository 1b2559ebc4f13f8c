"""`kind: postgres` against a real server: statements, transactions, results and errors."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.servers.patience import PATIENCE_SECONDS, until_async
from tests.servers.postgres import PASSWORD, Schema, postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.postgres_calls import Database, database_fixture  # noqa: F401

from noetl.expression import render
from noetl.files import load_file
from noetl.model.outcome import Failure
from noetl.tools import postgres as kind

EXAMPLE = Path(__file__).parents[3] / "examples" / "postgres_orders.yaml"

# --- results -----------------------------------------------------------------------------------------


def test_a_query_gives_rows_their_number_and_the_columns(database: Database) -> None:
    result = database.result("SELECT n, n * 2 AS twice FROM generate_series(1, 2) n")
    assert result == {
        "rows": [{"n": 1, "twice": 2}, {"n": 2, "twice": 4}],
        "row_count": 2,
        "columns": ["n", "twice"],
    }


def test_a_query_without_rows_still_tells_the_columns(database: Database) -> None:
    assert database.result("SELECT 1 AS a WHERE false") == {"rows": [], "row_count": 0, "columns": ["a"]}


def test_columns_of_one_name_are_told_apart(database: Database) -> None:
    assert database.rows("SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a") == [{"a": 1, "a_2": 2, "a_2_2": 3, "a_3": 4}]


def test_changes_are_counted(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    assert database.result("INSERT INTO t VALUES (1), (2), (3)") == {"rows": [], "row_count": 3, "columns": []}
    assert database.result("UPDATE t SET n = n + 1 WHERE n > 1")["row_count"] == 2
    assert database.result("DELETE FROM t WHERE n = 1 RETURNING n") == {
        "rows": [{"n": 1}],
        "row_count": 1,
        "columns": ["n"],
    }
    assert database.result("DROP TABLE t")["row_count"] == 0


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1::int2", 1),
        ("9223372036854775807::int8", 9223372036854775807),
        ("12.50::numeric", "12.50"),
        ("123456789012345678901234567890.5::numeric", "123456789012345678901234567890.5"),
        ("'NaN'::numeric", "NaN"),
        ("1.5::float8", 1.5),
        ("'NaN'::float8", "NaN"),
        ("'-Infinity'::float4", "-Infinity"),
        ("true", True),
        ("NULL", None),
        ("'é''x'::text", "é'x"),
        ("'a'::char(3)", "a  "),
        ("date '2024-02-29'", "2024-02-29"),
        ("date 'infinity'", "infinity"),
        ("date '0044-03-15 BC'", "0044-03-15 BC"),
        ("timestamp '2024-02-29 01:02:03.5'", "2024-02-29T01:02:03.5"),
        ("timestamptz '2024-02-29 01:02:03+00' AT TIME ZONE 'UTC'", "2024-02-29T01:02:03"),
        ("time '01:02:03'", "01:02:03"),
        ("interval '1 month 2 days 03:00'", "1 mon 2 days 03:00:00"),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("'\\x00ff'::bytea", b"\x00\xff"),
        ('\'{"a": [1, null, "x"]}\'::jsonb', {"a": [1, None, "x"]}),
        ("'[12345678901234567890, 1e400, 1.5]'::jsonb", ["12345678901234567890", "1" + "0" * 400, 1.5]),
        ("'null'::json", None),
        ("ARRAY[1, NULL, 3]", [1, None, 3]),
        ("ARRAY[['a', 'b'], ['c', '{}']]", [["a", "b"], ["c", "{}"]]),
        ("ARRAY[1.5, 2]::numeric[]", ["1.5", "2"]),
        ("ARRAY[timestamp '2024-01-01 00:00']", ["2024-01-01T00:00:00"]),
        ("ARRAY['{\"a\": 1}'::jsonb]", [{"a": 1}]),
        ("int4range(1, 5)", "[1,5)"),
        ("'10.0.0.1/8'::inet", "10.0.0.1/8"),
        ("'10.0.0.0/8'::cidr", "10.0.0.0/8"),
        ("point(1, 2)", "(1,2)"),
        ("ROW(1, 'a')", "(1,a)"),
        ("B'101'", "101"),
        ("'a b'::tsvector", "'a' 'b'"),
        ("1::oid", 1),
        ("'x'::name", "x"),
    ],
)  # fmt: skip
def test_a_value_of_each_type(database: Database, expression: str, value: Any) -> None:
    assert database.value(f"SELECT {expression} AS v") == value


def test_moments_have_the_offset_of_the_sessions_zone(database: Database) -> None:
    query = "SET TIME ZONE '{{ zone }}'; SELECT timestamptz '2024-02-29 12:00:00+00' AS t"
    assert [database.value(query, {"zone": zone}) for zone in ("UTC", "Asia/Kolkata", "America/New_York")] == [
        "2024-02-29T12:00:00+00:00",
        "2024-02-29T17:30:00+05:30",
        "2024-02-29T07:00:00-05:00",
    ]


def test_a_large_result_is_its_json(database: Database) -> None:
    result = database.result("SELECT n, repeat('x', 100) AS text FROM generate_series(1, 20000) n")
    assert isinstance(result, msgspec.Raw)
    value = msgspec.json.decode(result)
    assert value["row_count"] == len(value["rows"]) == 20000
    assert value["rows"][-1] == {"n": 20000, "text": "x" * 100}


def test_a_result_above_the_limit_is_refused_and_its_statement_stopped(database: Database) -> None:
    error = database.error("SELECT repeat('x', 1000000) AS text FROM generate_series(1, 100000)")
    assert error.kind == "too_large"
    assert "LIMIT" in error.message
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _statements_running(database.schema):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert database.value("SELECT 1 AS one") == 1


def _statements_running(schema: Schema) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND application_name = 'noetl'"
    ((count,),) = schema.rows(query)
    return int(count)


# --- several statements and transactions -------------------------------------------------------------


def test_of_several_statements_the_last_one_is_the_result(database: Database) -> None:
    result = database.result("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2); SELECT n FROM t ORDER BY n;")
    assert result["rows"] == [{"n": 1}, {"n": 2}]
    assert result["statements"] == [
        {"command": "CREATE TABLE", "columns": [], "row_count": 0},
        {"command": "INSERT", "columns": [], "row_count": 2},
        {"command": "SELECT", "columns": ["n"], "row_count": 2},
    ]


def test_several_statements_are_one_transaction(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    error = database.error("INSERT INTO t VALUES (1);\n\nINSERT INTO t VALUES (1 / 0)")
    assert (error.kind, error.details["statement"], error.details["sqlstate"]) == ("sql", 2, "22012")
    assert database.rows("SELECT * FROM t") == []


def test_a_statement_that_refuses_transactions_runs_alone(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    assert database.result("VACUUM t")["rows"] == []
    error = database.error("VACUUM t; SELECT 1")
    assert error.details["sqlstate"] == "25001"
    assert "a task of its own" in error.message


def test_transactions_of_the_author_are_kept(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    result = database.result("BEGIN; INSERT INTO t VALUES (1) RETURNING n; COMMIT; -- done")
    assert result["rows"] == [{"n": 1}]
    assert [statement["command"] for statement in result["statements"]] == ["BEGIN", "INSERT", "COMMIT"]
    database.result("START TRANSACTION; INSERT INTO t VALUES (2); ROLLBACK")
    database.result("INSERT INTO t VALUES (3); SAVEPOINT a; INSERT INTO t VALUES (4); ROLLBACK TO SAVEPOINT a")
    assert database.value("SELECT array_agg(n ORDER BY n) AS all FROM t") == [1, 3]


def test_a_transaction_that_is_left_open_is_an_error_and_rolled_back(database: Database) -> None:
    database.result("CREATE TABLE t (n int)")
    error = database.error("BEGIN; INSERT INTO t VALUES (1)")
    assert error.kind == "sql"
    assert "COMMIT" in error.message
    assert database.rows("SELECT * FROM t") == []


def test_a_call_sees_nothing_of_the_session_of_another(database: Database) -> None:
    first = database.value("SELECT pg_backend_pid() AS pid")
    database.result(
        "SET work_mem = '77MB'; CREATE TEMP TABLE mine (n int); SELECT pg_advisory_lock(5); SET ROLE pg_monitor"
    )
    query = (
        "SELECT pg_backend_pid() AS pid, current_setting('work_mem') AS mem, to_regclass('mine') AS mine, "
        "current_user AS me, (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks"
    )
    (result,) = database.rows(query)
    assert result["pid"] == first
    assert result["mem"] != "77MB"
    assert (result["mine"], result["locks"], result["me"]) == (None, 0, "postgres")


def test_a_deferred_constraint_fails_at_the_end(database: Database) -> None:
    database.result("CREATE TABLE t (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    error = database.error("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)")
    assert (error.details["sqlstate"], error.details["constraint"]) == ("23505", "t_n_key")
    assert database.rows("SELECT * FROM t") == []


# --- params ------------------------------------------------------------------------------------------


def test_params_of_the_driver(database: Database) -> None:
    assert database.rows("SELECT %s AS a, %s::int + 1 AS b, '5%%' AS c", params=["x'y", 5]) == [
        {"a": "x'y", "b": 6, "c": "5%"}
    ]
    assert database.rows("SELECT %(a)s AS a, %(a)s AS b", params={"a": "p", "unused": 1}) == [{"a": "p", "b": "p"}]


def test_params_beside_templates(database: Database) -> None:
    result = database.rows(
        "SELECT {{ x }} AS a, %s AS b; SELECT %s AS c, '{{ x }}%%' AS d", {"x": "5%s"}, params=[1, 2]
    )
    assert result == [{"c": 2, "d": "5%s%%"}]


@pytest.mark.parametrize(
    ("query", "params"),
    [
        ("SELECT %s", []),
        ("SELECT %s", {"a": 1}),
        ("SELECT 1", [1]),
        ("SELECT %(a)s", {}),
        ("SELECT %(a)s", [1]),
        ("SELECT 5 % 3, %s", [1]),
        ("SELECT '%s'", ["' OR 1 = 1 --"]),
        ('SELECT "%s"', ["a"]),
        ("SELECT 1 -- %s", ["\n, 2"]),
        ("SELECT $$ %s $$", ["$$, 2, $$"]),
    ],
)
def test_params_that_do_not_fit(database: Database, query: str, params: Any) -> None:
    assert database.error(query, params=params).kind == "input"


# --- errors ------------------------------------------------------------------------------------------


def test_an_error_has_the_servers_words_and_the_line(database: Database) -> None:
    error = database.error("SELECT {{ text }},\n  2,\n  nope\nFROM generate_series(1, 2)", {"text": "a\n\nb"})
    assert error.kind == "sql"
    assert error.message.startswith('column "nope" does not exist (line 3 of the SQL)')
    assert (error.details["line"], error.details["column"]) == (3, 3)
    assert error.details["position"] == len("SELECT 'a\n\nb',\n  2,\n  n")
    assert error.details["sqlstate"] == "42703"
    assert not error.retryable


def test_detail_hint_and_constraint_are_reported(database: Database) -> None:
    database.result("CREATE TABLE t (n int PRIMARY KEY, m int NOT NULL)")
    database.result("INSERT INTO t VALUES (1, 1)")
    outcome = database.outcome("INSERT INTO t VALUES (1, 2)")
    assert outcome.error is not None
    assert "Key (n)=(1) already exists" in outcome.error.message
    assert outcome.extra["pg"]["code"] == outcome.extra["pg"]["sqlstate"] == "23505"
    assert outcome.extra["pg"]["constraint"] == "t_pkey"
    assert outcome.extra["pg"]["table"] == "t"
    assert outcome.extra["pg"]["severity"] == "ERROR"
    assert database.error("INSERT INTO t VALUES (2, NULL)").details["column"] == "m"
    assert "HINT" not in database.error("SELECT nothing()").message


@pytest.mark.parametrize(
    ("query", "state"),
    [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT 'x'::int", "22P02"),
        ("SELECT 1 + true", "42883"),
        ("SELECT 99999 :: int2", "22003"),
        ("SELECT '{'::jsonb", "22P02"),
    ],
)
def test_wrong_sql(database: Database, query: str, state: str) -> None:
    error = database.error(query)
    assert (error.kind, error.details["sqlstate"], error.retryable) == ("sql", state, False)


def test_a_value_where_a_name_is_needed_gets_advice(database: Database) -> None:
    error = database.error("SELECT * FROM {{ table }}", {"table": "t"})
    assert error.details["sqlstate"] == "42601"
    assert "| ident" in error.message


def test_sql_without_a_statement(database: Database) -> None:
    assert database.error(" -- nothing\n;").kind == "input"


@pytest.mark.parametrize("query", ["COPY (SELECT 1) TO STDOUT", "COPY t FROM STDIN"])
def test_copy_of_the_author_is_refused_and_the_pool_continues(database: Database, query: str) -> None:
    database.result("CREATE TABLE t (n int)")
    assert "`table` and `rows`" in database.error(query).message
    assert database.value("SELECT 1 AS one") == 1


def test_a_deadlock_is_worth_another_try(database: Database) -> None:
    database.result("CREATE TABLE t (n int PRIMARY KEY, m int); INSERT INTO t VALUES (1, 0), (2, 0)")
    query = (
        "SET LOCAL deadlock_timeout = '100ms'; UPDATE t SET m = 1 WHERE n = {{ a }}; "
        "SELECT pg_advisory_xact_lock_shared(40001); UPDATE t SET m = 1 WHERE n = {{ b }}"
    )
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 40001 AND NOT granted"

    async def both() -> list[Any]:
        with database.schema.server.connect() as gate:  # opened when both have their first row
            gate.execute("SELECT pg_advisory_lock(40001)")
            calls = [asyncio.create_task(database.ask(query, {"a": a, "b": 3 - a})) for a in (1, 2)]
            await until_async(lambda: len(database.schema.rows(waiting)) == 2)
        return list(await asyncio.gather(*calls))

    errors = [outcome.error for outcome in database.whole(both()) if outcome.error is not None]
    assert [(error.kind, error.details["sqlstate"], error.retryable) for error in errors] == [("sql", "40P01", True)]


def test_a_limit_of_the_server_on_time_is_a_timeout(database: Database) -> None:
    error = database.error("SET statement_timeout = '50ms'; SELECT pg_sleep(10)")
    assert (error.kind, error.retryable) == ("timeout", True)


def test_warnings_and_what_functions_raise_are_logged(database: Database) -> None:
    database.result("DROP TABLE IF EXISTS nowhere; CREATE TABLE t (n int); CREATE TABLE IF NOT EXISTS t (n int)")
    assert database.lines == []
    database.result("DO $$ BEGIN RAISE NOTICE 'half done'; RAISE WARNING 'careful'; END $$")
    assert database.lines == [("stderr", "NOTICE: half done"), ("stderr", "WARNING: careful")]


# --- signing in --------------------------------------------------------------------------------------


def test_a_credential_by_name(database: Database) -> None:
    async def credential(auth: Any) -> dict[str, Any]:
        if auth != "shop_db":
            raise Failure("auth", f"the keychain has no entry {auth!r}")
        return {"kind": "postgres_credential", "dsn": database.schema.dsn()}

    assert database.value("SELECT 1 AS one", auth="shop_db", call={"credential": credential}) == 1
    assert database.error("SELECT 1", auth=None, call={"credential": credential}).message.endswith("'postgres'")


def test_a_dsn(database: Database) -> None:
    fields = database.schema.server.fields()
    dsn = f"postgresql://{fields['user']}:{PASSWORD}@127.0.0.1:{fields['port']}/postgres"
    assert database.value("SELECT 1 AS one", dsn=dsn) == 1


@pytest.mark.parametrize(
    ("changes", "kind", "state", "retryable"),
    [
        ({"password": "wrong-password"}, "auth", "28P01", False),
        ({"user": "nobody_here"}, "auth", "28P01", False),
        ({"database": "no_such_base"}, "not_found", "3D000", False),
        ({"port": 1}, "connect", None, True),
        ({"host": "no-such-host.invalid"}, "connect", None, True),
    ],
)
def test_nobody_is_let_in(
    database: Database, changes: dict[str, Any], kind: str, state: str | None, retryable: bool
) -> None:
    error = database.error("SELECT 1", auth=database.schema.fields(**changes))
    assert (error.kind, error.details["sqlstate"], error.retryable) == (kind, state, retryable)
    assert PASSWORD not in error.message
    assert "wrong-password" not in error.message


@pytest.mark.parametrize("dsn", ["postgres//ada:s3cret-word@host/db", "host", "password=s3cret-word nonsense=1"])
def test_a_dsn_that_makes_no_sense_is_not_quoted(database: Database, dsn: str) -> None:
    error = database.error("SELECT 1", dsn=dsn)
    assert error.kind == "input"
    assert "s3cret" not in error.message


def test_a_credential_with_a_field_that_libpq_does_not_have(database: Database) -> None:
    error = database.error("SELECT 1", auth={"host": "127.0.0.1", "passwort": "s3cret-word"})
    assert error.kind == "auth"
    assert "passwort" in error.message
    assert "s3cret" not in error.message
    assert database.error("SELECT 1", auth={"kind": "postgres_credential"}).kind == "auth"


@pytest.mark.parametrize("changes", [{"port": "abc"}, {"host": "a..b"}, {"sslmode": "nonsense"}, {"port": 70000}])
def test_fields_that_make_no_sense(database: Database, changes: dict[str, Any]) -> None:
    error = database.error("SELECT 1", auth=database.schema.fields(**changes))
    assert error.kind in ("connect", "auth", "input")
    assert PASSWORD not in error.message


def test_passwords_of_the_workers_own_are_not_sent(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "pgpass"
    path.write_text(f"*:*:*:*:{PASSWORD}\n")
    path.chmod(0o600)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGPASSFILE", str(path))
    assert database.error("SELECT 1", auth=database.schema.fields(password=None)).kind == "auth"


def test_a_long_message_is_cut(database: Database) -> None:
    redacted: list[str] = []

    def redact(text: Any) -> Any:
        redacted.append(text)
        return text

    error = database.error("SELECT {{ v }}::int", {"v": "x" * 100_000}, call={"redact": redact})
    assert len(error.message) < 5000
    assert redacted


def test_without_its_driver_the_kind_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for module in [name for name in sys.modules if name.startswith("noetl.tools.postgres_client.")]:
        monkeypatch.delitem(sys.modules, module)
    outcome = asyncio.run(kind.run(kind.Inputs(command="SELECT 1"), None))  # type: ignore[arg-type]
    assert outcome.error is not None
    assert outcome.error.kind == "not_found"
    assert "pip install 'noetl-engine[postgres]'" in outcome.error.message


def test_the_tasks_of_the_example(database: Database) -> None:
    playbook = load_file(str(EXAMPLE)).require()
    scope = {"workload": playbook.workload}
    tasks = [task for step in playbook.steps for task in step.tasks]
    for task in tasks:
        inputs = {key: value for key, value in task.inputs.items() if key in ("table", "rows")}
        text = task.inputs.get("command") or task.inputs.get("query")
        result = database.result(text, scope, **render(inputs, scope), call={"spec": task.spec})
    assert result["rows"] == [
        {"customer": "O'Brien", "orders": 1, "total": 40.0},
        {"customer": "Ada", "orders": 1, "total": 12.5},
    ]
