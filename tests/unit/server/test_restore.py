"""A server on a restored database: it is sound, open executions go on, and workers of the newer one are not heard."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from api_server import ELSEWHERE, HELLO, SECONDS, WAITS, ApiServer, begun, register, started, until
from test_api_worker import claimed, post_message, reported
from tests.servers.postgres import PASSWORD, PostgresServer, _program, postgres_fixture  # noqa: F401

from noetl.engine import events as e
from noetl.host.restore import accept_restore
from noetl.model.identity import TaskId
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.sqlite.backup import copy_database
from noetl.store.store import Store
from noetl.worker import wire

Copy = Callable[[], Callable[[], Store]]
"""Makes a backup; what that gives makes a store of it."""


class Place:
    """A store, and how it is backed up."""

    def __init__(self, store: Store, back_up: Copy) -> None:
        self.store, self.back_up = store, back_up


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield _sqlite(tmp_path)
    else:
        yield from _postgres(request.getfixturevalue("postgres"), tmp_path)


def _sqlite(folder: Path) -> Place:
    def back_up() -> Callable[[], Store]:
        copy_database(folder / "noetl.db", folder / "backup.db")
        copy_database(folder / "backup.db", folder / "restored.db")
        return lambda: SqliteStore(folder / "restored.db")

    return Place(SqliteStore(folder / "noetl.db"), back_up)


def _postgres(server: PostgresServer, folder: Path) -> Iterator[Place]:
    """The commands of the page on backups: pg_dump of the schema, pg_restore into an empty database."""
    names = [f"{text}_{os.urandom(4).hex()}" for text in ("live", "restored")]
    with server.connect() as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")
    urls = [f"postgresql://postgres:{PASSWORD}@127.0.0.1:{server.port}/{name}" for name in names]

    def back_up() -> Callable[[], Store]:
        dump = folder / "noetl.dump"
        _run("pg_dump", "--format=custom", "--schema=noetl", f"--file={dump}", urls[0])
        _run("pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", f"--dbname={urls[1]}", str(dump))
        return lambda: PostgresStore(urls[1])

    yield Place(PostgresStore(urls[0]), back_up)
    with server.connect() as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run([_program(program), *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def sound(admin: httpx2.Client) -> int:
    body = admin.get("/api/v1/verify").json()
    assert body["violations"] == []
    return int(body["executions"])


def restored_server(store: Store, live: ApiServer) -> ApiServer:
    """A server on a restored store, with the tokens of the live one."""
    server = ApiServer(store)
    server.tokens.update(live.tokens)
    return server


def until_stored(store: Store, execution: str, status: str) -> None:
    """The API shows a state a moment before it is committed, and a backup in between would have the lease."""
    end = time.monotonic() + SECONDS
    while store.summaries(prefix=execution, limit=1)[0].status != status:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_restored_store_is_sound_and_its_open_executions_continue(place: Place) -> None:
    with closing(ApiServer(place.store)) as live, live.client("admin") as admin:
        register(admin)
        ended = started(admin, {"path": "tests/hello"})
        waiting = begun(admin, {"playbook": WAITS})
        until(admin, waiting, "waiting")
        until_stored(place.store, waiting, "waiting")
        reopen = place.back_up()
        later = started(admin, {"playbook": HELLO})["execution_id"]
    with closing(restored_server(reopen(), live)) as restored, restored.client("admin") as admin:
        assert sound(admin) == 2
        assert admin.get(f"/api/v1/executions/{ended['execution_id']}").json()["result"] == ended["result"]
        assert admin.get(f"/api/v1/executions/{later}").status_code == 404
        admin.post(f"/api/v1/executions/{waiting}/signals", json={"name": "go", "payload": 7})
        assert until(admin, waiting, "succeeded")["result"] == 7
        assert started(admin, {"path": "tests/hello"})["status"] == "succeeded"
        assert sound(admin) == 3


def test_workers_of_the_newer_store_are_not_heard(place: Place) -> None:
    """The backup knows of one lease; what was granted behind it, the restored store has never granted."""
    with closing(ApiServer(place.store)) as live:
        live.add_token("worker", "mine", pool="elsewhere")
        live.add_token("worker", "other", pool="elsewhere")
        with live.client("admin") as admin, live.client("mine") as mine:
            register(admin, ELSEWHERE)
            execution = begun(admin, {"path": "tests/elsewhere"})
            (first,) = claimed(mine)
            reopen = place.back_up()
            claim = wire.Claim("w", 1, "elsewhere", "next")
            (newer,) = map(wire.decode_work, reported(mine, first, e.StepDone(first.run, "newer"), claim=claim).works)
    with (
        closing(restored_server(reopen(), live)) as restored,
        restored.client("admin") as admin,
        restored.client("mine") as mine,
        restored.client("other") as other,
    ):
        assert reported(mine, newer, e.StepDone(newer.run, "of another time")).verdict == "rejected"
        beat = post_message(mine, "heartbeat", wire.HeartbeatRequest("w", "elsewhere", 1, {execution: [newer.fence]}))
        pulse = wire.decode_as(wire.HeartbeatReply, beat.content)
        assert [tuple(one) for one in pulse.revoked] == [(execution, newer.fence)]
        assert admin.get(f"/api/v1/executions/{execution}").json()["steps"]["start"]["status"] == "running"
        reported(mine, first, e.StepDone(first.run, "older"))
        (second,) = claimed(other)
        assert second.fence == newer.fence
        late = reported(mine, newer, e.StepDone(newer.run, "of another time"))
        assert late.verdict == "rejected"
        reported(other, second, e.StepDone(second.run, "done"))
        assert until(admin, execution, "succeeded")["result"] == "done"
        assert sound(admin) == 1


def test_a_report_under_a_fence_that_was_granted_again_is_rejected(place: Place) -> None:
    """The same worker may hold the fence of a lost grant, and get it again from the restored store."""
    with closing(ApiServer(place.store)) as live:
        live.add_token("worker", "mine", pool="elsewhere")
        with live.client("admin") as admin, live.client("mine") as mine:
            register(admin, ELSEWHERE)
            execution = begun(admin, {"path": "tests/elsewhere"})
            reopen = place.back_up()
            (lost,) = claimed(mine, claim_id="before")
    with (
        closing(restored_server(reopen(), live)) as restored,
        restored.client("admin") as admin,
        restored.client("mine") as mine,
    ):
        (again,) = claimed(mine, claim_id="after")
        assert (again.execution, again.fence, again.run) == (execution, lost.fence, lost.run)
        late = reported(mine, lost, e.StepDone(lost.run, "of another time"))
        assert (late.verdict, late.held) == ("rejected", False)
        assert reported(mine, again, e.StepDone(again.run, "done")).verdict == "accepted"
        assert admin.get(f"/api/v1/executions/{execution}").json()["steps"]["start"]["result"] == "done"
        assert sound(admin) == 1


def test_a_report_that_follows_lost_ones_is_rejected(place: Place) -> None:
    """The backup has the lease, but not the facts that were reported under it since."""
    with closing(ApiServer(place.store)) as live:
        live.add_token("worker", "mine", pool="elsewhere")
        with live.client("admin") as admin, live.client("mine") as mine:
            register(admin, ELSEWHERE)
            begun(admin, {"path": "tests/elsewhere"})
            (work,) = claimed(mine)
            reopen = place.back_up()
            begin = e.TaskStarted(TaskId(work.run, "task_1#1"))
            assert reported(mine, work, begin).verdict == "accepted"
    with (
        closing(restored_server(reopen(), live)) as restored,
        restored.client("admin") as admin,
        restored.client("mine") as mine,
    ):
        late = reported(mine, work, e.StepDone(work.run, "of another time"), first=1)
        assert (late.verdict, late.held) == ("rejected", False)
        assert sound(admin) == 1


def test_leases_of_the_backup_are_void_when_it_is_accepted(place: Place) -> None:
    """The worker of before is not heard, and its work is granted again under the next fence."""
    with closing(ApiServer(place.store)) as live:
        live.add_token("worker", "mine", pool="elsewhere")
        with live.client("admin") as admin, live.client("mine") as mine:
            register(admin, ELSEWHERE)
            execution = begun(admin, {"path": "tests/elsewhere"})
            (old,) = claimed(mine, claim_id="before")
            reopen = place.back_up()
    store = reopen()
    assert asyncio.run(accept_restore(store)) == []
    assert store.leases() == []
    with (
        closing(restored_server(store, live)) as restored,
        restored.client("admin") as admin,
        restored.client("mine") as mine,
    ):
        assert reported(mine, old, e.StepDone(old.run, "of another time")).verdict == "rejected"
        (again,) = claimed(mine, claim_id="after")
        assert (again.run, again.fence) == (old.run, old.fence + 1)
        claim = wire.Claim("w", 1, "elsewhere", "next")
        (last,) = map(wire.decode_work, reported(mine, again, e.StepDone(again.run, "new"), claim=claim).works)
        reported(mine, last, e.StepDone(last.run, "done"))
        assert until(admin, execution, "succeeded")["steps"]["start"]["result"] == "new"
        assert sound(admin) == 1
