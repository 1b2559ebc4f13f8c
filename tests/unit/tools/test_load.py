"""`table` and `rows` of the kinds postgres, duckdb and snowflake: append, upsert and replace, and exactly once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.servers.postgres import postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.rows_calls import Calls
from tests.servers.snowflake import sign_in_fixture, snowflake_fixture  # noqa: F401

from noetl.model.outcome import Outcome
from noetl.testing import run_playbook
from noetl.tools import duckdb, postgres, snowflake

ONCE = {"spec": {"exactly_once": True}}
ROWS = [{"id": 1, "name": "Ada", "score": 1.5}, {"id": 2, "name": "O'Brien", "score": None}]


@pytest.fixture
def file(tmp_path: Path) -> Calls:
    return Calls(duckdb, database=str(tmp_path / "shop.db"))


@pytest.fixture(params=["postgres", "duckdb", "snowflake"])
def calls(request: pytest.FixtureRequest) -> Calls:
    if request.param == "duckdb":
        calls: Calls = request.getfixturevalue("file")
        return calls
    if request.param == "postgres":
        return Calls(postgres, auth=request.getfixturevalue("schema").fields())
    return Calls(snowflake, auth=request.getfixturevalue("sign_in"))


def stored(calls: Calls, table: str = "people") -> list[dict[str, Any]]:
    """The rows of a table by their id. Snowflake shows unquoted names in upper case."""
    rows = calls.rows(f"SELECT * FROM {table} ORDER BY id")
    return [{name.lower(): value for name, value in row.items()} for row in rows]


def test_a_missing_table_is_created_with_types_that_fit_and_the_log_has_them(calls: Calls) -> None:
    row = {"id": 2**62, "name": "x", "ok": True, "n": 1, "tags": [1, "a"], "info": {"a": 1}, "nothing": None}
    other = {"id": 2, "name": "007", "ok": None, "n": 2.5, "tags": None, "info": {}, "nothing": None}
    assert calls.result(table="people", rows=[row, other]) == {"rows": [], "row_count": 2, "columns": []}
    assert stored(calls) == [other, {**row, "n": 1.0}]
    assert [line for _, line in calls.lines if line.startswith("created the table people (id ")]


@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
def test_rows_are_added_to_those_that_exist_unless_they_are_replaced(calls: Calls, mode: str) -> None:
    more = {"key": ["id"]} if mode == "upsert" else {}
    calls.result(table="people", rows=ROWS, mode=mode, **more)
    calls.result(table="people", rows=[{"id": 3, "name": "Grace", "score": 2.0}], mode=mode, **more)
    assert [row["id"] for row in stored(calls)] == ([3] if mode == "replace" else [1, 2, 3])


def test_an_upsert_updates_by_key_and_repeats_without_effect(calls: Calls) -> None:
    calls.result(table="people", rows=ROWS, mode="upsert", key=["id"])
    for _ in range(2):
        changes = [{"id": 2, "name": "Edsger", "score": 3.0}, {"id": 9, "name": "Alan", "score": None}]
        assert calls.result(table="people", rows=changes, mode="upsert", key=["id"])["row_count"] == 2
    assert stored(calls) == [ROWS[0], *changes]


def test_an_upsert_leaves_columns_alone_that_the_rows_do_not_have(calls: Calls) -> None:
    calls.result(table="people", rows=ROWS, mode="upsert", key=["id"])
    calls.result(table="people", rows=[{"id": 1, "name": "Grace"}], mode="upsert", key=["id"])
    assert stored(calls)[0] == {"id": 1, "name": "Grace", "score": 1.5}


def test_a_key_of_several_columns_that_are_all_there_is(calls: Calls) -> None:
    rows = [{"id": 1, "day": "mon"}, {"id": 1, "day": "tue"}]
    for _ in range(2):
        calls.result(table="people", rows=rows, mode="upsert", key=["id", "day"])
    assert sorted(row["day"] for row in stored(calls)) == ["mon", "tue"]


def test_no_rows_change_nothing_unless_they_replace_all(calls: Calls) -> None:
    assert calls.result(table="people", rows=[], mode="replace")["row_count"] == 0
    calls.result(table="people", rows=ROWS)
    assert calls.result(table="people", rows=[], mode="upsert", key=["id"])["row_count"] == 0
    assert len(stored(calls)) == 2
    assert calls.result(table="people", rows=[], mode="replace")["row_count"] == 0
    assert stored(calls) == []


def test_rows_that_do_not_fit_leave_the_rows_that_were_to_be_replaced(calls: Calls) -> None:
    calls.result(table="people", rows=ROWS)
    assert calls.error(table="people", rows=[{"id": 7}, {"id": "seven"}], mode="replace").kind == "sql"
    assert stored(calls) == ROWS


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"mode": "upsert"}, "`upsert` needs a `key`"),
        ({"key": ["id"]}, "`key` is only for `mode: upsert`"),
        ({"mode": "upsert", "key": ["nr"]}, "`key` has 'nr', which is not one of the columns id, name, score"),
        ({"mode": "upsert", "key": ["score"]}, "row 2 has no value for 'score', which is part of the `key`"),
        ({"mode": "upsert", "key": ["id"], "rows": [*ROWS, ROWS[0]]}, "`rows` has two rows with the same key: id 1"),
        ({"mode": "upsert", "key": ["id"], "rows": [{"id": 1}, {"id": "1"}]}, "two rows with the same key: id 1"),
        ({"params": [1]}, "`params` are for a statement"),
    ],
)
def test_a_load_that_cannot_be_meant_is_refused(calls: Calls, inputs: dict[str, Any], words: str) -> None:
    calls.result("CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20), score DOUBLE PRECISION)")
    error = calls.error(**{"table": "people", "rows": ROWS, **inputs})
    assert error.kind == "input"
    assert words in error.message
    assert stored(calls) == []


@pytest.mark.parametrize("inputs", [{"mode": "replace"}, {"key": ["id"]}, {"rows": ROWS}, {"columns": ["id"]}])
def test_inputs_of_a_load_beside_a_statement_are_refused(calls: Calls, inputs: dict[str, Any]) -> None:
    error = calls.error("SELECT 1", **inputs)
    assert (error.kind, "not for a statement" in error.message) == ("input", True)


@pytest.mark.parametrize("calls", ["postgres", "duckdb"], indirect=True)
def test_an_upsert_into_a_table_without_a_unique_index_says_how_to_make_one(calls: Calls) -> None:
    calls.result("CREATE TABLE people (id BIGINT, name VARCHAR, score DOUBLE PRECISION)")
    error = calls.error(table="people", rows=ROWS, mode="upsert", key=["id"])
    assert error.kind == "sql"
    remedy = error.message.partition("needs: ")[2]
    assert remedy == 'CREATE UNIQUE INDEX "people_key" ON "people" ("id")'
    calls.result(remedy)
    calls.result(table="people", rows=ROWS, mode="upsert", key=["id"])
    assert stored(calls) == ROWS


def test_names_are_quoted(calls: Calls) -> None:
    row = {"id": 1, 'a "b; --': "x"}
    for _ in range(2):
        calls.result(table="Odd; name", rows=[row], mode="upsert", key=["id"])
    assert [[*row.values()] for row in calls.rows('SELECT * FROM "Odd; name"')] == [[1, "x"]]


@pytest.mark.parametrize("calls", ["postgres", "duckdb"], indirect=True)
def test_calls_at_once_create_one_table_and_keep_all_rows(calls: Calls) -> None:
    async def loads() -> list[Outcome]:
        parts = [[{"id": part * 100 + n, "part": part} for n in range(50)] for part in range(6)]
        return await asyncio.gather(
            *(calls.ask(table="people", rows=rows, mode="upsert", key=["id"]) for rows in parts)
        )

    assert [outcome.error for outcome in calls.whole(loads())] == [None] * 6
    assert calls.value("SELECT count(*) AS n FROM people") == 300


# -- exactly once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", ["postgres", "duckdb"], indirect=True)
def test_rows_of_a_repeated_call_are_appended_once(calls: Calls) -> None:
    name = "pg" if calls.kind is postgres else "duckdb"
    outcomes = [calls.outcome(table="people", rows=ROWS, call=ONCE) for _ in range(3)]
    assert [outcome.extra[name]["repeated"] for outcome in outcomes] == [False, True, True]
    assert outcomes[0].result == outcomes[2].result == {"rows": [], "row_count": 2, "columns": []}
    assert stored(calls) == ROWS
    calls.result(table="people", rows=ROWS, call={**ONCE, "action": "another"})
    assert len(stored(calls)) == 4


def test_statements_on_a_duckdb_file_take_effect_once(file: Calls) -> None:
    file.result("CREATE TABLE t (n INT)")
    query = "INSERT INTO t VALUES (1); SELECT count(*) AS n FROM t"
    first, second = (file.outcome(query, call=ONCE) for _ in range(2))
    assert first.result == second.result
    assert first.result["rows"] == [{"n": 1}]
    assert second.extra == {"duckdb": {"code": None, "repeated": True}}


def test_a_call_on_a_duckdb_file_that_failed_is_made_again(file: Calls) -> None:
    file.result("CREATE TABLE t (n INT UNIQUE); INSERT INTO t VALUES (1)")
    assert file.error("INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)", call=ONCE).kind == "sql"
    file.result("DELETE FROM t")
    assert file.result("INSERT INTO t VALUES (2), (1)", call=ONCE)["row_count"] == 2


def test_the_same_call_on_a_duckdb_file_at_once_is_made_once(file: Calls) -> None:
    async def calls() -> list[Outcome]:
        return await asyncio.gather(*(file.ask(table="t", rows=[{"n": 1}], call=ONCE) for _ in range(5)))

    outcomes = file.whole(calls())
    assert [outcome.error for outcome in outcomes] == [None] * 5
    assert sorted(outcome.extra["duckdb"]["repeated"] for outcome in outcomes) == [False, True, True, True, True]
    assert file.rows("SELECT n FROM t") == [{"n": 1}]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"database": None}, "needs a `database` file"),
        ({"read_only": True}, "needs a `database` file that can be written"),
        ({"command": "BEGIN; SELECT 1; COMMIT"}, "leave BEGIN and COMMIT out"),
    ],
)
def test_exactly_once_on_duckdb_needs_a_file_and_its_own_transaction(
    file: Calls, inputs: dict[str, Any], words: str
) -> None:
    file.result("CREATE TABLE t (n INT)")
    error = file.error(**{"command": "INSERT INTO t VALUES (1)", "call": ONCE, **inputs})
    assert (error.kind, words in error.message) == ("input", True)


def test_a_table_in_memory_is_not_created_since_it_would_be_lost() -> None:
    error = Calls(duckdb).error(table="t", rows=[{"n": 1}])
    assert (error.kind, "set `database`" in error.message) == ("input", True)


# -- in playbooks -----------------------------------------------------------------------------------------------------

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: load, path: shop/load}\n"


def test_a_large_result_is_loaded_by_each_item_of_a_parallel_loop(tmp_path: Path, file: Calls) -> None:
    ended = run_playbook(
        HEAD
        + f"""\
