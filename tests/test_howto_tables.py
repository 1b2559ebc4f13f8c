"""The reference tables of how-to pages agree with the code."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tools.docs.outcomes import ERRORS

from noetl.cli.main import EXIT_CODES
from noetl.testing import run_playbook

DOCS = Path(__file__).parent.parent / "docs"


def cells(page: str, heading: str) -> Iterator[str]:
    """The first cells of a table, by the first cell of its heading."""
    text = (DOCS / "howto" / page).read_text("utf-8")
    _, result, rest = text.partition(f"\n| {heading} |")
    assert result, f"{page} has no table {heading!r}"
    for line in rest.splitlines()[2:]:
        if not line.startswith("| "):
            return
        yield line.split(" | ")[0].removeprefix("| ")


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_arguments_of_run_playbook_are_all_described() -> None:
    named = [codes(cell)[0].partition("=")[0] for cell in cells("test-a-playbook.md", "argument")]
    assert sorted(named) == sorted(inspect.signature(run_playbook).parameters)


def test_the_exit_codes_of_troubleshooting_exist() -> None:
    assert {int(cell) for cell in cells("troubleshooting.md", "exit code")} <= set(EXIT_CODES.values())


def test_the_kinds_of_errors_of_troubleshooting_exist() -> None:
    assert {kind for cell in cells("troubleshooting.md", "kind") for kind in codes(cell)} <= ERRORS.keys()


def test_the_requests_of_the_api_page_exist() -> None:
    paths = json.loads((DOCS / "reference" / "openapi.json").read_text("utf-8"))["paths"]
    known = {(method.upper(), re.sub(r"\{\w+\}", "X", path)) for path, item in paths.items() for method in item}
    for cell in cells("http-api.md", "request"):
        first, *others = (re.sub(r"\b(ID|KEY)\b", "X", code.partition("?")[0]) for code in codes(cell))
        method, base = first.split(" ")
        siblings = (base.rpartition("/")[0] + other if other.count("/") == 1 else other for other in others)
        for route in (base, *siblings):
            assert any(verb == method and path.endswith(route) for verb, path in known), (cell, route)
