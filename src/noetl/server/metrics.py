"""Numbers for Prometheus, in its text format. No names of playbooks, pools or people: anybody may read them."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from time import process_time, time
from typing import Literal, NamedTuple

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

Labels = tuple[str, ...]


class Metric(NamedTuple):
    """What a number means; the page of metrics is made of these."""

    kind: Literal["counter", "gauge", "histogram"]
    says: str
    labels: Labels = ()
    buckets: tuple[float, ...] = ()


METRICS: dict[str, Metric] = {
    "noetl_build_info": Metric("gauge", "Always 1; the label is the version that runs.", ("version",)),
    "noetl_executions_started_total": Metric("counter", "Executions that were started here, children too."),
    "noetl_executions_ended_total": Metric("counter", "Executions whose end was stored here.", ("status",)),
    "noetl_executions_pruned_total": Metric("counter", "Executions removed here because they ended long ago."),
    "noetl_executions_open": Metric("gauge", "Executions in the store that have not ended.", ("status",)),
    "noetl_executions_in_memory": Metric("gauge", "Executions whose state is in memory."),
    "noetl_events_total": Metric("counter", "Events that were stored here."),
    "noetl_tasks_total": Metric("counter", "Outcomes of tasks that were stored here.", ("outcome",)),
    "noetl_commit_duration_seconds": Metric("histogram", "How long the store took to commit.", (), SECONDS),
    "noetl_commit_executions": Metric("histogram", "Executions that were committed together.", (), SIZES),
    "noetl_ready": Metric("gauge", "Runs in the store that wait for a worker."),
    "noetl_leases": Metric("gauge", "Runs in the store that workers have in hand."),
    "noetl_timers": Metric("gauge", "Timers in the store: waits, retries, delays, limits."),
    "noetl_reports_total": Metric("counter", "Reports of workers that were taken here."),
    "noetl_leases_granted_total": Metric("counter", "Leases that were handed out here."),
    "noetl_leases_lost_total": Metric("counter", "Leases taken back here because their worker was lost."),
    "noetl_claim_wait_seconds": Metric("histogram", "How long workers waited for work they got.", (), SECONDS),
    "noetl_workers": Metric("gauge", "Workers that were heard in the last minute, at any server."),
    "noetl_worker_slots": Metric("gauge", "Slots of these workers."),
    "noetl_worker_slots_busy": Metric("gauge", "Slots of these workers that are taken."),
    "noetl_http_requests_total": Metric("counter", "Requests that were answered.", ("method", "route", "status")),
    "noetl_http_request_duration_seconds": Metric(
        "histogram", "How long answers took; long polls and streams wait on purpose.", ("method", "route"), SECONDS
    ),
    "noetl_http_requests_open": Metric("gauge", "Requests that are being answered."),
    "noetl_event_streams": Metric("gauge", "Clients that follow the events of an execution."),
    "noetl_logins_failed_total": Metric("counter", "Sign-ins that were refused."),
    "noetl_deliveries_refused_total": Metric("counter", "Deliveries to hooks whose signature did not fit."),
    "noetl_dependency_up": Metric("gauge", "1 if the server can use it, 0 if not.", ("dependency",)),
    "process_resident_memory_bytes": Metric("gauge", "Memory of the process that is in RAM."),
    "process_cpu_seconds_total": Metric("counter", "Processor time of the process."),
    "process_open_fds": Metric("gauge", "Files and sockets that the process has open."),
    "process_start_time_seconds": Metric("gauge", "When the process was started, in seconds since 1970."),
}

STARTED = time()


class _Histogram:
    """Counts below bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Metrics:
    """What a server has done since it was started."""

    def __init__(self) -> None:
        self.counted: dict[str, dict[Labels, float]] = {}
        self.histograms: dict[str, dict[Labels, _Histogram]] = {}
        self.open_requests = 0
        self.streams = 0
        for name, metric in METRICS.items():
            if metric.kind == "histogram":
                self.histograms[name] = {} if metric.labels else {(): _Histogram(metric.buckets)}
            elif metric.kind == "counter":
                self.counted[name] = {} if metric.labels else {(): 0}

    def count(self, name: str, amount: float = 1, *labels: str) -> None:
        """So many more."""
        values = self.counted[name]
        values[labels] = values.get(labels, 0) + amount

    def observe(self, name: str, value: float, *labels: str) -> None:
        """It was so long, or so large, this time."""
        found = self.histograms[name].get(labels)
        if found is None:
            found = self.histograms[name][labels] = _Histogram(METRICS[name].buckets)
        found.add(value)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request is done."""
        self.count("noetl_http_requests_total", 1, method, route, str(status))
        self.observe("noetl_http_request_duration_seconds", seconds, method, route)

    def text(self, gauges: dict[str, dict[Labels, float]]) -> str:
        """All of it; `gauges` are what is known only at this moment."""
        now: dict[str, dict[Labels, float]] = {
            "noetl_http_requests_open": {(): self.open_requests},
            "noetl_event_streams": {(): self.streams},
        }
        known = self.counted | now | gauges | _process()
        return "\n".join(line for name in METRICS for line in self._lines(name, known.get(name))) + "\n"

    def _lines(self, name: str, values: dict[Labels, float] | None) -> Iterator[str]:
        metric = METRICS[name]
        if metric.kind != "histogram" and values is None:
            return  # not known at the moment, which is not the same as none
        yield f"# HELP {name} {metric.says}"
        yield f"# TYPE {name} {metric.kind}"
        for labels, found in sorted(self.histograms.get(name, {}).items()):
            yield from _histogram(name, _pairs(metric, labels), found)
        for labels, value in sorted((values or {}).items()):
            yield f"{name}{_braces(_pairs(metric, labels))} {_number(value)}"


def _histogram(name: str, pairs: list[str], found: _Histogram) -> Iterator[str]:
    below = 0
    for bound, count in zip((*map("{:g}".format, found.bounds), "+Inf"), found.counts, strict=True):
        below += count
        upper = f'le="{bound}"'
        yield f"{name}_bucket{_braces([*pairs, upper])} {below}"
    yield f"{name}_sum{_braces(pairs)} {_number(found.sum)}"
    yield f"{name}_count{_braces(pairs)} {below}"


def _pairs(metric: Metric, labels: Labels) -> list[str]:
    return [f'{label}="{_escaped(value)}"' for label, value in zip(metric.labels, labels, strict=True)]


def _braces(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6f}"


def _process() -> dict[str, dict[Labels, float]]:
    """What the operating system knows of us; where it has no /proc, what Python knows."""
    found: dict[str, float] = {"process_cpu_seconds_total": process_time(), "process_start_time_seconds": STARTED}
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            found["process_resident_memory_bytes"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        found["process_open_fds"] = len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        pass
    return {name: {(): value} for name, value in found.items()}
