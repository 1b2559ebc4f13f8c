"""The page of metrics, made from the table that the server counts by."""

from __future__ import annotations

from collections.abc import Iterator

from docs._markdown import code, codes, page, table
from noetl.server.metrics import METRICS

INTRO = """`GET /metrics` answers with numbers in the text format of Prometheus. No token is asked for, and no name of a
playbook, a pool or a person is among them. Counters begin at zero when the process starts; add them over servers.
Numbers of the store (`noetl_executions_open`, `noetl_ready`, `noetl_leases`, `noetl_timers`, `noetl_workers*`) are the
same at every server: take one, and do not add them. While the store is down they are missing."""

WATCH = """Worth an alarm: `noetl_dependency_up` is 0; `noetl_ready` grows while `noetl_worker_slots_busy` equals
`noetl_worker_slots` (too few workers); `noetl_leases_lost_total` rises (workers die or are cut off); the upper buckets
of `noetl_commit_duration_seconds` fill (the database is slow); `noetl_executions_ended_total{status="failed"}` rises
faster than usual."""


def pages() -> Iterator[tuple[str, str]]:
    rows = [(code(name), one.kind, codes(one.labels) if one.labels else "", one.help) for name, one in METRICS.items()]
    yield "metrics.md", page("Metrics", INTRO, table(["Metric", "Kind", "Labels", "Meaning"], rows), WATCH)
