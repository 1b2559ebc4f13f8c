"""kind: duckdb: statements, values both ways, bulk rows, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.servers.hostile import HOSTILE, NAMES
from tests.servers.patience import until, until_async
from tests.servers.rows_calls import Calls, our_threads

from noetl.model.outcome import Outcome
from noetl.tools import duckdb as kind
from noetl.tools.rows import duckdb_database


@pytest.fixture
def memory() -> Calls:
    return Calls(kind)


@pytest.fixture
def file(tmp_path: Path) -> Calls:
    return Calls(kind, database=str(tmp_path / "shop.db"))


def test_a_database_called_memory_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Calls(kind, database=":memory:").value("SELECT 1 AS v") == 1
    assert list(tmp_path.iterdir()) == []


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_query_gives_rows_their_number_and_the_columns(memory: Calls) -> None:
    result = memory.outcome("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL ORDER BY a")
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert result.result == {"rows": rows, "row_count": 2, "columns": ["a", "b"]}
    assert result.extra == {"duckdb": {"code": None}}


def test_several_statements_give_the_last_result_and_what_each_did(memory: Calls) -> None:
    result = memory.result("CREATE TABLE t (i INT); INSERT INTO t VALUES (1), (2); SELECT i FROM t ORDER BY i")
    assert result["rows"] == [{"i": 1}, {"i": 2}]
    assert [statement["row_count"] for statement in result["statements"]] == [0, 2, 2]


def test_a_change_gives_how_many_rows_it_changed(file: Calls) -> None:
    file.result("CREATE TABLE t AS SELECT range AS i FROM range(5)")
    assert file.result("UPDATE t SET i = i + 1 WHERE i > 2") == {"rows": [], "row_count": 2, "columns": []}
    assert file.result("DELETE FROM t WHERE i = 0 RETURNING i")["rows"] == [{"i": 0}]


def test_columns_of_one_name_are_told_apart(memory: Calls) -> None:
    assert memory.result("SELECT 1 AS id, 2 AS id, 3 AS id")["columns"] == ["id", "id_2", "id_3"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12.50::DECIMAL(10, 2)", "12.50"),
        ("1::HUGEINT", 1),
        ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
        ("(SELECT sum(range) FROM range(4))", 6),
        ("1.5::DOUBLE", 1.5),
        ("'nan'::DOUBLE", "NaN"),
        ("'-inf'::DOUBLE", "-Infinity"),
        ("DATE '2026-01-31'", "2026-01-31"),
        ("TIME '12:30:00'", "12:30:00"),
        ("TIMESTAMP '2026-01-31 12:30:00.5'", "2026-01-31T12:30:00.500000"),
        ("'2026-01-31 12:30:00+02'::TIMESTAMPTZ", "2026-01-31T10:30:00+00:00"),
        ("'2026-01-31 00:00:00.123456789'::TIMESTAMP_NS", "2026-01-31 00:00:00.123456789"),
        ("INTERVAL '1 month 2 days'", "1 month 2 days"),
        ("'6b5de3b0-3b0e-4e0e-8e0e-3b0e4e0e8e0e'::UUID", "6b5de3b0-3b0e-4e0e-8e0e-3b0e4e0e8e0e"),
        (r"'\xAA\x00'::BLOB", b"\xaa\x00"),
        ("""'{"a": [1, null]}'::JSON""", {"a": [1, None]}),
        ("""[{'j': '{"a": 1}'::JSON, 'n': 1.5::DECIMAL(3, 1)}]""", [{"j": {"a": 1}, "n": "1.5"}]),
        ("""'[123456789012345678901234, 1e400, 0.5]'::JSON""", ["123456789012345678901234", "1e400", 0.5]),
        ("map {'a': [1]}", {"a": [1]}),
        ("map {1: 'x'}", {"1": "x"}),
        ("[1, NULL]", [1, None]),
        ("{'a': {'b': DATE '2026-01-01'}}", {"a": {"b": "2026-01-01"}}),
        ("'a'::ENUM ('a', 'b')", "a"),
        ("true", True),
        ("NULL", None),
    ],
)
def test_values_become_what_json_has(memory: Calls, expression: str, value: Any) -> None:
    assert memory.value(f"SELECT {expression} AS v") == value


def test_a_result_that_is_too_large_is_refused(memory: Calls) -> None:
    error = memory.error("SELECT repeat('x', 1000) AS x FROM range(100000)")
    assert (error.kind, error.details) == ("too_large", {"limit": 50 * 2**20})
    assert "LIMIT" in error.message


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["x", "", "007", 7, -7, 2**40, 1.5, 1e300, True, False, None, "é\U0001f642", [1, 2], ["a", None], [], {"a": 1}],
)
def test_a_value_comes_back_as_it_was_given(memory: Calls, value: Any) -> None:
    assert memory.value("SELECT {{ x }} AS v", {"x": value}) == value
    assert memory.value("CREATE VIEW w AS SELECT {{ x }} AS v; SELECT v FROM w", {"x": value}) == value


def test_text_is_compared_as_the_type_of_the_column(memory: Calls) -> None:
    table = "CREATE TABLE t AS SELECT 7 AS id, DATE '2026-01-01' AS day, 1.50::DECIMAL(5, 2) AS price; "
    where = "SELECT id FROM t WHERE id = {{ id }} AND day >= {{ day }} AND price = {{ price }}"
    assert memory.value(table + where, {"id": "7", "day": "2025-12-31", "price": "1.5"}) == 7


def test_a_list_expands_in_in_and_is_an_array_elsewhere(memory: Calls) -> None:
    scope = {"few": [1, 3], "empty": []}
    ids = "SELECT list(range ORDER BY range) AS v FROM range(5) WHERE range"
    assert memory.value(f"{ids} IN ({{{{ few }}}})", scope) == [1, 3]
    assert memory.value(f"{ids} NOT IN {{{{ few }}}}", scope) == [0, 2, 4]
    assert memory.value(f"{ids} IN {{{{ empty }}}}", scope) is None
    assert memory.value(f"{ids} NOT IN ({{{{ empty }}}})", scope) == [0, 1, 2, 3, 4]
    assert memory.value("SELECT len({{ few }}) AS v", scope) == 2
    assert memory.value("SELECT list_contains({{ few }}, 3) AS v", scope) is True


def test_a_map_is_json_and_fits_a_struct(memory: Calls) -> None:
    table = "CREATE TABLE t (j JSON, s STRUCT(a INT, b VARCHAR)); INSERT INTO t VALUES ({{ m }}, {{ m }}); "
    result = memory.rows(table + "SELECT j->>'a' AS a, s.b AS b FROM t", {"m": {"a": 1, "b": "x"}})
    assert result == [{"a": "1", "b": "x"}]


def test_a_list_of_several_kinds_of_values_is_json(memory: Calls) -> None:
    assert memory.value("SELECT {{ x }} AS v", {"x": [1, "a", {"b": None}]}) == [1, "a", {"b": None}]


def test_literals_stand_where_parameters_cannot(memory: Calls, tmp_path: Path) -> None:
    scope = {"day": "2026-01-01", "n": 3, "path": str(tmp_path / "out file's.csv"), "default": "it's"}
    assert memory.value("SELECT DATE '{{ day }}' + INTERVAL '{{ n }} days' AS v", scope) == "2026-01-04T00:00:00"
    made = "CREATE TABLE t (i INT, x VARCHAR DEFAULT {{ default }}); INSERT INTO t (i) VALUES (1); "
    memory.result(made + "COPY t TO '{{ path }}' (HEADER)", scope, paths=[str(tmp_path)])
    assert memory.rows("SELECT * FROM '{{ path }}'", scope, paths=[str(tmp_path)]) == [{"i": 1, "x": "it's"}]


def test_params_are_for_the_placeholders_of_the_driver(memory: Calls) -> None:
    assert memory.value("SELECT ? + {{ x }} AS v", {"x": 1}, params=[5]) == 6
    assert memory.value("SELECT $a || '%' AS v", params={"a": "x"}) == "x%"
    assert memory.value("SELECT 1 AS v", params=[]) == 1


@pytest.mark.parametrize("params", [[5], {"a": 1}])
def test_params_without_a_placeholder_are_an_error(memory: Calls, params: Any) -> None:
    error = memory.error("SELECT 1 AS v; SELECT {{ x }} AS v", {"x": 1}, params=params)
    assert (error.kind, error.message) == (
        "input",
        "there are `params`, but the SQL has no placeholder: write `?` or `$name`",
    )


def test_a_number_beyond_all_types_is_an_input_error(memory: Calls) -> None:
    assert memory.error("SELECT {{ x }}", {"x": 2**200}).kind == "input"


# -- injection --------------------------------------------------------------------------------------------------------

POSITIONS = {
    "bare": "SELECT {{ x }} AS v",
    "quoted": "SELECT '{{ x }}' AS v",
    "within": "SELECT substr('<{{ x }}>', 2, length('<{{ x }}>') - 2) AS v",
    "in": "SELECT t.x AS v FROM (SELECT {{ x }} AS x) AS t WHERE t.x IN ({{ [x, 'other'] }})",
    "ddl": "CREATE TEMP TABLE m (v VARCHAR DEFAULT {{ x }}); INSERT INTO m VALUES (DEFAULT); SELECT v FROM m",
    "view": "CREATE TEMP VIEW m AS SELECT '{{ x }}' AS v; SELECT v FROM m",
    "several": "CREATE TEMP TABLE m (v VARCHAR); INSERT INTO m VALUES ({{ x }}); SELECT v FROM m",
    "json": "SELECT ({{ {'k': x} }})->>'k' AS v",
    "array": "SELECT ({{ [x] }})[1] AS v",
    "comment": "SELECT {{ x }} /* {{ x }} */ AS v -- {{ x }}",
}


@pytest.fixture
def canary(file: Calls) -> Iterator[Calls]:
    """A file with a table that is there afterwards, whatever a test does."""
    file.result("CREATE TABLE canary AS SELECT 1 AS id")
    yield file
    assert file.rows("SELECT id FROM canary") == [{"id": 1}]


def at_once(calls: Calls, sql: str, scopes: list[dict[str, Any]]) -> list[Any]:
    """The values of one query for many scopes."""

    async def all_at_once() -> list[Outcome]:
        return await asyncio.gather(*(calls.ask(sql, scope) for scope in scopes))

    result = []
    for outcome in calls.whole(all_at_once()):
        assert outcome.error is None, outcome.error
        result.append(outcome.result["rows"][0]["v"])
    return result


@pytest.mark.parametrize("position", POSITIONS)
def test_data_stays_data(position: str, canary: Calls) -> None:
    assert at_once(canary, POSITIONS[position], [{"x": text} for text in HOSTILE]) == HOSTILE


def test_like_patterns_are_values(canary: Calls) -> None:
    patterns = ["".join(f"!{one}" if one in "!%_" else one for one in text) for text in HOSTILE]
    scopes = [{"x": text, "pattern": pattern} for text, pattern in zip(HOSTILE, patterns, strict=True)]
    assert all(at_once(canary, "SELECT {{ x }} LIKE '%{{ pattern }}%' ESCAPE '!' AS v", scopes))


def test_names_stay_names(canary: Calls) -> None:
    made = "CREATE TEMP TABLE {{ [t] | ident }} (i INT); INSERT INTO {{ [t] | ident }} VALUES (1); "
    look = "SELECT table_name AS v FROM duckdb_tables() WHERE temporary"
    assert at_once(canary, made + look, [{"t": text} for text in NAMES]) == NAMES
    assert at_once(canary, 'SELECT "{{ t }}" AS v FROM (SELECT 1 AS "{{ t }}")', [{"t": text} for text in NAMES])


# -- bulk -------------------------------------------------------------------------------------------------------------

EVERY_TYPE = (
    "CREATE TABLE t (id BIGINT, day DATE, n DECIMAL(20, 4), x VARCHAR, ts TIMESTAMPTZ, ok BOOLEAN, j JSON, l INT[], "
    "s STRUCT(a INT), b BLOB, d DOUBLE, u UUID)"
)


def test_rows_are_inserted_with_the_types_of_the_table(file: Calls) -> None:
    file.result(EVERY_TYPE)
    row = {
        "id": 2**62,
        "day": "2026-01-01",
        "n": "1234567890123456.7890",
        "x": 'it\'s "x"\n',
        "ts": "2026-01-01T10:00:00+02:00",
        "ok": True,
        "j": {"a": [1, None]},
        "l": [1, 2],
        "s": {"a": 1},
        "b": b"\x00\xff",
        "d": 1e300,
        "u": "6b5de3b0-3b0e-4e0e-8e0e-3b0e4e0e8e0e",
    }
    empty = dict.fromkeys(row)
    assert file.result(table="t", rows=[row, empty, {"id": 5, "b": "text"}])["row_count"] == 3
    result = file.rows("SELECT * FROM t")
    assert result[0] == {**row, "ts": "2026-01-01T08:00:00+00:00"}
    assert result[1] == empty
    assert result[2] == {**empty, "id": 5, "b": b"text"}


def test_many_rows_are_inserted_in_one_transaction(file: Calls) -> None:
    file.result("CREATE TABLE t (i INT PRIMARY KEY, x VARCHAR)")
    rows = [{"i": i, "x": f"row {i}"} for i in range(25_000)]
    assert file.result(table="main.t", rows=rows)["row_count"] == 25_000
    assert file.error(table="t", rows=[{"i": 30_000}, {"i": 7}]).kind == "sql"
    assert file.value("SELECT count(*) AS v FROM t") == 25_000


def test_rows_as_lists_and_the_args_as_a_row(file: Calls) -> None:
    file.result("CREATE TABLE t (a INT, b VARCHAR)")
    file.result(table="t", columns=["b", "a"], rows=[["x", 1]])
    file.result(table="t", call={"own_args": {"a": 2, "b": "y"}})
    assert file.result(table="t", rows=[])["row_count"] == 0
    assert file.rows("SELECT a, b FROM t ORDER BY a") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"rows": [[1]]}, "need `columns`"),
        ({"rows": [[1]], "columns": ["a", "b"]}, "row 1 has 1 values"),
        ({"rows": [{"a": 1}, {"c": 1}]}, "row 2 has 'c'"),
        ({"rows": [{"z": 1}]}, "no column 'z'"),
        ({"rows": [{"a": 1, "b": 2}], "columns": ["a", "a"]}, "twice"),
        ({}, "no rows to insert"),
    ],
)
def test_rows_that_do_not_fit_are_an_input_error(file: Calls, inputs: dict[str, Any], words: str) -> None:
    file.result("CREATE TABLE t (a INT, b VARCHAR)")
    error = file.error(table="t", **inputs)
    assert error.kind == "input"
    assert words in error.message


# -- transactions and files -------------------------------------------------------------------------------------------


def test_several_statements_are_one_transaction(file: Calls) -> None:
    file.result("CREATE TABLE t (i INT)")
    assert file.error("INSERT INTO t VALUES (1); INSERT INTO t VALUES ('x')").kind == "sql"
    assert file.value("SELECT count(*) AS v FROM t") == 0


def test_begin_and_commit_work_as_written(file: Calls) -> None:
    file.result("CREATE TABLE t (i INT)")
    file.result("BEGIN; INSERT INTO t VALUES (1); COMMIT; BEGIN; INSERT INTO t VALUES (2); ROLLBACK")
    assert file.rows("SELECT i FROM t") == [{"i": 1}]


def test_a_database_in_memory_ends_with_its_call(memory: Calls) -> None:
    memory.result("CREATE TABLE t (i INT)")
    assert memory.error("SELECT * FROM t").kind == "sql"


def test_calls_at_once_share_a_file(file: Calls) -> None:
    file.result("CREATE TABLE t (i INT)")

    async def all_at_once() -> list[Any]:
        calls = [file.ask("INSERT INTO t VALUES ({{ i }})", {"i": i}) for i in range(20)]
        others = [file.ask("SELECT count(*) FROM t", threads=1) for _ in range(5)]
        return await asyncio.gather(*calls, *others)

    assert [outcome.error for outcome in file.whole(all_at_once())] == [None] * 25
    assert file.value("SELECT count(*) AS v FROM t") == 20


def test_a_file_that_another_process_holds_is_a_connect_error(file: Calls, tmp_path: Path) -> None:
    import subprocess
    import sys

    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path / "shop.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        error = file.error("SELECT 1")
        other.communicate()
    assert (error.kind, error.retryable) == ("connect", True)
    assert file.value("SELECT 1 AS v") == 1


def test_a_file_is_free_for_others_after_a_call(file: Calls, tmp_path: Path) -> None:
    file.result("CREATE TABLE t (i INT)")
    with duckdb.connect(str(tmp_path / "shop.db")) as own:
        own.execute("INSERT INTO t VALUES (1)")
    assert file.value("SELECT i AS v FROM t", read_only=True) == 1


def test_read_only_means_that(file: Calls) -> None:
    file.result("CREATE TABLE t (i INT)")
    assert file.error("INSERT INTO t VALUES (1)", read_only=True).kind == "sql"


def test_a_database_that_is_missing_or_none(tmp_path: Path) -> None:
    assert Calls(kind, database=str(tmp_path / "none.db"), read_only=True).error("SELECT 1").kind == "not_found"
    assert Calls(kind, database=str(tmp_path / "none" / "x.db")).error("SELECT 1").kind == "not_found"
    (tmp_path / "text.db").write_text("no database" * 1000)
    assert Calls(kind, database=str(tmp_path / "text.db")).error("SELECT 1").kind == "input"


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code", "line"),
    [
        ("SELEC 1", "Parser", 1),
        ("SELECT 1;\n\nSELECT nope\nFROM t", "Catalog", 4),
        ("SELECT\n  'x'::INT", "Conversion", 2),
        ("SELECT {{ x }},\n nope", "Binder", 2),
        ("CREATE VIEW v AS SELECT '{{ x }}' AS a,\n nope AS b", "Binder", 2),
        ("CREATE TABLE t (i INT CHECK (i > 5)); INSERT INTO t VALUES (1)", "Constraint", None),
    ],
)
def test_an_error_names_its_kind_and_line(memory: Calls, sql: str, code: str, line: int | None) -> None:
    result = memory.outcome(sql, {"x": "two\nlines"})
    assert result.error is not None
    assert (result.error.kind, result.extra["duckdb"]["code"]) == ("sql", code)
    assert result.error.details.get("line") == line


def test_a_table_that_was_lost_with_the_memory_of_its_task_is_explained(memory: Calls, file: Calls) -> None:
    memory.result("CREATE TABLE t (i INT)")
    error = memory.error("SELECT * FROM t")
    assert (error.kind, error.details["line"]) == ("sql", 1)
    assert error.message.endswith("memory ends with its task: set `database` to a file that the tasks share")
    assert "memory" not in file.error("SELECT * FROM t").message


def test_no_statement_is_an_input_error(memory: Calls) -> None:
    assert memory.error("-- nothing\n;").kind == "input"


def test_a_query_that_needs_too_much_memory_is_stopped(memory: Calls) -> None:
    error = memory.error("SELECT list(range) FROM range(100000000)", memory="50MB")
    assert error.kind == "too_large"


# -- stopping ---------------------------------------------------------------------------------------------------------

ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"


def test_a_cancelled_query_ends_with_its_thread(file: Calls) -> None:
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await file.ask(ENDLESS)

    file.whole(cancelled())
    until(lambda: our_threads() == [])
    assert file.value("SELECT 1 AS v") == 1


def test_a_call_that_waits_for_its_turn_can_be_cancelled(file: Calls) -> None:
    async def story() -> None:
        first = asyncio.create_task(file.ask(ENDLESS))
        await until_async(lambda: any(one.users for one in duckdb_database._FILES.values()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await file.ask("SELECT 1", threads=1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await file.ask("SELECT 1", threads=1)).ok

    file.whole(story())
