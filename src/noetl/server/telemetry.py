"""Metrics, logs and traces of a server.

Metrics are in the text format of Prometheus, without names of playbooks, pools or users: anybody may read them.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from time import process_time, time
from typing import Literal, NamedTuple

from noetl.engine import events as e
from noetl.engine.envelope import status_of
from noetl.engine.state import Execution
from noetl.log import Level, Log
from noetl.server.traces import Traces, trace_of

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

Labels = tuple[str, ...]


class Metric(NamedTuple):
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Labels = ()
    buckets: tuple[float, ...] = ()


METRICS: dict[str, Metric] = {
    "noetl_build_info": Metric("gauge", "Always 1; the label is the version of the server.", ("version",)),
    "noetl_executions_started_total": Metric("counter", "Executions started by this server, including children."),
    "noetl_executions_ended_total": Metric("counter", "Executions whose end this server has stored.", ("status",)),
    "noetl_executions_pruned_total": Metric("counter", "Executions that this server has pruned."),
    "noetl_executions_open": Metric("gauge", "Open executions in the store.", ("status",)),
    "noetl_executions_in_memory": Metric("gauge", "Executions in memory."),
    "noetl_events_total": Metric("counter", "Events stored by this server."),
    "noetl_tasks_total": Metric("counter", "Task outcomes stored by this server.", ("outcome",)),
    "noetl_commit_duration_seconds": Metric("histogram", "Duration of commits.", (), SECONDS),
    "noetl_commit_executions": Metric("histogram", "Executions per commit.", (), SIZES),
    "noetl_ready": Metric("gauge", "Step runs in the store that wait for a worker."),
    "noetl_leases": Metric("gauge", "Step runs in the store that workers have leased."),
    "noetl_timers": Metric("gauge", "Timers in the store: waits, retries, delays, timeouts."),
    "noetl_reports_total": Metric("counter", "Reports received from workers."),
    "noetl_leases_granted_total": Metric("counter", "Leases granted by this server."),
    "noetl_leases_lost_total": Metric("counter", "Leases that this server has revoked because their worker was lost."),
    "noetl_claim_wait_seconds": Metric("histogram", "Time that successful claims waited for work.", (), SECONDS),
    "noetl_workers": Metric(
        "gauge",
        "Workers with a heartbeat in the last minute, on any server; only active ones take work.",
        ("status",),
    ),
    "noetl_worker_slots": Metric("gauge", "Slots of these workers.", ("status",)),
    "noetl_worker_slots_busy": Metric("gauge", "Busy slots of these workers.", ("status",)),
    "noetl_http_requests_total": Metric("counter", "HTTP requests.", ("method", "route", "status")),
    "noetl_http_request_duration_seconds": Metric(
        "histogram", "Duration of HTTP requests, including long polls and streams.", ("method", "route"), SECONDS
    ),
    "noetl_http_requests_open": Metric("gauge", "HTTP requests in progress."),
    "noetl_event_streams": Metric("gauge", "Open event streams."),
    "noetl_logins_failed_total": Metric("counter", "Failed logins."),
    "noetl_deliveries_refused_total": Metric("counter", "Rejected deliveries to hooks."),
    "noetl_dependency_up": Metric("gauge", "1 if the dependency is up, 0 if not.", ("dependency",)),
    "process_resident_memory_bytes": Metric("gauge", "Resident memory of the process."),
    "process_cpu_seconds_total": Metric("counter", "Processor time of the process."),
    "process_open_fds": Metric("gauge", "Open file descriptors of the process."),
    "process_start_time_seconds": Metric("gauge", "Start time of the process, in seconds since 1970."),
}

STARTED = time()


class _Histogram:
    __slots__ = ("counts", "sum")

    def __init__(self, metric: Metric) -> None:
        self.counts, self.sum = [0] * (len(metric.buckets) + 1), 0.0


class Metrics:
    def __init__(self) -> None:
        self.counted: dict[str, dict[Labels, float]] = {}
        self.histograms: dict[str, dict[Labels, _Histogram]] = {}
        self.open_requests = 0
        for name, metric in METRICS.items():
            if metric.kind == "histogram":
                self.histograms[name] = {} if metric.labels else {(): _Histogram(metric)}
            elif metric.kind == "counter":
                self.counted[name] = {} if metric.labels else {(): 0}

    def count(self, name: str, amount: float = 1, *labels: str) -> None:
        values = self.counted[name]
        values[labels] = values.get(labels, 0) + amount

    def observe(self, name: str, value: float, *labels: str) -> None:
        metric, histogram = METRICS[name], self.histograms[name].get(labels)
        if histogram is None:
            histogram = self.histograms[name][labels] = _Histogram(metric)
        histogram.counts[bisect_left(metric.buckets, value)] += 1
        histogram.sum += value

    def text(self, gauges: dict[str, dict[Labels, float]]) -> str:
        """All metrics; `gauges` are those that are read on request."""
        values = self.counted | {"noetl_http_requests_open": {(): self.open_requests}} | gauges | _process()
        return "\n".join(line for name in METRICS for line in self._lines(name, values.get(name))) + "\n"

    def _lines(self, name: str, values: dict[Labels, float] | None) -> Iterator[str]:
        metric = METRICS[name]
        if metric.kind != "histogram" and values is None:
            return  # unknown at the moment, which is not zero
        yield f"# HELP {name} {metric.help}"
        yield f"# TYPE {name} {metric.kind}"
        for labels, histogram in sorted(self.histograms.get(name, {}).items()):
            below = 0
            for bound, count in zip((*map("{:g}".format, metric.buckets), "+Inf"), histogram.counts, strict=True):
                below += count
                yield f"{name}_bucket{_labels(metric, labels, bound)} {below}"
            yield f"{name}_sum{_labels(metric, labels)} {_number(histogram.sum)}"
            yield f"{name}_count{_labels(metric, labels)} {below}"
        for labels, value in sorted((values or {}).items()):
            yield f"{name}{_labels(metric, labels)} {_number(value)}"


def _labels(metric: Metric, values: Labels, bound: str = "") -> str:
    names = (*metric.labels, "le") if bound else metric.labels
    values = (*values, bound) if bound else values
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values)
    pairs = [f'{label}="{value}"' for label, value in zip(names, escaped, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6f}"


def _process() -> dict[str, dict[Labels, float]]:
    """The metrics of the process; without /proc only those that Python has."""
    values: dict[str, float] = {"process_cpu_seconds_total": process_time(), "process_start_time_seconds": STARTED}
    with suppress(FileNotFoundError), open("/proc/self/statm", encoding="ascii") as file:
        values["process_resident_memory_bytes"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        values["process_open_fds"] = len(os.listdir("/proc/self/fd"))
    return {name: {(): value} for name, value in values.items()}


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
                    self.metrics.count("noetl_tasks_total", 1, status_of(event))
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
