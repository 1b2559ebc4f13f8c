"""Python code is checked with the playbook: it compiles, and reads variables that it has."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: shop/orders}
workload: {city: Paris}
workflow:
  - step: clean
    tool:
      kind: python
"""
FIRST_LINE, INDENTATION = 10, 8


def problems(code: str, more: str = "", head: str = HEAD) -> list[Problem]:
    body = indent(dedent(code), " " * INDENTATION)
    return load("orders.yaml", f"{head}      code: |\n{body}\n{indent(dedent(more), ' ' * 6)}", KINDS).problems


def place(problem: Problem) -> tuple[int, int]:
    """Line and column within the code, from 1."""
    return problem.line - FIRST_LINE + 1, problem.column - INDENTATION


@pytest.mark.parametrize(
    ("code", "where", "message", "hint"),
    [
        ("x = 1\ny = = 2\n", (2, 5), "invalid syntax", None),
        ("return 5\n", (1, 1), "'return' outside function", "set `result`, or write `def main(...)`"),
        ("x = await f()\n", (1, 5), "'await' outside function", "write `async def main(...)`"),
        ("if True:\nx = 1\n", (2, 1), "expected an indented block", None),
        ("x = {% if workload.city %}1\n", (1, 6), "invalid syntax", "code is not rendered: pass the value with `args"),
        ("def main():\n    x = 1\n      y = 2\n", (3, 7), "unexpected indent", None),
        ("if True:\n    if x:\n        y = 1\n     z = 2\n", (4, 6), "unindent does not match", None),
        ("ünï = (\n", (1, 7), "'(' was never closed", None),
    ],
)
def test_code_that_does_not_compile(code: str, where: tuple[int, int], message: str, hint: str | None) -> None:
    (problem,) = problems(code)
    assert (problem.code, problem.severity, place(problem)) == ("NTL516", "error", where)
    assert message in problem.message
    assert (problem.hint or "").startswith(hint or "")


@pytest.mark.parametrize(
    ("code", "where"),
    [
        ('city = "{{ workload.city }}"\n', (1, 8)),
        ("city = {{ workload.city }}\n", (1, 8)),
        ("é = 1; city = '{{ workload.city | upper }}'\n", (1, 15)),
    ],
)
def test_a_template_in_code_is_not_rendered(code: str, where: tuple[int, int]) -> None:
    (problem,) = problems(code)
    assert (problem.code, problem.severity, place(problem)) == ("NTL517", "warning", where)
    expected = 'code is not rendered: pass the value with `args: {city: "{{ workload.city }}"}`, read `city`'
    assert problem.hint == expected


@pytest.mark.parametrize(
    ("code", "where", "hint"),
    [
        ('result = workload["city"]\n', (1, 10), '`args: {city: "{{ workload.city }}"}` and read `city`'),
        ("result = ctx.total + 1\n", (1, 10), '`args: {total: "{{ ctx.total }}"}`'),
        ("def main():\n    return steps.load\n", (2, 12), '`args: {load: "{{ steps.load }}"}`'),
        ('result = iter["item"]\n', (1, 10), '`args: {item: "{{ iter.item }}"}`'),
        ('result = args["city"]\n', (1, 10), "the args are the variables of the code: read `city`"),
        ("result = execution_id\n", (1, 10), '`args: {execution_id: "{{ execution_id }}"}`'),
    ],
)
def test_code_does_not_see_the_names_of_templates(code: str, where: tuple[int, int], hint: str) -> None:
    (problem,) = problems(code)
    assert (problem.code, problem.severity, place(problem)) == ("NTL518", "warning", where)
    assert hint in (problem.hint or "")


@pytest.mark.parametrize(
    "code",
    [
        "result = [next(iter([1])), vars()]\n",
        "args = [1]\nresult = args\n",
        "def main(**args):\n    return args\n",
        "import steps\nresult = steps.load\n",
        "from steps import *\nresult = workload\n",
        'x = 1\nresult = f"{{{x}}} {{x}}" + "{{x}}".format() + "{ {1} }"\n',
        "result = [workload for workload in [1]]\n",
        "result = '\\d'\n",
        "async def main():\n    return 1\n",
    ],
)
def test_code_that_is_right(code: str) -> None:
    assert problems(code) == []


def test_an_arg_may_have_such_a_name() -> None:
    assert problems("result = workload['city']\n", 'args: {workload: "{{ workload }}"}\n') == []


