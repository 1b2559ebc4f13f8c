"""`kind: postgres` when the wire or the server fails in the middle of a call."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.listening import listening
from tests.servers.patience import until_async
from tests.servers.postgres import PostgresServer, Schema, postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.postgres_calls import Database, database_fixture  # noqa: F401

from noetl.model.outcome import Outcome
from noetl.tools import postgres as kind

ONCE = {"spec": {"exactly_once": True}}


class Wire:
    """A wire to the server that breaks when a word has gone over it: the server does its work, nobody hears of it."""

    def __init__(self, port: int, word: bytes) -> None:
        self.port, self.word, self.broken = port, word, False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self.port)
        back = asyncio.create_task(self._back(server, writer))
        try:
            while data := await reader.read(65536):
                if self.word in data and not self.broken:
                    self.broken = True
                to_server.write(data)
                await to_server.drain()
            await back  # the server does not notice before it has answered
        except ConnectionError:
            pass
        finally:
            back.cancel()
            to_server.close()

    async def _back(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await server.read(65536):
            if self.broken:
                writer.transport.abort()
                return
            writer.write(data)


@asynccontextmanager
async def wire(schema: Schema, word: str) -> AsyncIterator[dict[str, object]]:
    """The credential of a server behind a wire that breaks."""
    made = Wire(schema.server.port, word.encode())
    async with listening(made.serve) as port:
        yield schema.fields(port=port, sslmode="disable", gssencmode="disable")


def lost(database: Database, command: str | None, word: str, **inputs: object) -> Outcome:
    async def call() -> Outcome:
        async with wire(database.schema, word) as auth:
            return await database.ask(command, {}, auth=auth, **inputs)

    return database.whole(call())


@pytest.mark.parametrize(
    ("command", "word", "retryable"),
    [
        ("SELECT 1", "SELECT", True),
        ("INSERT INTO t VALUES (1)", "INSERT", False),
        ("INSERT INTO t VALUES (1); SELECT 2", "SELECT 2", True),
        ("INSERT INTO t VALUES (1); SELECT 2", "COMMIT", False),
    ],
)
def test_a_call_that_may_have_been_committed_is_not_said_to_be_worth_a_retry(
    database: Database, command: str, word: str, retryable: bool
) -> None:
    database.result("CREATE TABLE t (n int)")
    outcome = lost(database, command, word)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("connect", retryable)
    assert ("it is unknown" in outcome.error.message) is not retryable


@pytest.mark.parametrize("word", ["INSERT INTO t", "UPDATE", "COMMIT"])
def test_exactly_once_whatever_is_lost(database: Database, word: str) -> None:
    database.result("CREATE TABLE t (n int)")
    command = "INSERT INTO t VALUES (7) RETURNING n"
    database.result("SELECT 1", call=ONCE | {"action": "makes the ledger"})
    first = lost(database, command, word, call=ONCE)
    assert first.error is not None
    assert (first.error.kind, first.error.retryable) == ("connect", True)
    again = database.outcome(command, call=ONCE | {"attempt": 2})
    assert again.result["rows"] == [{"n": 7}]
    assert again.extra["pg"]["repeated"] is (word == "COMMIT")
    assert database.value("SELECT count(*) AS c FROM t") == 1


@pytest.mark.parametrize(("mode", "retryable"), [("append", False), ("upsert", True), ("replace", True)])
def test_a_load_that_may_have_been_committed_is_worth_a_retry_if_it_may_be_done_twice(
    database: Database, mode: str, retryable: bool
) -> None:
    inputs: dict[str, Any] = {"table": "t", "rows": [{"n": 1}], "mode": mode}
    outcome = lost(database, None, "COMMIT", **inputs, **({"key": ["n"]} if mode == "upsert" else {}))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("connect", retryable)


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """The server and its backends stand still."""
    assert server.process is not None
    main = server.process.pid
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    everyone = [main, *map(int, children)]
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(everyone):  # the main process buries what has ended: it comes last
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_is_stopped_does_not_hold_a_cancelled_call() -> None:
    server = PostgresServer()
    try:
        with asyncio.Runner() as runner:
            database = Database(Schema(server), runner)

            async def cancelled() -> None:
                call = asyncio.create_task(database.ask("SELECT pg_sleep(200)"))
                await until_async(
                    lambda: database.schema.rows("SELECT 1 FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'")
                )
                with stopped(server):
                    call.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await call

            database.whole(cancelled())
            assert database.value("SELECT 1 AS one") == 1
            runner.run(kind.close())
    finally:
        server.close()
