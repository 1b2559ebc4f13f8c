"""The reference playbooks, and what people do to some of them while they run.

An operator is another process, as somebody at another terminal would be. What it does depends on nothing but the logs,
so it can be killed and started again with everything else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from noetl.clock import SystemClock
from noetl.engine import events as e
from noetl.engine.commands import Cancel, Command, Pause, Resume, Signal
from noetl.engine.state import Execution
from noetl.errors import StoreError
from noetl.runtime.history import RetryPoint
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.codec import decode, rows_of
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change

EXECUTION = "0198c0de-0000-7000-8000-0000000000cc"
SOURCE = "0198c0de-0000-7000-8000-0000000000dd"
PLAYBOOKS = Path(__file__).parent / "playbooks"
LOOK_SECONDS = 0.003

Logs = dict[str, list[e.Event]]
Load = Callable[[str], Execution]
Operator = Callable[[Logs, Load], tuple[str, Command] | None]
"""From the logs of all executions: what to tell which of them now."""


class Case(NamedTuple):
    """A reference playbook."""

    name: str
    operator: Operator | None = None
    late: bool = False
    """Whether a signal comes between a decision and its commit, so that the commit is refused."""
    once: bool = False
    """Whether no call may ever happen twice: all tasks have `on_lost: error`."""
    may_skip: bool = False
    """Whether some calls of an undisturbed run may never be made: a time limit passes while nothing runs, or after the
    crash a failure is known before those beside it begin."""
    calls: int = 0
    """How many calls an undisturbed run makes where nothing is skipped."""
    history: Literal["fork"] | RetryPoint | None = None
    """Whether it is run under another id first, and is then a fork of that, or a retry from a point."""
    crash: tuple[str, int] | None = None
    """Where the first of two crashes is, if the middle is not interesting enough."""

    @property
    def file(self) -> Path:
        return PLAYBOOKS / f"{self.name}.yaml"


# -- operators ------------------------------------------------------------------------------------------------------


def waits(log: list[e.Event], signal: str) -> bool:
    """Whether somebody waits for the signal."""
    parked: dict[tuple[str, int | None], str] = {}
    for event in log:
        match event:
            case e.StepPaused(run=run, index=index, until="signal", key=key):
                parked[run, index] = key
            case e.StepResumed(run=run, index=index):
                parked.pop((run, index), None)
            case e.PlaybookProcessed():
                parked.clear()
    return signal in parked.values()


def approve(logs: Logs, load: Load) -> tuple[str, Command] | None:
    """Answer whoever asks, the same each time."""
    for execution, log in logs.items():
        for name in ("first", "second"):
            if waits(log, name):
                return execution, Signal(name, f"{name}-1", {"by": "ada", "for": name})
    return None


def tell_listeners(logs: Logs, load: Load) -> tuple[str, Command] | None:
    """Send what a step listens for, the second message once the first was heard."""
    for execution, log in logs.items():
        if any(isinstance(event, e.PlaybookProcessed) for event in log):
            continue
        listens = sum(isinstance(event, e.StepPaused) and event.until == "event" for event in log)
        for name in ("first", "second")[:listens]:
            if not any(isinstance(event, e.MessageReceived) and event.type == name for event in log):
                return execution, Signal(name, f"{name}-1", {"by": name})
    return None


def pause_and_go_on(logs: Logs, load: Load) -> tuple[str, Command] | None:
    """Pause the run above while the one below waits, let both go on, then answer the one below."""
    above = [event.name for event in logs.get(EXECUTION, [])]
    below = next((name for name in logs if name != EXECUTION), None)
    if below is None or not waits(logs[below], "first"):
        return None
    names = [event.name for event in logs[below]]
    if "playbook.paused" not in above:
        return EXECUTION, Pause()
    if "playbook.resumed" not in above:
        return (EXECUTION, Resume()) if "playbook.paused" in names else None
    if names.count("playbook.paused") == names.count("playbook.resumed"):
        return below, Signal("first", "first-1", {"by": "ada"})
    return None


def cancel(logs: Logs, load: Load) -> tuple[str, Command] | None:
    """Cancel the run above when the one below waits."""
    below = next((log for name, log in logs.items() if name != EXECUTION), [])
    above = [event.name for event in logs.get(EXECUTION, [])]
    return (EXECUTION, Cancel("enough")) if waits(below, "first") and "playbook.cancelled" not in above else None


def pause_often(logs: Logs, load: Load) -> tuple[str, Command] | None:
    """Pause during a call, between attempts, and inside a loop; go on each time when nothing runs any more."""
    log = logs.get(EXECUTION, [])
    names = [event.name for event in log]
    paused, resumed = names.count("playbook.paused"), names.count("playbook.resumed")
    if paused > resumed:
        return None if load(EXECUTION).leases else (EXECUTION, Resume())
    seen = {event.task.label for event in log if isinstance(event, e.TaskDone)} & {"before", "plain", "mark"}
    over = any(isinstance(event, e.PlaybookProcessed) for event in log)
    return (EXECUTION, Pause()) if not over and paused < len(seen) else None


def operate(case: Case) -> None:
    """Look at the logs and act, until killed."""
    assert case.operator is not None
    while True:
        time.sleep(LOOK_SECONDS)
        try:
            store = SqliteStore("noetl.db", mode="write")
        except StoreError:
            continue
        try:
            logs = {summary.execution_id: events_of(store, summary.execution_id) for summary in store.summaries()}
            if order := case.operator(logs, lambda one: asyncio.run(_load(store, one))):  # noqa: B023
                asyncio.run(_ask(store, *order))
        finally:
            store.close()


async def _load(store: SqliteStore, execution: str) -> Execution:
    from noetl.runtime.runtime import Runtime

    runtime = Runtime(LoadedPlaybooks(store), SystemClock())
    try:
        return (await runtime.executions.load(execution)).state
    finally:
        runtime.thread.shutdown()


async def _ask(store: SqliteStore, execution: str, command: Command) -> None:
    from noetl.runtime.runtime import Runtime

    runtime = Runtime(LoadedPlaybooks(store), SystemClock())
    try:
        await runtime.committer.handle(execution, command)
    finally:
        runtime.thread.shutdown()


def events_of(store: SqliteStore, execution: str) -> list[e.Event]:
    return [decode(row.type, row.data) for row in store.read(execution)]


class LateWriter:
    """A store to which somebody else writes a signal when the second commit of a run is on its way, once."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        rows = self.store.read(EXECUTION)
        if rows and not any(row.type == e.MessageReceived.name for row in rows):
            self._intrude(rows)
        result: list[bool] = self.store.commit(changes)
        return result

    def _intrude(self, rows: Sequence[Any]) -> None:
        other = SqliteStore(self.store.path)
        try:
            signal: list[e.Event] = [e.MessageReceived("first", "late-1", {"by": "grace", "for": "first"})]
            last = rows[-1]
            written = rows_of(signal, last.seq + 1, last.at, last.hash)
            assert other.commit([Change(EXECUTION, last.seq, written)]) == [True]
        finally:
            other.close()


