"""Rules that let errors pass are reported, with the errors that pass."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: shop/orders}
workload: {url: "http://shop.example"}
workflow:
  - step: fetch
    tool:
      - call:
          kind: KIND
          INPUT
          spec:
            policy:
              rules:
"""
HTTP = ("http", 'url: "{{ workload.url }}"')
BUSY = """{when: "{{ outcome.http.status in [429, 503] }}", then: {do: retry}}"""
FAIL = """{when: "{{ outcome.status == 'error' }}", then: {do: fail}}"""
PASS = """{when: "{{ outcome.status == 'error' }}", then: {do: continue}}"""
FOUND = """{when: "{{ outcome.status == 'ok' and outcome.result.data }}", then: {do: break}}"""
SKIP = """{when: "{{ workload.url == '' }}", then: {do: skip}}"""


def problems(*rules: str, kind: tuple[str, str] = HTTP) -> list[Problem]:
    text = TEXT.replace("KIND", kind[0]).replace("INPUT", kind[1])
    return load("orders.yaml", text + "".join(f"                - {rule}\n" for rule in rules), KINDS).problems


def otherwise(do: str) -> str:
    return f"else: {{then: {{{do}}}}}"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([BUSY, "do: continue"], "every error but those where `outcome.http.status in [429, 503]`"),
        (["do: continue"], "`else` of 'call', `do: continue`, also takes every error"),
        (["do: continue, set_ctx: {a: 1}"], "also takes every error"),
        ([FOUND, "do: break"], "`else` of 'call', `do: break`, also takes every error"),
        ([SKIP, "do: continue"], "also takes every error"),
    ],
)
def test_an_else_that_lets_errors_pass(rules: list[str], message: str) -> None:
    (problem,) = problems(*rules[:-1], otherwise(rules[-1]))
    assert (problem.code, problem.severity) == ("NTL315", "warning")
    assert (problem.line, problem.column) == (13 + len(rules), 19)
    assert problem.message.endswith(message)
    hint = """put `- {when: "{{ outcome.status == 'error' }}", then: {do: fail}}` before it"""
    assert problem.hint == hint


@pytest.mark.parametrize("guard", ["true", '"{{ true }}"', '"{{ 1 }}"'])
def test_a_rule_that_always_matches_takes_errors_like_an_else(guard: str) -> None:
    """The rule for errors behind it, which the hint of a missing `else` recommends, never gets one."""
    (problem,) = problems(BUSY, f"{{when: {guard}, then: {{do: continue}}}}", FAIL, otherwise("do: continue"))
    assert (problem.code, problem.line) == ("NTL315", 15)
    assert problem.message == (
        "the rule that always matches of 'call', `do: continue`, also takes every error but those where "
        "`outcome.http.status in [429, 503]`"
    )


@pytest.mark.parametrize("rule", ["{when: true, then: {do: fail}}", "{when: true, then: {do: retry}}"])
def test_a_rule_that_always_matches_needs_no_else(rule: str) -> None:
    assert problems(BUSY, rule) == []


def test_a_skip_that_always_matches_takes_no_errors() -> None:
    (problem,) = problems("{when: true, then: {do: skip}}", otherwise("do: continue"))
    assert (problem.code, problem.line) == ("NTL315", 15)


def test_a_task_of_the_workbook_is_named_by_its_entry() -> None:
    text = (
        TEXT.partition("workflow:")[0]
        + """\
workbook:
  tell:
    kind: http
    url: http://shop.example
    spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
workflow:
  - step: fetch
    tool: [{call: {kind: workbook, name: tell}}]
"""
    )
    (problem,) = load("orders.yaml", text, KINDS).problems
    assert problem.message == "`else` of 'tell', `do: continue`, also takes every error"


def test_a_missing_else_names_the_errors_that_pass() -> None:
    (problem,) = problems(BUSY)
    assert problem.code == "NTL308"
    assert problem.message.endswith("continues after every error but those where `outcome.http.status in [429, 503]`")
    assert "then: {do: fail}}` and then `- else: {then: {do: continue}}`" in (problem.hint or "")


def test_a_missing_else_behind_a_rule_for_errors_lets_none_pass() -> None:
    (problem,) = problems(BUSY, FAIL)
    assert (problem.code, problem.message) == ("NTL308", "the rules of 'call' have no `else`")


@pytest.mark.parametrize(
    "rules",
    [
        [BUSY, FAIL, otherwise("do: continue")],
        [PASS, otherwise("do: continue")],
        [FOUND, otherwise("do: fail")],
        [FOUND, otherwise("do: retry")],
    ],
)
def test_rules_that_look_at_errors_are_right(rules: list[str]) -> None:
    assert problems(*rules) == []


def test_a_noop_does_not_fail() -> None:
    assert problems(otherwise("do: continue, set_ctx: {a: 1}"), kind=("noop", "result: 1")) == []


def test_a_guard_that_does_not_parse_is_reported_once() -> None:
    (problem,) = problems("""{when: "{{ outcome. }}", then: {do: fail}}""", otherwise("do: continue"))
    assert problem.code == "NTL501"


@pytest.mark.parametrize("guard", ["not " * 5000 + "ctx.a", "ctx" + ".a" * 5000, "+".join("1" * 20_000)])
def test_a_guard_that_is_nested_too_deeply_is_reported_once(guard: str) -> None:
    (problem,) = problems(f"""{{when: "{{{{ {guard} }}}}", then: {{do: fail}}}}""", otherwise("do: continue"))
    assert problem.code == "NTL501"
