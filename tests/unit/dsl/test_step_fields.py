"""Templates read the fields that a step or a task has, by the name that it has."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: shop/orders}
workflow:
  - step: load-data
    tool: {kind: noop}
    next: {arcs: [{step: plain}]}
  - step: plain
    tool: {kind: noop}
    next: {arcs: [{step: v1.last}]}
  - step: v1.last
    tool:
      - read-it: {kind: noop}
      - show: {kind: noop, result: "{{ EXPRESSION }}"}
"""
COLUMN = 40


def problems(expression: str) -> list[Problem]:
    return load("orders.yaml", TEXT.replace("EXPRESSION", expression), KINDS).problems


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("steps.plain.output", "read `steps.plain.result`"),
        ("steps.plain.resutl.rows", "did you mean 'result'?"),
        ("steps.plain['rows']", "if it is a part of the result, read `steps.plain.result.rows`"),
        ("steps.plain.rows | default(0)", "if it is a part of the result, read `steps.plain.result.rows`"),
    ],
)
def test_an_unknown_field_of_a_step(expression: str, hint: str) -> None:
    (problem,) = problems(expression)
    assert (problem.code, problem.line, problem.column, problem.hint) == ("NTL519", 14, COLUMN, hint)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("tasks['read-it'].reslut", "did you mean 'result'?"),
        ("tasks['read-it'].data.rows", "read `tasks.read-it.result`"),
        ("tasks['read-it'].http.status", "fields: error, meta, result, status"),
    ],
)
def test_an_unknown_field_of_a_task(expression: str, hint: str) -> None:
    (problem,) = problems(expression)
    assert (problem.code, problem.severity, problem.line, problem.column) == ("NTL414", "warning", 14, COLUMN)
    assert problem.hint == hint


def test_a_task_has_the_own_field_of_its_kind() -> None:
    text = TEXT.replace("read-it: {kind: noop}", "read-it: {kind: KIND}").replace(
        "EXPRESSION", "tasks['read-it'].FIELD"
    )
    fields = {"wait, signal: go": "actor", "http, url: http://x": "http", "python, code: result = 1": "py"}
    for kind, field in fields.items():
        assert load("orders.yaml", text.replace("KIND", kind).replace("FIELD", field), KINDS).problems == []


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("steps.load-data.result", "write `steps['load-data']`"),
        ("steps.v1.last.result", "write `steps['v1.last']`"),
        ("tasks.read-it.result", "write `tasks['read-it']`"),
    ],
)
def test_a_name_that_is_not_a_plain_word_is_reported_once(expression: str, hint: str) -> None:
    (problem,) = problems(expression)
    assert (problem.code, problem.line, problem.column, problem.hint) == ("NTL513", 14, COLUMN, hint)


@pytest.mark.parametrize(
    "expression",
    [
        "steps['load-data'].result.rows",
        "steps.plain.result - 1",
        "steps.plain.status",
        "steps.plain.error.kind",
        "steps.plain.data.x",
        "tasks['read-it'].result",
        "tasks['read-it'].error.kind",
        "tasks['read-it'].meta.attempt",
        "steps['v1.last'].failures",
        "plain.output",
    ],
)
def test_fields_that_exist(expression: str) -> None:
    assert problems(expression) == []