def test_a_module_of_libs_may_have_such_a_name() -> None:
    assert problems("result = steps.load\n", "libs: {steps: json}\n") == []


def test_code_of_the_workbook_and_of_classic_chains_is_checked() -> None:
    text = """\
        apiVersion: noetl.io/v2
        kind: Playbook
        metadata: {name: orders, path: shop/orders}
        workbook:
          one: {kind: python, code: "return 1"}
        workflow:
          - step: start
            tool: {kind: workbook, name: one}
            case:
              - when: true
                then:
                  - two: {tool: {kind: python, code: "return 2"}}
                  - three: {tool: {kind: python, code: "result = ctx"}, args: {ctx: 1}}
        """
    result = load("orders.yaml", dedent(text), KINDS).problems
    assert [(problem.code, problem.line) for problem in result] == [("NTL516", 5), ("NTL516", 12)]


def test_very_long_code_is_compiled_and_left_alone() -> None:
    assert problems("x = ctx\n" * 20_000) == []


@pytest.mark.parametrize(
    ("code", "where", "hint"),
    [
        ("x = 5\nreslut = x\n", (2, 1), "did you mean 'result'?"),
        ("import os\nRESULT = os.name\n", (2, 1), "did you mean 'result'?"),
        ("def mian(n):\n    return n\n", (1, 1), "name the function `main`, or set `result`"),
        (
            '"""Adds."""\nimport os\nasync def add():\n    return 1\n',
            (3, 1),
            "name the function `main`, or set `result`",
        ),
    ],
)
def test_code_that_has_probably_no_result(code: str, where: tuple[int, int], hint: str) -> None:
    (problem,) = problems(code)
    assert (problem.code, problem.severity, place(problem), problem.hint) == ("NTL522", "warning", where, hint)


@pytest.mark.parametrize(
    "code",
    [
        "print('x')\n",
        "results = [1]\nprint(results)\n",
        "def save():\n    print(1)\nsave()\n",
        "def main():\n    return 1\n",
        "def add():\n    return 1\nresult = add()\n",
        "import os\n",
        "global_name = 5\n",
    ],
)
def test_code_that_has_a_result_or_effects(code: str) -> None:
    assert problems(code) == []


@pytest.mark.parametrize(
    ("code", "args", "message", "hint"),
    [
        (
            "def main(n, limit=2):\n    return n\n",
            "args: {n: 1, limti: 3}\n",
            "main() has no parameter 'limti'",
            "did you mean 'limit'?",
        ),
        (
            "async def main(*, n):\n    return n\n",
            "args: {n: 1, other: 3}\n",
            "main() has no parameter 'other'",
            "its parameters are n",
        ),
        (
            "def main(n, limit, m=1):\n    return n\n",
            "args: {n: 1}\n",
            "main() requires 'limit', which no args provide",
            "add `limit` to the `args` of the task, or give the parameter a default",
        ),
    ],
)
def test_args_that_are_not_the_parameters_of_main(code: str, args: str, message: str, hint: str) -> None:
    (problem,) = problems(code, args)
    assert (problem.code, problem.severity, problem.message, problem.hint) == ("NTL523", "warning", message, hint)


@pytest.mark.parametrize(
    "code",
    [
        "def main(n, **rest):\n    return n\n",
        "def main(n):\n    return n + m\n",
        "def main(n):\n    return globals()['m']\n",
        "@wraps\ndef main():\n    return 1\n",
        "def main():\n    return 1\nresult = main()\n",
        "def main(m, /, n):\n    return n + m\n",
    ],
)
def test_args_that_main_or_its_code_may_read(code: str) -> None:
    assert problems(code, "args: {n: 1, m: 2}\n") == []


def test_a_parameter_of_main_may_come_from_an_arc() -> None:
    text = """\
        apiVersion: noetl.io/v2
        kind: Playbook
        metadata: {name: orders, path: shop/orders}
        workflow:
          - step: start
            next: {arcs: [{step: end, args: {n: 1}}]}
          - step: end
            tool: {kind: python, code: "def main(n): return n"}
        """
    assert load("orders.yaml", dedent(text), KINDS).problems == []


def test_a_program_of_many_escaped_lines_keeps_few_places() -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\nworkflow:\n"
        '  - step: start\n    tool: [{load: {kind: python, code: "' + "x = 1\\n" * 50_000 + '"}}]\n'
    )
    places = load("orders.yaml", text, KINDS).places
    assert places["start/load/code/2/1"] == (6, 48)
    assert len(places) < 11_000
