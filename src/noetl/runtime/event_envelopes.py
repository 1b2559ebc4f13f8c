"""The envelopes of a log, with the actor of each event.

Events that a worker reports do not store its name: the grant of their lease (`step.started`) does, once. Reading a log
in order tells who holds each lease. A reader that starts in the middle searches back for the grants that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from noetl.classic.events import POINTS, CaseEvaluated, CaseStarted
from noetl.engine import events as e
from noetl.engine.envelope import envelope
from noetl.engine.timer_keys import RunTimeout, timer_of
from noetl.model.actor import Actor
from noetl.store.codec import decode
from noetl.store.store import Row, Store

ROWS_PER_SEARCH = 1000
GRANT_EVENTS = frozenset(
    kind.name
    for kind in (e.StepScheduled, e.StepStarted, e.StepRegranted, e.StepPaused, e.TimerFired, e.ExecutionForked)
)
LEASE_EVENTS = GRANT_EVENTS | {
    kind.name for kind in (e.StepDone, e.StepFailed, e.IterationDone, e.IterationFailed, CaseStarted)
}
"""Events that grant leases or end them."""


class EventEnvelopes:
    """Envelopes of successive rows of one log."""

    def __init__(self, store: Store, execution: str) -> None:
        self.execution, self._leases = execution, _Leases(_EarlierEvents(store, execution))

    def of(self, rows: Sequence[Row], types: Collection[str] = ()) -> list[dict[str, Any]]:
        """The envelopes of rows that follow each other in the log, and follow the rows before; `types` are the names of
        the events to return, empty for all. Reads the store where these rows depend on earlier ones."""
        return self.selected(rows, lambda row: not types or row.type in types)

    def selected(self, rows: Sequence[Row], is_wanted: Callable[[Row], bool]) -> list[dict[str, Any]]:
        """The envelopes of some of the rows; the others may be left out unless they are of LEASE_EVENTS."""
        if rows:
            self._leases.earlier.begin(rows[0].seq)
        envelopes = []
        for row in rows:
            is_selected = is_wanted(row)
            if not is_selected and row.type not in LEASE_EVENTS:
                continue
            event = decode(row.type, row.data)
            if is_selected:
                envelopes.append(envelope(self.execution, row.seq, row.at, event, self._leases.actor_of(event)))
            self._leases.fold(event)
        return envelopes


class _EarlierEvents:
    """The events of GRANT_EVENTS before the first row that is read, newest first; read as far as they are needed."""

    def __init__(self, store: Store, execution: str) -> None:
        self.store, self.execution = store, execution
        self._events: list[e.Event] = []
        self._seq: int | None = None  # of the oldest row that was read

    def begin(self, seq: int) -> None:
        self._seq = seq if self._seq is None else self._seq

    def __iter__(self) -> Iterator[e.Event]:
        yield from self._events
        while self._seq is not None and self._seq > 1:
            first = max(1, self._seq - ROWS_PER_SEARCH)
            rows = self.store.read(self.execution, first - 1, self._seq - first)
            self._seq = first
            older = [decode(row.type, row.data) for row in reversed(rows) if row.type in GRANT_EVENTS]
            self._events += older
            yield from older


class _Leases:
    """The grants of open runs."""

    def __init__(self, earlier: _EarlierEvents) -> None:
        self.earlier = earlier
        self._grants: dict[str, dict[int, e.StepStarted]] = {}
        self._known: set[str] = set()  # runs without earlier grants
        self._ended: set[int] = set()  # fences of earlier grants that have ended

    def actor_of(self, event: e.Event) -> Actor | None:
        actor: Actor | None = getattr(event, "actor", None)
        if actor is None and _is_report(event):
            grant = self._grant_of(event)
            return None if grant is None else grant.actor
        return actor

    def _grant_of(self, report: e.Event) -> e.StepStarted | None:
        """The grant under which a worker reported the event; None if the server decided it."""
        run = _run_of(report)
        grants = self._grants.get(run, {})
        grant = next((grant for grant in reversed(grants.values()) if _covers(grant, report)), None)
        if grant is None and run not in self._known:
            grant = self._earlier_grant(run, report)
            if grant is None:
                self._known.add(run)
            else:
                self._grants[run] = {grant.fence: grant, **grants}
        return grant

    def _earlier_grant(self, run: str, report: e.Event) -> e.StepStarted | None:
        ended = set(self._ended)
        for event in self.earlier:
            match event:
                case e.StepStarted(run=other, fence=fence) if other == run and _covers(event, report):
                    return None if fence in ended else event
                case e.StepPaused(fence=fence):
                    ended.add(fence)
                case e.StepScheduled(run=other) if other == run:
                    return None
                case e.TimerFired(timer=name) if timer_of(name) == RunTimeout(run):
                    return None
                case e.ExecutionForked():
                    return None
        return None

    def fold(self, event: e.Event) -> None:
        match event:
            case e.StepScheduled(run=run):
                self._end(run)
            case e.StepStarted(run=run, fence=fence):
                self._grants.setdefault(run, {})[fence] = event
            case e.StepPaused(run=run, fence=fence):
                self._grants.get(run, {}).pop(fence, None)
                if run not in self._known:
                    self._ended.add(fence)
            case e.IterationDone(run=run, index=index) | e.IterationFailed(run=run, index=index):
                grants = self._grants.get(run, {})
                last = (fence for fence, grant in grants.items() if grant.items and grant.items[1] == index + 1)
                grants.pop(next(last, 0), None)
            case e.StepDone(run=run) | e.StepFailed(run=run):
                self._grants.pop(run, None)
                self._known.discard(run)
            case CaseStarted(run=run, revoked=True):
                self._end(run)
            case e.TimerFired(timer=name):
                if isinstance(timer := timer_of(name), RunTimeout):
                    self._end(timer.run)
            case e.ExecutionForked():
                for run in self._grants:
                    self._end(run)

    def _end(self, run: str) -> None:
        """The run has no lease."""
        self._grants[run] = {}
        self._known.add(run)


def _is_report(event: e.Event) -> bool:
    match event:
        case e.StepPaused(reason=reason):
            return reason != "lost"
        case CaseStarted(revoked=revoked, trigger_event=trigger):  # a step that listens: the server looks at the event
            return not revoked and trigger in POINTS
        case CaseEvaluated(event=observed):
            return observed is None
    return event.source == "worker"


def _run_of(report: Any) -> str:
    run: str = report.task.run if isinstance(report, e.TaskEvent) else report.run
    return run


def _covers(grant: e.StepStarted, report: Any) -> bool:
    """Whether a lease of the same run allows the report."""
    if isinstance(report, e.StepPaused):
        return grant.fence == report.fence
    index = report.task.index if isinstance(report, e.TaskEvent) else getattr(report, "index", None)
    if grant.items is None or index is None:
        return grant.items is None and index is None
    return grant.items[0] <= index < grant.items[1]
