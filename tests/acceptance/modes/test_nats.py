"""NATS beside the database: what it gives, and that nothing is missing without it."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.stage import noetl, until
from tests.acceptance.modes.test_kills import BUSY_SECONDS, REQUEST, check
from tests.servers.nats import TOKEN, RestartedNats, nats_server, restarted_nats
from tests.servers.postgres import PostgresServer


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RestartedNats]:
    folder = tmp_path / "nats"
    folder.mkdir()
    with restarted_nats(folder) as running:
        yield running


@pytest.fixture
def db(postgres: PostgresServer) -> str:
    return stage.database(postgres, f"nats_{uuid.uuid4().hex}")


def health(mode: stage.Served, number: int = 0) -> dict[str, Any]:
    answer = mode.client.http.get(f"{mode.client.urls[number]}/readyz")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def is_ok(mode: stage.Served) -> bool:
    return all(health(mode, number)["checks"]["nats"] == "ok" for number in range(len(mode.servers)))


def test_runs_go_on_while_nats_goes_and_comes(tmp_path: Path, db: str, broker: RestartedNats) -> None:
    dice = random.Random(1)
    with stage.served(tmp_path, db, 2, 3, "--nats", broker.url) as mode:
        until(lambda: is_ok(mode))
        for _ in range(2):
            execution = mode.client.start(REQUEST)
            time.sleep(dice.uniform(0, BUSY_SECONDS))
            broker.stop()
            other = mode.client.start(REQUEST)
            time.sleep(dice.uniform(0, BUSY_SECONDS))
            broker.start()
            check(mode, execution)
            check(mode, other)
        until(lambda: is_ok(mode))
    mode.verify()


def test_a_server_starts_works_and_is_ready_without_nats(tmp_path: Path, broker: RestartedNats) -> None:
    broker.stop()
    with stage.served(tmp_path, str(tmp_path / "data" / "noetl.db"), 1, 1, "--nats", broker.url) as mode:
        found = until(lambda: one if "no connection" in (one := health(mode))["checks"]["nats"] else None)
        assert (found["status"], found["checks"]["store"]) == ("ok", "ok")
        check(mode, mode.client.start(REQUEST))
        broker.start()
        until(lambda: is_ok(mode))
        until(lambda: "can be used again" in mode.servers[0].said())
        assert mode.servers[0].said().count("NATS can't be used") == 1
    mode.verify()


def test_a_login_that_nats_refuses_is_told_and_changes_nothing(tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("not-the-token\n")
    db = str(tmp_path / "data" / "noetl.db")
    with nats_server(TOKEN) as server:
        token = stage.make_token(tmp_path, db, "admin")
        environment = {"NOETL_NATS": server.url, "NOETL_NATS_TOKEN_FILE": str(word)}
        port = stage.free_port()
        process = stage.Process(tmp_path, "server", "server", "--port", str(port), "--db", db, **environment).start()
        try:
            process.until_said("refuses the login")
            process.until_said("noetl server at")
            client = stage.Client([f"http://127.0.0.1:{port}"], token)
            with client.http:
                found = client.http.get(f"{client.urls[0]}/readyz")
                assert (found.status_code, "refuses the login" in found.json()["checks"]["nats"]) == (200, True)
            assert "not-the-token" not in process.said() + found.text
        finally:
            assert process.stop() == 0, process.said()


@pytest.mark.parametrize("address", ["127.0.0.1:4222", "http://127.0.0.1:4222", "nats://", "nats://a,b"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    done = noetl(tmp_path, "server", "--port", "0", "--nats", address)
    assert (done.returncode, "nats://HOST:4222" in done.stderr) == (2, True), done.stderr
