"""A store in memory, and the connections of servers to it: slow ones, and ones that break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.conformance.memory import MemoryStore
from tests.sim.faults import Faults, Record
from tests.sim.virtual import Node, VirtualLoop

from noetl.errors import StoreError
from noetl.store.store import NO_LIMIT, Change, Snapshot
from noetl.store.triggers import Schedule

STEP = 1e-6  # calls of a connection run in their order
WRITES = ("_write", "change_schedule")  # functions whose transactions may fail
MAX_LATENCY, MAX_SLOW_SECONDS = 0.02, 8.0


class Database(MemoryStore):
    """The one store. It knows when each row was committed, by true time."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.committed_at: dict[str, list[float]] = {}
        self.commits = 0
        self.snapshots_read = 0

    def commit_by(self, server: str, changes: list[Change], record: Record) -> list[bool]:
        accepted = self.commit(changes)
        for change, is_accepted in zip(changes, accepted, strict=True):
            if change.rows and is_accepted:
                self.commits += 1
                times = self.committed_at.setdefault(change.execution, [])
                times += [self.node.loop.time()] * len(change.rows)
                for row in change.rows:
                    record(server, f"commits {change.execution[-4:]}.{row.seq} {row.type} {row.data.decode()[:200]}")
            elif not is_accepted:
                record(server, f"is behind: {change.execution[-4:]} has more than {change.expected} events")
        return accepted


class Connection:
    """The connection of a server: its Store and its StoreThread."""

    _shutdown = True  # as `tests.verifying` asks of every thread

    def __init__(
        self,
        database: Database,
        server: Node,
        faults: Faults,
        record: Record,
        is_faulty: Callable[[], bool],
        crash: Callable[[], None],
    ) -> None:
        self.database, self.server, self.faults, self.record = database, server, faults, record
        self.is_faulty, self.crash = is_faulty, crash
        self.loop: VirtualLoop = server.loop
        self._seen = database.commits
        self._own = 0
        self._last = 0.0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.database, name)
        if callable(value):
            self.__dict__[name] = value  # __getattr__ is slow, and not called again for it
        return value

    # -- Store ------------------------------------------------------------------------------------------------------

    def commit(self, changes: list[Change]) -> list[bool]:
        before = self.database.commits
        accepted = self.database.commit_by(self.server.name, changes, self.record)
        self._own += self.database.commits - before
        return accepted

    def snapshot(self, execution: str, until: int = NO_LIMIT) -> Snapshot | None:
        snapshot = self.database.snapshot(execution, until)
        if snapshot is not None:
            self.database.snapshots_read += 1
            self.record(self.server.name, f"loads {execution[-4:]} from its snapshot at event {snapshot.seq}")
        return snapshot

    def changed_elsewhere(self) -> bool:
        seen, self._seen = self._seen, self.database.commits
        others, self._own = self.database.commits - seen - self._own, 0
        if others and self.is_faulty() and self.faults.happens("stale cache"):
            self.record(self.server.name, "FAULT stale cache")
            return False
        return others > 0

    # -- StoreThread ------------------------------------------------------------------------------------------------

    def ask(self, function: Callable[..., Any], *arguments: Any, shared: bool = False) -> asyncio.Future[Any]:
        """Call a function of the store after a moment, in order; its answer takes a moment, too."""
        future: asyncio.Future[Any] = self.loop.create_future()
        seconds = self.server.random.random() * MAX_LATENCY
        if self.is_faulty() and self.faults.happens("slow store"):
            seconds += self.faults.random("slow store").random() * MAX_SLOW_SECONDS
            self.record(self.server.name, f"FAULT slow store: {seconds:.1f} s")
        self._last = max(self._last + STEP, self.loop.time() + seconds)
        self.database.node.context.run(self.loop.call_at, self._last, self._run, future, function, arguments)
        return future

    def _run(self, future: asyncio.Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        writes = function.__name__ in WRITES
        if self.server.is_dead and not (writes and self.server.random.random() < 0.5):  # sent before it died, or not
            return
        fault = self._commit_fault(*arguments) if writes and not self.server.is_dead else ""
        result: Any = None
        error: BaseException | None = None
        if fault == "failed commit":
            error = StoreError("the connection to the database was lost")
        elif fault != "crash before commit":
            try:
                result = function(*arguments)
            except Exception as raised:  # raised to the caller, as by any executor
                error = raised
        if fault == "unknown commit":
            error = StoreError("the connection to the database was lost during a commit")
        if fault.startswith("crash"):
            self.crash()
        if writes:  # others may act before the server knows
            self.loop.call_later(self.server.random.random() * MAX_LATENCY, _deliver, future, result, error)
        else:
            _deliver(future, result, error)

    def _commit_fault(self, changes: list[Change] | Schedule) -> str:
        if not self.is_faulty() or (isinstance(changes, list) and not any(change.rows for change in changes)):
            return ""
        for kind in ("crash before commit", "crash after commit", "failed commit", "unknown commit"):
            if self.faults.happens(kind):
                self.record(self.server.name, f"FAULT {kind}")
                return kind
        return ""

    def shutdown(self) -> None:
        pass


def _deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # the caller was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
