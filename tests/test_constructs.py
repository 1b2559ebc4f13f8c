"""The table of constructs names tests that are there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from docs._constructs import CONSTRUCTS, Construct

ROOT = Path(__file__).parent.parent


@cache
def names_in(file: str) -> frozenset[str]:
    """Every test of a file, and every class that has one: `test_a`, `TestB`, `TestB::test_c`."""
    found: set[str] = set()
    for node in ast.parse((ROOT / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [one.name for one in node.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
            found |= {f"{node.name}::{name}" for name in inner} | ({node.name} if inner else set())
    return frozenset(found)


@pytest.mark.parametrize("row", CONSTRUCTS, ids=lambda row: f"{row.seed} {row.section} {row.what}")
def test_every_construct_has_a_test(row: Construct) -> None:
    file, _, name = row.test.partition("::")
    assert (ROOT / file).is_file()
    assert name in names_in(file)


@pytest.mark.parametrize("seed", ["001", "002", "004"])
def test_every_class_of_a_canonical_specification_is_in_the_table(seed: str) -> None:
    classes = {name for name in names_in(f"tests/seeds/test_seed_{seed}.py") if "::" not in name}
    assert classes == {row.test.partition("::")[2] for row in CONSTRUCTS if row.seed == seed}
