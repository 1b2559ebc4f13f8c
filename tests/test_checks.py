"""Every check has an example that it reports and one that it accepts; the reference shows both."""

from __future__ import annotations

import asyncio

import pytest
from tests.table import for_each
from tools.docs.problems import EXAMPLES, WHY, example

from noetl.dsl.checks import net
from noetl.dsl.checks.code import UNREADABLE_FILE
from noetl.dsl.compile import TOO_EXPENSIVE, load
from noetl.dsl.migrate import NO_SPELLING, NOT_CANONICAL, TO_REVIEW, migrate
from noetl.dsl.problem import CHECKS, Check, Problem
from noetl.program_files import with_programs
from noetl.server.compiler import PlaybookCompiler
from noetl.tools.registry import KINDS

MIGRATION = {check.code for check in (NOT_CANONICAL, NO_SPELLING, TO_REVIEW)}
"""Found only by `noetl migrate`."""
STRICT = {"NTL114"}
"""Found only by `noetl validate --strict`."""

TINY_SECONDS = 0.001
"""CPU time in which no playbook of 3,000 steps is compiled."""

WITH_PATH = {
    "NTL212",
    "NTL312",
    "NTL313",
    *(check.code for check in vars(net).values() if isinstance(check, Check)),
}
"""Checks of a net or a circle: their message shows a path that proves the finding."""


def problems(code: str, data: bytes) -> list[Problem]:
    """What the command that a check belongs to finds."""
    if code == TOO_EXPENSIVE.code and data.startswith(b"# expect"):
        return asyncio.run(_compiled_by_a_server(data))
    if code in MIGRATION:
        migration = migrate("playbook.yaml", data, KINDS)
        return [*migration.problems, *migration.leftovers, *migration.notes]
    if code == UNREADABLE_FILE.code:
        return with_programs("playbook.yaml", data, str(EXAMPLES)).problems
    return load("playbook.yaml", data, KINDS, strict=code in STRICT).problems


async def _compiled_by_a_server(data: bytes) -> list[Problem]:
    compiler = PlaybookCompiler(TINY_SECONDS)
    steps = (b"  - {step: more_%d, tool: [{call: {kind: noop}}]}\n" % number for number in range(3000))
    try:
        return (await compiler.compile("anybody", data + b"".join(steps), whole=False)).problems
    finally:
        compiler.close()


def test_every_check_has_a_bad_and_a_good_example_and_every_example_a_check() -> None:
    wanted = {f"{code}.{kind}.yaml" for code in CHECKS for kind in ("bad", "good")}
    assert {path.name for path in EXAMPLES.iterdir()} == wanted


@for_each("code", sorted(CHECKS))
def test_the_bad_example_has_this_problem_where_it_says_and_no_other(code: str) -> None:
    bad = example(code, "bad")
    assert bad.expected is not None
    result = problems(code, bad.data)
    assert {problem.code for problem in result} == {code}
    line, column, fragment = bad.expected
    here = [problem for problem in result if (problem.line, problem.column) == (line, column)]
    assert [fragment for problem in here if fragment in problem.message] == [fragment], result
    problem = here[0]
    assert problem.severity == CHECKS[code].severity
    assert problem.hint
    assert problem.source == bad.data.decode("utf-8", "replace").split("\n")[problem.line - 1]


@for_each("code", sorted(CHECKS))
def test_the_good_example_is_sound(code: str) -> None:
    result = problems(code, example(code, "good").data)
    assert code not in {problem.code for problem in result}
    assert not [problem for problem in result if problem.severity == "error"]


@pytest.mark.parametrize("code", sorted(WITH_PATH))
def test_a_finding_about_paths_shows_one(code: str) -> None:
    expected = example(code, "bad").expected
    assert expected is not None
    assert " → " in expected.fragment


@for_each("code", sorted(CHECKS))
def test_a_check_says_why(code: str) -> None:
    check = CHECKS[code]
    assert WHY[code].endswith(".")
    assert not check.title.endswith(".")
    assert code[:3] == "NTL"
    assert code[3:].isdigit()
