"""Counts, logs and traces the events that a server stores."""

from __future__ import annotations

from noetl.engine import events as e
from noetl.engine.state import Execution
from noetl.log import Level, Log
from noetl.server.metrics import Metrics
from noetl.server.traces import Traces, trace_of


class Telemetry:
    def __init__(self, log: Log, traces: Traces | None = None) -> None:
        self.log, self.metrics, self.traces = log, Metrics(), traces

    def on_commit(self, executions: int, seconds: float) -> None:
        self.metrics.observe("noetl_commit_duration_seconds", seconds)
        self.metrics.observe("noetl_commit_executions", executions)

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        self.metrics.count("noetl_events_total", len(events))
        for event in events:
            match event:
                case e.TaskDone():
                    outcome = "skipped" if event.skipped else "success" if event.outcome.ok else "error"
                    self.metrics.count("noetl_tasks_total", 1, outcome)
                case e.ExecutionRequested():
                    self.metrics.count("noetl_executions_started_total")
                    parent = state.parent[0] if state.parent else None
                    self._log("debug", "execution started", state, parent_id=parent)
                case e.PlaybookProcessed():
                    self.metrics.count("noetl_executions_ended_total", 1, event.outcome)
                    kind = (event.error or {}).get("kind")
                    kind = kind if isinstance(kind, str) else None
                    self._log("info", "execution ended", state, status=event.outcome, events=state.seq, error_kind=kind)
                    if self.traces is not None:
                        self.traces.ended(state)
                case e.StepPaused(reason="lost"):
                    self.metrics.count("noetl_leases_lost_total")
                    self._log("warning", "lease lost", state, step_run_id=event.run, fence=event.fence)

    def _log(self, level: Level, message: str, state: Execution, **fields: object) -> None:
        path, trace = state.net.playbook.path, trace_of(state.id)
        self.log.write(level, message, execution_id=state.id, trace_id=trace, path=path, **fields)
