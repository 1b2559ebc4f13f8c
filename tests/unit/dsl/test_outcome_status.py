"""NTL406: a guard on a text that `outcome.status` never is, in both dialects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl.compile import load
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n"


def rule(guard: str) -> str:
    when = f'{{when: "{{{{ {guard} }}}}", then: {{do: continue}}}}'
    rules = f"spec: {{policy: {{rules: [{when}, {{else: {{then: {{do: continue}}}}}}]}}}}"
    return f"  - {{step: s, tool: [{{a: {{kind: noop, {rules}}}}}]}}\n"


def case(guard: str) -> str:
    branch = f'{{when: "{{{{ {guard} }}}}", then: {{next: t}}}}'
    return f"  - {{step: s, tool: {{kind: noop}}, case: [{branch}]}}\n  - {{step: t}}\n"


def retry(guard: str) -> str:
    return f'  - {{step: s, tool: {{kind: noop}}, retry: {{max_attempts: 2, retry_when: "{{{{ {guard} }}}}"}}}}\n'


def problems_in(text: str) -> list[tuple[str, str | None]]:
    problems = load("x.yaml", HEAD + text, KINDS).problems
    assert [problem for problem in problems if problem.severity == "error"] == []
    return [(problem.message, problem.hint) for problem in problems if problem.code == "NTL406"]


@pytest.mark.parametrize("place", [rule, case, retry])
@pytest.mark.parametrize(
    ("guard", "never"),
    [
        ("outcome.status == 'failed'", "'failed'"),
        ("'success' == outcome.status", "'success'"),
        ("outcome['status'] != 'succeeded'", "'succeeded'"),
        ("outcome.status in ['error', 'failed', 'timeout']", "'failed' or 'timeout'"),
        ("outcome.status not in ['done']", "'done'"),
    ],
)
def test_a_status_that_never_occurs_is_reported(place: Callable[[str], str], guard: str, never: str) -> None:
    assert problems_in(place(guard)) == [(f"outcome.status is never {never}", "outcome.status is 'ok' or 'error'")]


@pytest.mark.parametrize("place", [rule, case, retry])
@pytest.mark.parametrize(
    "guard",
    ["outcome.status == 'ok'", "outcome.status in ['ok', 'error']", "outcome.result.status == 'failed'"],
)
def test_a_status_that_occurs_is_quiet(place: Callable[[str], str], guard: str) -> None:
    assert problems_in(place(guard)) == []
