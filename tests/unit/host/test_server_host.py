"""The host of a server with workers in the same process: many executions, fair turns, timers, children, losses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from msgspec import structs
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS
from tests.verifying import verify

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine import leases as lease_rules
from noetl.engine.commands import Cancel, Claim, Pause, Report, Resume, Signal
from noetl.engine.events import TaskStarted
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound
from noetl.host import dispatcher, heartbeats, recovery, server_host
from noetl.host.local_link import LocalLink
from noetl.host.server_host import ServerHost
from noetl.model.identity import TaskId
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store, WorkerSession
from noetl.tools.registry import KINDS
from noetl.worker.output import OutputBuffer
from noetl.worker.work import Work
from noetl.worker.worker import Worker

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: story, path: tests/story}\n"

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
LONG = LOOP.replace("2000", "20000")
CHILD = "- {step: start, tool: {kind: noop, result: '{{ workload.n * 2 }}'}}\n"
PARENT = """
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: playbook, path: child, args: {n: "{{ iter.n }}"}}
"""
WAITS = "- {step: start, tool: {kind: wait, signal: go, spec: {timeout: 60}}}\n"


def text_of(workflow: str) -> str:
    return HEAD + "workflow:\n" + indent(dedent(workflow), "  ")


def new_host(store: Store, house: House) -> ServerHost:
    on_error = lambda message, execution: house.errors.append((message, execution))  # noqa: E731
    return ServerHost(LoadedPlaybooks(store), SystemClock(), house._find, on_error=on_error)


def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scan brings one row, and the next scan comes soon."""
    for module, name, value in [
        (dispatcher, "SCAN_LIMIT", 1),
        (dispatcher, "TIMERS_PER_SCAN", 1),
        (heartbeats, "LEASES_PER_SCAN", 1),
        (recovery, "STRAYS_PER_SCAN", 1),
        (dispatcher, "SCAN_SECONDS", 0.01),
        (server_host, "TICK_SECONDS", 0.01),
        (server_host, "SWEEP_SECONDS", 0.05),
    ]:
        monkeypatch.setattr(module, name, value)


class House:
    """A host, its background work, and a worker."""

    def __init__(self, store: Store) -> None:
        self.errors: list[tuple[str, str | None]] = []
        self.host = new_host(store, self)
        output = OutputBuffer(SystemClock())
        link = LocalLink(self.host.dispatcher, output, "default")
        self.worker = Worker("w1", link, KINDS, SystemClock(), 8, output.write)
        self.tasks: list[asyncio.Task[Any]] = []

    async def _find(self, parent: Execution, request: dict[str, Any]) -> str:
        if request["path"] != "child":
            raise NotFound("no such playbook")
        return self.add(CHILD)

    def add(self, workflow: str, *, stored: bool = True) -> str:
        text = text_of(workflow)
        playbook = load("story.yaml", text, KINDS).require()
        runtime = self.host.runtime
        if stored:
            runtime.thread.submit(runtime.store.put_playbook, playbook.digest, "story.yaml", text.encode()).result()
        return runtime.playbooks.add(playbook)

    def open(self, worker: bool = True) -> None:
        self.tasks.append(asyncio.create_task(self.host.run()))
        if worker:
            self.tasks.append(asyncio.create_task(self.work()))

    async def work(self) -> None:
        while True:
            if self.worker.free > 0:
                claim = Claim("w1", self.worker.free, "default")
                self.worker.take(await self.host.dispatcher.claim(claim, 0.2))
            else:
                await asyncio.sleep(0.002)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.worker.stop()

    async def ended(self, digest: str, payload: dict[str, Any] | None = None) -> Execution:
        state = await self.host.runtime.start(digest, payload or {}, {})
        return await self.host.wait(state.id, PATIENCE_SECONDS)

    def check(self, execution: str) -> None:
        store = self.host.runtime.store
        net = self.host.runtime.playbooks.get(store.summaries(prefix=execution)[0].digest)
        rows, derived = store.read(execution), store.derived(execution)
        status = store.summaries(prefix=execution)[0].status
        load_blob = lambda place, key: store.blob(key)  # noqa: E731
        assert verify(execution, rows, net, load_blob, status, derived=derived) == []


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "noetl.db")


