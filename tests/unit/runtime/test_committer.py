"""What a reader sees is stored: a crash takes none of it back, and no answer comes from a stale state."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from tests.servers.patience import PATIENCE_SECONDS, until_async

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Claim, Pause, Report, Resume, Signal
from noetl.engine.events import StepDone
from noetl.errors import StoreError
from noetl.model.identity import uuid7
from noetl.runtime import history
from noetl.runtime.history import Edit
from noetl.runtime.loaded_playbooks import LoadedPlaybook, LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: reads, path: tests/reads}
workflow:
  - {step: start, tool: [{t: {kind: noop}}]}
"""


class GatedStore(SqliteStore):
    """Waits before each commit, and records the last event after it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate, self.waits, self.committed = threading.Event(), threading.Event(), 0
        self.gate.set()

    def commit(self, changes: Any) -> list[bool]:
        self.waits.set()
        assert self.gate.wait(PATIENCE_SECONDS)
        accepted = super().commit(changes)
        for change in changes:
            if change.rows:
                self.committed = change.rows[-1].seq
        return accepted


def test_a_report_under_a_lease_that_another_server_granted_is_accepted(tmp_path: Path) -> None:
    """Its state in memory does not have the lease, so it would answer that there is nothing to store."""

    async def story() -> None:
        stores = [SqliteStore(tmp_path / "two.db"), SqliteStore(tmp_path / "two.db")]
        first, second = (Runtime(LoadedPlaybooks(store), SystemClock(), shared=True) for store in stores)
        execution, playbook = uuid7(1.0, b"12345678"), load("reads.yaml", TEXT, KINDS).require()
        for runtime in (first, second):
            runtime.playbooks.add(playbook)
        await first.start(playbook.digest, {}, {}, execution)
        (work,) = (await second.committer.handle(execution, Claim("worker", 1))).works
        report = Report(work.fence, (StepDone(work.run, "done"),))
        answer = await first.committer.handle(execution, report)
        assert answer.state.status == "succeeded"
        for runtime in (first, second):
            runtime.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


class FailingStore(GatedStore):
    """Fails its first commit."""

    has_failed = False

    def commit(self, changes: Any) -> list[bool]:
        self.waits.set()
        assert self.gate.wait(PATIENCE_SECONDS)
        if not self.has_failed:
            self.has_failed = True
            raise StoreError("the disk has failed")
        return super().commit(changes)


def test_a_start_beside_one_that_could_not_be_stored_may_be_repeated(tmp_path: Path) -> None:
    """Both are of one execution, which is dropped with the first: the second must not say that there is none."""

    async def story() -> None:
        store = FailingStore(tmp_path / "starts.db")
        runtime = Runtime(LoadedPlaybooks(store), SystemClock(), shared=True)
        digest = runtime.playbooks.add(load("reads.yaml", TEXT, KINDS).require())
        execution = uuid7(1.0, b"12345678")
        store.gate.clear()
        first = asyncio.create_task(runtime.start(digest, {}, {}, execution))
        await until_async(store.waits.is_set)  # its commit is under way
        second = asyncio.create_task(runtime.start(digest, {}, {}, execution))
        await until_async(lambda: bool(runtime.committer.pending))
        store.gate.set()
        answers = await asyncio.gather(first, second, return_exceptions=True)
        assert list(map(type, answers)) == [StoreError, StoreError]
        assert (await runtime.start(digest, {}, {}, execution)).id == execution
        runtime.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


class HeldPlaybooks(LoadedPlaybooks):
    """Its n-th load waits for the gate."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.gate, self.loads, self.held_load = asyncio.Event(), 0, 0

    async def load(self, digest: str) -> LoadedPlaybook:
        self.loads += 1
        if self.loads == self.held_load:
            await self.gate.wait()
        return await super().load(digest)


def test_a_fork_beside_one_that_could_not_be_stored_may_be_repeated(tmp_path: Path) -> None:
    """As a start: the second must not say that there is no such execution, which a client does not repeat."""

    async def story() -> None:
        store = FailingStore(tmp_path / "forks.db")
        store.has_failed = True  # not yet
        playbooks = HeldPlaybooks(store)
        runtime = Runtime(playbooks, SystemClock(), shared=True)
        digest = playbooks.add(load("reads.yaml", TEXT, KINDS).require())
        source, name = uuid7(1.0, b"12345678"), uuid7(2.0, b"12345678")
        await runtime.start(digest, {}, {}, source)
        store.has_failed = False
        store.waits.clear()
        store.gate.clear()
        playbooks.held_load = playbooks.loads + 2  # the first is that of its fold
        second = asyncio.create_task(history.fork(runtime, source, name, None, Edit()))
        await until_async(lambda: playbooks.loads == playbooks.held_load)
        first = asyncio.create_task(history.fork(runtime, source, name, None, Edit()))
        await until_async(store.waits.is_set)  # its commit is under way
        playbooks.gate.set()
        await until_async(lambda: bool(runtime.committer.pending))
        store.gate.set()
        answers = await asyncio.gather(first, second, return_exceptions=True)
        assert list(map(type, answers)) == [StoreError, StoreError]
        assert (await history.fork(runtime, source, name, None, Edit())).execution_id == name
        runtime.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


def test_a_reader_between_two_commits_sees_the_first(tmp_path: Path) -> None:
    async def story() -> None:
        store = GatedStore(tmp_path / "reads.db")
        runtime = Runtime(LoadedPlaybooks(store), SystemClock(), shared=True)
        committer = runtime.committer
        execution = uuid7(1.0, b"12345678")
        await runtime.start(runtime.playbooks.add(load("reads.yaml", TEXT, KINDS).require()), {}, {}, execution)

        async def read() -> tuple[int, int]:
            state = await committer.stored_state(execution)
            return state.seq, store.committed

        store.gate.clear()
        store.waits.clear()
        first = asyncio.gather(committer.handle(execution, Pause()), read())
        await until_async(store.waits.is_set)  # their commit is under way
        later = (Resume(), Signal("a", "1", {}))
        second = asyncio.gather(*(committer.handle(execution, command) for command in later))
        await asyncio.sleep(0)  # they are asked for
        store.gate.set()
        (_, (read_seq, committed)), answers = await first, await second
        assert read_seq == committed
        assert answers[-1].state.seq > read_seq
        runtime.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))
