"""What a server believes about workers, about itself, and about servers that died."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_server_host import CHAIN, CHILD, PARENT, PATIENCE_SECONDS, WAITS, House, play
from tests.conformance.memory import MemoryStore

from noetl.engine import leases as lease_rules
from noetl.engine.commands import Cancel, Claim, Command, Report
from noetl.engine.events import IterationDone, IterationStarted, StepDone
from noetl.errors import NoetlError, StoreError
from noetl.host import background, heartbeats, server_host
from noetl.host.background import MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS, Backoff
from noetl.host.heartbeats import STALL_SECONDS, StallDetector
from noetl.host.local_link import LocalLink
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store, WorkerSession
from noetl.worker import output


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "noetl.db")


class Hand:
    """A clock that the test moves."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def until(look: Any) -> None:
    while not look():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


# -- the server's own silence -----------------------------------------------------------------------------------------


def test_a_stall_is_noticed_before_and_after_it_is_observed() -> None:
    hand = Hand()
    stall = StallDetector(hand)
    assert stall.stall_free_seconds() == 0.0
    for _ in range(10):
        hand.at += 1
        stall.observe(hand.at + 1e9)
    assert stall.stall_free_seconds() == 10.0
    hand.at += STALL_SECONDS + 1
    assert stall.stall_free_seconds() == 0.0
    stall.observe(hand.at + 1e9)
    assert stall.stall_free_seconds() == 0.0
    hand.at += 1
    assert stall.stall_free_seconds() == 1.0


@pytest.mark.parametrize("seconds", [-40.0, 40.0])
def test_a_jump_of_the_clock_of_the_store_counts_as_a_stall(seconds: float) -> None:
    hand = Hand()
    stall = StallDetector(hand)
    stall.observe(hand.at + 1e9)
    for _ in range(10):
        hand.at += 1
        stall.observe(hand.at + 1e9)
    stall.observe(hand.at + 1e9 + seconds)
    assert stall.stall_free_seconds() == 0.0
    hand.at += 1
    stall.observe(hand.at + 1e9 + seconds)
    assert stall.stall_free_seconds() == 1.0


def test_after_its_own_silence_a_server_waits_for_the_lifetime_of_a_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_host, "REAP_SECONDS", 0.01)
    monkeypatch.setattr(server_host, "OBSERVE_SECONDS", 0.01)
    monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.2)
    passes: list[float] = []
    lost = store.expired_leases

    def counted(now: float | None, limit: int, attentive: float) -> list[tuple[str, int]]:
        passes.append(attentive)
        return lost(now, limit, attentive)

    monkeypatch.setattr(store, "expired_leases", counted)

    async def story(house: House) -> None:
        hand = Hand()
        house.host.stall.__init__(hand)  # type: ignore[misc]
        house.open(worker=False)
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4))
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        await asyncio.sleep(0.5)  # by the clock of the store the lease is over
        before = len(passes)
        await until(lambda: len(passes) > before + 5)
        assert work.fence in house.host.runtime.executions[state.id].state.leases
        hand.at += 1  # the server has listened for a second, and the worker was silent
        await until(lambda: work.fence not in house.host.runtime.executions[state.id].state.leases)
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, opened=False)


def test_after_its_own_silence_a_server_does_not_take_back_what_a_heartbeat_does_not_name(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "GRANT_SECONDS", 0.01)

    async def story(house: House) -> None:
        hand = Hand()
        house.host.stall.__init__(hand)  # type: ignore[misc]
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        await asyncio.sleep(0.05)
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4))
        assert work.fence in house.host.runtime.executions[state.id].state.leases
        hand.at += 1
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4))
        assert work.fence not in house.host.runtime.executions[state.id].state.leases
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False, opened=False)


def test_a_lease_that_expires_while_the_server_is_stopped_during_its_query_is_not_taken_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.01)
    hand, expired = Hand(), store.expired_leases
    stops = [2 * STALL_SECONDS, 0.0]

    def stopped(now: float | None, limit: int, attentive: float) -> list[tuple[str, int]]:
        leases = expired(now, limit, attentive)
        assert leases
        hand.at += stops.pop(0)
        return leases

    monkeypatch.setattr(store, "expired_leases", stopped)

    async def story(house: House) -> None:
        house.host.stall.__init__(hand)  # type: ignore[misc]
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4))
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        await asyncio.sleep(0.05)
        for is_held in (True, False):
            hand.at += 1
            await house.host.heartbeats.expire_once()
            assert (work.fence in house.host.runtime.executions[state.id].state.leases) == is_held
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False, opened=False)


