"""No row that several workers or executions share is updated while work is handed out, reported and committed.

Shown from the statement log of a real server: whatever the engine sends it between the start of some runs and their end
is read, and every statement that writes must be one of those that are known to touch rows of one execution, or of one
worker, only. The commit is a function, so what it writes is read from its own source in the database.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.acceptance.modes.stage import database
from tests.servers import postgres
from tests.servers.patience import PATIENCE_SECONDS

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Claim
from noetl.engine.state import Execution
from noetl.errors import NotFound
from noetl.host.local_link import LocalLink
from noetl.host.server_host import ServerHost
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.postgres import PostgresStore
from noetl.store.store import WorkerSession
from noetl.tools.registry import KINDS
from noetl.worker.output import OutputBuffer
from noetl.worker.worker import Worker

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

SCHEMA = "hot_path"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: hot, path: tests/hot}\nworkflow:\n"
CHAIN = HEAD + "".join(
    f"  - {{step: s{n}, tool: [{{t: {{kind: noop}}}}], next: {{arcs: [{{step: s{n + 1}}}]}}}}\n" for n in range(2)
)
CHAIN += "  - {step: s2, tool: [{t: {kind: noop}}]}\n"
LOOP = (
    HEAD
    + """\
  - step: start
    loop: {in: "{{ range(500) }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
    tool:
      - t:
          kind: noop
          result: "{{ iter.n }}"
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {total: {$add: 1}}}}}]}}
"""
)

OWNED = {
    "event": {"execution"},
    "execution": {"id"},
    "ready": {"execution"},
    "lease": {"execution"},
    "timer": {"execution"},
    "snapshot": {"execution"},
    "outline": {"execution"},
    "blob_use": {"execution"},
    "worker_session": {"worker"},
}
"""Tables whose rows belong to one execution or one worker: the first column of the key says whose."""
CONTENT = {"blob": "key", "blob_part": "whole"}
"""Content by its hash. The same content of two executions is one row, which is written once and touched at most once an
hour."""
WRITES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE|COPY)\s+(?:ONLY\s+)?(\w+)", re.IGNORECASE)
NO_TABLES = {"set"}
"""What follows UPDATE in ON CONFLICT DO UPDATE SET."""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.PostgresServer]:
    """A server that writes down every statement."""
    before = dict(postgres.SETTINGS)
    postgres.SETTINGS.update(log_statement="all", log_min_messages="log", log_line_prefix="@@%d ")
    try:
        result = postgres.PostgresServer()
    finally:
        postgres.SETTINGS.clear()
        postgres.SETTINGS.update(before)
    yield result
    result.close()


@pytest.fixture(scope="module")
def statements(server: postgres.PostgresServer) -> list[str]:
    """What the server was sent while loops and short runs went from start to end."""
    store = PostgresStore(database(server, SCHEMA))
    log = server.folder / "log"
    begin = log.stat().st_size
    asyncio.run(_work(store))
    with log.open("rb") as file:
        file.seek(begin)
        text = file.read().decode("utf-8", "replace")
    result = re.findall(r"@@\S* LOG:  (?:statement|execute [^:]*): (.*?)(?=\n@@|\Z)", text, re.DOTALL)
    assert len(result) > 20, text[:1000]
    return result


async def _work(store: PostgresStore) -> None:
    host = ServerHost(LoadedPlaybooks(store), SystemClock(), _no_children, on_error=lambda message, execution: None)
    digests = []
    for text in (CHAIN, LOOP):
        playbook = load("hot.yaml", text, KINDS).require()
        await host.runtime.thread.ask(store.put_playbook, playbook.digest, "hot.yaml", text.encode())
        digests.append(host.runtime.playbooks.add(playbook))
    output = OutputBuffer(SystemClock())
    link = LocalLink(host.dispatcher, output, "default")
    workers = [Worker(f"w{n}", link, KINDS, SystemClock(), 8, output.write) for n in range(3)]
    tasks = [asyncio.create_task(_claim(host, worker)) for worker in workers]
    async with asyncio.timeout(PATIENCE_SECONDS):
        started = [await host.runtime.start(digest, {}, {}) for digest in (digests * 2 + [digests[0]] * 20)]
        ends = [await host.wait(state.id, PATIENCE_SECONDS) for state in started]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    host.runtime.close()
    assert {end.status for end in ends} == {"succeeded"}


async def _claim(host: ServerHost, worker: Worker) -> None:
    """Claims, and beats between them."""
    while True:
        await host.heartbeats.record(WorkerSession(worker.name, "default", 8, leases=_held(worker)))
        if worker.free > 0:
            worker.take(await host.dispatcher.claim(Claim(worker.name, worker.free, "default"), 0.2))
        else:
            await asyncio.sleep(0.01)


def _held(worker: Worker) -> dict[str, list[int]]:
    held: dict[str, list[int]] = {}
    for execution, fence in list(worker.leases):
        held.setdefault(execution, []).append(fence)
    return held


async def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    raise NotFound("no children here")


def tables(statement: str) -> set[str]:
    """The tables that a statement writes to."""
    return {name.lower() for _, name in WRITES.findall(statement)} - NO_TABLES


def test_what_is_written_belongs_to_one_execution_or_one_worker(statements: list[str]) -> None:
    written = set().union(*(tables(statement) for statement in statements))
    assert written <= OWNED.keys() | {"playbook"}, written  # playbooks are stored before the runs
    assert "worker_session" in written
    assert any("commit_changes" in statement for statement in statements)


def test_a_beat_writes_the_row_of_its_worker(statements: list[str]) -> None:
    beats = {statement for statement in statements if "worker_session" in tables(statement)}
    assert len(beats) == 1
    assert "ON CONFLICT (worker)" in beats.pop()


def test_a_commit_writes_rows_of_its_executions(server: postgres.PostgresServer, statements: list[str]) -> None:
    source = _source(server)
    assert tables(source) <= OWNED.keys() | CONTENT.keys()
    assert {"event", "execution", "ready", "lease"} <= tables(source)
    for table, columns in re.findall(r"INSERT INTO (\w+) \(([^)]*)\)", source):
        first = columns.split(",")[0].strip()
        assert first in OWNED.get(table, {CONTENT.get(table)}), f"{table} is keyed by {first}"
    for table, key in re.findall(r"DELETE FROM (\w+).*?WHERE \1\.(\w+) =", source, re.DOTALL):
        assert key in OWNED[table]


def test_tables_of_the_hot_path_are_keyed_by_their_owner(
    server: postgres.PostgresServer, statements: list[str]
) -> None:
    """So a row that is updated can't be another execution's, or another worker's."""
    for table, (owner,) in OWNED.items():
        assert _primary_key(server, table)[0] == owner, table


