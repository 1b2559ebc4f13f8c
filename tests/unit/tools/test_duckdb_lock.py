"""kind: duckdb reaches the declared paths and nothing else, whatever a statement tries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest
from tests.servers.rows_calls import Calls

from noetl.tools import duckdb as kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is declared, beside one that is not, with links from one into the other."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "deep").mkdir()
    (tmp_path / "shut").mkdir()
    (tmp_path / "openly").mkdir()
    for name in ("open/orders.csv", "open/deep/orders.csv", "shut/orders.csv", "openly/orders.csv"):
        (tmp_path / name).write_text("id,total\n1,2.5\n2,\n")
    (tmp_path / "open" / "link.csv").symlink_to(tmp_path / "shut" / "orders.csv")
    (tmp_path / "open" / "linked").symlink_to(tmp_path / "shut")
    with duckdb.connect(str(tmp_path / "shut" / "other.db")) as other:
        other.execute("CREATE TABLE t AS SELECT 1 AS i")
    return tmp_path


@pytest.fixture
def calls(folder: Path) -> Calls:
    return Calls(kind, paths=[str(folder / "open")])


REFUSED = [
    "SELECT * FROM '{{ shut }}/orders.csv'",
    "SELECT * FROM read_csv('{{ shut }}/orders.csv')",
    "SELECT * FROM read_csv('{{ shut }}/*.csv')",
    "SELECT * FROM read_text('{{ shut }}/orders.csv')",
    "SELECT * FROM read_blob('{{ shut }}/orders.csv')",
    "SELECT * FROM read_json('{{ shut }}/orders.csv')",
    "SELECT * FROM read_parquet('{{ shut }}/orders.csv')",
    "SELECT * FROM parquet_metadata('{{ shut }}/orders.csv')",
    "SELECT * FROM sniff_csv('{{ shut }}/orders.csv')",
    "SELECT * FROM glob('{{ shut }}/*')",
    "SELECT * FROM read_csv('{{ open }}/../shut/orders.csv')",
    "SELECT * FROM read_csv('{{ open }}/deep/../../shut/orders.csv')",
    "SELECT * FROM read_csv('{{ open }}/link.csv')",
    "SELECT * FROM read_csv('{{ open }}/linked/orders.csv')",
    "SELECT * FROM read_csv('{{ open }}ly/orders.csv')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_text('file:///etc/passwd')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "SELECT * FROM read_csv('https://127.0.0.1:9/x.csv')",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "COPY (SELECT 1) TO '{{ shut }}/new.csv'",
    "COPY (SELECT 1) TO '{{ open }}/../new.csv'",
    "COPY (SELECT 1) TO '{{ open }}/linked/new.csv'",
    "COPY (SELECT 1 AS a) TO '{{ shut }}/parts' (FORMAT parquet, PARTITION_BY (a))",
    "CREATE TABLE t (id INT, total DOUBLE); COPY t FROM '{{ shut }}/orders.csv'",
    "ATTACH '{{ shut }}/other.db' AS other",
    "ATTACH '{{ shut }}/other.db' AS other (READ_ONLY)",
    "ATTACH '{{ shut }}/new.db' AS other",
    "EXPORT DATABASE '{{ shut }}/dump'",
    "IMPORT DATABASE '{{ shut }}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "INSTALL '{{ shut }}/orders.csv'",
    "LOAD '{{ shut }}/orders.csv'",
    "FORCE INSTALL postgres FROM 'http://127.0.0.1:9'",
    "SET enable_external_access = true",
    "SET GLOBAL enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "SET allowed_directories = ['/']",
    "SET allowed_paths = ['/etc/passwd']",
    "SET allowed_configs = ['enable_external_access']",
    "SET temp_directory = '/etc'",
    "SET home_directory = '/'",
    "SET extension_directories = ['/tmp']",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "PRAGMA enable_profiling",
    "SET profiling_output = '{{ shut }}/profile'",
    "SET log_query_path = '{{ shut }}/log'",
    "CALL enable_logging(storage_path = '{{ shut }}/log')",
    "SET secret_directory = '{{ shut }}'",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "SELECT getenv('HOME')",
    "SELECT * FROM calls",
]


@pytest.mark.parametrize("statement", REFUSED, ids=range(len(REFUSED)))
def test_a_way_out_is_closed(statement: str, calls: Calls, folder: Path) -> None:
    scope = {"shut": str(folder / "shut"), "open": str(folder / "open")}
    before = sorted(os.listdir(folder / "shut"))
    assert calls.error(statement, scope).kind in ("sql", "not_found")
    assert sorted(os.listdir(folder / "shut")) == before
    assert not (folder / "new.csv").exists()


def test_the_error_says_how_to_declare_a_path(calls: Calls, folder: Path) -> None:
    error = calls.error(f"SELECT * FROM '{folder}/shut/orders.csv'")
    assert "`paths`" in error.message


def test_nothing_is_open_when_nothing_is_declared(folder: Path) -> None:
    assert Calls(kind).error(f"SELECT * FROM '{folder}/open/orders.csv'").kind == "sql"


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_declared_folders_are_read_and_written(form: str, calls: Calls, folder: Path) -> None:
    out = folder / "open" / "deep" / f"out.{form}"
    for _ in range(2):  # the second time the file is there already
        calls.result(f"COPY (SELECT * FROM '{folder}/open/orders.csv') TO '{out}' (FORMAT {form})")
    assert calls.value(f"SELECT sum(id) AS v FROM '{out}'") == 3
    assert calls.value(f"SELECT count(*) AS v FROM read_csv('{folder}/open/deep/*.csv', union_by_name = true)") >= 2


def test_a_declared_file_is_read_written_and_attached(folder: Path) -> None:
    file, database = folder / "shut" / "one.csv", folder / "shut" / "one.db"
    calls = Calls(kind, paths=[str(file), str(database)])
    for _ in range(2):
        calls.result(f"COPY (SELECT 5 AS i) TO '{file}' (HEADER)")
    assert calls.value(f"SELECT i AS v FROM '{file}'") == 5
    calls.result(f"ATTACH '{database}' AS one; CREATE TABLE one.t AS SELECT 7 AS i")
    assert calls.value(f"ATTACH '{database}' AS one; SELECT i AS v FROM one.t") == 7
    assert calls.error(f"SELECT * FROM '{folder}/shut/orders.csv'").kind == "sql"


def test_a_declared_path_may_be_a_link(folder: Path) -> None:
    calls = Calls(kind, paths=[str(folder / "open" / "linked")])
    assert calls.value(f"SELECT count(*) AS v FROM '{folder}/open/linked/orders.csv'") == 2
    assert calls.value(f"SELECT count(*) AS v FROM '{folder}/shut/orders.csv'") == 2


def test_relative_paths_begin_where_the_worker_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    calls = Calls(kind, paths=["open"], database="shop.db")
    assert calls.value("SELECT count(*) AS v FROM 'open/orders.csv'") == 2
    assert calls.error("SELECT count(*) AS v FROM 'shut/orders.csv'").kind == "sql"
    assert (folder / "shop.db").exists()


def test_one_file_with_different_paths_has_each_call_to_its_own(folder: Path) -> None:
    import asyncio

    database = str(folder / "shop.db")
    wide = Calls(kind, database=database, paths=[str(folder / "open")])
    narrow = Calls(kind, database=database)
    query = f"SELECT count(*) AS v FROM '{folder}/open/orders.csv'"

    async def both() -> list[bool]:
        asked = [one.ask(query) for _ in range(5) for one in (wide, narrow)]
        return [outcome.ok for outcome in await asyncio.gather(*asked)]

    assert wide.whole(both()) == [True, False] * 5


def test_the_time_zone_is_utc_and_may_be_set(calls: Calls) -> None:
    assert calls.value("SELECT current_setting('TimeZone') AS v") == "UTC"
    moment = "SELECT ('2026-07-01 12:00:00+00'::TIMESTAMPTZ)::VARCHAR AS v"
    assert calls.value(f"SET TimeZone = 'Europe/Berlin'; {moment}") == "2026-07-01 14:00:00+02"


def test_no_progress_bar_is_printed_where_python_looks_interactive(tmp_path: Path) -> None:
    code = """
import sys
from noetl.tools.rows.duckdb_database import OpenOptions, open_database
from noetl.tools.rows.blocking import Cancellation
for database in (None, sys.argv[1]):
    with open_database(database, OpenOptions(), Cancellation()) as connection:
        print(connection.execute("SELECT current_setting('enable_progress_bar')").fetchall())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "shop.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "[(False,)]\n" * 2


def test_a_query_that_spills_leaves_nothing_behind(calls: Calls) -> None:
    query = "SELECT count(*) AS v FROM (SELECT DISTINCT hash(range), md5(range::VARCHAR) FROM range(1500000))"
    assert calls.value(query, memory="60MB") == 1_500_000
    left = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"noetl-duckdb-{os.getpid()}-")]
    assert left == []
