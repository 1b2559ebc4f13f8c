"""The parameters and fields that the web page needs of each route. An answer may have more of them, never fewer."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.server.app import endpoints
from noetl.server.openapi import describe, public
from noetl.server.roles import PREFIX

DOCUMENT: dict[str, Any] = describe(public(endpoints()), "1")
WAIT = "run item for name due since message fields.path fields.type"
STEP_RUN = "step n scheduled_seq started_seq ended_seq scheduled_ms started_ms ended_ms status retries loop from_runs"
PROBLEM = "file line column code severity message hint end_line end_column path fix.text"
GRAPH = """name width height nodes.name nodes.role nodes.x nodes.y nodes.w nodes.h nodes.entry nodes.final
    nodes.inclusive
    nodes.description nodes.line nodes.badges.kind nodes.badges.text nodes.badges.title nodes.tasks.label
    nodes.tasks.kind
    nodes.tasks.note nodes.tasks.depth nodes.tasks.line edges.source edges.target edges.arc edges.guard edges.label
    edges.delay edges.failure edges.reversed edges.path edges.label_x edges.label_y edges.line"""
FORM = "path type default help template"


def within(prefix: str, fields: str) -> str:
    return " ".join(f"{prefix}.{field}" for field in fields.split())


SHAPES: dict[str, tuple[str, str]] = {
    "GET /executions": (
        "status path since until parent waits q cursor limit",
        f"""{within("items.waits", WAIT)} items.activity items.progress.total items.progress.ok items.progress.failed
        items.failed_items items.error.kind items.error.step items.error.message items.trigger.kind items.trigger.name
        items.version items.local items.events next""",
    ),
    "GET /executions/counts": (
        "since path",
        "pending running waiting paused cancelling succeeded failed cancelled",
    ),
    "GET /executions/{id}": (
        "",
        f"""version file payload activity local trigger.kind trigger.name forked_from.execution_id forked_from.seq
        forked_from.reason forks children {within("waits", WAIT)} error.details""",
    ),
    "GET /executions/{id}/outline": (
        "",
        f"""execution_id seq status started ended digests steps {within("runs", STEP_RUN)} runs.waited_ms.worker
        runs.waited_ms.retry runs.waited_ms.external parked.run parked.from_seq parked.to_seq tokens.step
        tokens.from_run
        tokens.enqueued_seq tokens.consumed_seq tokens.held_seq loops.run loops.total loops.progress.seq
        loops.progress.ok
        loops.progress.failed loops.progress.in_flight arcs.step arcs.arc arcs.fired arcs.last_seq markers.seq
        markers.kind markers.entity critical_path histogram.events_per_bin histogram.events histogram.errors
        histogram.retries histogram.end_ms by_step.step by_step.runs by_step.active by_step.succeeded by_step.failed""",
    ),
    "GET /executions/{id}/live": (
        "after",
        f"""seq timestamp status activity new_events rows outline.seq {within("outline.runs", STEP_RUN)}
        {within("waits", WAIT)} ctx_keys last_log_line reload""",
    ),
    "GET /executions/{id}/step-runs": ("step status after limit", f"{within('items', STEP_RUN)} items.waited_ms next"),
    "GET /executions/{id}/step-run": (
        "run item",
        f"""run item step status args scheduled started ended worked_ms waited_ms leases.fence leases.worker leases.from
        leases.to leases.end_reason {within("waits", WAIT)} writes.seq writes.scope writes.key writes.op writes.value
        tasks.label tasks.kind tasks.visit tasks.attempts.attempt tasks.attempts.seq tasks.attempts.started
        tasks.attempts.duration_ms tasks.attempts.status tasks.attempts.do tasks.attempts.to tasks.attempts.error
        tasks.attempts.due result error children loop.total loop.ok loop.failed loop.running""",
    ),
    "GET /executions/{id}/items": (
        "run status after limit q",
        """items.index items.status items.preview items.started items.duration_ms items.attempts items.error.kind
        items.error.message items.seq next""",
    ),
    "GET /executions/{id}/items/summary": (
        "run",
        """total ok failed running waiting remaining errors.kind errors.message errors.count errors.first errors.last
        durations.p50 durations.p95 durations.max durations.unknown durations.bins.up_to_ms durations.bins.count
        slowest.index slowest.duration_ms""",
    ),
    "GET /executions/{id}/events": ("before level run item types q view after limit", "items next prev scanned_to"),
    "GET /executions/{id}/state": (
        "at parts",
        f"""runs.run runs.step runs.status runs.started runs.task runs.worker runs.pool {within("runs.waits", WAIT)}
        signals timers.name timers.due""",
    ),
    "GET /executions/{id}/explain": (
        "at item arc seq limit before",
        "decisions.seq decisions.kind decisions.reasons.verdict decisions.inputs next",
    ),
    "GET /executions/{id}/logs": ("before run item task stream q after limit", "items.line items.task next prev"),
    "GET /executions/{id}/related": (
        "after",
        "parent.execution_id source.execution_id children.items children.next forks",
    ),
    "GET /executions/{id}/diff": (
        "with",
        """equal status.a status.b result.a result.b error.a error.b ctx steps.step steps.a steps.b steps.differs
        first_difference.a_seq first_difference.b_seq first_difference.a first_difference.b scanned_to""",
    ),
    "POST /executions/{id}/replay": (
        "",
        """equal scanned_to first_difference.seq first_difference.event_type first_difference.logged
        first_difference.replayed first_difference.message""",
    ),
    "POST /executions/{id}/fork": ("dry_run", "again.run done source_seq"),
    "POST /executions/{id}/retry": ("dry_run", "again.run done source_seq"),
    "POST /executions/{id}/signals": ("", "awaited"),
    "GET /executions/{id}/export": ("", ""),
    "GET /graphs/{hash}": ("run_row", GRAPH),
    "POST /playbooks/validate": (
        "with",
        f"""valid {within("problems", PROBLEM)} {within("graph", GRAPH)} names.steps names.labels names.ctx
        {within("form", FORM)} next_version""",
    ),
    "POST /playbooks/assist": (
        "line column",
        """completions.label completions.kind completions.detail completions.insert completions.doc hover.from hover.to
        hover.text""",
    ),
    "GET /playbooks": ("", "items.last_run.execution_id items.last_run.status items.last_run.started"),
    "GET /playbooks/{path}": ("with", f"last_run.execution_id last_run.status last_run.started {within('form', FORM)}"),
    "GET /tools": ("", "items.kind items.summary items.inputs.name items.inputs.type items.inputs.description"),
    "GET /schema": ("", ""),
    "GET /results/{hash}": ("", ""),
    "GET /results/{hash}/page": ("after limit", "kind total items next"),
    "GET /workers": ("", within("pools", "pool workers slots busy queued oldest")),
    "POST /sessions": ("", "role csrf_token expires"),
    "GET /sessions": ("", "role csrf_token"),
}


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = DOCUMENT["components"]["schemas"][name.rpartition("/")[2]]
    return schema


def fields_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of a schema, or of the items of a list; those of all alternatives."""
    if "$ref" in schema:
        schema = schema_of(schema["$ref"])
    fields = dict(schema.get("properties", {}))
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if schema.get("items") else ())):
        fields |= fields_of(part)
    return fields


def has(schema: dict[str, Any], path: str) -> bool:
    first, _, rest = path.partition(".")
    fields = fields_of(schema)
    return first in fields and (not rest or has(fields[first], rest))


@pytest.mark.parametrize("route", SHAPES)
def test_a_route_has_what_the_page_needs(route: str) -> None:
    method, _, path = route.partition(" ")
    operation = DOCUMENT["paths"][PREFIX + path][method.lower()]
    parameters, fields = SHAPES[route]
    available = {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"}
    assert set(parameters.split()) <= available
    schemas = [
        content["schema"]
        for status, answer in operation["responses"].items()
        if status.startswith("2")
        for content in answer.get("content", {}).values()
    ]
    assert [path for path in fields.split() if not any(has(schema, path) for schema in schemas)] == []


def test_a_session_can_be_made_from_a_token() -> None:
    body = DOCUMENT["paths"][f"{PREFIX}/sessions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"user", "password", "token"} <= fields_of(body).keys()