def test_a_lease_that_cannot_be_taken_back_hides_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.01)
    monkeypatch.setattr(heartbeats, "LEASES_PER_SCAN", 1)

    async def story(house: House) -> None:
        hand, host = Hand(), house.host
        host.stall.__init__(hand)  # type: ignore[misc]
        digest = house.add(CHAIN)
        executions = [(await host.runtime.start(digest, {}, {})).id for _ in range(3)]
        await host.heartbeats.record(WorkerSession("w1", "default", 4))
        await host.dispatcher.claim(Claim("w1", 3, "default", "c1"))
        await asyncio.sleep(0.05)
        hand.at += 1
        (first, _), (second, _), _ = store.expired_leases(None, 10, 1.0)
        host.commands.back_off(first, ValueError("damaged"))
        await host.heartbeats.expire_once()
        assert [bool(host.runtime.executions[id].state.leases) for id in (first, second)] == [True, False]
        for execution in executions:
            await host.runtime.committer.handle(execution, Cancel("enough"))

    play(store, story, worker=False, opened=False)


def test_a_heartbeat_takes_back_no_lease_whose_grant_may_be_on_its_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(house: House) -> None:
        hand, host = Hand(), house.host
        host.stall.__init__(hand)  # type: ignore[misc]
        while host.stall.stall_free_seconds() <= PATIENCE_SECONDS:
            hand.at += 1
            host.stall.observe(hand.at)
        state = await host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        for seconds, is_held in ((PATIENCE_SECONDS, True), (0.0, False)):
            monkeypatch.setattr(heartbeats, "GRANT_SECONDS", seconds)
            await asyncio.sleep(0.01)
            await host.heartbeats.record(WorkerSession("w1", "default", 4))
            assert (work.fence in host.runtime.executions[state.id].state.leases) == is_held
        await host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False, opened=False)


# -- claims and heartbeats --------------------------------------------------------------------------------------------


def test_a_repeated_claim_does_not_get_what_was_lost_or_reported_on(store: Store) -> None:
    async def story(house: House) -> None:
        digest = house.add(CHAIN)
        executions = [(await house.host.runtime.start(digest, {}, {})).id for _ in range(3)]
        works = await house.host.dispatcher.claim(Claim("w1", 3, "default", "c1"))
        lost, done, good = works
        from noetl.engine.commands import Lost

        await house.host.runtime.committer.handle(lost.execution, Lost(lost.fence))
        await house.host.dispatcher.report(done.execution, Report(done.fence, (StepDone(done.run, 1),)))
        again = await house.host.dispatcher.claim(Claim("w1", 3, "default", "c1"), is_repeated=True)
        assert [(lease.execution, lease.fence) for lease in again] == [(good.execution, good.fence)]
        for execution in executions:
            await house.host.runtime.committer.handle(execution, Cancel("enough"))

    play(store, story, worker=False, opened=False)


STORED_ITEMS = """
- step: each
  loop: {in: "{{ range(30000) | list }}", iterator: n, spec: {mode: sequential}}
  tool: {kind: noop}
"""


def test_a_lease_that_ends_while_its_claim_is_repeated_is_granted_or_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items of the loop are stored apart: the execution is cancelled while they are read for the repeated claim."""

    async def story(house: House) -> None:
        runtime, claim = house.host.runtime, Claim("w1", 1, "default", "c1")
        state = await runtime.start(house.add(STORED_ITEMS), {}, {})
        (work,) = await house.host.dispatcher.claim(claim)
        runtime.executions.pop(state.id)  # as in another server, which has read no items yet
        cancelled: list[asyncio.Task[Any]] = []
        read = runtime.contents.read

        async def read_slowly(reference: Any) -> Any:
            if not cancelled:
                cancelled.append(asyncio.create_task(runtime.committer.handle(state.id, Cancel("enough"))))
                await asyncio.sleep(0.1)
            return await read(reference)

        monkeypatch.setattr(runtime.contents, "read", read_slowly)
        first, second = [await house.host.dispatcher.claim(claim, is_repeated=True) for _ in range(2)]
        await cancelled[0]
        assert ([again.items for again in first], second) == ([work.items], [])

    play(store, story, worker=False, opened=False)


BRANCHES_OF_A_LOOP = """
- step: start
  loop: {in: [1], iterator: n, mode: sequential}
  tool: {kind: noop}
  case:
  - {when: "{{ event.name == 'step.exit' }}", then: [{call: {tool: {kind: noop}}}, {next: {to: [end]}}]}