def play(store: Store, story: Callable[[House], Awaitable[None]], *, worker: bool = True, opened: bool = True) -> None:
    async def whole() -> None:
        house = House(store)
        if opened:
            house.open(worker)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await story(house)
        finally:
            await house.close()
        for summary in store.summaries():
            house.check(summary.execution_id)
        house.host.runtime.close()

    asyncio.run(whole())


def test_many_runs_at_once_all_end(store: Store) -> None:
    async def story(house: House) -> None:
        digest = house.add(CHAIN)
        ends = await asyncio.gather(*(house.ended(digest) for _ in range(50)))
        assert [(end.status, end.result) for end in ends] == [("succeeded", 3)] * 50

    play(store, story)


def test_a_long_loop_lets_others_through(store: Store) -> None:
    async def story(house: House) -> None:
        loop, chain = house.add(LONG), house.add(CHAIN)
        long = await house.host.runtime.start(loop, {}, {})
        await asyncio.sleep(0.05)  # it fills the slots
        end = await house.ended(chain)
        assert end.status == "succeeded"
        assert not house.host.runtime.executions[long.id].state.over  # it was not waited for
        await house.host.runtime.committer.handle(long.id, Cancel("enough"))
        assert (await house.host.wait(long.id, PATIENCE_SECONDS)).status == "cancelled"

    play(store, story)


def test_children_are_started_and_their_results_come_back(store: Store) -> None:
    async def story(house: House) -> None:
        end = await house.ended(house.add(PARENT))
        assert end.result == [2, 4, 6]

    play(store, story)


def test_a_cancelled_parent_takes_its_children_along(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(house: House, parent: Execution, request: dict[str, Any]) -> str:
        return house.add(WAITS)

    monkeypatch.setattr(House, "_find", find)

    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(PARENT), {}, {})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len([summary for summary in store.summaries() if summary.status == "waiting"]) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(summary.status != "cancelled" for summary in store.summaries()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    play(store, story)


def test_signals_pauses_and_timers(store: Store) -> None:
    async def story(house: House) -> None:
        waits = await house.host.runtime.start(house.add(WAITS), {}, {})
        await house.host.runtime.committer.handle(waits.id, Pause())
        await house.host.runtime.committer.handle(waits.id, Signal("go", "1", {"ok": True}))
        await house.host.runtime.committer.handle(waits.id, Resume())
        assert (await house.host.wait(waits.id, PATIENCE_SECONDS)).result == {"ok": True}
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
    monkeypatch.setattr(server_host, "REAP_SECONDS", 0.05)
    monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.3)

    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        session = WorkerSession("dead", "default", 4)
        await house.host.heartbeats.record(session)
        (work,) = await house.host.dispatcher.claim(Claim("dead", 1, "default", "c1"))
        assert await house.host.dispatcher.claim(Claim("dead", 1, "default", "c1"), is_repeated=True) == [
            work
        ]  # the same answer
        house.tasks.append(asyncio.create_task(house.work()))
        end = await house.host.wait(state.id, PATIENCE_SECONDS)
        assert end.status == "succeeded"
        names = [row.type for row in store.read(state.id)]
        assert names.count("step.regranted") == 1

    play(store, story, worker=False)


def test_a_lease_that_never_arrived_is_given_to_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "GRANT_SECONDS", 0.0)  # and the server has listened for longer than that

    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        await house.host.dispatcher.claim(Claim("w1", 1, "default", "lost"))
        await asyncio.sleep(0.01)
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4))
        house.tasks.append(asyncio.create_task(house.work()))
        assert (await house.host.wait(state.id, PATIENCE_SECONDS)).status == "succeeded"

    play(store, story, worker=False)


def test_a_process_that_bears_the_name_of_another_gives_its_leases_back(store: Store) -> None:
    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=1.0))
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        lease = {work.execution: [work.fence]}
        assert await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=1.0, leases=lease)) == (
            [],
            [],
            "",
        )
        assert await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=1.0)) == ([], [], "")
        assert house.host.runtime.executions[state.id].state.leases  # it may be on its way
        other = new_host(store, house)  # which has never heard of the worker
        await other.heartbeats.record(WorkerSession("w1", "default", 4, started=2.0), 1.0)
        other.runtime.thread.shutdown()
        house.tasks.append(asyncio.create_task(house.work()))
        assert (await house.host.wait(state.id, PATIENCE_SECONDS)).status == "succeeded"
        assert [row.type for row in store.read(state.id)].count("step.regranted") == 1

    play(store, story, worker=False)


