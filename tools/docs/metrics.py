"""The page of metrics, made from the table of the server."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.server.telemetry import METRICS
from tools.docs.markdown import code, codes, page, table

INTRO = """`GET /metrics` returns metrics in the text format of Prometheus. It needs no token, and contains no names of
playbooks, pools or users. Counters start at zero with the process; sum them over servers. Gauges of the store
(`noetl_executions_open`, `noetl_ready`, `noetl_leases`, `noetl_timers`, `noetl_workers*`) are the same at every server:
do not sum them. They are missing while the store is down."""

WATCH = """Alert when `noetl_dependency_up` is 0; `noetl_ready` grows while
`noetl_worker_slots_busy{status="active"}` equals `noetl_worker_slots{status="active"}` (too few workers);
`noetl_leases_lost_total` rises (workers die or are disconnected); the upper buckets of
`noetl_commit_duration_seconds` fill (the database is slow); or
`noetl_executions_ended_total{status="failed"}` rises faster than usual."""


def pages() -> Iterator[tuple[str, str]]:
    rows = [(code(name), one.kind, codes(one.labels) if one.labels else "", one.help) for name, one in METRICS.items()]
    yield "reference/metrics.md", page("Metrics", INTRO, table(["Metric", "Kind", "Labels", "Meaning"], rows), WATCH)