- {step: end, tool: {kind: noop}}
"""


def test_a_repeated_report_gets_the_branches_of_a_classic_loop_that_it_got_before(store: Store) -> None:
    async def story(house: House) -> None:
        dispatcher = house.host.dispatcher
        state = await house.host.runtime.start(house.add(BRANCHES_OF_A_LOOP), {}, {})
        (work,) = await dispatcher.claim(Claim("w1", 1, "default", "c1"))
        facts = (IterationStarted(work.run, 0), IterationDone(work.run, 0, 1))
        report = Report(work.fence, facts, claim=Claim("w1", 1, "default", "c2"))
        _, works = await dispatcher.report(state.id, report)
        assert [work.items for work in works] == [None]
        assert (await dispatcher.report(state.id, report, is_repeated=True))[1] == works
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False, opened=False)


def test_a_repeated_report_gets_the_work_that_it_got_before(store: Store) -> None:
    async def story(house: House) -> None:
        await house.host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        report = Report(work.fence, (StepDone(work.run, 1),), claim=Claim("w1", 1, "default", "c2"))
        dispatcher = house.host.dispatcher
        answer, works = await dispatcher.report(work.execution, report)
        assert [work.step for work in works] == ["two"]
        assert dispatcher.verdict(work.execution, report, answer) == "accepted"
        answer, same = await dispatcher.report(work.execution, report, is_repeated=True)
        assert same == works
        assert dispatcher.verdict(work.execution, report, answer) == "duplicate"
        await house.host.runtime.committer.handle(work.execution, Cancel("enough"))

    play(store, story, worker=False, opened=False)


def test_a_heartbeat_that_was_overtaken_or_comes_again_takes_nothing_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made before the lease arrived, and got through after one that names it, perhaps on another server."""
    monkeypatch.setattr(heartbeats, "GRANT_SECONDS", 0.0)

    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        await asyncio.sleep(0.01)
        named = {work.execution: [work.fence]}
        assert await house.host.heartbeats.record(WorkerSession("w1", "default", 4, leases=named, number=2)) == (
            [],
            [],
            "",
        )
        other = House(store)
        for server in (house, other):
            for number in (1, 2):
                late = WorkerSession("w1", "default", 4, number=number)
                assert await server.host.heartbeats.record(late) == ([], [], "")
        other.host.runtime.thread.shutdown()
        session = store.worker_session("w1")
        assert session is not None
        assert session.leases == named
        assert house.host.runtime.executions[state.id].state.leases
        await house.host.heartbeats.record(WorkerSession("w1", "default", 4, number=3))
        assert not house.host.runtime.executions[state.id].state.leases
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False, opened=False)


def test_a_heartbeat_hears_of_a_cancel_at_another_server(store: Store) -> None:
    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        other = House(store)
        other.add(CHAIN)
        await other.host.runtime.committer.handle(state.id, Cancel("enough"))
        other.host.runtime.thread.shutdown()
        session = WorkerSession("w1", "default", 4, leases={work.execution: [work.fence]})
        assert await house.host.heartbeats.record(session) == ([(work.execution, work.fence)], [], "")

    play(store, story, worker=False, opened=False)


def test_a_worker_beside_the_server_begins_nothing_under_a_lease_that_is_gone(store: Store) -> None:
    async def story(house: House) -> None:
        state = await house.host.runtime.start(house.add(CHAIN), {}, {})
        (work,) = await house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"))
        link = house.worker.link
        assert await link.holds(work.execution, work.fence)
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))
        assert not await link.holds(work.execution, work.fence)

    play(store, story, worker=False, opened=False)


# -- errors of one execution ------------------------------------------------------------------------------------------