def test_an_older_process_of_the_same_name_takes_no_leases(store: Store) -> None:
    """It was stopped, another one was started in its place, and it goes on."""

    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=1.0))
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=2.0), 1.0)
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        other = new_host(store, house)
        for host in (house.host, other):
            with pytest.raises(Conflict, match="another process runs as worker 'w1'"):
                await host.heartbeats.record(WorkerSession("w1", "default", 4, started=1.0))
        other.runtime.thread.shutdown()
        lease = {work.execution: [work.fence]}
        answer = await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=2.0, leases=lease))
        assert answer == ([], [], "")
        assert list(house.host.runtime.executions[state.id].state.leases) == [work.fence]
        store.record_heartbeat(WorkerSession("w1", "default", 4, started=2.0), time.time() - 31)  # silent since
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4, started=1.0))
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False)


def test_a_delayed_heartbeat_of_an_earlier_process_takes_no_leases(store: Store) -> None:
    """Its first one, which arrives after the start of its successor. The clock of the worker was set back in between,
    so the earlier process seems to be the later one."""

    async def story(house: House) -> None:
        record = house.host.heartbeats.record
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        await record(WorkerSession("w1", "default", 4, started=1_000.0, number=1), 0.0)
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        delayed = WorkerSession("w1", "default", 4, started=1_040.0, number=1)
        for replaces in (0.0, 960.0):
            with pytest.raises(heartbeats.NameTaken) as caught:
                await record(delayed, replaces)
            assert caught.value.holder == 1_000.0
        lease = {work.execution: [work.fence]}
        mine = WorkerSession("w1", "default", 4, started=1_000.0, number=2, leases=lease)
        assert (await record(mine)).revoked == []
        await record(delayed, 1_000.0)  # not a delayed one: its process knows of the other one
        assert (await record(structs.replace(delayed, leases=lease, number=2))).revoked == [(state.id, work.fence)]
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False)


def test_a_claim_that_is_repeated_at_another_server_gets_no_lease_with_accepted_facts(store: Store) -> None:
    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        other = new_host(store, house)
        await other.runtime.executions.load(state.id)
        started = TaskStarted(TaskId(work.run, "task_1#1"))
        await house.host.dispatcher.report(state.id, Report(work.fence, (started,)))
        assert await other.dispatcher.claim(Claim("w1", 1, "default", "c1"), is_repeated=True) == []
        other.runtime.thread.shutdown()
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False)


def test_a_claim_that_is_repeated_at_another_server_gets_its_leases(store: Store) -> None:
    async def story(house: House) -> None:
        chain, loop = house.add(CHAIN), house.add(LOOP)
        await house.host.runtime.start(chain, {}, {})
        await house.host.runtime.start(loop, {}, {})
        works = await house.host.dispatcher.claim(Claim("w1", 3, "default", "c1"))
        await house.host.dispatcher.claim(Claim("w2", 1, "default", "c1"))  # a worker of another name
        other = new_host(store, house)
        again = await other.dispatcher.claim(Claim("w1", 3, "default", "c1"), is_repeated=True)
        assert sorted(again, key=_lease) == sorted(works, key=_lease)
        assert len(works) == 3
        assert await other.dispatcher.claim(Claim("w1", 3, "default", "c0"), is_repeated=True) != again
        other.runtime.thread.shutdown()
        for summary in store.summaries():
            await house.host.runtime.committer.handle(summary.execution_id, Cancel("enough"))

    play(store, story, worker=False)


def _lease(work: Work) -> tuple[str, int]:
    return work.execution, work.fence


