"""Keychain entries whose kind a tool cannot use are found before anything runs, wherever `auth` stands."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.keychain.kinds import SHAPES
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: p}\n"
ENTRIES = "keychain: [{name: api, kind: bearer}, {name: db, kind: postgres_credential}]\n"
ENDS = "source: {kind: postgres, auth: AUTH, query: SELECT 1}, target: {kind: csv, path: a.csv}"


def codes(text: str, entries: str = ENTRIES) -> list[str]:
    return [f"{problem.code} {problem.line}" for problem in load("p.yaml", HEAD + entries + text, KINDS).problems]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("workflow:\n- {step: a, tool: {kind: postgres, auth: AUTH, query: SELECT 1}}\n", id="a task"),
        pytest.param(f"workflow:\n- {{step: a, tool: {{kind: transfer, {ENDS}}}}}\n", id="an end of a transfer"),
        pytest.param(
            "executor: {spec: {postgres: {auth: AUTH}}}\nworkflow: [{step: a, tool: {kind: postgres, query: S}}]\n",
            id="a default",
        ),
        pytest.param(
            "workbook: [{name: w, tool: {kind: postgres, auth: AUTH, query: SELECT 1}}]\n"
            "workflow: [{step: a, tool: {kind: workbook, name: w}}]\n",
            id="a task of the workbook",
        ),
        pytest.param(
            "workflow:\n- {step: a, tool: {kind: postgres, auth: AUTH, query: SELECT 1}, next: b}\n- {step: b}\n",
            id="classic",
        ),
    ],
)
def test_an_entry_that_the_tool_cannot_use_is_found_wherever_it_is_named(text: str) -> None:
    assert [code[:6] for code in codes(text.replace("AUTH", "api")) if code.startswith("NTL218")] == ["NTL218"]
    assert [code for code in codes(text.replace("AUTH", "db")) if code.startswith("NTL218")] == []


@pytest.mark.parametrize("kind", ["secret_manager", "acme.login"])
def test_entries_whose_fields_are_not_known_are_left_to_the_run(kind: str) -> None:
    text = "workflow:\n- {step: a, tool: {kind: postgres, auth: x, query: SELECT 1}}\n"
    assert codes(text, f"keychain: [{{name: x, kind: {kind}}}]\n") == []


def test_the_kinds_that_tools_accept_exist() -> None:
    accepted = {kind.credentials for kind in map(KINDS.get, KINDS.names()) if kind is not None}
    assert {name for names in accepted for name in names} <= SHAPES.keys()
