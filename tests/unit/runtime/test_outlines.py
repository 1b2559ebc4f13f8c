"""Outlines of stored logs: written by the commits, made again where they are missing, and checked by verify."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Pause, Resume
from noetl.engine.history.outline import BLOCK_EVENTS, decode_block, encode_block
from noetl.model.identity import uuid7
from noetl.runtime.audit import Audit
from noetl.runtime.history import Edit, fork
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.outlines import Outlines, blocks
from noetl.runtime.runtime import Runtime
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: long, path: tests/long}
workflow:
  - {step: start, tool: [{t: {kind: noop}}]}
"""
EXECUTION, FORK = uuid7(1.0, b"12345678"), uuid7(2.0, b"12345678")


class Log:
    """A log that grows by two events with each pause."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path / "outlines.db")
        self.runtime = self._runtime()

    def _runtime(self) -> Runtime:
        return Runtime(LoadedPlaybooks(self.store), SystemClock())

    async def start(self) -> None:
        playbook = load("long.yaml", TEXT, KINDS).require()
        self.store.put_playbook(playbook.digest, "long.yaml", TEXT.encode())
        await self.runtime.start(self.runtime.playbooks.add(playbook), {}, {}, EXECUTION)

    async def grow(self, events: int, execution: str = EXECUTION) -> None:
        while (missing := events - self.store.seq(execution)) > 0:
            commands = [Pause(), Resume()] * min(100, -(-missing // 2))
            await asyncio.gather(*(self.runtime.committer.handle(execution, command) for command in commands))

    def crash(self) -> None:
        self.runtime.thread.shutdown()
        self.runtime = self._runtime()

    def numbers(self, execution: str = EXECUTION) -> list[int]:
        return [number for number, _ in self.store.outline(execution)]

    def verified(self) -> list[str]:
        (summary,) = self.store.summaries(prefix=EXECUTION)
        return [f"{violation.invariant}: {violation.message}" for violation in Audit(self.store).of(summary)]

    def drop(self, *numbers: int) -> None:
        for number in numbers:
            self.store._db.connection.execute("DELETE FROM outline WHERE block = ?", (number,))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_commit_writes_the_blocks_that_it_completes(log: Log) -> None:
    async def story() -> None:
        await log.start()
        await log.grow(BLOCK_EVENTS - 2)
        assert log.numbers() == []
        await log.grow(BLOCK_EVENTS)
        assert log.numbers() == [0]
        await log.grow(3 * BLOCK_EVENTS)
        assert log.numbers() == [0, 1, 2]

    asyncio.run(story())
    assert log.verified() == []


def test_blocks_end_with_the_event_until_which_they_are_read(log: Log) -> None:
    async def story() -> None:
        await log.start()
        await log.grow(3 * BLOCK_EVENTS)

    asyncio.run(story())
    for until in (BLOCK_EVENTS + 400, 2 * BLOCK_EVENTS):
        read = [block.events for block in blocks(log.store, EXECUTION, until=until)]
        assert read == [BLOCK_EVENTS, until - BLOCK_EVENTS]
    assert log.verified() == []


def test_the_outline_continues_after_a_crash(log: Log) -> None:
    async def story() -> None:
        await log.start()
        for events in range(300, 3_000, 500):
            await log.grow(events)
            log.crash()
        await log.grow(3 * BLOCK_EVENTS)

    asyncio.run(story())
    assert log.numbers() == [0, 1, 2]
    assert log.verified() == []


def test_a_fork_begins_with_the_outline_of_its_source(log: Log) -> None:
    async def story() -> None:
        await log.start()
        await log.grow(2 * BLOCK_EVENTS + 500)
        await fork(log.runtime, EXECUTION, FORK, None, Edit())
        assert log.numbers(FORK) == [0, 1]
        await log.grow(3 * BLOCK_EVENTS, FORK)

    asyncio.run(story())
    assert log.numbers(FORK) == [0, 1, 2]
    assert log.store.outline(FORK, 0, 2) == log.store.outline(EXECUTION, 0, 2)
    (summary,) = log.store.summaries(prefix=FORK)
    assert Audit(log.store).of(summary) == []


def test_blocks_that_are_missing_are_made_and_stored(log: Log) -> None:
    async def story() -> None:
        await log.start()
        await log.grow(3 * BLOCK_EVENTS)

    asyncio.run(story())
    before, whole = log.store.outline(EXECUTION), list(blocks(log.store, EXECUTION))
    log.drop(0, 1, 2)
    assert list(blocks(log.store, EXECUTION)) == whole
    log.drop(1)
    assert list(blocks(log.store, EXECUTION)) == whole
    assert log.store.outline(EXECUTION) == before
    log.store.put_outline(EXECUTION, [(1, b"damaged")])
    assert list(blocks(log.store, EXECUTION)) == whole
    assert list(blocks(log.store, EXECUTION, 2, whole[1])) == whole[2:]


@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_a_writer_without_the_block_before_leaves_the_next_ones_to_readers(log: Log, damage: bytes | None) -> None:
    """Whether it is missing or damaged: the run continues."""

    async def story() -> None:
        await log.start()
        await log.grow(BLOCK_EVENTS + 300)
        log.drop(0)
        if damage is not None:
            log.store.put_outline(EXECUTION, [(0, damage)])
        log.crash()
        await log.grow(3 * BLOCK_EVENTS)

    asyncio.run(story())
    assert log.numbers() == ([] if damage is None else [0])
    assert sum(block.events for block in blocks(log.store, EXECUTION)) == log.store.seq(EXECUTION)
    assert log.numbers() == [0, 1, 2]
    assert log.verified() == []


@pytest.mark.damaged_log("a block of the outline is changed")
def test_verify_finds_a_damaged_outline(log: Log) -> None:
    async def story() -> None:
        await log.start()
        await log.grow(2 * BLOCK_EVENTS)

    asyncio.run(story())
    (_, data), other = log.store.outline(EXECUTION, 0, 2)
    block = decode_block(data)
    block.statuses[-1] = 4
    log.store.put_outline(EXECUTION, [encode_block(block)])
    assert log.verified() == ["outline: block 0 differs from the events 1 to 1000"]
    log.store.put_outline(EXECUTION, [(0, data), (1, other[1][:-4])])
    (text,) = log.verified()
    assert text.startswith("outline: block 1 cannot be read")


def test_a_fold_that_is_kept_continues_with_the_blocks_that_came_since(log: Log) -> None:
    async def story() -> None:
        await log.start()
        kept = Outlines()
        assert kept.fold(log.store, FORK).seq == 0
        for events in (400, BLOCK_EVENTS, BLOCK_EVENTS + 600, 3 * BLOCK_EVENTS + 200):
            await log.grow(events)
            assert kept.fold(log.store, EXECUTION) == Outlines().fold(log.store, EXECUTION)
            assert kept.fold(log.store, EXECUTION).seq == log.store.seq(EXECUTION)

    asyncio.run(story())
