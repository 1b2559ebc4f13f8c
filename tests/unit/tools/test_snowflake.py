"""kind: snowflake with the official connector, against a server that speaks its protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.hostile import HOSTILE, NAMES
from tests.servers.patience import until, until_async
from tests.servers.rows_calls import Calls, our_threads
from tests.servers.snowflake import PASSWORD, Snowflake, sign_in_fixture, snowflake_fixture  # noqa: F401

from noetl.model.outcome import Outcome
from noetl.tools import snowflake as kind

ENDLESS = (
    "SELECT count(*) FROM TABLE(GENERATOR(ROWCOUNT => 10000000)) AS a, TABLE(GENERATOR(ROWCOUNT => 10000000)) AS b"
)


@pytest.fixture
def calls(sign_in: dict[str, Any]) -> Calls:
    return Calls(kind, auth=sign_in)


def at_once(calls: Calls, sql: str, scopes: list[dict[str, Any]]) -> list[Outcome]:
    """What one text gives for many scopes, one after the other on one loop."""

    async def one_by_one() -> list[Outcome]:
        return [await calls.ask(sql, scope) for scope in scopes]

    result: list[Outcome] = calls.whole(one_by_one())
    return result


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_query_gives_rows_their_number_and_the_columns(calls: Calls) -> None:
    result = calls.outcome("SELECT 1 AS a, 'x' AS \"b\"")
    assert result.result == {"rows": [{"A": 1, "b": "x"}], "row_count": 1, "columns": ["A", "b"]}
    snowflake = result.extra["snowflake"]
    assert (snowflake["code"], snowflake["sqlstate"]) == (None, None)
    assert snowflake["query_id"]


def test_statements_of_every_sort(calls: Calls) -> None:
    result = calls.result("CREATE TABLE t (i INT); INSERT INTO t VALUES (1), (2); UPDATE t SET i = 5 WHERE i = 1")
    assert (result["rows"], result["row_count"]) == ([], 1)
    assert [statement["row_count"] for statement in result["statements"]] == [0, 2, 1]
    assert calls.rows("SELECT i FROM t ORDER BY i") == [{"I": 2}, {"I": 5}]
    assert calls.result("DELETE FROM t")["row_count"] == 2


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1.50::NUMBER(10, 2)", "1.50"),
        ("7::NUMBER(38, 0)", 7),
        ("1.5::FLOAT", 1.5),
        ("'2026-01-31'::DATE", "2026-01-31"),
        ("'2026-01-31 12:30:00'::TIMESTAMP_NTZ", "2026-01-31T12:30:00"),
        ("'2026-01-31 12:30:00 +00:00'::TIMESTAMP_TZ", "2026-01-31T12:30:00+00:00"),
        ("NULL::TIMESTAMP_NTZ", None),
        ("TO_BINARY('AA00', 'HEX')", b"\xaa\x00"),
        ("PARSE_JSON('{\"a\": [1, null]}')", {"a": [1, None]}),
        ("TRUE", True),
        ("NULL", None),
    ],
)
def test_values_become_what_json_has(calls: Calls, expression: str, value: Any) -> None:
    assert calls.value(f"SELECT {expression} AS v") == value


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["x", "", "007", 7, -7, 1.5, True, None, "é\U0001f642", [1, "a"], {"a": [None]}])
def test_a_value_comes_back_as_it_was_given(calls: Calls, value: Any) -> None:
    assert calls.value("SELECT {{ x }} AS v", {"x": value}) in (value, str(value))


def test_lists_expand_in_in(calls: Calls) -> None:
    calls.result("CREATE TABLE t (i INT); INSERT INTO t VALUES (1), (2), (3)")
    scope = {"few": [1, 3], "names": ["1", "2"], "empty": []}
    ids = "SELECT i FROM t WHERE i"
    assert calls.result(f"{ids} IN ({{{{ few }}}})", scope)["row_count"] == 2
    assert calls.result(f"{ids} IN {{{{ names }}}}", scope)["row_count"] == 2
    assert calls.result(f"{ids} NOT IN {{{{ few }}}}", scope)["row_count"] == 1
    assert calls.result(f"{ids} IN ({{{{ empty }}}})", scope)["row_count"] == 0
    assert calls.result(f"{ids} NOT IN ({{{{ empty }}}})", scope)["row_count"] == 3


def test_lists_and_maps_are_json(calls: Calls) -> None:
    calls.result("CREATE TABLE t (v VARIANT); INSERT INTO t SELECT {{ m }}", {"m": {"a": [1, {"b": "it's"}]}})
    assert calls.value("SELECT v:a[1].b::VARCHAR AS v FROM t") == "it's"
    assert calls.rows("SELECT {{ l }} AS v", {"l": [1, None]}) == [{"V": [1, None]}]


def test_literals_stand_where_snowflake_takes_no_value(calls: Calls) -> None:
    scope = {"day": "2026-01-01", "x": "it's \\ so"}
    assert calls.value("SELECT DATE '{{ day }}' AS v", scope) == "2026-01-01"
    calls.result("CREATE TABLE t (i INT, x VARCHAR DEFAULT {{ x }}); INSERT INTO t (i) VALUES (1)", scope)
    assert calls.value("SELECT x FROM t", scope) == "it's \\ so"
    assert calls.value("SELECT 'a\\'{{ x }}\\\\' AS v", scope) == "a'it's \\ so\\"


def test_params_are_for_the_placeholders(calls: Calls) -> None:
    assert calls.value("SELECT ? || {{ x }} AS v", {"x": "b"}, params=["a"]) == "ab"
    assert calls.error("SELECT ?", params={"a": 1}).kind == "input"
    assert calls.error("SELECT ?; SELECT ?", params=[1]).kind == "input"


# -- injection --------------------------------------------------------------------------------------------------------

TEXTS = [text for text in HOSTILE if "\0" not in text]
POSITIONS = {
    "bare": "{{ texts[N] }}",
    "quoted": "'{{ texts[N] }}'",
    "within": "'<{{ texts[N] }}>'",
    "json": "({{ {'k': texts[N]} }}):k::VARCHAR",
    "comment": "{{ texts[N] }} /* {{ texts[N] }} */",
}


def each(form: str, between: str, texts: list[str]) -> str:
    """A piece of SQL for every text."""
    return between.join(form.replace("N", str(number)) for number in range(len(texts)))


@pytest.fixture
def canary(calls: Calls) -> Iterator[Calls]:
    """A database with a table that is there afterwards, whatever a test does."""
    calls.result("CREATE TABLE canary AS SELECT 1 AS id")
    yield calls
    assert calls.value("SELECT id FROM canary") == 1


@pytest.mark.parametrize("position", POSITIONS)
def test_data_stays_data(position: str, canary: Calls) -> None:
    columns = each(f"{POSITIONS[position]} AS cN", ", ", TEXTS)
    (row,) = canary.rows(f"SELECT {columns} -- {{{{ texts[0] }}}}", {"texts": TEXTS})
    assert list(row.values()) == [f"<{text}>" if position == "within" else text for text in TEXTS]


def test_data_stays_data_in_ddl(canary: Calls) -> None:
    columns = each("cN VARCHAR DEFAULT {{ texts[N] }}", ", ", TEXTS)
    canary.result(f"CREATE TABLE m (i INT, {columns}); INSERT INTO m (i) VALUES (1)", {"texts": TEXTS})
    (row,) = canary.rows("SELECT * EXCLUDE (i) FROM m")
    assert list(row.values()) == TEXTS


def test_variables_of_a_session_are_not_put_into_values(canary: Calls) -> None:
    made = "SET secret = 'open'; CREATE TABLE m (i INT, v VARCHAR DEFAULT {{ x }}); INSERT INTO m (i) VALUES (1);"
    (row,) = canary.rows(f"{made} SELECT v, $secret AS word FROM m", {"x": "$secret '$secret"})
    assert row == {"V": "$secret '$secret", "WORD": "open"}


def test_data_stays_data_in_several_statements(canary: Calls) -> None:
    rows = each("(N, {{ texts[N] }})", ", ", TEXTS)
    made = f"CREATE TABLE m (i INT, v VARCHAR); INSERT INTO m VALUES {rows}; SELECT v FROM m ORDER BY i"
    assert [row["V"] for row in canary.rows(made, {"texts": TEXTS})] == TEXTS
    assert canary.result("SELECT v FROM m WHERE v IN ({{ texts }})", {"texts": TEXTS})["row_count"] == len(TEXTS)
    assert canary.result("SELECT v FROM m WHERE v NOT IN {{ texts }}", {"texts": TEXTS})["row_count"] == 0


def test_like_patterns_are_values(canary: Calls) -> None:
    patterns = ["".join(f"!{one}" if one in "!%_" else one for one in text) for text in TEXTS]
    columns = each("{{ texts[N] }} LIKE '%{{ patterns[N] }}%' ESCAPE '!' AS cN", ", ", TEXTS)
    (row,) = canary.rows(f"SELECT {columns}", {"texts": TEXTS, "patterns": patterns})
    assert all(row.values())


def test_names_stay_names(canary: Calls) -> None:
    for form in ("1 AS {{ [names[N]] | ident }}", '1 AS "{{ names[N] }}"'):
        (row,) = canary.rows(f"SELECT {each(form, ', ', NAMES)}", {"names": NAMES})
        assert list(row) == NAMES


# -- bulk -------------------------------------------------------------------------------------------------------------


def test_rows_are_inserted_with_the_types_of_the_table(calls: Calls) -> None:
    calls.result(
        "CREATE TABLE t (id INT, n NUMBER(10, 2), x VARCHAR, d DATE, v VARIANT, ok BOOLEAN, b BINARY, f FLOAT)"
    )
    row = {"id": 1, "n": "1.50", "x": "it's ?", "d": "2026-01-01", "v": {"a": [1]}, "ok": True, "b": b"\xaa", "f": 2.5}
    empty = dict.fromkeys(row)
    assert calls.result(table="t", rows=[row, empty])["row_count"] == 2
    result = calls.rows("SELECT * FROM t ORDER BY id NULLS LAST")
    assert result == [{name.upper(): value for name, value in one.items()} for one in (row, empty)]


def test_many_rows_are_one_transaction(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.rows.snowflake_database.BATCH_ROWS", 100)
    calls.result("CREATE TABLE t (i INT, x VARCHAR)")
    rows = [{"i": i, "x": f"row {i}"} for i in range(350)]
    assert calls.result(table="public.t", rows=rows)["row_count"] == 350
    assert calls.error(table="t", rows=[*rows, {"i": "seven"}]).kind == "sql"
    assert calls.value("SELECT count(*) AS v FROM t") == 350


def test_the_args_are_a_row(calls: Calls) -> None:
    calls.result("CREATE TABLE t (a INT, b VARCHAR)")
    calls.result(table="t", call={"own_args": {"a": 2, "b": "y"}})
    calls.result(table="t", columns=["b", "a"], rows=[["x", 1]])
    assert calls.rows("SELECT a, b FROM t ORDER BY a") == [{"A": 1, "B": "x"}, {"A": 2, "B": "y"}]


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_several_changes_are_one_transaction(calls: Calls) -> None:
    calls.result("CREATE TABLE t (i INT)")
    assert calls.error("INSERT INTO t VALUES (1); INSERT INTO t VALUES ('x')").kind == "sql"
    assert calls.value("SELECT count(*) FROM t") == 0


def test_a_session_is_used_again_unless_a_call_changed_it(calls: Calls, snowflake: Snowflake) -> None:
    before = snowflake.logins
    assert [one.ok for one in at_once(calls, "SELECT {{ x }}", [{"x": 1}] * 5)] == [True] * 5
    assert snowflake.logins == before + 1
    at_once(calls, "SET x = 1", [{}, {}])
    assert snowflake.logins == before + 3


def test_calls_at_once_have_sessions_of_their_own(calls: Calls) -> None:
    calls.result("CREATE TABLE t (i INT)")

    async def story() -> list[Outcome]:
        return await asyncio.gather(*(calls.ask("INSERT INTO t VALUES ({{ i }})", {"i": i}) for i in range(5)))

    assert all(outcome.ok for outcome in calls.whole(story()))
    assert calls.value("SELECT count(*) FROM t") == 5


def test_a_session_that_the_server_has_ended_is_an_error_once(calls: Calls, snowflake: Snowflake) -> None:
    async def story() -> list[Outcome]:
        first = await calls.ask("SELECT 1")
        snowflake.sessions.clear()
        return [first, await calls.ask("SELECT 1"), await calls.ask("SELECT 1")]

    first, second, third = calls.whole(story())
    assert first.ok
    assert third.ok
    assert second.error is not None
    assert (second.error.kind, second.error.retryable) == ("connect", True)


def test_inputs_choose_where_to_be(snowflake: Snowflake, sign_in: dict[str, Any]) -> None:
    calls = Calls(kind, auth=snowflake.fields(), database=sign_in["database"])
    calls.result("CREATE TABLE t AS SELECT 5 AS i")
    assert calls.value("SELECT i FROM t", schema="public") == 5


# -- errors -----------------------------------------------------------------------------------------------------------


def test_a_statement_that_fails_tells_code_and_state(calls: Calls) -> None:
    result = calls.outcome("SELECT * FROM nothing_there")
    assert result.error is not None
    assert (result.error.kind, result.error.retryable) == ("sql", False)
    assert result.extra["snowflake"]["code"] == "002003"
    assert result.extra["snowflake"]["sqlstate"] == "42S02"
    assert calls.error("SELEC 1").details == {"line": 1, "column": 1}
    assert calls.error("\nSELECT 1;\n\n  SELEC 1").details == {"line": 4, "column": 3}


@pytest.mark.parametrize("wrong", [{"password": "wrong-password"}, {"user": "NOBODY"}, {"account": None}])
def test_a_credential_that_is_not_let_in(snowflake: Snowflake, wrong: dict[str, Any]) -> None:
    error = Calls(kind, auth=snowflake.fields(**wrong)).error("SELECT 1")
    assert (error.kind, error.retryable) == ("auth", False)
    assert PASSWORD not in error.message
    assert "wrong-password" not in error.message


def test_a_private_key_is_read(snowflake: Snowflake) -> None:
    fields = snowflake.fields(password=None, private_key="no key")
    error = Calls(kind, auth=fields).error("SELECT 1")
    assert (error.kind, "PEM" in error.message) == ("auth", True)


def test_a_server_that_is_missing_is_a_connect_error(snowflake: Snowflake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.rows.snowflake_database.LOGIN_SECONDS", 2)
    error = Calls(kind, auth=snowflake.fields(port=1)).error("SELECT 1")
    assert (error.kind, error.retryable) == ("connect", True)


def test_files_of_the_worker_are_out_of_reach(calls: Calls) -> None:
    for statement in ("PUT file:///etc/passwd @~", "-- x\nGET @~ file:///tmp", "SELECT 1; put file:///etc/passwd @~"):
        assert calls.error(statement).kind == "input"


def test_a_field_that_means_nothing_is_refused(snowflake: Snowflake) -> None:
    assert Calls(kind, auth=snowflake.fields(pasword="x")).error("SELECT 1").kind == "input"


def test_the_connector_logs_nothing(calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    calls.result("SELECT {{ x }}", {"x": "secret-value"})
    calls.error("SELECT nope")
    assert [record for record in caplog.records if record.name.startswith("snowflake")] == []


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_a_cancelled_statement_is_stopped_on_the_server(calls: Calls, snowflake: Snowflake) -> None:
    async def story() -> None:
        await calls.ask("SELECT 1")
        call = asyncio.create_task(calls.ask(ENDLESS))
        await until_async(lambda: ENDLESS in snowflake.statements and snowflake.running)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await calls.ask("SELECT 1")).ok

    calls.whole(story())
    until(lambda: snowflake.running == {})
    assert snowflake.aborted
    until(lambda: our_threads() == [])
