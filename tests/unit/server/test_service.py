"""The service of a server with workers in the same process: many executions, fair turns, timers, children, losses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine import evolve
from noetl.engine.commands import Cancel, Claim, Pause, Resume, Signal
from noetl.engine.state import Execution
from noetl.engine.verify import verify
from noetl.errors import NotFound
from noetl.server import service as service_module
from noetl.server.local_link import LocalLink
from noetl.server.service import Service
from noetl.store import codec
from noetl.store.memory import MemoryStore
from noetl.store.ports import Store, WorkerSession
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS
from noetl.worker.output import Output
from noetl.worker.worker import Worker

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: story, path: tests/story}\n"
PATIENCE_SECONDS = 60.0

CHAIN = """
- {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: two}]}}
- {step: two, tool: {kind: noop, result: "{{ steps.start.result + 1 }}"}, next: {arcs: [{step: three}]}}
- {step: three, tool: {kind: noop, result: "{{ steps.two.result + 1 }}"}}
"""
LOOP = """
- step: start
  loop: {in: "{{ range(2000) }}", iterator: n, spec: {mode: parallel, collect: false}}
  tool: {kind: noop}
"""
CHILD = "- {step: start, tool: {kind: noop, result: '{{ workload.n * 2 }}'}}\n"
PARENT = """
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: playbook, path: child, args: {n: "{{ iter.n }}"}}
"""
WAITS = "- {step: start, tool: {kind: wait, signal: go, spec: {timeout: 60}}}\n"


def text_of(workflow: str) -> str:
    return HEAD + "workflow:\n" + indent(dedent(workflow), "  ")


class House:
    """A service, its background work, and a worker."""

    def __init__(self, store: Store) -> None:
        self.service = Service(store, SystemClock(), self._find)
        self.worker = Worker("w1", LocalLink(self.service, "default", Output(SystemClock())), KINDS, SystemClock(), 8)
        self.tasks: list[asyncio.Task[Any]] = []

    def _find(self, parent: Execution, request: dict[str, Any]) -> str:
        if request["path"] != "child":
            raise NotFound("no such playbook")
        return self.add(CHILD)

    def add(self, workflow: str) -> str:
        text = text_of(workflow)
        playbook = load("story.yaml", text, KINDS).require()
        runtime = self.service.runtime
        runtime.thread.submit(runtime.store.put_playbook, playbook.digest, "story.yaml", text.encode()).result()
        return runtime.add(playbook)

    def open(self, worker: bool = True) -> None:
        self.tasks.append(asyncio.create_task(self.service.run()))
        if worker:
            self.tasks.append(asyncio.create_task(self.work()))

    async def work(self) -> None:
        while True:
            if self.worker.free > 0:
                claim = Claim("w1", self.worker.free, "default")
                self.worker.take(await self.service.claim(claim, 0.2))
            else:
                await asyncio.sleep(0.002)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.worker.stop()

    async def ended(self, digest: str, payload: dict[str, Any] | None = None) -> Execution:
        state = await self.service.start(digest, payload or {}, {})
        return await self.service.wait(state.id, PATIENCE_SECONDS)

    def check(self, execution: str) -> None:
        store = self.service.store
        net = self.service.runtime.nets[store.summaries(prefix=execution)[0].digest]
        rows, derived = store.read(execution), store.derived(execution)
        status = store.summaries(prefix=execution)[0].status
        load_blob = lambda place, key: store.blob(key)  # noqa: E731
        assert verify(execution, rows, net, codec, load_blob, status, derived=derived) == []


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "noetl.db")


def play(store: Store, story: Callable[[House], Awaitable[None]], *, worker: bool = True) -> None:
    async def whole() -> None:
        house = House(store)
        house.open(worker)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await story(house)
        finally:
            await house.close()
        for one in store.summaries():
            house.check(one.execution_id)
        house.service.close()

    asyncio.run(whole())


def test_many_runs_at_once_all_end(store: Store) -> None:
    async def story(house: House) -> None:
        digest = house.add(CHAIN)
        ends = await asyncio.gather(*(house.ended(digest) for _ in range(50)))
        assert [(end.status, end.result) for end in ends] == [("succeeded", 3)] * 50

    play(store, story)


def test_a_long_loop_lets_others_through(store: Store) -> None:
    async def story(house: House) -> None:
        loop, chain = house.add(LOOP), house.add(CHAIN)
        long = await house.service.start(loop, {}, {})
        await asyncio.sleep(0.05)
        end = await house.ended(chain)
        assert end.status == "succeeded"
        assert not house.service.runtime.cells[long.id].state.over  # it was not waited for
        assert (await house.service.wait(long.id, PATIENCE_SECONDS)).status == "succeeded"

    play(store, story)


def test_children_are_started_and_their_results_come_back(store: Store) -> None:
    async def story(house: House) -> None:
        end = await house.ended(house.add(PARENT))
        assert end.result == [2, 4, 6]

    play(store, story)


def test_a_cancelled_parent_takes_its_children_along(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(House, "_find", lambda self, parent, request: self.add(WAITS))

    async def story(house: House) -> None:
        state = await house.service.start(house.add(PARENT), {}, {})
        async with asyncio.timeout(10):
            while len([one for one in store.summaries() if one.status == "waiting"]) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await house.service.handle(state.id, Cancel("enough"))
        async with asyncio.timeout(10):
            while any(one.status != "cancelled" for one in store.summaries()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    play(store, story)


def test_signals_pauses_and_timers(store: Store) -> None:
    async def story(house: House) -> None:
        waits = await house.service.start(house.add(WAITS), {}, {})
        await house.service.handle(waits.id, Pause())
        await house.service.handle(waits.id, Signal("go", "1", {"ok": True}))
        await house.service.handle(waits.id, Resume())
        assert (await house.service.wait(waits.id, 20)).result == {"ok": True}
        retried = house.add(
            """
            - step: start
              tool:
                - t:
                    kind: noop
                    result: "{{ 1 // (_attempt - 1) }}"
                    spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, delay: 5.2}}]}}
            """
        )
        assert (await house.ended(retried)).result == 1

    play(store, story)


def test_a_silent_worker_loses_its_leases(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "REAP_SECONDS", 0.05)
    monkeypatch.setattr(evolve, "LEASE_SECONDS", 0.3)

    async def story(house: House) -> None:
        state = await house.service.start(house.add(CHAIN), {}, {})
        session = WorkerSession("dead", "default", 4)
        await house.service.heartbeat(session)
        (work,) = await house.service.claim(Claim("dead", 1, "default", "c1"))
        assert await house.service.claim(Claim("dead", 1, "default", "c1")) == [work]  # asked again, the same answer
        house.tasks.append(asyncio.create_task(house.work()))
        end = await house.service.wait(state.id, 20)
        assert end.status == "succeeded"
        names = [row.type for row in store.read(state.id)]
        assert names.count("step.regranted") == 1

    play(store, story, worker=False)


def test_a_lease_that_never_arrived_is_given_to_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "GRANT_SECONDS", 0.0)

    async def story(house: House) -> None:
        state = await house.service.start(house.add(CHAIN), {}, {})
        await house.service.claim(Claim("w1", 1, "default", "lost"))
        await asyncio.sleep(0.01)
        await house.service.heartbeat(WorkerSession("w1", "default", 4))
        house.tasks.append(asyncio.create_task(house.work()))
        assert (await house.service.wait(state.id, 20)).status == "succeeded"

    play(store, story, worker=False)


def test_another_pool_does_not_get_the_work(store: Store) -> None:
    async def story(house: House) -> None:
        digest = house.add("- {step: start, spec: {pool: gpu}, tool: {kind: noop, result: 7}}")
        state = await house.service.start(digest, {}, {})
        assert await house.service.claim(Claim("w1", 4, "default")) == []
        (work,) = await house.service.claim(Claim("w2", 4, "gpu"))
        assert work.execution == state.id
        house.worker.take([work])
        assert (await house.service.wait(state.id, 20)).result == 7

    play(store, story)