def test_no_statement_waits_for_a_lock_that_all_share(server: postgres.PostgresServer, statements: list[str]) -> None:
    """Executions are locked one by one; the one lock that all commits take is taken shared, and only with content."""
    locks = re.findall(r"pg_advisory\w*\(", _source(server))
    assert sorted(locks) == ["pg_advisory_xact_lock(", "pg_advisory_xact_lock_shared("]
    assert not [statement for statement in statements if re.search(r"\bLOCK TABLE\b|FOR UPDATE|pg_advisory", statement)]
    assert not [statement for statement in statements if "nextval" in statement]


def _source(server: postgres.PostgresServer) -> str:
    """The function with the most parameters: the others are those of earlier versions."""
    with _connected(server) as connection:
        query = """SELECT prosrc FROM pg_proc WHERE proname = 'commit_changes' AND pronamespace = %s::regnamespace
            ORDER BY pronargs DESC LIMIT 1"""
        ((source,),) = connection.execute(query, (SCHEMA,)).fetchall()
    return re.sub(r"--.*", "", source)


def _primary_key(server: postgres.PostgresServer, table: str) -> list[str]:
    query = """SELECT a.attname FROM pg_index AS i, unnest(i.indkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute AS a ON a.attnum = k.number
        WHERE i.indisprimary AND i.indrelid = %s::regclass AND a.attrelid = i.indrelid ORDER BY k.place"""
    with _connected(server) as connection:
        return [name for (name,) in connection.execute(query, (f"{SCHEMA}.{table}",)).fetchall()]


def _connected(server: postgres.PostgresServer) -> psycopg.Connection[Any]:
    return server.connect()


def test_a_counter_that_all_share_would_be_found(server: postgres.PostgresServer, tmp_path: Path) -> None:
    """The test itself is tested: such statements do not pass."""
    for shared in (
        "UPDATE counters SET n = n + 1",
        "INSERT INTO stats VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 2",
    ):
        assert not tables(shared) <= OWNED.keys()
