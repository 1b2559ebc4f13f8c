"""What a reader sees is stored: a crash takes none of it back, and no answer comes from a stale state."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.servers.patience import PATIENCE_SECONDS, until_async

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.admissible import Inadmissible
from noetl.engine.commands import Claim, Pause, Report, Resume, Signal
from noetl.engine.events import MessageReceived, StepDone
from noetl.engine.history.outline import OutlineBuffer
from noetl.errors import StoreError
from noetl.model.identity import uuid7
from noetl.runtime import history
from noetl.runtime.committer import PendingCommand, round_robin
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


def test_commands_beside_one_that_is_rejected_are_decided_again(tmp_path: Path) -> None:
    """The rejected one may have left the state half changed, so the decisions of its batch are dropped with it."""

    async def story() -> None:
        store = SqliteStore(tmp_path / "batch.db")
        runtime = Runtime(LoadedPlaybooks(store), SystemClock(), shared=True)
        digest = runtime.playbooks.add(load("reads.yaml", TEXT, KINDS).require())
        execution = uuid7(1.0, b"12345678")
        await runtime.start(digest, {}, {}, execution)
        (work,) = (await runtime.committer.handle(execution, Claim("worker", 1))).works
        behind = Report(work.fence, (StepDone(work.run, "done"),), first=5)
        commands = [Signal("go", "first"), behind, Signal("go", "second")]
        first, rejected, second = await asyncio.gather(
            *(runtime.committer.handle(execution, command) for command in commands), return_exceptions=True
        )
        assert isinstance(rejected, Inadmissible)
        assert [result.events for result in (first, second)] == [
            [MessageReceived("go", "first")],
            [MessageReceived("go", "second")],
        ]
        stored = [row.data for row in store.read(execution) if row.type == MessageReceived.name]
        assert len(stored) == 2
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


def test_a_command_whose_outline_cannot_be_made_fails_and_nothing_of_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        runtime = Runtime(LoadedPlaybooks(SqliteStore(tmp_path / "outline.db")), SystemClock())
        playbook, execution = load("reads.yaml", TEXT, KINDS).require(), uuid7(1.0, b"12345678")
        runtime.playbooks.add(playbook)
        await runtime.start(playbook.digest, {}, {}, execution)
        before = (await runtime.committer.stored_state(execution)).seq

        def fail(*arguments: Any) -> Any:
            raise MemoryError("no memory for the outline")

        with monkeypatch.context() as patch:
            patch.setattr(OutlineBuffer, "extend", fail)
            with pytest.raises(MemoryError, match="no memory for the outline"):
                await runtime.committer.handle(execution, Signal("go", "1", {}))
        after = await runtime.committer.handle(execution, Signal("go", "2", {}))
        assert [type(event) for event in after.events] == [MessageReceived]
        assert after.state.seq == before + 1
        runtime.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


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


def test_an_end_that_could_not_be_stored_is_no_end(tmp_path: Path) -> None:
    """A parent that was told of it would have a result that its child may not have after all."""

    async def story() -> None:
        store = FailingStore(tmp_path / "ends.db")
        store.has_failed = True  # not yet
        runtime = Runtime(LoadedPlaybooks(store), SystemClock(), shared=True)
        digest = runtime.playbooks.add(load("reads.yaml", TEXT, KINDS).require())
        execution = (await runtime.start(digest, {}, {})).id
        (work,) = (await runtime.committer.handle(execution, Claim("worker", 1))).works
        store.has_failed = False
        store.waits.clear()
        store.gate.clear()
        report = Report(work.fence, (StepDone(work.run, "done"),))
        reported = asyncio.create_task(runtime.committer.handle(execution, report))
        await until_async(store.waits.is_set)  # its commit is under way
        state = runtime.executions[execution].state
        assert state.over
        has_ended = asyncio.create_task(runtime.committer.has_ended(state))
        await until_async(lambda: has_ended.done() or bool(runtime.committer.pending))
        store.gate.set()
        error, answer = await asyncio.gather(reported, has_ended, return_exceptions=True)
        assert (type(error), answer) == (StoreError, False)
        runtime.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_SECONDS))


def test_a_busy_execution_does_not_delay_the_others() -> None:
    commands: list[Any] = [PendingCommand(execution, Pause(), None) for execution in "aaabb"]  # type: ignore[arg-type]
    assert [command.execution for command in round_robin(commands)] == [*"ababa"]


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
