"""Inputs that would fail in every run are found before: tables without rows, defaults in the wrong place."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\n"


def problems_in(text: str) -> list[Problem]:
    return [problem for problem in load("x.yaml", HEAD + text, KINDS).problems if problem.severity == "error"]


def task(text: str, more: str = "") -> str:
    return f"workflow:\n  - step: s\n    tool: {{{text}}}\n{more}"


@pytest.mark.parametrize("kind", ["postgres", "duckdb", "snowflake"])
@pytest.mark.parametrize("more", ["", ", args: {}", ", columns: [a]"])
def test_a_table_without_rows_is_an_error(kind: str, more: str) -> None:
    (problem,) = problems_in(task(f"kind: {kind}, table: t, mode: append{more}"))
    assert (problem.code, problem.line, problem.column) == ("NTL205", 6, 11)
    assert problem.message == f"'table' of {kind}: there are no rows to write"
    assert problem.hint == "add `rows:`, a list of maps, or `args:` for one row"


@pytest.mark.parametrize(
    "text",
    [
        task("kind: duckdb, table: t, rows: []"),
        task("kind: duckdb, table: t, args: {a: 1}"),
        task("kind: duckdb, table: t", "executor: {spec: {duckdb: {rows: [{a: 1}]}}}\n"),
        task("kind: workbook, name: w, args: {a: 1}", "workbook: [{name: w, tool: {kind: duckdb, table: t}}]\n"),
        task("kind: noop", "    sink: {tool: {kind: duckdb, table: t}}\n"),
        task("kind: noop", "    sink: {tool: {kind: duckdb}, table: t}\n"),
    ],
)
def test_a_table_with_rows_is_sound(text: str) -> None:
    assert problems_in(text) == []


def test_a_call_of_the_workbook_without_args_has_no_rows() -> None:
    workbook = "workbook: [{name: w, tool: {kind: duckdb, table: t}}]\n"
    (problem,) = problems_in(task("kind: workbook, name: w", workbook))
    assert problem.message == "'table' of duckdb: there are no rows to write"


def test_a_stored_playbook_with_a_table_without_rows_is_compiled() -> None:
    text = HEAD + task("kind: duckdb, table: t")
    assert load("x.yaml", text, KINDS).playbook is None
    assert load("x.yaml", text, KINDS, stored=True).playbook is not None


@pytest.mark.parametrize("kind", ["noop", "python, code: result = 1"])
def test_defaults_of_a_kind_under_the_spec_of_a_task_are_shown_their_place(kind: str) -> None:
    (problem,) = problems_in(task(f"kind: {kind}, spec: {{python: {{requirements: [pandas]}}}}"))
    assert (problem.code, problem.message) == ("NTL101", "'python' is not a key of task.spec")
    place = "`executor: {spec: {python: {requirements: ...}}}`"
    assert problem.hint == f"write inputs beside `kind`, or for all python tasks {place}"


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("kind: http, url: 'http://h/', json: {a: 1}, body: b", ("http", "body", "json")),
        ("kind: http, url: 'http://h/', json: {a: 1}, form: {a: b}", ("http", "json", "form")),
        ("kind: duckdb, query: SELECT 1, rows: [{a: 1}]", ("duckdb", "rows", "query")),
        ("kind: postgres, auth: a, command: SELECT 1, key: [a]", ("postgres", "key", "command")),
        ("kind: duckdb, table: t, rows: [{a: 1}], params: [1]", ("duckdb", "params", "table")),
    ],
)
def test_inputs_that_exclude_each_other_are_an_error(text: str, pair: tuple[str, str, str]) -> None:
    kind, first, second = pair
    problem = next(problem for problem in problems_in(task(text)) if problem.code == "NTL205")
    assert (problem.line, problem.column) == (6, len("    tool: {") + text.index(f"{first}:") + 1)
    assert problem.message == f"{kind} takes {first!r} or {second!r}, not both"
    assert problem.hint == f"remove `{first}` or `{second}`"


@pytest.mark.parametrize(
    "text",
    [
        "kind: http, url: 'http://h/', json: '{{ workload.a }}', body: b",  # null in one run, and the body in another
        "kind: http, url: 'http://h/', form: {a: b}, files: {c: {content: d}}",
        "kind: duckdb, query: SELECT 1, rows: [], params: [1]",
    ],
)
def test_inputs_of_which_one_may_be_empty_are_sound(text: str) -> None:
    assert problems_in(task(text, "workload: {a: null}\n")) == []


def test_an_upsert_with_an_empty_key_is_an_error() -> None:
    (problem,) = problems_in(task("kind: duckdb, table: t, rows: [{a: 1}], mode: upsert, key: []"))
    assert problem.message == "`mode: upsert` needs 'key'"
    assert problem.hint == "add `key: [id]`, the columns that identify a row"