def test_pauses_grow_and_are_forgotten() -> None:
    hand = Hand()
    backoff = Backoff(hand)
    assert [backoff.fail("a") for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, MAX_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS]
    assert (backoff.is_paused("a"), backoff.is_paused("b")) == (True, False)
    hand.at += MAX_BACKOFF_SECONDS
    assert not backoff.is_paused("a")
    assert backoff.fail("a") == MAX_BACKOFF_SECONDS
    hand.at += 3 * MAX_BACKOFF_SECONDS
    assert not backoff.is_paused("a")
    assert (len(backoff), backoff.fail("a")) == (0, MIN_BACKOFF_SECONDS)
    backoff.succeed("a")
    assert not backoff.is_paused("a")


@pytest.mark.parametrize("error", [RecursionError, ValueError, NoetlError])
def test_an_error_of_one_execution_stops_no_loop(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Its timers, claims, lost leases and children fail in every pass. Those of the others go on."""
    for name, value in {"TICK_SECONDS": 0.01, "REAP_SECONDS": 0.01, "RECOVER_SECONDS": 0.01}.items():
        monkeypatch.setattr(server_host, name, value)
    monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.2)
    waits = WAITS.replace("timeout: 60", "timeout: 0.3")

    async def story(house: House) -> None:
        digests = [house.add(CHAIN), house.add(waits), house.add(PARENT)]
        poisoned = {(await house.host.runtime.start(digest, {}, {})).id for digest in digests}
        await house.host.dispatcher.claim(Claim("gone", 2, "default", "c1"))
        good = [(await house.host.runtime.start(digest, {}, {})).id for digest in digests]
        committer = house.host.runtime.committer
        handle = committer.handle

        async def failing(execution: str, command: Command) -> Any:
            if execution in poisoned:
                raise error("poisoned")
            return await handle(execution, command)

        monkeypatch.setattr(committer, "handle", failing)
        house.open()
        loops = house.tasks[0]
        ends = [await house.host.wait(execution, PATIENCE_SECONDS) for execution in good]
        assert [end.status for end in ends] == ["succeeded", "failed", "succeeded"]
        assert house.errors
        assert {execution for _, execution in house.errors} <= poisoned
        assert not loops.done()
        monkeypatch.setattr(committer, "handle", handle)
        for execution in poisoned:
            await house.host.runtime.committer.handle(execution, Cancel("enough"))
        await until(lambda: all(summary.ended for summary in store.summaries()))

    play(store, story, opened=False)


def test_a_loop_that_fails_is_restarted_and_the_others_continue(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0.01)
    due, calls = store.due, []

    def failing(now: float, limit: int) -> list[tuple[str, str]]:
        calls.append(now)
        if len(calls) < 4:
            raise StoreError("away") if len(calls) % 2 else RuntimeError("a defect")
        return due(now, limit)

    monkeypatch.setattr(store, "due", failing)

    async def story(house: House) -> None:
        assert (await house.ended(house.add(CHAIN))).status == "succeeded"
        await until(lambda: len(calls) > 5)
        assert len(house.errors) == 3
        assert house.errors[0] == ("background task failed, restarting in 0.01 s: away", None)
        assert house.errors[1][0].startswith(
            "background task failed, restarting in 0.01 s: RuntimeError in failing, line "
        )

    play(store, story)


def test_a_loop_that_fails_does_not_wait_for_its_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0.01)

    async def story() -> None:
        again = asyncio.Event()
        errors: list[str] = []

        async def once() -> None:
            if not errors:
                raise StoreError("away")
            again.set()

        loop = asyncio.create_task(background.keep_running(3600, once, lambda message, _: errors.append(message)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await again.wait()
        loop.cancel()
        assert errors == ["background task failed, restarting in 0.01 s: away"]

    asyncio.run(story())


def test_output_that_a_failing_store_does_not_take_is_stored_later_in_its_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, calls = store.append_output, []

    def failing(lines: Any) -> None:
        calls.append(len(lines))
        if len(calls) == 2:
            raise StoreError("away")
        append(lines)

    monkeypatch.setattr(store, "append_output", failing)
    monkeypatch.setattr(output, "LINES_PER_MESSAGE", 2)

    async def story(house: House) -> None:
        execution = (await house.ended(house.add(CHAIN))).id
        link = house.worker.link
        assert isinstance(link, LocalLink)
        for number in range(6):
            house.worker.write_output(f"{execution}|t", "stdout", str(number))
        result = await asyncio.gather(link.store_output(), link.store_output(), return_exceptions=True)
        assert [type(one) for one in result] == [StoreError, type(None)]
        assert [line[4] for line in link.runtime.store.output(execution)] == ["0", "1", "2", "3", "4", "5"]

    play(store, story)


# -- servers that died ------------------------------------------------------------------------------------------------


def test_another_server_tells_a_parent_of_children_that_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server that knew of their ends is gone: it never runs the loop that passes them on."""
    monkeypatch.setattr(server_host, "RECOVER_SECONDS", 0.05)

    async def story(house: House) -> None:
        died = House(store)
        parent = await died.host.runtime.start(died.add(PARENT), {}, {})
        died.worker.take(await died.host.dispatcher.claim(Claim("w1", 8, "default")))
        await until(lambda: store.summaries(prefix=parent.id)[0].status == "waiting")
        await died.host.children.sync(parent.id)  # starts the children
        works = await died.host.dispatcher.claim(Claim("w1", 8, "default"))
        assert len(works) == 3
        died.worker.take(works)
        await until(lambda: sum(summary.status == "succeeded" for summary in store.summaries()) == 3)
        await died.close()
        died.host.runtime.thread.shutdown()
        house.add(PARENT), house.add(CHILD)
        house.open()
        assert (await house.host.wait(parent.id, PATIENCE_SECONDS)).result == [2, 4, 6]

    play(store, story, opened=False)


def test_another_server_starts_children_that_nobody_has_started(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_host, "RECOVER_SECONDS", 0.05)

    async def story(house: House) -> None:
        died = House(store)
        parent = await died.host.runtime.start(died.add(PARENT), {}, {})
        died.worker.take(await died.host.dispatcher.claim(Claim("w1", 8, "default")))
        await until(lambda: store.summaries(prefix=parent.id)[0].status == "waiting")
        await died.close()
        died.host.runtime.thread.shutdown()
        house.add(PARENT)
        house.open()
        assert (await house.host.wait(parent.id, PATIENCE_SECONDS)).result == [2, 4, 6]

    play(store, story, opened=False)


def test_a_parent_that_is_stopped_is_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_host, "RECOVER_SECONDS", 0.01)

    async def find(house: House, parent: Any, request: Any) -> str:
        return house.add(WAITS)

    monkeypatch.setattr(House, "_find", find)

    async def story(house: House) -> None:
        read: list[str] = []
        stored = house.host.recovery.read

        async def counted(name: str) -> Any:
            read.append(name)
            return await stored(name)

        monkeypatch.setattr(house.host.recovery, "read", counted)
        parent = await house.host.runtime.start(house.add(PARENT), {}, {})
        await until(lambda: sum(summary.status == "waiting" for summary in store.summaries()) == 4)
        scans: list[int] = []
        scan = house.host.recovery.find_unnotified_parents

        async def scanned() -> Any:
            scans.append(len(read))
            return await scan()

        monkeypatch.setattr(house.host.recovery, "find_unnotified_parents", scanned)
        await until(lambda: len(scans) > 20)
        assert scans[-1] - scans[5] <= 1
        await house.host.runtime.committer.handle(parent.id, Cancel("enough"))
        await until(lambda: all(summary.ended for summary in store.summaries()))

    play(store, story)


def test_ready_work_of_a_server_that_died_is_found_by_who_waits_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_host, "RECOVER_SECONDS", 0.05)
    monkeypatch.setattr(store, "changed_elsewhere", lambda: False)  # it died before it could tell

    async def story(house: House) -> None:
        house.add(CHAIN)
        waiting = asyncio.create_task(house.host.dispatcher.claim(Claim("w1", 1, "default", "c1"), PATIENCE_SECONDS))
        await until(lambda: house.host.dispatcher.queue.idle_claims["default"])
        died = House(store)
        state = await died.host.runtime.start(died.add(CHAIN), {}, {})
        died.host.runtime.thread.shutdown()
        (work,) = await waiting
        assert work.execution == state.id
        await house.host.runtime.committer.handle(state.id, Cancel("enough"))

    play(store, story, worker=False)
