"""kind: transfer between files and DuckDB, and over HTTP: nothing here needs a server of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pytest_httpserver import HTTPServer
from tests.servers.patience import PATIENCE_SECONDS, until, until_async
from tests.servers.rows_calls import Calls, our_threads
from werkzeug import Request, Response

from noetl.tools import transfer as kind

ROWS = [
    {"id": 1, "name": 'it\'s "A", ok', "total": 12.5, "ok": True, "tags": ["a", None], "moment": "2026-01-01T10:00:00"},
    {"id": 2, "name": "", "total": None, "ok": False, "tags": [], "moment": "2026-01-02T10:00:00"},
    {"id": 3, "name": "two\nlines\r\n\\N é\U0001f642", "total": -1.25, "ok": None, "tags": None, "moment": None},
]
FORMATS = ["csv", "json", "jsonl", "parquet"]


@pytest.fixture
def calls() -> Calls:
    return Calls(kind)


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """A DuckDB file with a table of orders."""
    path = str(tmp_path / "shop.db")
    with duckdb.connect(path) as database:
        database.execute(
            "CREATE TABLE orders "
            "(id INT, name VARCHAR, total DECIMAL(10, 2), ok BOOLEAN, tags VARCHAR[], moment TIMESTAMP)"
        )
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", [list(row.values()) for row in ROWS])
    return path


def read(path: str | Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path)) as database:
        return database.execute(query).fetchall()


def duck(path: str | Path, **more: Any) -> dict[str, Any]:
    return {"kind": "duckdb", "database": str(path), **more}


def file(path: str | Path, **more: Any) -> dict[str, Any]:
    return {"kind": "file", "path": str(path), **more}


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_rows_go_to_a_file_and_come_back(form: str, calls: Calls, shop: str, tmp_path: Path) -> None:
    out = tmp_path / f"orders.{form}"
    result = calls.result(source=duck(shop, table="orders"), target=file(out))
    assert (result["rows"], result["batches"], result["bytes"]) == (3, 1, out.stat().st_size)
    assert (result["source"], result["target"]) == ("duckdb", "file")
    calls.result(source=file(out), target=duck(shop, table="again"))
    assert read(shop, "SELECT id, name, total, ok FROM again ORDER BY id") == read(
        shop, "SELECT id, name, total, ok FROM orders ORDER BY id"
    )
    moment = "SELECT moment::TIMESTAMP FROM {} ORDER BY id"
    assert read(shop, moment.format("again")) == read(shop, moment.format("orders"))
    assert os.listdir(tmp_path) == [name for name in os.listdir(tmp_path) if not name.startswith(".")]


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_that_is_there_decides_the_types(form: str, calls: Calls, shop: str, tmp_path: Path) -> None:
    out = tmp_path / f"orders.{form}"
    calls.result(source=duck(shop, query="SELECT id, name, total, moment FROM orders"), target=file(out))
    with duckdb.connect(shop) as database:
        database.execute("CREATE TABLE typed (id VARCHAR, name VARCHAR, total DOUBLE, moment DATE, more INT DEFAULT 7)")
    calls.result(source=file(out), target=duck(shop, table="main.typed"))
    assert read(shop, "SELECT id, total, moment::VARCHAR, more FROM typed ORDER BY id") == [
        ("1", 12.5, "2026-01-01", 7),
        ("2", None, "2026-01-02", 7),
        ("3", -1.25, None, 7),
    ]


def test_csv_values_are_never_changed_by_a_guess(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        "id,code,price,ok,day,moment,zoned,words,big,late,mixed,nothing,science\n"
        '1,007,1.50,true,2026-01-01,2026-01-01T10:00:00,2026-01-01T10:00:00Z,"",12345678901234567890,1,1,,1e5\n'
        "2,010,12.125,false,2026-02-01,2026-01-01 10:00,2026-01-01 10:00:00+02:00,x,1,2,2.5,,2.5\n"
        + "3,011,1,true,2026-02-01,2026-01-01 10:00,2026-01-01 10:00:00+02:00,y,1,3,x,,1\n" * 30_000
        + "4,012,1,true,2026-02-01,2026-01-01 10:00,2026-01-01 10:00:00+02:00,y,1,late,x,,1\n"
    )
    calls.result(source=file(tmp_path / "in.csv"), target=duck(tmp_path / "out.db", table="t"))
    types = dict(
        read(tmp_path / "out.db", "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 't'")
    )
    assert types == {
        "id": "BIGINT",
        "code": "VARCHAR",
        "price": "DECIMAL(5,3)",
        "ok": "BOOLEAN",
        "day": "DATE",
        "moment": "TIMESTAMP",
        "zoned": "TIMESTAMP WITH TIME ZONE",
        "words": "VARCHAR",
        "big": "DECIMAL(20,0)",
        "late": "VARCHAR",
        "mixed": "VARCHAR",
        "nothing": "VARCHAR",
        "science": "DOUBLE",
    }
    first = read(tmp_path / "out.db", "SELECT code, price::VARCHAR, words, big::VARCHAR, nothing FROM t WHERE id = 1")
    assert first == [("007", "1.500", "", "12345678901234567890", None)]


def test_json_of_every_shape(calls: Calls, tmp_path: Path) -> None:
    rows = [{"a": 1, "b": "x", "c": {"d": [1]}, "e": 1}, {"a": 2.5, "b": "2026-01-01", "e": "one", "late": True}]
    (tmp_path / "in.json").write_text(json.dumps(rows))
    calls.result(source=file(tmp_path / "in.json"), target=file(tmp_path / "out.jsonl"))
    result = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert result == [
        {"a": 1.0, "b": "x", "c": {"d": [1]}, "e": 1, "late": None},
        {"a": 2.5, "b": "2026-01-01", "c": None, "e": "one", "late": True},
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_append_adds_and_replace_replaces(form: str, calls: Calls, tmp_path: Path) -> None:
    out, query = tmp_path / f"out.{form}", "SELECT {{ i }} AS i, 'x' AS x"
    for number in (1, 2):
        result = calls.result(source={"kind": "duckdb", "query": query}, target=file(out), scope={"i": number})
        assert result["rows"] == 1
    assert read(":memory:", f"SELECT i, x FROM '{out}' ORDER BY i") == [(1, "x"), (2, "x")]
    calls.result(source={"kind": "duckdb", "query": query}, target=file(out), mode="replace", scope={"i": 3})
    assert read(":memory:", f"SELECT i, x FROM '{out}' ORDER BY i") == [(3, "x")]


def test_a_file_is_whole_or_as_it_was(calls: Calls, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("i\n1\n")
    query = "SELECT CASE WHEN range = 90000 THEN error('broken') ELSE 'x' END AS i FROM range(100000)"
    error = calls.error(source={"kind": "duckdb", "query": query}, target=file(out), mode="replace")
    assert (error.kind, "broken" in error.message) == ("sql", True)
    assert out.read_text() == "i\n1\n"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_columns_choose_order_and_rename(calls: Calls, shop: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    columns = {"what": "name", "key": "ID"}
    calls.result(
        source=duck(shop, query="FROM orders WHERE id = {{ x }}"), target=file(out), columns=columns, scope={"x": 1}
    )
    assert json.loads(out.read_text()) == {"what": 'it\'s "A", ok', "key": 1}
    error = calls.error(source=duck(shop, table="orders"), target=file(out), columns={"a": "nope"})
    assert (error.kind, "'nope'" in error.message) == ("input", True)


# -- duckdb -----------------------------------------------------------------------------------------------------------


def test_from_one_database_to_another_with_all_types(calls: Calls, tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    with duckdb.connect(str(one)) as database:
        database.execute(
            "CREATE TABLE t AS SELECT 1::HUGEINT AS h, {'a': [1]} AS s, map {'k': 1} AS m, INTERVAL 1 DAY AS i"
        )
    calls.result(source=duck(one, table="t"), target=duck(other, table="t"))
    assert read(other, "DESCRIBE t") == read(one, "DESCRIBE t")
    assert read(other, "FROM t") == read(one, "FROM t")


def test_one_file_can_be_both_sides(calls: Calls, shop: str) -> None:
    calls.result(
        source=duck(shop, query="SELECT id FROM orders WHERE id > {{ n }}"),
        target=duck(shop, table="ids"),
        scope={"n": 1},
    )
    assert read(shop, "SELECT id FROM ids ORDER BY id") == [(2,), (3,)]


def test_upsert_updates_what_is_there(calls: Calls, tmp_path: Path) -> None:
    target = duck(tmp_path / "t.db", table="t")
    for query in ("SELECT 1 AS k, 'a' AS v", "SELECT * FROM (VALUES (1, 'b'), (2, 'c')) AS t(k, v)"):
        calls.result(source={"kind": "duckdb", "query": query}, target=target, mode="upsert", key=["k"])
    assert read(tmp_path / "t.db", "SELECT k, v FROM t ORDER BY k") == [(1, "b"), (2, "c")]
    twice = "SELECT * FROM (VALUES (1, 'x'), (1, 'y')) AS t(k, v)"
    assert (
        calls.error(source={"kind": "duckdb", "query": twice}, target=target, mode="upsert", key=["k"]).kind == "input"
    )
    assert read(tmp_path / "t.db", "SELECT k, v FROM t ORDER BY k") == [(1, "b"), (2, "c")]


def test_replace_is_one_transaction(calls: Calls, tmp_path: Path) -> None:
    target = duck(tmp_path / "t.db", table="t")
    with duckdb.connect(str(tmp_path / "t.db")) as database:
        database.execute("CREATE TABLE t (i INT PRIMARY KEY, x VARCHAR DEFAULT 'd')")
        database.execute("INSERT INTO t (i) VALUES (1), (2)")
    calls.result(
        source={"kind": "duckdb", "query": "SELECT range + 2 AS i FROM range(3)"}, target=target, mode="replace"
    )
    assert read(tmp_path / "t.db", "FROM t ORDER BY i") == [(2, "d"), (3, "d"), (4, "d")]
    broken = {"kind": "duckdb", "query": "SELECT 7 AS i FROM range(2)"}
    assert calls.error(source=broken, target=target, mode="replace").kind == "sql"
    assert len(read(tmp_path / "t.db", "FROM t")) == 3


def test_values_and_params_of_a_query(calls: Calls, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    hostile = "'; DROP TABLE t; --"
    source = {"kind": "duckdb", "query": "SELECT {{ x }} AS a, '<{{ x }}>' AS b, {{ l }} AS c WHERE 1 IN {{ l }}"}
    calls.result(source=source, target=file(out), scope={"x": hostile, "l": [1, 2]})
    assert json.loads(out.read_text()) == {"a": hostile, "b": f"<{hostile}>", "c": [1, 2]}
    source = {"kind": "duckdb", "query": "SELECT ? AS a, ? AS b", "params": [hostile, 5]}
    calls.result(source=source, target=file(out), mode="replace")
    assert json.loads(out.read_text()) == {"a": hostile, "b": 5}


def test_a_source_reaches_no_file(calls: Calls, shop: str, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (f"FROM '{tmp_path}/secret.csv'", "SELECT content FROM read_text('/etc/passwd')"):
        assert calls.error(source=duck(shop, query=query), target=file(tmp_path / "o.csv")).kind == "sql"
    for query in ("COPY orders TO 'x.csv'", "SELECT 1; SELECT 2", "DELETE FROM orders", "ATTACH 'x.db'"):
        assert calls.error(source=duck(shop, query=query), target=file(tmp_path / "o.csv")).kind == "input"
    assert len(read(shop, "FROM orders")) == 3


# -- http -------------------------------------------------------------------------------------------------------------


def test_rows_of_an_answer_go_to_a_table(calls: Calls, httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/rows", headers={"X-Key": "k"}).respond_with_json({"data": {"items": ROWS}})
    source = {"kind": "http", "url": httpserver.url_for("/rows"), "headers": {"X-Key": "k"}, "rows": "data.items"}
    assert calls.result(source=source, target=duck(tmp_path / "t.db", table="t"))["rows"] == 3
    assert read(tmp_path / "t.db", "SELECT id, name, tags::VARCHAR FROM t ORDER BY id") == [
        (1, ROWS[0]["name"], '["a",null]'),
        (2, "", "[]"),
        (3, ROWS[2]["name"], None),
    ]


def test_batches_are_sent_one_by_one_with_a_key_each(calls: Calls, httpserver: HTTPServer) -> None:
    got: list[tuple[str, Any]] = []

    def take(request: Request) -> Response:
        got.append((request.headers["Idempotency-Key"], request.get_json()))
        return Response(status=204)

    httpserver.expect_request("/take", method="PUT").respond_with_handler(take)
    target = {"kind": "http", "url": httpserver.url_for("/take"), "method": "PUT"}
    query = "SELECT range AS i, 1.5::DECIMAL(5, 2) AS n, 'nan'::DOUBLE AS f, TIMESTAMP '2026-01-01 10:00:00' AS m "
    result = calls.result(source={"kind": "duckdb", "query": query + "FROM range(5)"}, target=target, batch_size=2)
    assert (result["rows"], result["batches"]) == (5, 3)
    assert [len(batch) for _, batch in got] == [2, 2, 1]
    assert len({key for key, _ in got}) == 3
    assert got[0][1][0] == {"i": 0, "n": 1.5, "f": "nan", "m": "2026-01-01T10:00:00"}


@pytest.mark.parametrize(
    ("answer", "path", "words"),
    [
        ({"a": 1}, None, "not a list of maps"),
        ([1], None, "not a list of maps"),
        ({"a": []}, "b", "has no `b`"),
        ({"a": 1}, "a.b", "'b' is missing"),
    ],
)
def test_an_answer_without_rows_is_an_input_error(
    calls: Calls, httpserver: HTTPServer, tmp_path: Path, answer: Any, path: str | None, words: str
) -> None:
    httpserver.expect_request("/rows").respond_with_json(answer)
    source = {"kind": "http", "url": httpserver.url_for("/rows"), "rows": path}
    error = calls.error(source=source, target=file(tmp_path / "out.csv"))
    assert error.kind == "input"
    assert words in error.message


def test_a_server_that_refuses_is_the_error_of_the_transfer(
    calls: Calls, httpserver: HTTPServer, tmp_path: Path
) -> None:
    httpserver.expect_request("/no").respond_with_data("no", status=503)
    url = httpserver.url_for("/no")
    assert calls.error(source={"kind": "http", "url": url}, target=file(tmp_path / "o.csv")).retryable
    result = calls.outcome(source={"kind": "duckdb", "query": "SELECT 1 AS i"}, target={"kind": "http", "url": url})
    assert result.error is not None
    assert (result.error.kind, result.extra["http"]["status"]) == ("http_status", 503)


def test_no_rows_are_no_error(calls: Calls, httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/rows").respond_with_json([])
    source = {"kind": "http", "url": httpserver.url_for("/rows")}
    assert calls.result(source=source, target=duck(tmp_path / "t.db", table="t"))["rows"] == 0
    assert calls.result(source=source, target=file(tmp_path / "t.csv"))["rows"] == 0
    nobody = {"kind": "duckdb", "query": "SELECT 1 AS i WHERE FALSE"}
    assert calls.result(source=nobody, target=file(tmp_path / "t.parquet")) | {"duration_ms": 0, "bytes": 0} == {
        "rows": 0,
        "batches": 0,
        "bytes": 0,
        "duration_ms": 0,
        "source": "duckdb",
        "target": "file",
    }


# -- inputs -----------------------------------------------------------------------------------------------------------

SOURCE, TARGET = {"kind": "duckdb", "query": "SELECT 1 AS i"}, {"kind": "file", "path": "never.csv"}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"source": {"kind": "duckdb"}}, "`query` or `table`"),
        ({"source": {**SOURCE, "table": "t"}}, "`query` or `table`"),
        ({"source": {"kind": "file"}}, "needs `path`"),
        ({"source": {"kind": "http"}}, "needs `url`"),
        ({"source": {**SOURCE, "url": "http://x"}}, "duckdb has no `source.url`"),
        ({"target": {"kind": "duckdb", "table": "t"}}, "needs `database`"),
        ({"target": {"kind": "duckdb", "database": "x.db"}}, "needs `table`"),
        ({"target": {**TARGET, "table": "t"}}, "file has no `target.table`"),
        ({"mode": "upsert"}, "needs a `key`"),
        ({"mode": "upsert", "key": ["i"]}, "a file has no key"),
        ({"key": ["i"]}, "for `mode: upsert`"),
        ({"target": {"kind": "file", "path": "x.data"}}, "has no known suffix"),
        ({"target": {"kind": "http", "url": "http://x"}, "mode": "replace"}, "only appends rows"),
        ({"columns": {}}, "`columns` is empty"),
        ({"source": {"kind": "duckdb", "query": "SELECT 1 AS i, 2 AS i"}}, "two columns 'i'"),
        ({"source": {"kind": "duckdb", "query": "SELECT ?"}}, "give `params`"),
    ],
)
def test_what_makes_no_sense_is_refused(calls: Calls, inputs: dict[str, Any], words: str) -> None:
    error = calls.error(**({"source": SOURCE, "target": TARGET} | inputs))
    assert error.kind == "input"
    assert words in error.message
    assert not os.path.exists("never.csv")


def test_what_is_missing_is_not_found(calls: Calls, tmp_path: Path) -> None:
    assert calls.error(source=file(tmp_path / "no.csv"), target=file(tmp_path / "o.csv")).kind == "not_found"
    assert calls.error(source=duck(tmp_path / "no.db", table="t"), target=file(tmp_path / "o.csv")).kind == "not_found"
    assert calls.error(source=SOURCE, target=file(tmp_path / "no" / "o.csv")).kind == "not_found"
    unknown = calls.error(source=SOURCE, target=duck(tmp_path / "t.db", table="a.b.c.d"))
    assert unknown.kind == "sql"


@pytest.mark.parametrize("content", ["", "[", "[1, 2]", '{"a": 1}', "nonsense"])
def test_json_that_is_none_is_an_error(calls: Calls, tmp_path: Path, content: str) -> None:
    (tmp_path / "in.json").write_text(content)
    result = calls.outcome(source=file(tmp_path / "in.json"), target=file(tmp_path / "out.csv"))
    assert result.error is None or result.error.kind in ("sql", "input")
    assert (result.error is None) is (content == "")


@pytest.mark.parametrize(
    ("driver", "extra", "source"),
    [
        ("duckdb", "duckdb", SOURCE),
        ("psycopg", "postgres", {"kind": "postgres", "auth": {"dsn": "host=x"}, "query": "SELECT 1 AS i"}),
        ("snowflake.connector", "snowflake", {"kind": "snowflake", "auth": {"account": "a"}, "query": "SELECT 1 AS i"}),
    ],
)
def test_a_driver_that_is_missing_is_named(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, driver: str, extra: str, source: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    error = calls.error(source=source, target=TARGET)
    assert (error.kind, error.retryable) == ("not_found", False)
    assert f"pip install 'noetl-engine[{extra}]'" in error.message


# -- stopping and sharing ---------------------------------------------------------------------------------------------

ENDLESS = "SELECT a.range AS i FROM range(100000000) AS a, range(1000) AS b"


def test_a_cancelled_transfer_leaves_nothing(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()

    async def story() -> None:
        for target in (file(tmp_path / "out" / "o.csv"), duck(tmp_path / "t.db", table="t")):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await calls.ask(source={"kind": "duckdb", "query": ENDLESS}, target=target)

    calls.whole(story())
    until(lambda: our_threads() == [])
    assert os.listdir(tmp_path / "out") == []
    assert read(tmp_path / "t.db", "SELECT count(*) FROM duckdb_tables()") == [(0,)]


def test_a_cancelled_request_is_not_waited_for(calls: Calls, httpserver: HTTPServer) -> None:
    asked, release = threading.Event(), threading.Event()

    def hold(request: Request) -> Response:
        asked.set()
        release.wait(PATIENCE_SECONDS)
        return Response(status=204)

    httpserver.expect_request("/hold").respond_with_handler(hold)
    target = {"kind": "http", "url": httpserver.url_for("/hold")}

    async def story() -> int:
        call = asyncio.create_task(calls.ask(source=SOURCE, target=target))
        await until_async(asked.is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return len(asyncio.all_tasks())

    try:
        assert calls.whole(story()) == 1
    finally:
        release.set()


def test_transfers_into_one_file_take_turns(calls: Calls, tmp_path: Path) -> None:
    target = duck(tmp_path / "t.db", table="t")
    calls.result(source=SOURCE, target=target)

    async def story() -> list[Any]:
        return await asyncio.gather(*(calls.ask(source=SOURCE, target=target) for _ in range(5)))

    assert all(outcome.ok for outcome in calls.whole(story()))
    assert read(tmp_path / "t.db", "SELECT count(*) FROM t") == [(6,)]


def test_progress_is_reported(calls: Calls, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.rows.endpoints.LOG_INTERVAL_SECONDS", 0.0)
    httpserver.expect_request("/take").respond_with_data("", status=204)
    target = {"kind": "http", "url": httpserver.url_for("/take")}
    source = {"kind": "duckdb", "query": "SELECT range AS i FROM range(2500)"}
    calls.result(source=source, target=target, batch_size=1000)
    assert calls.lines == [("progress", "1,000 rows"), ("progress", "2,000 rows"), ("progress", "2,500 rows")]
