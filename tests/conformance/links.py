"""What every link between a worker and an engine must do, and the engines that links are proved against.

A stand is an engine with links to it. The tests of `LinkSuite` hold for every link; those of `ServerLinkSuite` are
about what only a server has: pools, waiting for work, heartbeats, workers that are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import StringIO
from textwrap import dedent, indent
from typing import Any, Protocol

import pytest
from msgspec.structs import replace
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS
from tests.verifying import verify

from noetl.access import new_token
from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.engine import leases as lease_rules
from noetl.engine.commands import Cancel, Claim, Command, Pause, Report
from noetl.engine.state import Execution
from noetl.errors import NoetlError, NotFound
from noetl.host import server_host
from noetl.host.embedded import Embedded
from noetl.host.local_link import LocalLink
from noetl.host.server_host import ServerHost
from noetl.keychain.keychain import StoredCredential
from noetl.log import Log
from noetl.model.identity import uuid7
from noetl.reference import Reference, TooLarge, refer
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.server.api import ServerSettings
from noetl.server.app import create_app
from noetl.server.listen import bound, listen, url_of
from noetl.store.store import Store, WorkerSession
from noetl.tools.registry import KINDS
from noetl.worker import wire
from noetl.worker.http_link import HttpLink
from noetl.worker.link import Link
from noetl.worker.output import OutputBuffer
from noetl.worker.server_client import http_client
from noetl.worker.work import Work
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import WorkerLoop

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: link, path: tests/link}\n"
CHAIN = """
- {step: one, tool: [{t: {kind: noop, result: 1}}], next: {arcs: [{step: two}]}}
- {step: two, tool: [{t: {kind: noop, result: "{{ steps.one.result }}"}}]}
"""
LOOP = """
- step: each
  loop: {in: "{{ range(workload.items) }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{t: {kind: noop, result: "{{ iter.n }}"}}]
"""
POOLS = """
- {step: one, spec: {pool: gpu}, tool: [{t: {kind: noop, result: 1}}], next: {arcs: [{step: two}]}}
- {step: two, tool: [{t: {kind: noop, result: 2}}]}
"""
SAYS = """
- {step: one, tool: [{t: {kind: python, code: "print('hello')"}}]}
"""


class Stand(Protocol):
    """An engine with links to it."""

    store: Store
    runtime: Runtime

    def link(self, worker: str = "w1", pool: str = "default") -> Link:
        """How that worker speaks to the engine."""


class ServerStand(Stand, Protocol):
    """A server."""

    host: ServerHost

    async def claim(self, command: Claim, again: bool = False) -> list[Work]:
        """A claim with an id of the test's own."""

    async def beat(self, worker: str, leases: dict[str, list[int]]) -> tuple[list[tuple[str, int]], list[str]]:
        """What a heartbeat of the worker is told: void leases, and paused executions."""


Open = Callable[[], AbstractAsyncContextManager[Any]]


# -- engines ----------------------------------------------------------------------------------------------------------


class EmbeddedStand:
    """The engine of `noetl run`."""

    def __init__(self) -> None:
        self.store: Store = MemoryStore()
        playbooks = LoadedPlaybooks(self.store)
        self.engine = Embedded(playbooks, KINDS, SystemClock(), no_children, open_credential=opened)
        self.runtime = self.engine.runtime

    def link(self, worker: str = "w1", pool: str = "default") -> Link:
        return self.engine.link


class LocalStand:
    """A server with workers in its own process."""

    def __init__(self) -> None:
        self.store: Store = MemoryStore()
        settings = ServerSettings(log=Log(stream=StringIO()), open_credential=opened)
        self.app = create_app(self.store, SystemClock(), settings)
        self.host = self.app.api.host
        self.runtime = self.host.runtime
        self.output = OutputBuffer(SystemClock())

    def link(self, worker: str = "w1", pool: str = "default") -> Link:
        return LocalLink(self.host.dispatcher, self.output, pool)

    async def claim(self, command: Claim, again: bool = False) -> list[Work]:
        return await self.host.dispatcher.claim(command, is_repeated=again)

    async def beat(self, worker: str, leases: dict[str, list[int]]) -> tuple[list[tuple[str, int]], list[str]]:
        answer = await self.host.heartbeats.record(WorkerSession(worker, "default", 4, leases=leases))
        return answer.revoked, answer.paused


class HttpStand(LocalStand):
    """A server that listens, and workers that ask it over HTTP."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__()
        self.url, self.token = url, token
        self.links: list[HttpLink] = []

    def link(self, worker: str = "w1", pool: str = "default") -> HttpLink:
        made = HttpLink(http_client(self.url, self.token), worker, pool, self.output)
        made.terms.registered.set()
        self.links.append(made)
        return made

    async def claim(self, command: Claim, again: bool = False) -> list[Work]:
        asked = wire.ClaimRequest(command.worker, command.pool or "", command.slots, command.id, again=again)
        return wire.decode_works(await self.link(command.worker).server.call("POST", "/claim", wire.encode(asked)))

    async def beat(self, worker: str, leases: dict[str, list[int]]) -> tuple[list[tuple[str, int]], list[str]]:
        message = wire.encode(wire.HeartbeatRequest(worker, "default", 4, leases))
        reply = wire.decode_as(wire.HeartbeatReply, await self.link(worker).server.call("POST", "/heartbeat", message))
        return reply.revoked, reply.paused


@asynccontextmanager
async def embedded() -> AsyncIterator[EmbeddedStand]:
    stand = EmbeddedStand()
    try:
        yield stand
    finally:
        stand.runtime.close()


@asynccontextmanager
async def local() -> AsyncIterator[LocalStand]:
    stand = LocalStand()
    try:
        async with background(stand.host):
            yield stand
    finally:
        stand.app.api.close()
        stand.store.close()


@asynccontextmanager
async def over_http() -> AsyncIterator[HttpStand]:
    result = bound("127.0.0.1", 0)
    secret, token = new_token("worker", "worker", SystemClock().now())
    stand = HttpStand(url_of(result), secret)
    stand.store.access.add_token(token)
    app, ended = stand.app, asyncio.Event()
    listening = asyncio.create_task(listen(app, result, ended))
    try:
        async with background(stand.host):
            yield stand
    finally:
        for link in stand.links:
            await link.close()
        app.api.stop()
        ended.set()
        await listening
        app.api.close()
        stand.store.close()


@asynccontextmanager
async def background(host: ServerHost) -> AsyncIterator[None]:
    task = asyncio.create_task(host.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def opened(name: str) -> StoredCredential:
    """What stands in for the safe."""
    if name != "open":
        raise NotFound(f"credential {name!r} not found")
    return StoredCredential("open", "bearer", {"token": "s3cret-value"})


async def no_children(parent: Execution, request: dict[str, Any]) -> str:
    raise NotFound("no children here")


# -- what every link does ---------------------------------------------------------------------------------------------


def play(opening: Open, story: Callable[[Any], Awaitable[None]]) -> None:
    """Tell a story; whatever is left of it must be sound."""

    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), opening() as stand:
            await story(stand)
            for summary in stand.store.summaries():
                _prove(stand, summary.execution_id)

    asyncio.run(whole())


def _prove(stand: Stand, execution: str) -> None:
    store, (summary,) = stand.store, stand.store.summaries(prefix=execution)
    net = stand.runtime.playbooks.get(summary.digest)
    load_blob = lambda place, key: store.blob(key)  # noqa: E731
    rows, derived = store.read(execution), store.derived(execution)
    assert verify(execution, rows, net, load_blob, summary.status, derived=derived) == []


async def start(stand: Stand, workflow: str, **payload: Any) -> str:
    text = HEAD + "workload: {items: 0}\nworkflow:\n" + indent(dedent(workflow), "  ")
    playbook = load("link.yaml", text, KINDS).require()
    await stand.runtime.thread.ask(stand.store.put_playbook, playbook.digest, "link.yaml", text.encode())
    stand.runtime.playbooks.add(playbook, "link.yaml")
    execution = uuid7(SystemClock().now(), len(stand.store.summaries()).to_bytes(8))
    await stand.runtime.start(playbook.digest, payload, {}, execution)
    return execution


async def tell(stand: Stand, execution: str, command: Command) -> None:
    await stand.runtime.committer.handle(execution, command)


def names(stand: Stand, execution: str) -> list[str]:
    return [row.type for row in stand.store.read(execution)]


def state(stand: Stand, execution: str) -> Execution:
    return stand.runtime.executions[execution].state


async def until(look: Callable[[], Any]) -> Any:
    while not (result := look()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return result


def done(work: Work, result: Any = None) -> Report:
    return Report(work.fence, (e.StepDone(work.run, result),))


def items_done(work: Work, count: int, first: int = 0) -> tuple[e.Event, ...]:
    """Facts about some items of a lane."""
    indexes = range(work.first + first, work.first + first + count)
    return tuple(fact for n in indexes for fact in (e.IterationStarted(work.run, n), e.IterationDone(work.run, n, n)))


class LinkSuite:
    """Supply the fixture `opening`."""

    def test_a_claim_brings_work_and_all_that_it_takes_to_run_it(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, CHAIN)
            (work,) = await link.claim(Claim("w1", 4))
            assert (work.execution, work.run, work.step, work.items) == (execution, "one#1", "one", None)
            assert link.playbook(work.digest).playbook.name == "link"
            assert link.playbook(work.digest).plan(work.step).tasks["t"].label == "t"
            assert not link.paused(execution)
            assert await link.report(execution, done(work)) == (False, [])

        play(opening, story)

    def test_a_report_may_ask_for_work(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, CHAIN)
            (work,) = await link.claim(Claim("w1", 1))
            _, (more,) = await link.report(execution, replace(done(work, 7), claim=Claim("w1", 1)))
            assert (more.step, more.steps["one"].result) == ("two", 7)
            assert await link.report(execution, replace(done(more, 8), claim=None)) == (False, [])
            assert (state(stand, execution).status, state(stand, execution).result) == ("succeeded", 8)

        play(opening, story)

    def test_what_is_told_twice_counts_once(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, LOOP, items=1)
            (work,) = await link.claim(Claim("w1", 1))
            begun = Report(work.fence, (e.IterationStarted(work.run, 0),))
            for _ in range(3):
                assert await link.report(execution, begun) == (True, [])
            both = Report(work.fence, items_done(work, 1))  # the first of them is known
            for _ in range(3):
                assert (await link.report(execution, both))[0] is False
            result = names(stand, execution)
            assert (result.count("loop.iteration.started"), result.count("loop.iteration.done")) == (1, 1)
            assert state(stand, execution).result == [0]

        play(opening, story)

    def test_a_report_under_an_old_fence_changes_nothing(self, opening: Open) -> None:
        from noetl.engine.commands import Lost

        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, CHAIN)
            (old,) = await link.claim(Claim("w1", 1))
            await tell(stand, execution, Lost(old.fence))
            (new,) = await stand.link("w2").claim(Claim("w2", 1))
            assert (new.run, new.fence > old.fence) == (old.run, True)
            before = names(stand, execution)
            assert await link.report(execution, done(old, "late")) == (False, [])
            assert names(stand, execution) == before
            await stand.link("w2").report(execution, done(new, "good"))
            assert state(stand, execution).steps["one"].result == "good"

        play(opening, story)

    def test_lanes_grow_while_their_items_are_quick(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, LOOP, items=200)
            (work, other) = await link.claim(Claim("w1", 4))
            assert [len(one.items or ()) for one in (work, other)] == [1, 1]
            sizes = []
            while (items := work.items) is not None:
                facts = items_done(work, len(items))
                _, more = await link.report(execution, Report(work.fence, facts, claim=Claim("w1", 1)))
                sizes.append(len(items))
                if not more:
                    break
                (work,) = more
            assert sizes[0] == 1
            assert max(sizes) > 4, "on a machine that takes 200 ms for every report they could not grow"
            await link.report(execution, Report(other.fence, items_done(other, 1)))
            assert state(stand, execution).result == list(range(200))

        play(opening, story)

    def test_the_rest_of_a_lane_is_handed_back_and_done_by_others(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, LOOP, items=40)
            state(stand, execution).runs["each#1"].loop.lane = 4  # type: ignore[union-attr]
            (work,) = await link.claim(Claim("w1", 1))
            assert work.items == [0, 1, 2, 3]
            first = items_done(work, 1)
            held, _ = await link.report(execution, Report(work.fence, first))
            assert held
            assert await link.report(execution, Report(work.fence, (), len(first), hand_back=True)) == (False, [])
            (rest,) = await stand.link("w2").claim(Claim("w2", 1))
            assert rest.items == [1, 2, 3][: len(rest.items or ())]
            assert "step.regranted" not in names(stand, execution)
            await tell(stand, execution, Cancel("enough"))

        play(opening, story)

    def test_large_content_travels_by_reference(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, CHAIN)
            (work,) = await link.claim(Claim("w1", 1))
            value = {"rows": ["x" * 100] * 1_000}
            reference, content = refer(value)
            report = replace(done(work, reference), blobs=((reference.key, content),), claim=Claim("w1", 1))
            _, (more,) = await link.report(execution, report)
            assert more.steps["one"].result == reference
            heavy = Reference(**reference.as_data() | {"size": 1 << 40})
            for one in (link, stand.link("w2")):
                assert await one.contents.read(reference) == value
                assert await one.contents.read_json(reference) == content
                assert isinstance(await one.contents.read(heavy), TooLarge)
                assert isinstance(await one.contents.read_json(heavy), TooLarge)
            await link.report(execution, done(more))

        play(opening, story)

    def test_credentials_are_opened_for_work_in_hand(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            link = stand.link()
            execution = await start(stand, CHAIN)
            (work,) = await link.claim(Claim("w1", 1))
            assert (await link.credential(execution, "open")).fields == {"token": "s3cret-value"}
            with pytest.raises(NoetlError, match="nowhere"):
                await link.credential(execution, "nowhere")
            await link.report(execution, done(work))

        play(opening, story)


class ServerLinkSuite(LinkSuite):
    """The same, and what only servers do: claims wait for work, so a worker can ask all the time."""

    def test_a_worker_runs_everything_to_its_end(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            worker = Worker("w1", stand.link(), KINDS, SystemClock(), 8, OutputBuffer(SystemClock()).write)
            loop = WorkerLoop(worker, pytest.fail)
            running = asyncio.create_task(loop.run())
            items, chain = await start(stand, LOOP, items=300), await start(stand, CHAIN)
            await until(lambda: all(state(stand, one).over for one in (items, chain)))
            assert (state(stand, items).result, state(stand, chain).result) == (list(range(300)), 1)
            loop.stop()
            await running

        play(opening, story)

    def test_a_worker_that_ends_hands_back_what_it_has(self, opening: Open) -> None:
        async def story(stand: Stand) -> None:
            worker = Worker("w1", stand.link(), KINDS, SystemClock(), 8, OutputBuffer(SystemClock()).write)
            loop = WorkerLoop(worker, pytest.fail, grace=0.0)
            execution = await start(stand, CHAIN.replace("{kind: noop, result: 1}", "{kind: shell, cmds: [sleep 600]}"))
            running = asyncio.create_task(loop.run())
            await until(lambda: worker.leases)
            loop.stop()
            await running
            assert state(stand, execution).leases == {}
            (work,) = await stand.link("w2").claim(Claim("w2", 1))
            assert work.run == "one#1"
            assert "step.regranted" not in names(stand, execution)
            await tell(stand, execution, Cancel("enough"))

        play(opening, story)

    def test_a_claim_waits_for_work(self, opening: Open) -> None:
        async def story(stand: ServerStand) -> None:
            claiming = asyncio.create_task(stand.link().claim(Claim("w1", 1)))
            await until(lambda: stand.host.dispatcher.queue.idle_claims["default"])
            execution = await start(stand, CHAIN)
            (work,) = await claiming
            assert work.execution == execution
            await tell(stand, execution, Cancel("enough"))

        play(opening, story)

    def test_a_claim_that_is_repeated_gets_the_same_leases(self, opening: Open) -> None:
        async def story(stand: ServerStand) -> None:
            executions = [await start(stand, CHAIN) for _ in range(3)]
            first = await stand.claim(Claim("w1", 2, "default", "c1"))
            assert len(first) == 2
            assert await stand.claim(Claim("w1", 2, "default", "c1"), again=True) == first
            assert len(await stand.claim(Claim("w1", 2, "default", "c2"))) == 1
            assert await stand.claim(Claim("w1", 2, "default", "c1"), again=True) == first
            assert await stand.claim(Claim("w1", 2, "default", "c9"), again=True) == []
            for execution in executions:
                await tell(stand, execution, Cancel("enough"))

        play(opening, story)

    def test_work_goes_to_its_pool(self, opening: Open) -> None:
        async def story(stand: ServerStand) -> None:
            execution = await start(stand, POOLS)
            assert await stand.claim(Claim("w1", 1, "default", "c1")) == []
            gpu = stand.link("w2", "gpu")
            (work,) = await gpu.claim(Claim("w2", 1))
            assert work.step == "one"
            assert await gpu.report(execution, replace(done(work), claim=Claim("w2", 1))) == (False, [])
            (rest,) = await stand.claim(Claim("w1", 1, "default", "c2"))
            assert rest.step == "two"
            await tell(stand, execution, Cancel("enough"))

        play(opening, story)

    def test_a_heartbeat_brings_cancels_and_pauses(self, opening: Open) -> None:
        async def story(stand: ServerStand) -> None:
            link = stand.link()
            cancelled, paused = await start(stand, CHAIN), await start(stand, CHAIN)
            works = await link.claim(Claim("w1", 2))
            leases = {work.execution: [work.fence] for work in works}
            assert await stand.beat("w1", leases) == ([], [])
            await tell(stand, cancelled, Cancel("enough"))
            await tell(stand, paused, Pause())
            assert await stand.beat("w1", leases) == ([(cancelled, leases[cancelled][0])], [paused])
            nobody = "01890000-0000-7000-8000-000000000000"
            assert await stand.beat("w1", {nobody: [1]}) == ([(nobody, 1)], [])

        play(opening, story)

    def test_work_of_a_silent_worker_goes_to_another_and_its_late_report_is_rejected(
        self, opening: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_host, "REAP_SECONDS", 0.02)
        monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 0.2)

        async def story(stand: ServerStand) -> None:
            link = stand.link()
            execution = await start(stand, CHAIN)
            await stand.beat("w1", {})
            (old,) = await link.claim(Claim("w1", 1))
            monkeypatch.setattr(lease_rules, "LEASE_SECONDS", 30.0)
            (new,) = await stand.link("w2").claim(Claim("w2", 1))
            assert new.run == old.run
            assert await link.report(execution, done(old, "late")) == (False, [])
            await stand.link("w2").report(execution, done(new, "good"))
            assert state(stand, execution).steps["one"].result == "good"

        play(opening, story)

    def test_lines_of_tasks_are_kept(self, opening: Open) -> None:
        async def story(stand: Any) -> None:
            link = stand.link()
            worker = Worker("w1", link, KINDS, SystemClock(), 8, stand.output.write)
            execution = await start(stand, SAYS)
            worker.take(await link.claim(Claim("w1", 1)))
            await until(lambda: state(stand, execution).over)
            await until(lambda: [line[4] for line in stand.store.output(execution)] == ["hello"])
            await KINDS.close()

        play(opening, story)
