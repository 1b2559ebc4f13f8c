"""Numbers for Prometheus, in its text format. No names of playbooks or people: anybody may read them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What a server has done since it was started."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.durations: dict[tuple[str, str], list[int]] = {}
        self.sums: dict[tuple[str, str], float] = {}
        self.counters: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.open_requests = 0
        self.streams = 0

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request is done."""
        key = (method, route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        counts = self.durations.get((method, route))
        if counts is None:
            counts = self.durations[method, route] = [0] * (len(BUCKETS) + 1)
            self.sums[method, route] = 0.0
        counts[bisect_left(BUCKETS, seconds)] += 1
        self.sums[method, route] += seconds

    def text(self, gauges: dict[str, float]) -> str:
        """All of it; `gauges` are what is known only at this moment."""
        lines = [*self._counted(), *self._requests(), *self._durations()]
        now = {"http_requests_open": self.open_requests, "event_streams": self.streams} | gauges
        for name, value in now.items():
            lines += [f"# HELP noetl_{name} {GAUGES[name]}", f"# TYPE noetl_{name} gauge", f"noetl_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _counted(self) -> Iterator[str]:
        for name, value in self.counters.items():
            yield f"# HELP noetl_{name}_total {COUNTERS[name]}"
            yield f"# TYPE noetl_{name}_total counter"
            yield f"noetl_{name}_total {value}"

    def _requests(self) -> Iterator[str]:
        yield "# HELP noetl_http_requests_total Requests that were answered."
        yield "# TYPE noetl_http_requests_total counter"
        for (method, route, status), count in sorted(self.requests.items()):
            yield f'noetl_http_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'

    def _durations(self) -> Iterator[str]:
        name = "noetl_http_request_duration_seconds"
        yield f"# HELP {name} How long answers took."
        yield f"# TYPE {name} histogram"
        for (method, route), counts in sorted(self.durations.items()):
            labels, below = f'method="{method}",route="{route}"', 0
            for bound, count in zip(BUCKETS, counts, strict=False):
                below += count
                yield f'{name}_bucket{{{labels},le="{bound:g}"}} {below}'
            yield f'{name}_bucket{{{labels},le="+Inf"}} {sum(counts)}'
            yield f"{name}_sum{{{labels}}} {self.sums[method, route]:.6f}"
            yield f"{name}_count{{{labels}}} {sum(counts)}"


COUNTERS = {
    "executions_started": "Executions that were started here.",
    "reports": "Reports of workers that were taken here.",
    "leases_granted": "Leases that were handed out here.",
    "logins_failed": "Sign-ins that were refused.",
    "executions_pruned": "Executions that were removed here because they ended long ago.",
}
GAUGES = {
    "http_requests_open": "Requests that are being answered.",
    "event_streams": "Clients that follow the events of an execution.",
    "executions_in_memory": "Executions whose state is in memory.",
    "leases": "Leases of executions in memory.",
    "workers": "Workers that were heard in the last minute.",
    "worker_slots": "Slots of these workers.",
    "worker_slots_busy": "Slots of these workers that are taken.",
}
