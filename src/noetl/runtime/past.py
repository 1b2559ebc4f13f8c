"""The past of executions, folded in threads of their own, each with its own connection to the store.

Neither the event loop nor the thread of the store does this work, so that it never delays a commit. A few folds run at
once, a limited number waits, and a fold stops when nobody waits for its result any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from threading import Event
from typing import TypeVar

from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.state import Execution
from noetl.errors import NoetlError, NotFound
from noetl.reference import Need
from noetl.runtime.contents import DecisionContents
from noetl.runtime.loaded_playbooks import LoadedPlaybook, LoadedPlaybooks
from noetl.store.codec import decode, digest_of, readable_snapshot, thaw
from noetl.store.store import Row, Store
from noetl.switch_interval import short_switch_interval

THREADS = 2
MAX_PENDING = 32  # folds that run or wait for a thread
ROWS_PER_READ = 1_000
CHECK_SECONDS = 0.1

Value = TypeVar("Value")


class PastBusy(NoetlError):
    """Too many requests for the past of executions wait already."""


class Stopped(Exception):
    """Nobody waits for the result any more."""


class Past:
    """Belongs to one event loop. Threads and connections are made when they are needed."""

    def __init__(self, playbooks: LoadedPlaybooks) -> None:
        self.playbooks = playbooks
        self._threads = ThreadPoolExecutor(THREADS, "noetl-past")
        self._idle: list[Store] = []  # connections that no thread uses at the moment
        self._pending = 0
        self._closing = Event()

    async def do(self, work: Callable[[PastReader], Value]) -> Value:
        """The result of the work, which is done in a thread. It stops soon after the caller is cancelled."""
        if self._pending >= MAX_PENDING:
            raise PastBusy(f"{self._pending} requests for the past of executions are pending: try again later")
        loop, abandoned = asyncio.get_running_loop(), Event()

        def is_stopped() -> bool:
            return abandoned.is_set() or self._closing.is_set()

        def load(digest: str) -> LoadedPlaybook:
            loading = asyncio.run_coroutine_threadsafe(self.playbooks.load(digest), loop)
            while True:
                try:
                    return loading.result(CHECK_SECONDS)
                except NotYet:
                    if is_stopped():
                        loading.cancel()
                        raise Stopped from None

        def run() -> Value:
            store = self._idle.pop() if self._idle else self.playbooks.store.reopen()
            try:
                with short_switch_interval():
                    return work(PastReader(store, load, is_stopped))
            finally:
                self._idle.append(store)

        self._pending += 1
        try:
            return await loop.run_in_executor(self._threads, run)
        finally:
            self._pending -= 1
            abandoned.set()

    def close(self) -> None:
        self._closing.set()
        self._threads.shutdown(cancel_futures=True)
        for store in self._idle:
            if store is not self.playbooks.store:
                store.close()


class PastReader:
    """Reads and folds the logs of a store; blocks. `is_stopped` ends its work with Stopped."""

    def __init__(
        self, store: Store, load: Callable[[str], LoadedPlaybook], is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self.store, self._load, self._is_stopped = store, load, is_stopped
        self._playbooks: dict[str, LoadedPlaybook] = {}

    def playbook(self, digest: str) -> LoadedPlaybook:
        if digest not in self._playbooks:
            self._playbooks[digest] = self._load(digest)
        return self._playbooks[digest]

    def check_stopped(self) -> None:
        if self._is_stopped():
            raise Stopped

    def rows(self, execution: str, after: int = 0, until: int | None = None) -> Iterator[Row]:
        """The rows of a log after one seq, up to another; NotFound if the log is empty."""
        while until is None or after < until:
            self.check_stopped()
            most = ROWS_PER_READ if until is None else min(ROWS_PER_READ, until - after)
            rows = self.store.read(execution, after, most)
            if not rows:
                break
            yield from rows
            after = rows[-1].seq
        if not after:
            raise NotFound(f"execution {execution!r} not found")

    def stored_state(self, execution: str, until: int) -> Execution:
        """The latest stored state up to an event, or the state before the first one; NotFound without a log."""
        snapshot = readable_snapshot(self.store.snapshot(execution, until))
        if snapshot is not None:
            return thaw(snapshot.data, self.playbook(digest_of(snapshot.data)), execution)
        first = next(self.rows(execution, 0, 1))
        requested = decode(first.type, first.data)
        assert isinstance(requested, e.ExecutionRequested)
        return Execution(execution, self.playbook(requested.playbook), requested.playbook)

    def fold(self, state: Execution, until: int | None = None) -> Iterator[tuple[e.Event, Row]]:
        """Each event after that of the state; it is folded into the state before the next one is read."""
        for row in self.rows(state.id, state.seq, until):
            event = decode(row.type, row.data)
            if isinstance(event, e.ExecutionForked):
                state.net = self.playbook(event.playbook or state.digest)
            yield event, row
            evolve(state, event, row.at)

    def state_at(self, execution: str, seq: int) -> tuple[Execution, float]:
        """The state after an event, and the time of the event; NotFound if there is none."""
        state = self.stored_state(execution, seq)
        rows = self.store.read(execution, seq - 1, 1)
        if not rows:
            raise NotFound(f"event {seq:,} not found: {execution} has {self.store.seq(execution):,} events")
        for _ in self.fold(state, seq):
            pass
        return state, rows[0].at

    def evaluated(self, evaluate: Callable[[DecisionContents], Value]) -> Value:
        """The result of an evaluation; the stored values that it reads are loaded."""
        contents = DecisionContents()
        while True:
            try:
                return evaluate(contents)
            except Need as need:
                contents.load(need.reference, self.store.blob)