def test_everybodys_turn_comes_however_many_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was started anew knows nothing but the store, and some of them never stop being ready."""
    for module, name, value in [
        (dispatcher, "SCAN_LIMIT", 3),
        (dispatcher, "SCAN_PAGE", 4),
        (server_host, "MAX_QUEUED", 5),
        (dispatcher, "SCAN_SECONDS", 0.01),
        (dispatcher, "MAX_QUEUED", 5),
        (server_host, "SWEEP_SECONDS", 0.05),
        (server_host, "TICK_SECONDS", 0.01),
    ]:
        monkeypatch.setattr(module, name, value)

    async def story(house: House) -> None:
        loop, chain = house.add(LONG), house.add(CHAIN)
        for _ in range(7):  # more than are looked at, and they come first in every list
            await house.host.runtime.start(loop, {}, {})
        last = await house.host.runtime.start(chain, {}, {})
        other = House(store)
        other.add(LONG), other.add(CHAIN)
        other.open()
        result = await other.host.wait(last.id, PATIENCE_SECONDS)
        assert result.status == "succeeded"
        assert not all(
            summary.status == "succeeded" for summary in store.summaries()
        )  # nobody had to wait for the loops
        for summary in store.summaries(statuses=["running"]):
            await other.host.runtime.committer.handle(summary.execution_id, Cancel("enough"))
        await other.close()
        other.host.runtime.thread.shutdown()

    play(store, story, worker=False)


def test_many_ready_runs_of_a_store_are_all_done_by_a_new_server(store: Store) -> None:
    async def story(house: House) -> None:
        digest = house.add(CHAIN)
        names = [(await house.host.runtime.start(digest, {}, {})).id for _ in range(250)]
        other = House(store)
        other.add(CHAIN)
        other.open()
        for name in names:
            assert (await other.host.wait(name, PATIENCE_SECONDS)).status == "succeeded"
        await other.close()
        other.host.runtime.thread.shutdown()

    play(store, story, worker=False)


def test_what_cannot_be_read_is_in_nobodys_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The playbook of the first ones is gone. It is told, and claims and timers of the others go on."""
    one_at_a_time(monkeypatch)
    waits = WAITS.replace("timeout: 60", "timeout: 0.1")

    async def story(house: House) -> None:
        before = House(store)  # nobody keeps its time, nor works for it
        gone, good = before.add(waits, stored=False), before.add(waits.replace("go", "come"))
        chain_gone, chain = before.add(CHAIN, stored=False), before.add(CHAIN + CHILD.replace("start", "other"))
        names = [(await before.host.runtime.start(digest, {}, {})).id for digest in (gone, good)]
        before.worker.take(await before.host.dispatcher.claim(Claim("w1", 8, "default")))
        await _until(lambda: len(store.summaries(statuses=["waiting"])) == 2)
        names += [(await before.host.runtime.start(digest, {}, {})).id for digest in (chain_gone, chain)]
        await before.close()
        before.host.runtime.thread.shutdown()
        house.open()
        assert (await house.host.wait(names[1], PATIENCE_SECONDS)).status == "failed"  # its time was over
        assert (await house.host.wait(names[3], PATIENCE_SECONDS)).status == "succeeded"
        await _until(lambda: {summary.execution_id for summary in store.summaries(statuses=["running"])} == {names[2]})
        await _until(lambda: {execution for _, execution in house.errors} == {names[0], names[2]})
        house.add(waits), house.add(CHAIN)  # for the proof at the end
        for name in (names[0], names[2]):
            await house.host.runtime.committer.handle(name, Cancel("enough"))

    play(store, story, opened=False)


async def _until(look: Callable[[], bool]) -> None:
    while not look():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def test_another_pool_does_not_get_the_work(store: Store) -> None:
    async def story(house: House) -> None:
        digest = house.add("- {step: start, spec: {pool: gpu}, tool: {kind: noop, result: 7}}")
        state = await house.host.runtime.start(digest, {}, {})
        assert await house.host.dispatcher.claim(Claim("w1", 4, "default")) == []
        (work,) = await house.host.dispatcher.claim(Claim("w2", 4, "gpu"))
        assert work.execution == state.id
        house.worker.take([work])
        assert (await house.host.wait(state.id, PATIENCE_SECONDS)).result == 7

    play(store, story)


def test_a_waiting_claim_is_answered_when_the_server_stops(store: Store) -> None:
    async def story(house: House) -> None:
        waiting = asyncio.create_task(house.host.dispatcher.claim(Claim("w1", 4, "default"), 10 * PATIENCE_SECONDS))
        await _until(lambda: house.host.dispatcher.queue.idle_claims["default"] == 1)
        house.host.release_waiters()
        assert await waiting == []
        assert await house.host.dispatcher.claim(Claim("w1", 4, "default"), 10 * PATIENCE_SECONDS) == []

    play(store, story, worker=False)
