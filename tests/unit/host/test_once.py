"""Each background loop of a server, one pass at a time: no loop runs here, so nothing happens but what a test calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from test_server_host import CHAIN, CHILD, PARENT, WAITS, House, new_host
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS, until_async

from noetl.engine import leases as lease_rules
from noetl.engine.commands import Cancel, Claim, Pause, Resume
from noetl.engine.state import Execution
from noetl.errors import StoreError
from noetl.host import recovery, server_host
from noetl.host.children import waits_for_children
from noetl.store.store import Change, WorkerSession

SECONDS = PATIENCE_SECONDS


def play(story: Callable[[House], Awaitable[None]], store: MemoryStore | None = None) -> None:
    async def whole() -> None:
        house = House(store or MemoryStore())
        try:
            async with asyncio.timeout(SECONDS):
                await story(house)
        finally:
            await house.close()
            house.host.runtime.thread.shutdown()

    asyncio.run(whole())


async def work_off(house: House) -> None:
    """Run what is ready, until nothing is."""
    while works := await house.host.dispatcher.claim(Claim("w1", 8, "default")):
        house.worker.take(works)
        await asyncio.gather(*house.worker.tasks)


def test_the_ticker_fires_a_timer_that_is_due_and_no_other() -> None:
    async def story(house: House) -> None:
        host = house.host
        late = await host.runtime.start(house.add(WAITS), {}, {})
        state = await host.runtime.start(house.add(WAITS.replace("timeout: 60", "timeout: 0.01")), {}, {})
        await work_off(house)
        await asyncio.sleep(0.05)
        await host.tick_once()
        await work_off(house)
        assert (await host.runtime.executions.state(late.id)).shown_status == "waiting"
        assert (await host.runtime.executions.state(state.id)).status == "failed"

    play(story)


def test_the_reaper_expires_leases_of_a_silent_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.01)

    async def story(house: House) -> None:
        host = house.host
        host.stall.__init__(iter([0.0, *[2.0] * 100]).__next__)  # type: ignore[misc]
        state = await host.runtime.start(house.add(CHAIN), {}, {})
        await host.heartbeats.record(WorkerSession("gone", "default", 1))
        (work,) = await host.dispatcher.claim(Claim("gone", 1, "default"))
        await asyncio.sleep(0.05)
        assert work.fence in (await host.runtime.executions.state(state.id)).leases
        await host.heartbeats.expire_once()
        assert not (await host.runtime.executions.state(state.id)).leases
        await host.runtime.committer.handle(state.id, Cancel("enough"))

    play(story)


def test_the_syncer_starts_children_and_delivers_their_ends() -> None:
    async def story(house: House) -> None:
        host = house.host
        parent = await host.runtime.start(house.add(PARENT), {}, {})
        await work_off(house)
        assert len(host.runtime.store.summaries()) == 1
        await host.sync_once()
        assert len(host.runtime.store.summaries()) == 4
        await work_off(house)
        await host.sync_once()
        await work_off(house)
        assert (await host.runtime.executions.state(parent.id)).result == [2, 4, 6]

    play(story)


class FailingStore(MemoryStore):
    """Once its gate is closed, the next commit waits for the gate and fails."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        if self.gate.is_set():
            return super().commit(changes)
        assert self.gate.wait(SECONDS)
        raise StoreError("the disk has failed")


def test_no_child_is_started_for_a_wait_that_could_not_be_stored() -> None:
    """It would be cancelled, and its id is that of the child which the repeated task starts."""
    store = FailingStore()

    async def story(house: House) -> None:
        host = house.host
        parent = await host.runtime.start(house.add(PARENT), {}, {})
        works = await host.dispatcher.claim(Claim("w1", 8, "default"))
        store.gate.clear()
        house.worker.take(works)
        decided = host.runtime.executions[parent.id]
        await until_async(lambda: any(waits_for_children(decided.state)))
        sync = asyncio.create_task(host.children.sync(parent.id))
        await asyncio.sleep(0.01)
        store.gate.set()
        await sync
        assert len(store.summaries()) == 1
        await host.runtime.committer.handle(parent.id, Cancel("enough"))

    play(story, store)


def test_a_child_whose_playbook_cannot_be_read_for_now_is_started_later() -> None:
    async def story(house: House) -> None:
        host = house.host
        parent = await host.runtime.start(house.add(PARENT), {}, {})
        await work_off(house)
        find_playbook, host.children.find_playbook = host.children.find_playbook, _out_of_files
        with pytest.raises(StoreError):
            await host.children.sync(parent.id)
        state = host.runtime.executions[parent.id].state
        assert len(list(waits_for_children(state))) == 3
        host.children.find_playbook = find_playbook
        await host.children.sync(parent.id)
        assert len(host.runtime.store.summaries(parent=parent.id)) == 3

    play(story)


async def _out_of_files(parent: Execution, request: dict[str, Any]) -> str:
    raise StoreError("cannot start the compile process: [Errno 24] Too many open files")


