"""Counts and logs the events that a server stores."""

from __future__ import annotations

from collections.abc import Callable

from noetl.engine import events as e
from noetl.engine.state import Execution
from noetl.log import Level, Log
from noetl.server.metrics import Metrics
from noetl.server.traces import Traces

OnChange = Callable[[str, int], None]
"""Takes the id and the last seq of an execution whose log has grown."""


class Observer:
    def __init__(self, log: Log, metrics: Metrics, traces: Traces | None, on_change: OnChange) -> None:
        self.log, self.metrics, self.traces, self.on_change = log, metrics, traces, on_change

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        self.on_change(state.id, state.seq)
        self.metrics.count("noetl_events_total", len(events))
        for event in events:
            note = NOTES.get(type(event))
            if note is not None:
                note(self, state, event)

    def on_commit(self, executions: int, seconds: float) -> None:
        self.metrics.observe("noetl_commit_duration_seconds", seconds)
        self.metrics.observe("noetl_commit_executions", executions)

    def _started(self, state: Execution, event: e.Event) -> None:
        self.metrics.count("noetl_executions_started_total")
        self._log("debug", "execution started", state, parent_id=state.parent[0] if state.parent else None)

    def _ended(self, state: Execution, event: e.Event) -> None:
        assert isinstance(event, e.PlaybookProcessed)
        self.metrics.count("noetl_executions_ended_total", 1, event.outcome)
        error = event.error or {}
        kind = error.get("kind") if isinstance(error.get("kind"), str) else None
        self._log("info", "execution ended", state, status=event.outcome, events=state.seq, error_kind=kind)
        if self.traces is not None:
            self.traces.ended(state)

    def _task(self, state: Execution, event: e.Event) -> None:
        assert isinstance(event, e.TaskDone)
        outcome = "skipped" if event.skipped else "success" if event.outcome.ok else "error"
        self.metrics.count("noetl_tasks_total", 1, outcome)

    def _paused(self, state: Execution, event: e.Event) -> None:
        assert isinstance(event, e.StepPaused)
        if event.reason == "lost":
            self.metrics.count("noetl_leases_lost_total")
            self._log("warning", "lease lost", state, step_run_id=event.run, fence=event.fence)

    def _log(self, level: Level, message: str, state: Execution, **fields: object) -> None:
        path, trace = state.net.playbook.path, state.id.replace("-", "")
        self.log.write(level, message, execution_id=state.id, trace_id=trace, path=path, **fields)


NOTES: dict[type[e.Event], Callable[[Observer, Execution, e.Event], None]] = {
    e.ExecutionRequested: Observer._started,
    e.PlaybookProcessed: Observer._ended,
    e.TaskDone: Observer._task,
    e.StepPaused: Observer._paused,
}
