"""kind: transfer between PostgreSQL, Snowflake, DuckDB and files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.servers.hostile import HOSTILE
from tests.servers.patience import until, until_async
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.rows_calls import Calls, our_threads
from tests.servers.snowflake import Snowflake, sign_in_fixture, snowflake_fixture  # noqa: F401

from noetl.tools import snowflake as snowflake_kind
from noetl.tools import transfer as kind

EVERY_TYPE = """CREATE TABLE every (
    id integer, small smallint, big bigint, price numeric(12, 3), bare numeric, real4 real, real8 double precision,
    ok boolean, words text, short varchar(40), fixed char(3), day date, clock time, moment timestamp,
    zoned timestamptz, span interval, uid uuid, raw bytea, doc jsonb, old json, ints int[], texts text[], stamps date[],
    address inet, around int4range
)"""
VALUES = [
    """(1, -32768, 9223372036854775807, 123456789.125, 12345678901234567890.123456789, 1.5, 0.1,
        true, 'it''s "quoted", \\N and \\. too', 'short', 'ab', '2026-02-28', '23:59:59.999999',
        '2026-01-01 10:00:00.123456', '2026-01-01 10:00:00+02', '1 year 2 mons 3 days 04:05:06',
        '6b5de3b0-3b0e-4e0e-8e0e-3b0e4e0e8e0e', '\\x00ff27', '{"a": [1, null, "x"]}', '{"z":1, "a":2}',
        '{1,NULL,-3}', '{"a","b,c","d\\"e",NULL,"","\\\\"}', '{2026-01-01}', '10.0.0.1/8', '[1,5)')""",
    """(2, NULL, NULL, NULL, NULL, 'NaN', '-Infinity', NULL, '', '', '', 'infinity', NULL, 'infinity', '-infinity',
        NULL, NULL, '', 'null', NULL, '{}', '{}', NULL, NULL, 'empty')""",
    """(3, 0, 0, 0, 0.1, 0, 0, false, E'two\\nlines\\r\\nand\\ttab é \U0001f642', NULL, NULL, '1970-01-01',
        '00:00', '1970-01-01', '1970-01-01 00:00:00+00', '-1 days', NULL, NULL,
        '"text"', NULL, NULL, '{NULL}', NULL, NULL, NULL)""",
    "(4" + ", NULL" * 24 + ")",
]


@pytest.fixture
def calls() -> Calls:
    return Calls(kind)


@pytest.fixture
def every(schema: Schema) -> Schema:
    """A schema with a table of every type that matters."""
    schema.rows(EVERY_TYPE)
    schema.rows(f"INSERT INTO every VALUES {', '.join(VALUES)}")
    return schema


def pg(schema: Schema, **more: Any) -> dict[str, Any]:
    return {"kind": "postgres", "auth": schema.fields(), **more}


def duck(path: str | Path, **more: Any) -> dict[str, Any]:
    return {"kind": "duckdb", "database": str(path), **more}


def read(path: str | Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path)) as database:
        return database.execute(query).fetchall()


def texts(schema: Schema, table: str, *, without: str = "") -> list[tuple[Any, ...]]:
    """The rows of a table as text, so that nothing of them is lost on the way to the test."""
    columns = schema.rows("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0", (table,))
    shown = ", ".join(f'"{name}"::text' for (name,) in columns if name not in without.split())
    return schema.rows(f"SELECT {shown} FROM {table} ORDER BY id")


# -- postgres and duckdb ----------------------------------------------------------------------------------------------


def test_types_survive_the_way_to_duckdb_and_back(calls: Calls, every: Schema, tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    assert calls.result(source=pg(every, table="every"), target=duck(file, table="every"))["rows"] == 4
    types = dict(read(file, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'every'"))
    assert types == {
        "id": "INTEGER", "small": "SMALLINT", "big": "BIGINT", "price": "DECIMAL(12,3)", "bare": "DECIMAL(38,9)",
        "real4": "FLOAT", "real8": "DOUBLE", "ok": "BOOLEAN", "words": "VARCHAR", "short": "VARCHAR",
        "fixed": "VARCHAR", "day": "DATE", "clock": "TIME", "moment": "TIMESTAMP",
        "zoned": "TIMESTAMP WITH TIME ZONE", "span": "INTERVAL", "uid": "UUID", "raw": "BLOB", "doc": "JSON",
        "old": "JSON", "ints": "INTEGER[]", "texts": "VARCHAR[]", "stamps": "DATE[]", "address": "VARCHAR",
        "around": "VARCHAR",
    }  # fmt: skip
    assert calls.result(source=duck(file, table="every"), target=pg(every, table="back"))["rows"] == 4
    other = "bare fixed old doc"  # the number of zeros, padding and spelling may differ; they are compared below
    assert texts(every, "back", without=other) == texts(every, "every", without=other)
    same = "SELECT count(*) FROM every JOIN back USING (id) WHERE {}"
    for column in ("bare", "doc"):
        assert every.rows(same.format(f"every.{column} IS NOT DISTINCT FROM back.{column}")) == [(4,)]
    assert every.rows(same.format("trim(every.fixed) IS NOT DISTINCT FROM trim(back.fixed)")) == [(4,)]
    assert every.rows(same.format("every.old::jsonb IS NOT DISTINCT FROM back.old")) == [(4,)]
    kinds = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'back'::regclass AND attname = %s"
    )
    assert every.rows(kinds, ("price",)) == [("numeric(12,3)",)]
    assert every.rows(kinds, ("ints",)) == [("integer[]",)]


def test_into_a_table_that_is_there_nothing_is_lost(calls: Calls, every: Schema, tmp_path: Path) -> None:
    every.rows("CREATE TABLE back (LIKE every)")
    calls.result(source=pg(every, table="every"), target=duck(tmp_path / "t.db", table="every"))
    calls.result(source=duck(tmp_path / "t.db", table="every"), target=pg(every, table="back"))
    other = "bare old"
    assert texts(every, "back", without=other) == texts(every, "every", without=other)


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_through_files_into_a_table_that_is_there(form: str, calls: Calls, every: Schema, tmp_path: Path) -> None:
    columns = "id, small, big, price, real8, ok, words, day, clock, moment, zoned, uid, doc"
    every.rows(f"CREATE TABLE back AS SELECT {columns} FROM every WITH NO DATA")
    path = {"kind": "file", "path": str(tmp_path / f"t.{form}")}
    query = f"SELECT {columns} FROM every WHERE id <> 2"
    calls.result(source=pg(every, query=query), target=path)
    calls.result(source=path, target=pg(every, table="back"))
    every.rows(f"CREATE TABLE front AS {query}")
    assert texts(every, "back") == texts(every, "front")


def test_values_in_a_query_stay_values(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    scope = {"texts": [text for text in HOSTILE if "\0" not in text]}
    columns = ", ".join(f"{{{{ texts[{number}] }}}}::text AS c{number}" for number in range(len(scope["texts"])))
    query = f"SELECT {columns} WHERE 'x' NOT IN ({{{{ texts }}}}) -- {{{{ texts[9] }}}}"
    calls.result(source=pg(schema, query=query), target={"kind": "file", "path": str(path)}, scope=scope)
    assert list(json.loads(path.read_text()).values()) == scope["texts"]
    source = pg(schema, query="SELECT %s::text AS a", params=["it's %"])
    calls.result(source=source, target={"kind": "file", "path": str(path)}, mode="replace")
    assert json.loads(path.read_text()) == {"a": "it's %"}


def test_text_of_every_kind_survives(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    words = [text for text in HOSTILE if "\0" not in text] + ["\\N", "\\.", "", " ", "NULL", '"\\N"', "a,b", "\n\\.\n"]
    schema.rows("CREATE TABLE t (id int, words text)")
    schema.rows("INSERT INTO t SELECT n, w FROM unnest(%s::text[]) WITH ORDINALITY AS u(w, n)", (words,))
    for table, columns in (("wide", "id, words"), ("narrow", "words")):
        target = duck(tmp_path / "t.db", table=table)
        calls.result(source=pg(schema, query=f"SELECT {columns} FROM t ORDER BY id"), target=target)
        assert sorted(row[0] for row in read(tmp_path / "t.db", f"SELECT words FROM {table}")) == sorted(words)
        calls.result(source=target, target=pg(schema, table=f"{table}_back"))
        assert sorted(row[0] for row in schema.rows(f"SELECT words FROM {table}_back")) == sorted(words)


def test_a_long_text_passes(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    schema.rows("CREATE TABLE t AS SELECT 1 AS id, repeat('long é ', 1000000) AS words")
    calls.result(source=pg(schema, table="t"), target=duck(tmp_path / "t.db", table="t"))
    assert read(tmp_path / "t.db", "SELECT length(words) FROM t") == [(7_000_000,)]
    calls.result(source=duck(tmp_path / "t.db", table="t"), target=pg(schema, table="back"))
    assert schema.rows("SELECT length(words) FROM back") == [(7_000_000,)]


def test_many_rows_and_their_number(
    calls: Calls, schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.tools.rows.endpoints.LOG_INTERVAL_SECONDS", 0.0)
    schema.rows("CREATE TABLE t AS SELECT i AS id, 'row ' || i AS words FROM generate_series(1, 100000) AS i")
    result = calls.result(source=pg(schema, table="t"), target=duck(tmp_path / "t.db", table="t"))
    assert (result["rows"], result["batches"]) == (100_000, 10)
    assert ("progress", "98,304 rows") in calls.lines
    calls.result(source=duck(tmp_path / "t.db", table="t"), target=pg(schema, table="back"))
    assert schema.rows("SELECT count(*), sum(id) FROM back") == [(100_000, 5_000_050_000)]


def test_upsert_and_replace_in_postgres(calls: Calls, schema: Schema) -> None:
    target = pg(schema, table=f"{schema.name}.t")
    for query in ("SELECT 1 AS k, 'a' AS v", "SELECT * FROM (VALUES (1, 'b'), (2, 'c')) AS t(k, v)"):
        calls.result(source={"kind": "duckdb", "query": query}, target=target, mode="upsert", key=["k"])
    assert schema.rows("SELECT k, v FROM t ORDER BY k") == [(1, "b"), (2, "c")]
    broken = {"kind": "duckdb", "query": "SELECT 1 AS k, 'x' AS v UNION ALL SELECT NULL, 'y'"}
    assert calls.error(source=broken, target=target, mode="replace").kind == "sql"
    assert schema.rows("SELECT k, v FROM t ORDER BY k") == [(1, "b"), (2, "c")]
    calls.result(source={"kind": "duckdb", "query": "SELECT 9 AS k, 'z' AS v"}, target=target, mode="replace")
    assert schema.rows("SELECT k, v FROM t") == [(9, "z")]
    schema.rows("CREATE TABLE loose (k int)")
    error = calls.error(
        source={"kind": "duckdb", "query": "SELECT 1 AS k"}, target=pg(schema, table="loose"), mode="upsert", key=["k"]
    )
    assert error.kind == "sql"


def test_from_one_postgres_to_another(calls: Calls, every: Schema) -> None:
    calls.result(source=pg(every, table="every"), target=pg(every, table="back"))
    assert texts(every, "back") == texts(every, "every")
    kinds = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0"
    assert every.rows(kinds.format("back")) == every.rows(kinds.format("every"))
    query = "SELECT id, words FROM every WHERE id IN ({{ ids }})"
    columns = {"w": "words", "id": "id"}
    for mode in ("append", "upsert"):
        calls.result(
            source=pg(every, query=query),
            target=pg(every, table=f"small_{mode}"),
            columns=columns,
            mode=mode,
            key=["id"] if mode == "upsert" else [],
            scope={"ids": [2, 4]},
        )
        assert every.rows(f"SELECT id, w FROM small_{mode} ORDER BY id") == [(2, ""), (4, None)]


def test_what_fails_on_either_side_leaves_both_as_they_were(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    schema.rows("CREATE TABLE t (id int CHECK (id < 50000))")
    many = {"kind": "duckdb", "query": "SELECT range AS id FROM range(100000)"}
    error = calls.error(source=many, target=pg(schema, table="t"))
    assert (error.kind, "t_id_check" in error.message) == ("sql", True)
    assert schema.rows("SELECT count(*) FROM t") == [(0,)]
    query = "SELECT 1 / (90000 - i) AS x FROM generate_series(1, 100000) AS i"
    for target in (
        duck(tmp_path / "t.db", table="t"),
        pg(schema, table="u"),
        {"kind": "file", "path": str(tmp_path / "t.csv")},
    ):
        error = calls.error(source=pg(schema, query=query), target=target)
        assert (error.kind, "division by zero" in error.message) == ("sql", True)
    assert read(tmp_path / "t.db", "SELECT count(*) FROM duckdb_tables()") == [(0,)]
    assert schema.rows("SELECT to_regclass('u')") == [(None,)]
    assert [name.name for name in tmp_path.iterdir()] == ["t.db"]
    text = {
        "kind": "duckdb",
        "query": "SELECT CASE WHEN range = 90000 THEN error('no') ELSE 1 END AS id FROM range(99999)",
    }
    assert calls.error(source=text, target=pg(schema, table="t")).kind == "sql"
    assert schema.rows("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize(
    ("changes", "kind_of_error", "retryable"),
    [({"password": "wrong-password"}, "auth", False), ({"port": 1}, "connect", True)],
)
def test_a_postgres_that_lets_nobody_in(
    calls: Calls, schema: Schema, tmp_path: Path, changes: dict[str, Any], kind_of_error: str, retryable: bool
) -> None:
    source = {"kind": "postgres", "auth": schema.fields(**changes), "query": "SELECT 1 AS i"}
    error = calls.error(source=source, target=duck(tmp_path / "t.db", table="t"))
    assert (error.kind, error.retryable) == (kind_of_error, retryable)
    assert "wrong-password" not in error.message


def test_wrong_queries_and_columns(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    file = {"kind": "file", "path": str(tmp_path / "t.csv")}
    assert calls.error(source=pg(schema, query="SELECT nope"), target=file).kind == "sql"
    assert calls.error(source=pg(schema, table="nope"), target=file).kind == "sql"
    assert calls.error(source=pg(schema, query="DELETE FROM x; SELECT 1"), target=file).kind == "sql"
    schema.rows("CREATE TABLE t (id int, made int GENERATED ALWAYS AS (id + 1) STORED)")
    error = calls.error(source={"kind": "duckdb", "query": "SELECT 1 AS made"}, target=pg(schema, table="t"))
    assert (error.kind, "no column 'made'" in error.message) == ("input", True)


ENDLESS = "SELECT i FROM generate_series(1, 100000000000) AS i"


def copying(schema: Schema) -> bool:
    """Whether the server copies something. It does for a while after it was told to stop: it has to notice."""
    return bool(schema.rows("SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%%'"))


@pytest.mark.parametrize("place", ["duckdb", "postgres", "file"])
def test_a_cancelled_transfer_stops_both_sides(place: str, calls: Calls, schema: Schema, tmp_path: Path) -> None:
    path = {"kind": "file", "path": str(tmp_path / "t.csv")}
    target = {"duckdb": duck(tmp_path / "t.db", table="t"), "postgres": pg(schema, table="t"), "file": path}[place]

    async def story() -> None:
        for query in (ENDLESS, "SELECT pg_sleep(200)::text AS i"):
            call = asyncio.create_task(calls.ask(source=pg(schema, query=query), target=target))
            await until_async(lambda: copying(schema))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until_async(lambda: not copying(schema))

    calls.whole(story())
    until(lambda: our_threads() == [])
    assert schema.rows("SELECT to_regclass('t')") == [(None,)]
    assert not (tmp_path / "t.csv").exists()


def test_a_cancelled_transfer_into_postgres(calls: Calls, schema: Schema) -> None:
    schema.rows("CREATE TABLE t (i bigint)")
    source = {"kind": "duckdb", "query": "SELECT a.range AS i FROM range(100000000) AS a, range(1000) AS b"}

    async def story() -> None:
        call = asyncio.create_task(calls.ask(source=source, target=pg(schema, table="t")))
        await until_async(lambda: copying(schema))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    calls.whole(story())
    assert schema.rows("SELECT count(*) FROM t") == [(0,)]


def test_a_backend_that_is_ended_is_an_error_to_try_again(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    async def story() -> Any:
        running = asyncio.create_task(
            calls.ask(source=pg(schema, query=ENDLESS), target=duck(tmp_path / "t.db", table="t"))
        )
        ended = []
        while not ended:
            await asyncio.sleep(0.05)
            ended = schema.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%%'")
        return await running

    outcome = calls.whole(story())
    assert (outcome.error.kind, outcome.error.retryable) == ("connect", True)


# -- snowflake --------------------------------------------------------------------------------------------------------


@pytest.fixture
def warehouse(sign_in: dict[str, Any]) -> Calls:
    return Calls(snowflake_kind, auth=sign_in)


def snow(sign_in: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "snowflake", "auth": sign_in, **more}


def test_to_snowflake_and_back(
    calls: Calls, warehouse: Calls, sign_in: dict[str, Any], schema: Schema, tmp_path: Path
) -> None:
    schema.rows(
        """CREATE TABLE t AS SELECT 1 AS id, 'it''s' AS words, 1.50::numeric(10,2) AS price, true AS ok,
        '2026-01-01'::date AS day, '2026-01-01 10:00:00'::timestamp AS moment, '{"a": [1]}'::jsonb AS doc,
        0.5::float8 AS part, '\\x00ff'::bytea AS raw
        UNION ALL SELECT 2, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL"""
    )
    assert calls.result(source=pg(schema, table="t"), target=snow(sign_in, table="t"))["rows"] == 2
    assert warehouse.rows("SELECT id, words, price, doc:a[0] AS a FROM t ORDER BY id") == [
        {"ID": 1, "WORDS": "it's", "PRICE": "1.50", "A": 1},
        {"ID": 2, "WORDS": "", "PRICE": None, "A": None},
    ]
    assert calls.result(source=snow(sign_in, table="t"), target=pg(schema, table="back"))["rows"] == 2
    assert texts(schema, "back") == texts(schema, "t")
    path = tmp_path / "t.jsonl"
    query = "SELECT id, words FROM t WHERE words = {{ x }} OR id IN ({{ ids }})"
    source = snow(sign_in, query=query)
    calls.result(source=source, target={"kind": "file", "path": str(path)}, scope={"x": "it's", "ids": [7]})
    assert json.loads(path.read_text()) == {"id": 1, "words": "it's"}


def test_modes_of_snowflake(calls: Calls, warehouse: Calls, sign_in: dict[str, Any]) -> None:
    target = snow(sign_in, table="public.t")
    for query in ("SELECT 1 AS k, 'a' AS v", "SELECT * FROM (VALUES (1, 'b'), (2, 'c')) AS t(k, v)"):
        calls.result(source={"kind": "duckdb", "query": query}, target=target, mode="upsert", key=["k"])
    assert warehouse.rows("SELECT k, v FROM t ORDER BY k") == [{"K": 1, "V": "b"}, {"K": 2, "V": "c"}]
    broken = {"kind": "duckdb", "query": "SELECT 1 AS k, 'x' AS v UNION ALL SELECT 2, error('no')"}
    assert calls.error(source=broken, target=target, mode="replace").kind == "sql"
    assert warehouse.value("SELECT count(*) FROM t") == 2
    twice = {"kind": "duckdb", "query": "SELECT 1 AS k, 'x' AS v FROM range(2)"}
    assert calls.error(source=twice, target=target, mode="upsert", key=["k"]).kind == "input"
    calls.result(source={"kind": "duckdb", "query": "SELECT 9 AS k, 'z' AS v"}, target=target, mode="replace")
    assert warehouse.rows("SELECT k, v FROM t") == [{"K": 9, "V": "z"}]


def test_a_cancelled_query_of_snowflake(
    calls: Calls, sign_in: dict[str, Any], snowflake: Snowflake, tmp_path: Path
) -> None:
    made = "TABLE(GENERATOR(ROWCOUNT => 10000000))"
    query = f"SELECT count(*) AS n FROM {made} AS a, {made} AS b"

    target = {"kind": "file", "path": str(tmp_path / "t.csv")}

    async def story() -> None:
        call = asyncio.create_task(calls.ask(source=snow(sign_in, query=query), target=target))
        await until_async(lambda: any(query in statement for statement in snowflake.statements))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    calls.whole(story())
    until(lambda: snowflake.running == {})


def test_an_upsert_names_two_rows_of_one_key_and_a_missing_index(calls: Calls, schema: Schema, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "x": 2}\n{"id": 1, "x": 3}\n')
    source = {"kind": "file", "path": str(tmp_path / "rows.jsonl")}
    upsert = {"source": source, "target": pg(schema, table="t"), "mode": "upsert"}
    assert "the source has two rows with the same key: id 1" in calls.error(**upsert, key=["id"]).message
    schema.rows("CREATE TABLE t (id bigint, x bigint)")
    assert calls.error(**upsert, key=["id", "x"]).message.endswith('ON "t" ("id", "x")')
