"""The TypeScript of the web page agrees with the server: its types, roles and events."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
from tools.docs.typescript import FOLDER, files, page_name

from noetl.engine.events import EVENTS
from noetl.model.status import STATUSES
from noetl.server.openapi import is_public
from noetl.server.roles import ALLOWED, PAGES, PREFIX

HOME = Path(__file__).parents[1]


@cache
def generated() -> dict[str, str]:
    """The files by their paths, made when the first test reads them: every worker imports this module."""
    return dict(files())


def source_of(name: str) -> str:
    return generated()[f"{FOLDER}/{name}.gen.ts"]


def fields_of(interface: str) -> list[str]:
    (body,) = re.findall(rf"^export interface {interface} {{\n(.*?)^}}", source_of("types"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^  (\w.*);$", body, re.MULTILINE)


def test_generated_files_come_out_the_same_every_time() -> None:
    assert dict(files()) == generated()


def test_every_schema_of_the_api_is_an_interface_with_the_same_fields() -> None:
    document = msgspec.json.decode((HOME / "docs" / "reference" / "openapi.json").read_bytes())
    for name, schema in document["components"]["schemas"].items():
        fields = [re.split(r"\??:", field)[0] for field in fields_of(page_name(name))]
        assert fields == list(schema["properties"]), name


def test_every_type_that_is_used_is_declared() -> None:
    declared = set(re.findall(r"^export (?:interface|type|const) (\w+)", source_of("types"), re.MULTILINE))
    code = re.sub(r"/\*\*.*?\*/|\"[^\"]*\"", "", source_of("types"), flags=re.DOTALL)
    assert set(re.findall(r"\b[A-Z]\w+", code.partition("\n")[2])) - declared == {"Record"}


def test_a_field_is_optional_where_the_server_may_leave_it_out_or_does_not_need_it() -> None:
    assert "ctx?: Record<string, unknown>" in fields_of("State")  # left out unless it is one of the parts
    assert "reload?: boolean" in fields_of("Frame")  # left out if it is false
    assert "trigger: Trigger | null" in fields_of("ExecutionSummary")
    assert "payload?: Record<string, unknown>" in fields_of("StartRequest")
    assert "limit?: number" in fields_of("ExecutionQuery")


def test_rows_and_statuses_have_types_of_their_own() -> None:
    assert "rows: Row[]" in fields_of("Frame")
    assert "digests: [seq: number, playbook: string][]" in fields_of("Outline")
    statuses = " | ".join(f'"{status}"' for status in STATUSES)
    assert f"export type Status = {statuses};" in source_of("types")


def test_comments_beside_fields_are_kept() -> None:
    assert "  /** the execution from which it was forked */\n  source: string | null;" in source_of("types")


def test_every_route_has_its_least_role() -> None:
    least = dict(re.findall(r'^  "(\w+ /.*)": "?(\w+)"?,$', source_of("roles"), re.MULTILINE))
    routes = {(method, path) for method, path in ALLOWED if is_public(method, path) and path.startswith(PREFIX)}
    assert least.keys() == {f"{method} {path.removeprefix(PREFIX)}" for method, path in routes}
    assert least["GET /executions"] == "viewer"
    assert least["POST /executions/{id}/cancel"] == "operator"
    assert least["POST /executions/{id}/replay"] == "author"
    assert least["DELETE /tokens/{name}"] == "admin"
    assert least["POST /sessions"] == "null"


def test_the_server_answers_every_url_of_the_page() -> None:
    source = (HOME / "ui" / "src" / "routes.ts").read_text("utf-8")
    (table,) = re.findall(r"^const PATTERNS = {\n(.*?)^}", source, re.MULTILINE | re.DOTALL)
    urls = [re.sub(r":\w+|\*\w+", "{}", url) for url in re.findall(r'"(/[^"]*)"', table)]
    assert sorted(urls) == sorted(re.sub(r"{\w+}", "{}", path) for path in PAGES)


def test_every_event_has_its_group_and_its_level() -> None:
    rows = re.findall(
        r'^  "([\w.]+)": {\n    group: "(\w+)",\n    level: "(\w+)",\n', source_of("events"), re.MULTILINE
    )
    assert [name for name, _, _ in rows] == sorted(filter(None, EVENTS))
    levels = {name: level for name, _, level in rows}
    assert [levels[name] for name in ("step.done", "task.done", "timer.armed")] == ["step", "task", "event"]
