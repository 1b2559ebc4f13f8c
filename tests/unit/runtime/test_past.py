"""The past is read in threads and connections of its own, as much of it as anybody waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.servers.patience import PATIENCE_SECONDS, until_async

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Pause
from noetl.errors import NotFound
from noetl.model.identity import uuid7
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.past import MAX_PENDING, THREADS, PastBusy, PastReader, Stopped
from noetl.runtime.runtime import Runtime
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: past, path: tests/past}
workflow:
  - {step: start, tool: [{t: {kind: noop}}]}
"""
EXECUTION = uuid7(1.0, b"12345678")


def with_runtime(tmp_path: Path, story: Callable[[Runtime], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = SqliteStore(tmp_path / "past.db", synchronous="normal")
        source = load("past.yaml", TEXT, KINDS).require()
        store.put_playbook(source.digest, "past.yaml", TEXT.encode())
        runtime = Runtime(LoadedPlaybooks(store), SystemClock())
        try:
            await runtime.start(runtime.playbooks.add(source), {}, {}, EXECUTION)
            await story(runtime)
        finally:
            runtime.close()

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_SECONDS))


def test_commits_continue_while_the_past_is_read(tmp_path: Path) -> None:
    async def story(runtime: Runtime) -> None:
        began, go_on = threading.Event(), threading.Event()

        def slow(past: PastReader) -> tuple[bool, str, int]:
            before = past.state_at(EXECUTION, 1)[0].seq
            began.set()
            assert go_on.wait(PATIENCE_SECONDS)
            return past.store is runtime.store, threading.current_thread().name, before

        reading = asyncio.create_task(runtime.past.do(slow))
        await until_async(began.is_set)
        state = (await runtime.committer.handle(EXECUTION, Pause())).state
        assert (state.status, reading.done()) == ("paused", False)
        go_on.set()
        same_connection, thread, seq = await reading
        assert (same_connection, thread.startswith("noetl-past"), seq) == (False, True, 1)

    with_runtime(tmp_path, story)


def test_only_so_many_are_read_at_once_and_only_so_many_wait(tmp_path: Path) -> None:
    async def story(runtime: Runtime) -> None:
        go_on, running = threading.Event(), []

        def slow(past: PastReader) -> int:
            running.append(past)
            assert go_on.wait(PATIENCE_SECONDS)
            return 1

        tasks = [asyncio.create_task(runtime.past.do(slow)) for _ in range(MAX_PENDING)]
        await until_async(lambda: len(running) == THREADS)
        with pytest.raises(PastBusy, match="try again later"):
            await runtime.past.do(slow)
        assert len(running) == THREADS
        go_on.set()
        assert sum(await asyncio.gather(*tasks)) == MAX_PENDING
        assert await runtime.past.do(slow) == 1

    with_runtime(tmp_path, story)


def test_a_fold_stops_when_its_caller_is_gone(tmp_path: Path) -> None:
    async def story(runtime: Runtime) -> None:
        began, stopped = threading.Event(), threading.Event()

        def endless(past: PastReader) -> None:
            try:
                while True:
                    began.set()
                    list(past.rows(EXECUTION))
            except Stopped:
                stopped.set()
                raise

        task = asyncio.create_task(runtime.past.do(endless))
        await until_async(began.is_set)
        task.cancel()
        await until_async(stopped.is_set)

    with_runtime(tmp_path, story)


def test_an_event_that_is_missing_has_no_state(tmp_path: Path) -> None:
    async def story(runtime: Runtime) -> None:
        with pytest.raises(NotFound, match="event 99 not found"):
            await runtime.past.do(lambda past: past.state_at(EXECUTION, 99))
        with pytest.raises(NotFound, match=r"execution .* not found"):
            await runtime.past.do(lambda past: past.state_at(uuid7(2.0, b"12345678"), 1))

    with_runtime(tmp_path, story)
