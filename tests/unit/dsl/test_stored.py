"""Stored texts: a check that is newer than a text does not lock its runs out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import CHECKS, Check
from noetl.errors import PlaybookInvalid
from noetl.runtime.loaded_playbooks import compile_here
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: old, path: tests/old}\nworkflow:\n"
RETURNS = HEAD + '  - {step: a, tool: [{t: {kind: python, code: "return 5"}}]}\n'


def test_a_stored_text_with_errors_of_checks_is_compiled() -> None:
    with pytest.raises(PlaybookInvalid):
        load("old.yaml", RETURNS, KINDS).require()
    loaded = load("old.yaml", RETURNS, KINDS, stored=True)
    assert loaded.require().steps[0].tasks[0].inputs["code"] == "return 5"
    assert [problem.code for problem in loaded.problems] == ["NTL516"]
    assert asyncio.run(compile_here("old.yaml", RETURNS.encode())).playbook == loaded.playbook


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", HEAD, HEAD + "  - 5\n", HEAD + "  - {step: a, tool: [{t: {kind: nope}}]}\n"]
)
def test_a_stored_text_that_cannot_be_built_has_its_problems(text: str) -> None:
    loaded = load("old.yaml", text, KINDS, stored=True)
    assert any(problem.severity == "error" for problem in loaded.problems)


def test_every_bad_playbook_is_compiled_or_has_problems_when_it_is_stored() -> None:
    for file in sorted(Path("tests/checks").glob("*.bad.yaml")):
        loaded = load(file.name, file.read_bytes(), KINDS, stored=True)
        assert loaded.playbook is not None or loaded.problems, file.name


def test_a_stored_playbook_is_compiled_in_spite_of_a_problem_exactly_if_its_check_allows_it() -> None:
    for file in sorted(Path("tests/checks").glob("*.bad.yaml")):
        loaded = load(file.name, file.read_bytes(), KINDS, stored=True)
        allowed = all(CHECKS[problem.code].stored_ok for problem in loaded.problems)
        assert (loaded.playbook is not None) == allowed, file.name


def test_an_error_that_does_not_say_whether_stored_playbooks_may_have_it_is_no_check() -> None:
    with pytest.raises(ValueError, match="NTL999: an error declares `stored_ok`"):
        Check("NTL999", "error", "something")
    with pytest.raises(ValueError, match="a warning does not"):
        Check("NTL999", "warning", "something", stored_ok=True)
    assert "NTL999" not in CHECKS