def test_a_recovery_finds_what_another_server_left_behind() -> None:
    store = MemoryStore()

    async def crash(house: House) -> None:
        await house.host.runtime.start(house.add(PARENT), {}, {})
        await work_off(house)  # the children are requested, and nobody starts them

    async def recover(house: House) -> None:
        house.add(PARENT), house.add(CHILD)
        for _ in range(3):  # a parent is read when its log has not changed between two scans
            await house.host.recovery.recover_once()
        await house.host.sync_once()
        await work_off(house)
        await house.host.sync_once()
        await work_off(house)
        assert sorted(summary.status for summary in store.summaries()) == ["succeeded"] * 4

    play(crash, store)
    play(recover, store)


def test_a_recovery_looks_for_work_for_claims_that_wait() -> None:
    store = MemoryStore()

    async def start(house: House) -> None:
        await house.host.runtime.start(house.add(CHAIN), {}, {})

    async def recover(house: House) -> None:
        house.add(CHAIN)
        queue = house.host.dispatcher.queue
        await house.host.recovery.recover_once()
        assert not queue.by_pool
        queue.idle_claims["default"] += 1
        await house.host.recovery.recover_once()
        assert [*queue.by_pool["default"]] == [summary.execution_id for summary in store.summaries()]
        await work_off(house)

    play(start, store)
    play(recover, store)


def test_a_recovery_reads_a_parent_again_when_its_log_has_changed() -> None:
    async def story(house: House) -> None:
        host = house.host
        parent = await host.runtime.start(house.add(PARENT), {}, {})
        for _ in range(2):
            await host.recovery.recover_once()  # it waits for no child yet
        await work_off(house)
        host.families.take()  # as if the server that was notified had been killed
        for _ in range(2):
            await host.recovery.recover_once()
        assert host.families.take() == [parent.id]

    play(story)


def test_a_stray_child_that_cannot_be_decided_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "STRAYS_PER_SCAN", 1)

    async def story(house: House) -> None:
        host = house.host
        await host.runtime.committer.handle(await start_family(house), Cancel("enough"))
        host.families.take()
        first, second, _ = host.runtime.store.stray_children(10)
        host.recovery.commands.back_off(first, ValueError("damaged"))
        await host.recovery.recover_once()
        assert host.families.take() == [second]

    play(story)


def test_a_recovery_resumes_children_whose_parent_another_server_has_resumed() -> None:
    store = MemoryStore()

    async def crash(house: House) -> None:
        parent = await start_family(house)
        await house.host.runtime.committer.handle(parent, Pause())
        await house.host.sync_once()
        assert [summary.status for summary in store.summaries()] == ["paused"] * 4
        await house.host.runtime.committer.handle(parent, Resume())  # and nobody tells the children

    async def recover(house: House) -> None:
        house.add(PARENT), house.add(CHILD)
        await house.host.recovery.recover_once()
        await house.host.sync_once()
        assert "paused" not in [summary.status for summary in store.summaries()]

    play(crash, store)
    play(recover, store)


def test_a_server_with_an_old_state_of_a_paused_parent_leaves_its_children_paused() -> None:
    store = MemoryStore()

    async def story(house: House) -> None:
        parent = await start_family(house)
        other = new_host(store, house)
        await other.runtime.executions.load(parent)
        await house.host.runtime.committer.handle(parent, Pause())
        await house.host.sync_once()
        for child in store.children(parent):
            await other.runtime.committer.stored_state(child.execution_id)
            await other.children.sync(child.execution_id)
        assert [summary.status for summary in store.summaries()] == ["paused"] * 4
        other.runtime.thread.shutdown()

    play(story, store)


async def start_family(house: House) -> str:
    """The id of a parent whose three children are running."""
    parent = await house.host.runtime.start(house.add(PARENT), {}, {})
    await work_off(house)
    await house.host.sync_once()
    return parent.id


def test_the_sweeper_queues_ready_work_and_unloads_idle_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_host, "MAX_IDLE_EXECUTIONS", 2)
    store = MemoryStore()

    async def crash(house: House) -> None:
        for _ in range(5):
            await house.host.runtime.start(house.add(CHAIN), {}, {})

    async def sweep(house: House) -> None:
        house.add(CHAIN)
        await house.host.sweep_once()
        assert len(house.host.dispatcher.queue.by_pool["default"]) == 5
        await work_off(house)
        await house.host.sweep_once()
        assert len(house.host.runtime.executions) == 2
        assert {summary.status for summary in store.summaries()} == {"succeeded"}

    play(crash, store)
    play(sweep, store)


def test_a_claim_finds_ready_work_that_no_hint_has_named() -> None:
    store = MemoryStore()

    async def crash(house: House) -> None:
        await house.host.runtime.start(house.add(CHAIN), {}, {})

    async def claim(house: House) -> None:
        house.add(CHAIN)
        await work_off(house)
        assert [summary.status for summary in store.summaries()] == ["succeeded"]

    play(crash, store)
    play(claim, store)


def test_a_waiter_notices_an_end_at_another_server() -> None:
    store = MemoryStore()

    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        waiting = asyncio.create_task(house.host.wait(state.id, SECONDS))
        while state.id not in house.host.waiters.ended:  # noqa: ASYNC110
            await asyncio.sleep(0)
        other = House(store)
        other.add(CHAIN)
        await work_off(other)
        other.host.runtime.thread.shutdown()
        assert not waiting.done()
        await house.host.waiters.check_once(house.host.runtime)
        assert (await waiting).status == "succeeded"

    play(story, store)
