"""Long work on a store, beside its commits: old executions go, and logs are proved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path
from sqlite3 import connect
from threading import Event

import httpx2
import msgspec
import pytest
from api_server import HELLO, WAITS, ApiServer, begun, register, started, until
from bench.long_run import fill, write
from tests.conformance.memory import MemoryStore

from noetl.errors import StoreError
from noetl.log import Log
from noetl.server import maintenance
from noetl.server.maintenance import Maintenance, Pruner, Verified
from noetl.server.telemetry import Telemetry
from noetl.store.sqlite import SqliteStore
from noetl.store.sqlite.backup import copy_database
from noetl.store.store import Store, Summary

DAY = 86_400.0


@pytest.fixture(params=["memory", "sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiServer]:
    one = ApiServer(SqliteStore(tmp_path / "noetl.db") if request.param == "sqlite" else None)
    yield one
    one.close()


def pruner(server: ApiServer, days: float = 30) -> Pruner:
    api = server.app.api
    return Pruner(api.maintenance, server.clock, days * DAY, api.telemetry)


# -- retention ------------------------------------------------------------------------------------------------------


def test_what_ended_long_ago_goes_and_the_rest_stays(kept: ApiServer) -> None:
    with kept.client("admin") as admin:
        old = started(admin, {"playbook": HELLO})["execution_id"]
        waiting = begun(admin, {"playbook": WAITS})
        until(admin, waiting, "waiting")
        now = kept.clock.now()
        assert kept.do(pruner(kept).prune_once(now + 29 * DAY)) == 0
        assert kept.do(pruner(kept).prune_once(now + 31 * DAY)) == 1
        assert admin.get(f"/api/v1/executions/{old}").status_code == 404
        assert [item["execution_id"] for item in admin.get("/api/v1/executions").json()["items"]] == [waiting]
        admin.post(f"/api/v1/executions/{waiting}/signals", json={"name": "go"})
        assert until(admin, waiting, "succeeded")
        assert "noetl_executions_pruned_total 1" in admin.get("/metrics").text


def test_more_than_a_batch_goes_in_one_round(kept: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "EXECUTIONS_PER_BATCH", 2)
    with kept.client("admin") as admin:
        for _ in range(5):
            started(admin, {"playbook": HELLO})
    assert kept.do(pruner(kept).prune_once(kept.clock.now() + 31 * DAY)) == 5


def test_several_servers_remove_each_execution_once(tmp_path: Path) -> None:
    server = ApiServer(SqliteStore(tmp_path / "noetl.db"))
    try:
        with server.client("admin") as admin:
            for _ in range(10):
                started(admin, {"playbook": HELLO})
        api = server.app.api
        keepers = [Maintenance(server.store, api.thread.ask) for _ in range(3)]
        pruners = [Pruner(keeper, server.clock, 30 * DAY, api.telemetry) for keeper in keepers]

        async def together() -> list[int]:
            return await asyncio.gather(*(one.prune_once(server.clock.now() + 31 * DAY) for one in pruners))

        assert sum(server.do(together())) == 10
        for keeper in keepers:
            keeper.close()
        with server.client("admin") as admin:
            assert admin.get("/api/v1/executions").json()["items"] == []
            assert started(admin, {"playbook": HELLO})["status"] == "succeeded"
    finally:
        server.close()


class Impatient:
    """A clock whose pauses are short, and are counted."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def now(self) -> float:
        return 100 * DAY

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class Troubled:
    """A store that fails the first time."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.enough = Event()

    def reopen(self) -> Troubled:
        return self

    def prune(self, before: float, limit: int) -> int:
        self.asked.append(before)
        if len(self.asked) == 4:
            self.enough.set()
        if len(self.asked) == 1:
            raise StoreError("the disk is gone")
        return 0 if len(self.asked) % 2 else 1


def test_a_pruner_that_fails_reports_it_and_continues() -> None:
    said, clock, store = StringIO(), Impatient(), Troubled()

    async def run() -> None:
        keeper = Maintenance(store, asyncio.to_thread)  # type: ignore[arg-type]
        loop = asyncio.create_task(Pruner(keeper, clock, 30 * DAY, Telemetry(Log(stream=said))).run())
        await asyncio.to_thread(store.enough.wait, 60)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        keeper.close()

    asyncio.run(run())
    lines = [msgspec.json.decode(line) for line in said.getvalue().splitlines()]
    assert [line["msg"] for line in lines[:2]] == ["cannot prune", "pruned"]
    assert (lines[0]["level"], lines[0]["error"], lines[1]["executions"]) == ("warning", "the disk is gone", 1)
    assert store.asked[0] == 70 * DAY
    assert clock.pauses[:2] == [60.0, 3600.0]


# -- the routes -----------------------------------------------------------------------------------------------------


def prune(client: httpx2.Client, **body: object) -> dict[str, object]:
    answer = client.post("/api/v1/executions/prune", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_dry_run_lists_and_removes_nothing(kept: ApiServer) -> None:
    with kept.client("admin") as admin:
        old = started(admin, {"playbook": HELLO})["execution_id"]
        assert prune(admin)["items"] == []
        result = prune(admin, older_than=0, dry_run=True)
        assert [item["execution_id"] for item in result["items"]] == [old]  # type: ignore[attr-defined]
        assert (result["removed"], result["more"]) == (0, False)
        assert admin.get(f"/api/v1/executions/{old}").status_code == 200
        assert prune(admin, older_than=0) == {"removed": 1, "more": False, "items": []}
        assert admin.get(f"/api/v1/executions/{old}/events").status_code == 404


@pytest.mark.parametrize("age", [-1, 1e20])
def test_an_age_that_makes_no_sense_is_refused(server: ApiServer, admin: httpx2.Client, age: float) -> None:
    assert admin.post("/api/v1/executions/prune", json={"older_than": age}).status_code == 422


def test_sound_logs_are_sound(kept: ApiServer) -> None:
    with kept.client("admin") as admin, kept.client("operator") as operator:
        execution_id = started(admin, {"playbook": HELLO})["execution_id"]
        register(admin)
        begun(admin, {"playbook": WAITS})
        sound = {"executions": 1, "violations": []}
        assert operator.get(f"/api/v1/executions/{execution_id}/verify").json() == sound
        assert operator.get("/api/v1/verify").json() == {"executions": 2, "violations": [], "next": None}
        page = operator.get("/api/v1/verify?limit=1").json()
        assert page["executions"] == 1
        rest = operator.get("/api/v1/verify", params={"cursor": page["next"]}).json()
        assert rest == {"executions": 1, "violations": [], "next": None}
        missing = f"/api/v1/executions/{execution_id[:-4]}0000/verify"
        assert operator.get(missing).status_code == 404
        assert operator.get("/api/v1/verify?cursor=x").status_code == 422


@pytest.mark.damaged_log("rows of the log are changed")
def test_a_damaged_log_is_reported(kept: ApiServer) -> None:
    with kept.client("admin") as admin:
        execution_id = started(admin, {"playbook": HELLO})["execution_id"]
    damage(kept.store, execution_id)
    with kept.client("admin") as admin:
        answer = admin.get("/api/v1/verify").json()
    assert answer["executions"] == 1
    assert {violation["execution_id"] for violation in answer["violations"]} == {execution_id}
    assert answer["violations"] == admin_of(kept, execution_id)


def test_a_database_that_went_backwards_is_named_once_with_the_commit_that_it_lacks(tmp_path: Path) -> None:
    """Without waiting for the server to notice it by itself."""
    store = SqliteStore(tmp_path / "noetl.db")
    with closing(ApiServer(store)) as server, server.client("admin") as admin:
        execution_id = started(admin, {"playbook": HELLO})["execution_id"]
        assert admin.get("/api/v1/verify").json()["violations"] == []
        copy_database(store.path, tmp_path / "backup.db")
        lost = started(admin, {"playbook": HELLO})["execution_id"]
        with closing(connect(tmp_path / "backup.db")) as copy, closing(connect(store.path)) as live:
            copy.backup(live)
        for path in ("/api/v1/verify", f"/api/v1/executions/{execution_id}/verify"):
            (violation,) = admin.get(path).json()["violations"]
            assert (violation["invariant"], violation["execution_id"]) == ("last_commit", lost)
            assert "noetl restore --accept" in violation["message"]


def admin_of(server: ApiServer, execution: str) -> object:
    with server.client("admin") as admin:
        return admin.get(f"/api/v1/executions/{execution}/verify").json()["violations"]


def damage(store: Store, execution: str) -> None:
    """Say in the list what the log does not say."""
    from noetl.store.store import Change

    (result,) = store.summaries(prefix=execution)
    wrong = Summary(**{name: getattr(result, name) for name in Summary.__struct_fields__} | {"status": "failed"})
    assert store.commit([Change(execution, store.seq(execution), [], wrong)]) == [True]


# -- beside other work ----------------------------------------------------------------------------------------------


def test_a_long_log_is_verified_in_parts_and_other_work_goes_between(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "noetl.db")
    write(store.path, 20_000)
    (summary,) = store.summaries()

    async def unused(*_: object) -> None:
        raise AssertionError("it has a connection of its own")

    async def beside() -> None:
        keeper = Maintenance(store, unused)
        verifying = asyncio.create_task(keeper.verify(summary.execution_id))
        await keeper.do(lambda store: store.prunable(0.0, 1))
        assert not verifying.done()
        assert await verifying == Verified(1, [])
        keeper.close()

    asyncio.run(beside())
    store.close()


def test_a_store_with_one_thread_is_requested_a_part_at_a_time() -> None:
    """A store in memory has no second connection: commits wait for no more than a part of the log."""
    store = MemoryStore()
    fill(store, 20_000)
    (summary,) = store.summaries()
    asked = 0

    async def in_store(work: Callable[..., object], *arguments: object) -> object:
        nonlocal asked
        asked += 1
        return work(*arguments)

    async def verify() -> None:
        keeper = Maintenance(store, in_store)
        assert await keeper.verify(summary.execution_id) == Verified(1, [])
        keeper.close()

    asyncio.run(verify())
    assert asked > 20
