"""The table of constructs is whole: each construct has a test that is there, and each section has a construct."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from tools.docs.constructs import CONSTRUCTS, Construct

ROOT = Path(__file__).parent.parent
SECTIONS = {
    "000": "1.1 1.2 2.1 2.2 2.3 3.1 3.2 3.3 3.4 4 4.1 4.2 5 6.1 6.2 6.3 7.1 7.2 7.3 8.1 8.2 8.3 8.4 9.1 9.2 10 10.1 "
    "11.1 11.2 11.3 12.1 12.2 13.1 13.2 A B",
    "001": "1.1 1.2 2.1 2.2 3.1 3.2 3.3 3.4 3.5 3.6 4.1 4.2 5.1 5.2 5.3 6.1 6.2 6.3 6.4 6.5 6.6 7.1 7.2 8.1 8.2 8.3 "
    "8.4 9.1 9.2 9.3 10.1 10.2 11 12 13",
    "002": "1.1 1.2 2.1 2.2 2.3 2.4 3.1 3.2 3.3 4.1 4.2 4.3 4.4 5 6.1 6.2 6.3 6.4 7.1 7.2 7.3 8.1 8.2 8.3 9.1 9.2 "
    "10.1 10.2 10.3 11.1 11.2 12 13 A",
    "003": "1.1 1.2 1.3 2.1 2.2 2.3 2.4 3.1 3.2 3.3 4.1 4.2 4.3 4.4 5.1 5.2 5.3 5.4 5.5 6.1 6.2 6.3 6.4 6.5 7 9",
    "004": "0 1.1 1.2 1.3 1.4 2 2.1 2.2 2.A 3.1 3.2 4.1 4.2 5.1 5.2 6 7.1 7.2 7.3 7.4 8 9 10 11 12 13 14",
}
"""All that ask for something: the order of work in 003 (8) and the list of documents in 002 (B) do not."""


@cache
def names_in(file: str) -> frozenset[str]:
    """Every test of a file: `test_a`, `TestB::test_c`."""
    result: set[str] = set()
    for node in ast.parse((ROOT / file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            result |= {f"{node.name}::{one.name}" for one in node.body if _is_test(one)}  # type: ignore[attr-defined]
        elif _is_test(node):
            result.add(node.name)  # type: ignore[attr-defined]
    return frozenset(result)


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def has_a_test(row: Construct) -> bool:
    file, _, name = row.test.partition("::")
    return file.startswith("tests/") and (ROOT / file).is_file() and name in names_in(file)


def without_a_row(rows: Iterable[Construct]) -> set[tuple[str, str]]:
    """Sections of which the table says nothing."""
    sections = {(seed, section) for seed, line in SECTIONS.items() for section in line.split()}
    return sections - {(row.seed, row.section) for row in rows}


def test_every_construct_has_a_test() -> None:
    assert [f"{row.seed} {row.section} {row.name}: {row.test}" for row in CONSTRUCTS if not has_a_test(row)] == []


def test_every_section_has_a_construct() -> None:
    assert without_a_row(CONSTRUCTS) == set()
    assert {(row.seed, row.section) for row in CONSTRUCTS} - {
        (seed, section) for seed, line in SECTIONS.items() for section in line.split()
    } == set(), "sections that are not in the specification"


@pytest.mark.parametrize(
    "test", ["", "tests/test_constructs.py", "tests/test_constructs.py::test_none", "x.py::test_a"]
)
def test_a_row_without_a_test_is_noticed(test: str) -> None:
    assert not has_a_test(Construct("001", "1.1", "something", test))


def test_a_section_without_a_row_is_noticed() -> None:
    assert without_a_row(row for row in CONSTRUCTS if (row.seed, row.section) != ("004", "6")) == {("004", "6")}