def _cases(cases: Iterable[Case]) -> dict[str, Case]:
    return {case.name: case for case in cases}


SPECIAL = _cases(
    [
        Case("wait_signal", operator=approve),
        Case("classic_listen", operator=tell_listeners),
        Case("signal_early", operator=approve, late=True),
        Case("child_paused", operator=pause_and_go_on),
        Case("child_cancelled", operator=cancel),
        Case("paused", operator=pause_often),
        Case("on_lost", once=True),
        Case("forked", history="fork"),
        Case("retried", history=RetryPoint()),
        Case("retried_collect", history=RetryPoint()),
        Case("retried_items", history=RetryPoint(failed_items=True)),
        Case("retried_step", history=RetryPoint("middle")),
        Case("nested", may_skip=True, calls=60),
        Case("timeout", may_skip=True, calls=5),
        Case("child_unawaited", may_skip=True, calls=4),
        Case("child_orphaned", may_skip=True, calls=3),
        Case("grandchild_orphaned", may_skip=True, calls=6),
        Case("sub_playbook", crash=("host.children:ChildExecutions._sync_child:7 before", 1)),
    ]
)
CASES = _cases(
    SPECIAL.get(file.stem, Case(file.stem)) for file in sorted(PLAYBOOKS.glob("*.yaml")) if file.stem[0] != "_"
)
"""Every playbook of the folder; those that begin with `_` are children of others."""
