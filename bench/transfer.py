"""A million rows from PostgreSQL to DuckDB and back, beside what the two drivers' own bulk loads take."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from tests.servers.postgres import PostgresServer

from bench.measure import Figure, best_seconds, print_figures
from noetl.tools import transfer
from noetl.tools.base import Context

ROWS = 1_000_000
TRIES = 3
MEMORY_MEGABYTES = 300
SHARE = 0.5
TABLE = f"""CREATE TABLE orders AS
    SELECT i::bigint AS id, i % 1000 AS customer, 'order number ' || i AS name, (i * 1.01)::numeric(12, 2) AS total,
        timestamptz '2026-01-01' + i * interval '1 second' AS moment, i % 2 = 0 AS paid,
        CASE WHEN i % 3 > 0 THEN 'a note, and more of it: ' || i END AS note
    FROM generate_series(1, {ROWS}) AS i"""
TYPES = {
    "id": "BIGINT",
    "customer": "INTEGER",
    "name": "VARCHAR",
    "total": "DECIMAL(12,2)",
    "moment": "TIMESTAMPTZ",
    "paid": "BOOLEAN",
    "note": "VARCHAR",
}
CSV = r"FORMAT csv, NULL '\N'"
READ = rf"columns = {TYPES}, header = false, nullstr = '\N', allow_quoted_nulls = false, auto_detect = false"
CHUNK_BYTES = 1 << 18


# -- the drivers by themselves ----------------------------------------------------------------------------------------


def drivers_out(dsn: str, folder: Path) -> None:
    """COPY out of PostgreSQL to its end, then what came out into DuckDB."""
    laid, database = folder / "out.csv", _fresh(folder / "bulk.db")
    copying = f"COPY orders TO STDOUT ({CSV})"
    with laid.open("wb") as file, psycopg.connect(dsn) as source, source.cursor().copy(copying) as copy:
        for piece in copy:
            file.write(piece)
    with duckdb.connect(str(database)) as target:
        target.execute(f"CREATE TABLE orders AS SELECT * FROM read_csv('{laid}', {READ})")


def drivers_back(dsn: str, folder: Path) -> None:
    """Out of DuckDB as CSV, then COPY into PostgreSQL."""
    laid = folder / "back.csv"
    with duckdb.connect(str(folder / "bulk.db"), read_only=True) as source:
        source.execute(rf"COPY orders TO '{laid}' (FORMAT csv, HEADER false, NULLSTR '\N')")
    with psycopg.connect(dsn) as target, target.cursor() as cursor, laid.open("rb") as file:
        cursor.execute("DROP TABLE IF EXISTS bulk_back")
        cursor.execute("CREATE TABLE bulk_back (LIKE orders)")
        with cursor.copy(f"COPY bulk_back FROM STDIN ({CSV})") as copy:
            while piece := file.read(CHUNK_BYTES):
                copy.write(piece)


# -- the kind ---------------------------------------------------------------------------------------------------------


def transfer_out(dsn: str, folder: Path) -> None:
    source = {"kind": "postgres", "auth": {"dsn": dsn}, "table": "orders"}
    _move(source, {"kind": "duckdb", "database": str(_fresh(folder / "moved.db")), "table": "orders"}, "append")


def transfer_back(dsn: str, folder: Path) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS moved_back")
    source = {"kind": "duckdb", "database": str(folder / "moved.db"), "table": "orders"}
    _move(source, {"kind": "postgres", "auth": {"dsn": dsn}, "table": "moved_back"}, "append")


def _move(source: dict[str, Any], target: dict[str, Any], mode: Any) -> None:
    inputs = transfer.Inputs(source=transfer.Source(**source), target=transfer.Target(**target), mode=mode)
    context = Context("bench", "bench", 1, "bench", "bench", None, {}, None, lambda stream, line: None)
    outcome = asyncio.run(transfer.run(inputs, context))
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == ROWS


def _fresh(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


# -- the table --------------------------------------------------------------------------------------------------------


def figures() -> Iterator[Figure]:
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as folder:
            with server.connect() as connection:
                connection.execute(TABLE)
            yield from _figures(server.dsn(), Path(folder))
    finally:
        server.close()


def _figures(dsn: str, folder: Path) -> Iterator[Figure]:
    memory = _peak_megabytes(dsn, folder)
    pairs = [
        ("postgres to duckdb", drivers_out, transfer_out),
        ("duckdb to postgres", drivers_back, transfer_back),
    ]
    for name, drivers, moving in pairs:
        times = [(_seconds(drivers, dsn, folder), _seconds(moving, dsn, folder)) for _ in range(TRIES)]
        bulk, moved = (min(column) for column in zip(*times, strict=True))
        share = bulk / moved
        yield Figure(f"{ROWS:,} rows {name}: the drivers' bulk loads", f"{ROWS / bulk:,.0f} rows/s")
        yield Figure("  transfer", f"{ROWS / moved:,.0f} rows/s")
        yield Figure("  times the speed of the drivers", f"{share:.2f}", f"at least {SHARE}", share >= SHARE)
    reached = memory < MEMORY_MEGABYTES
    yield Figure("  peak memory of both transfers", f"{memory:,.0f} MB", f"under {MEMORY_MEGABYTES} MB", reached)


def _seconds(action: Any, dsn: str, folder: Path) -> float:
    time.sleep(0.2)  # what the one before left to the server's background
    return best_seconds(lambda: action(dsn, folder), 1)


def _peak_megabytes(dsn: str, folder: Path) -> float:
    """Both ways in a process of its own, whose memory tells the truth."""
    code = (
        "import resource, sys; from pathlib import Path; from bench.transfer import transfer_out, transfer_back;"
        "transfer_out(sys.argv[1], Path(sys.argv[2])); transfer_back(sys.argv[1], Path(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, dsn, str(folder)], check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    print_figures(figures())