workflow:
  - step: make
    tool: {{kind: python, code: "result = [dict(id=n, name='x' * 20) for n in range(5000)]"}}
    next: {{arcs: [{{step: load}}]}}
  - step: load
    loop: {{in: [0, 1, 2], iterator: part, spec: {{mode: parallel}}}}
    tool:
      kind: duckdb
      database: {tmp_path / "shop.db"}
      table: people
      rows: "{{{{ steps.make.result }}}}"
      mode: upsert
      key: [id]
"""
    )
    assert (ended.status, ended.error) == ("succeeded", None)
    assert file.value("SELECT count(*) AS n FROM people") == 5000


def test_the_sink_of_a_classic_step_updates_its_row(tmp_path: Path, file: Calls) -> None:
    playbook = (
        HEAD
        + f"""\
workload: {{name: Ada}}
workflow:
  - step: start
    tool: {{kind: noop, result: {{name: "{{{{ workload.name }}}}"}}}}
    case:
      - when: "{{{{ event.name == 'step.exit' }}}}"
        then:
          sink:
            tool: {{kind: duckdb, database: {tmp_path / "shop.db"}, mode: upsert, key: [id]}}
            table: people
            args: {{id: 3, name: "{{{{ result.name }}}}"}}
"""
    )
    for name in ("Ada", "Grace"):
        assert run_playbook(playbook, {"name": name}).status == "succeeded"
    assert stored(file) == [{"id": 3, "name": "Grace"}]


@pytest.mark.parametrize("value", [1.5, "1.5", "15e-1"])
@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
def test_a_fraction_is_not_rounded_into_a_column_of_whole_numbers(calls: Calls, value: Any, mode: str) -> None:
    calls.result("CREATE TABLE people (id INTEGER PRIMARY KEY, score NUMERIC(9, 0))")
    more = {"key": ["id"]} if mode == "upsert" else {}
    rows = [{"id": 1, "score": 2.0}, {"id": 2, "score": value}]
    error = calls.error(table="people", rows=rows, mode=mode, **more)
    assert error.kind == "input"
    assert error.message.startswith(f"row 2: {value} does not fit 'score', which is ")
    assert error.message.endswith(": it would be rounded; round it before, or change the type of the column")
    assert stored(calls) == []


@pytest.mark.parametrize("value", ["2026-11-17T10:20:30Z", "2026-11-17 00:00:00.5", "2026/11/17 23:00"])
def test_a_time_is_not_cut_off_in_a_column_of_dates(calls: Calls, value: str) -> None:
    calls.result("CREATE TABLE people (id INTEGER, born DATE)")
    error = calls.error(table="people", rows=[{"id": 1, "born": "2026-11-17"}, {"id": 2, "born": value}])
    assert error.kind == "input"
    assert error.message.startswith(f"row 2: {value} does not fit 'born', which is ")
    assert error.message.endswith(": its time would be lost; cut it off before, or change the type of the column")
    assert stored(calls) == []


def test_dates_with_a_time_of_midnight_fit_a_column_of_dates(calls: Calls) -> None:
    calls.result("CREATE TABLE people (id INTEGER, born DATE, seen TIMESTAMP)")
    times = ["2026-11-17", "2026-11-17T00:00:00", "2026-11-17 00:00:00.000", None]
    rows = [{"id": id, "born": born, "seen": "2026-11-17T10:20:30"} for id, born in enumerate(times)]
    calls.result(table="people", rows=rows)
    assert [str(row["born"])[:10] for row in stored(calls)] == ["2026-11-17", "2026-11-17", "2026-11-17", "None"]


def test_a_fraction_in_an_integer_column_names_column_row_and_value(calls: Calls) -> None:
    calls.result("CREATE TABLE people (id INTEGER, score BIGINT)")
    error = calls.error(table="people", rows=[{"id": 1, "score": 1}, {"id": 2, "score": 2.5}])
    row = "line 2" if calls.kind is postgres else "row 2"
    assert [part in error.message for part in (row, "score", "2.5")] == [True, True, True]
    assert stored(calls) == []


def test_whole_numbers_of_any_form_fit_an_integer_column(calls: Calls) -> None:
    calls.result("CREATE TABLE people (id INTEGER, score NUMERIC(20, 0))")
    calls.result(table="people", rows=[{"id": 1, "score": 3.0}, {"id": 2, "score": "4"}, {"id": 3, "score": None}])
    assert [row["score"] and float(row["score"]) for row in stored(calls)] == [3.0, 4.0, None]


def test_rows_that_are_null_are_not_replaced_by_the_args(calls: Calls) -> None:
    calls.result(table="people", rows=ROWS)
    error = calls.error(table="people", rows=None, call={"own_args": {"id": 3, "name": "x", "score": None}})
    assert (error.kind, error.message) == ("input", "`rows` is null: give it a list, which may be empty")
    assert len(stored(calls)) == 2
