"""The heartbeat: it goes on while everything else is busy, and what it hears is obeyed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from scripted_server import Answer, Asked, Scripted, plain
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.patience import until as block_until

from noetl.clock import SystemClock
from noetl.errors import AuthError
from noetl.tools.registry import KINDS
from noetl.worker import output
from noetl.worker.heartbeat import Heartbeat
from noetl.worker.http_link import HttpLink
from noetl.worker.output import OutputBuffer
from noetl.worker.server_client import http_client
from noetl.worker.wire import HeartbeatRequest
from noetl.worker.worker import Worker

ABOUT = HeartbeatRequest("w1", "blue", 4, {}, "host", 1.0, "9.9")
EXECUTION = "0198a000-0000-7000-8000-000000000001"


class Bench:
    """A worker with leases that last for ever, and its heartbeat."""

    def __init__(self, server: Scripted, beat: float = 0.05) -> None:
        clock = SystemClock()
        self.link = HttpLink(http_client(server.url, "noetl_token"), "w1", "blue", OutputBuffer(clock))
        self.worker = Worker("w1", self.link, KINDS, clock, 4, self.link.output.write)
        self.rejections: list[AuthError] = []
        self.log: list[str] = []
        self.heartbeat = Heartbeat(
            *(self.worker, self.link, ABOUT, self.rejections.append),
            lambda level, text: self.log.append(text),
            seconds=beat,
        )

    def hold(self, fence: int) -> asyncio.Task[None]:
        task = asyncio.create_task(asyncio.sleep(1000))
        self.worker.leases[EXECUTION, fence] = task
        return task

    async def __aenter__(self) -> Bench:
        self.heartbeat.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.heartbeat.stop()
        await asyncio.to_thread(self.heartbeat.join, PATIENCE_SECONDS)
        await self.link.close()
        for task in self.worker.leases.values():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(look: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def pulse(**said: Any) -> Callable[[Asked], Answer]:
    return lambda asked: (200, {"revoked": [], "paused": []} | said)


def test_a_beat_names_the_worker_and_its_leases(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server) as bench:
            bench.hold(3)
            bench.link.terms.in_flight[EXECUTION, 5] = 1
            bench.link.terms.in_flight["other", 2] = 1
            await until(lambda: len(server.of("/heartbeat")) > 2)

    asyncio.run(run())
    beat = server.of("/heartbeat")[2].json
    assert beat["leases"] == {EXECUTION: [3, 5], "other": [2]}
    assert [beat[name] for name in ("worker", "pool", "slots", "host", "version")] == ["w1", "blue", 4, "host", "9.9"]


def test_it_beats_while_the_event_loop_is_busy(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server):
            await until(lambda: server.of("/heartbeat"))
            goal = len(server.asked) + 5
            block_until(lambda: len(server.asked) >= goal)  # what a tool must not do, and some do

    asyncio.run(run())


def test_leases_that_are_void_are_stopped_and_others_are_not(server: Scripted) -> None:
    server.answer = pulse(revoked=[[EXECUTION, 3], [EXECUTION, 99]])

    async def run() -> None:
        async with Bench(server) as bench:
            void, good = bench.hold(3), bench.hold(4)
            await until(void.cancelled)
            assert not good.done()

    asyncio.run(run())


def test_paused_executions_are_known_until_they_continue(server: Scripted) -> None:
    server.answer = pulse(paused=[EXECUTION])

    async def run() -> None:
        async with Bench(server) as bench:
            await until(lambda: bench.link.paused(EXECUTION))
            server.answer = pulse()
            await until(lambda: not bench.link.paused(EXECUTION))

    asyncio.run(run())


def test_while_no_beat_gets_through_calls_continue_and_none_is_begun(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.worker.terms.LEASE_SECONDS", 0.3)
    monkeypatch.setattr("noetl.worker.terms.MARGIN_SECONDS", 0.0)

    async def run() -> None:
        async with Bench(server) as bench:
            running, lease = bench.hold(3), (EXECUTION, 3)
            await until(lambda: lease in bench.link.terms.until)
            assert await bench.link.holds(*lease)
            server.answer = lambda asked: (503, b"")
            await until(lambda: bench.link.terms.now() > bench.link.terms.until[lease])
            beginning = asyncio.create_task(bench.link.holds(*lease))
            before = len(server.asked)
            await until(lambda: len(server.asked) > before + 3)
            assert not beginning.done()
            assert not running.done()
            server.answer = plain
            assert await beginning
            assert not running.done()

    asyncio.run(run())


def test_a_lease_that_is_to_be_renewed_does_not_wait_for_the_next_beat(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server, beat=1000) as bench:
            await until(lambda: server.of("/heartbeat"))
            bench.hold(3)
            bench.link.terms.grant([(EXECUTION, 3)], bench.link.terms.now() - 1000)  # the answer was long on its way
            assert await bench.link.holds(EXECUTION, 3)
            assert [one.json["leases"] for one in server.of("/heartbeat")] == [{}, {EXECUTION: [3]}]

    asyncio.run(run())


def test_a_lost_lease_is_not_waited_for(server: Scripted) -> None:
    server.answer = pulse(revoked=[[EXECUTION, 3]])

    async def run() -> None:
        async with Bench(server, beat=1000) as bench:
            beginning = asyncio.create_task(bench.link.holds(EXECUTION, 3))
            bench.worker.leases[EXECUTION, 3] = beginning  # type: ignore[assignment]
            await until(beginning.cancelled)

    asyncio.run(run())


def test_beats_are_counted(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server):
            await until(lambda: len(server.of("/heartbeat")) > 2)

    asyncio.run(run())
    numbers = [one.json["number"] for one in server.of("/heartbeat")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_short_absence_of_the_server_stops_nothing(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server) as bench:
            held = bench.hold(3)
            await until(lambda: server.of("/heartbeat"))
            server.stop()
            await asyncio.sleep(0.3)
            before = len(server.asked)
            server.start()
            await until(lambda: len(server.asked) > before)
            assert not held.done()

    asyncio.run(run())


def test_a_token_that_was_revoked_ends_the_worker(server: Scripted) -> None:
    server.answer = lambda asked: (401, {"detail": "this token was revoked"})

    async def run() -> None:
        async with Bench(server) as bench:
            await until(lambda: bench.rejections)
            assert "this token was revoked" in str(bench.rejections[0])

    asyncio.run(run())


def test_a_worker_whose_name_another_process_has_drops_its_work_until_that_is_gone(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server) as bench:
            task = bench.hold(3)
            await until(bench.link.terms.registered.is_set)
            server.answer = lambda asked: (409, {"detail": "another process runs as worker 'w1'"})
            await until(task.done)
            assert task.cancelled()
            assert not bench.link.terms.registered.is_set()
            bench.worker.leases.clear()
            server.answer = pulse()
            await until(bench.link.terms.registered.is_set)
            assert bench.log == ["another process runs as worker 'w1'", "the server responds again"]

    server.answer = pulse()
    asyncio.run(run())


def test_a_new_process_replaces_the_one_that_holds_its_name(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server, beat=60) as bench:
            await until(lambda: len(server.of("/heartbeat")) > 1)  # at once, and not with the next beat
            await until(bench.link.terms.registered.is_set)
            assert bench.log == []

    server.answer = lambda asked: (200, {"holder": 7.5} if asked.json["replaces"] == 0.0 else {})
    asyncio.run(run())
    assert [one.json["replaces"] for one in server.of("/heartbeat")] == [0.0, 7.5, None]


def test_lines_of_tasks_do_not_wait_for_the_next_beat(server: Scripted) -> None:
    async def run() -> None:
        async with Bench(server, beat=60) as bench:
            await until(lambda: server.of("/heartbeat"))
            bench.link.output.write(f"{EXECUTION}|start#1/x#1", "stderr", "careful")
            await until(lambda: any(one.json["lines"] for one in server.of("/heartbeat")))

    asyncio.run(run())
    lines = [line for one in server.of("/heartbeat") for line in one.json["lines"]]
    assert [line[4] for line in lines] == ["careful"]


def test_lines_that_did_not_get_through_are_sent_again(server: Scripted) -> None:
    failing = threading.Event()
    failing.set()
    server.answer = lambda asked: (503, b"") if failing.is_set() else plain(asked)

    async def run() -> None:
        async with Bench(server) as bench:
            bench.link.output.write(f"{EXECUTION}|x", "stdout", "hello")
            await until(lambda: any(one.json["lines"] for one in server.of("/heartbeat")))
            failing.clear()
            await until(lambda: not bench.link.output.waits.is_set())

    asyncio.run(run())
    lines = [line[4] for one in server.of("/heartbeat") for line in one.json["lines"]]
    assert set(lines) == {"hello"}
    assert len(lines) > 1


def test_all_lines_are_sent_before_the_heartbeat_stops(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LINES_PER_MESSAGE", 2)

    async def run() -> None:
        async with Bench(server, beat=60) as bench:
            await until(lambda: server.of("/heartbeat"))
            for number in range(9):
                bench.link.output.write(f"{EXECUTION}|x", "stdout", str(number))

    asyncio.run(run())
    lines = [line[4] for one in server.of("/heartbeat") for line in one.json["lines"]]
    assert lines == [str(number) for number in range(9)]


def test_the_last_beat_says_that_nothing_is_held(server: Scripted) -> None:
    async def run() -> None:
        bench = Bench(server, beat=60)
        bench.link.terms.in_flight[EXECUTION, 1] = 1
        async with bench:
            await until(lambda: server.of("/heartbeat"))
            bench.link.terms.in_flight.clear()

    asyncio.run(run())
    assert [one.json["leases"] for one in server.of("/heartbeat")] == [{EXECUTION: [1]}, {}]
