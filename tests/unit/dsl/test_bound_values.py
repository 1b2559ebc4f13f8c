"""What a database or the keychain would refuse is found when the playbook is checked."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\n"
WORKLOAD = "workload: {text: it's, sql: SELECT 1, database: shop_db, fields: {user: a}}\n"


def problems(task: str, root: str = "") -> list[Problem]:
    return load("f.yaml", f"{HEAD}{root}{WORKLOAD}workflow:\n  - step: a\n    tool:\n      {task}\n", KINDS).problems


def sql(command: str) -> list[Problem]:
    return problems(f"{{kind: duckdb, command: {command}}}")


def test_a_statement_that_is_one_template() -> None:
    (problem,) = sql("'{{ workload.sql }}'")
    assert (problem.code, problem.severity, problem.line, problem.column) == ("NTL514", "error", 8, 35)
    assert problem.hint == "splice the text: {{ ... | raw_sql }}"


@pytest.mark.parametrize(
    "expression", [r"""workload.text | replace(\"'\", \"''\")""", r"""workload.text.replace(\"'\", \"''\")"""]
)
def test_quotes_that_are_doubled_by_hand(expression: str) -> None:
    (problem,) = sql(f'"INSERT INTO t VALUES ({{{{ {expression} }}}})"')
    assert (problem.code, problem.severity) == ("NTL520", "warning")
    assert problem.hint == """remove `replace("'", "''")`"""


def test_quotes_of_spliced_text_may_be_doubled() -> None:
    (problem,) = sql(r'''"INSERT INTO t VALUES ('{{ (workload.text | replace(\"'\", \"''\")) | raw_sql }}')"''')
    assert problem.code == "NTL509"


def test_a_dollar_quoted_value_is_bound() -> None:
    assert sql('"INSERT INTO t VALUES ($${{ workload.text }}$$)"') == []


KEYCHAIN = "keychain: [{name: other_db, kind: postgres_credential}]\n"


@pytest.mark.parametrize(
    ("auth", "root", "message"),
    [
        ("{{ workload.database }}", "", "`auth` is 'shop_db' unless an input sets another one"),
        ("{{ database }}", KEYCHAIN, "`auth` is 'shop_db' unless an input sets another one"),
        ("{{ workload.other }}", "", "`auth` is a template, and the playbook has no `keychain`"),
    ],
)
def test_a_computed_auth_without_an_entry(auth: str, root: str, message: str) -> None:
    (problem,) = problems(f"{{kind: postgres, auth: '{auth}', query: SELECT 1}}", root)
    assert (problem.code, problem.severity) == ("NTL217", "warning")
    assert problem.message.startswith(message)
    assert "add `keychain: [{name: " in (problem.hint or "")


@pytest.mark.parametrize(
    ("auth", "root"),
    [
        ("{{ workload.database }}", KEYCHAIN.replace("other_db", "shop_db")),
        ("{{ workload.other }}", KEYCHAIN),
        ("{{ workload.fields }}", ""),
    ],
)
def test_a_computed_auth_that_may_fit(auth: str, root: str) -> None:
    assert problems(f"{{kind: postgres, auth: '{auth}', query: SELECT 1}}", root) == []
