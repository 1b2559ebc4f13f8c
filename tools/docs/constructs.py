"""The page of constructs: every requirement of the five language specifications, and the test that covers it.

The specifications are numbered, oldest first: 000 and 003 are the classic dialect, 001, 002 and 004 the canonical one.
tests/constructs has a file for each: section, construct, test. tests/test_constructs.py fails when a construct has no
test, when that test does not exist, and when a section has no construct. tests/decisions.yaml has the same for the
rules R1 to R20, and tests/test_decisions.py checks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from tools.docs.markdown import code, page, table

COMPILED = ("tests/seeds/", "tests/unit/dsl/", "tests/test_checks.py", "tests/unit/expression/")
"""Tests that compile or refuse text, and run nothing."""


class Construct(NamedTuple):
    """A requirement of a specification, and the test that covers it."""

    seed: str
    section: str
    name: str
    test: str

    @property
    def covered_by(self) -> str:
        """Whether its test runs a playbook, or compiles or refuses its text."""
        return "compiled" if self.test.startswith(COMPILED) else "run"


def _read(file: Path) -> Iterator[Construct]:
    for section, rows in yaml.safe_load(file.read_text("utf-8")).items():
        for name, test in rows.items():
            yield Construct(file.stem, section, name, test or "")


FILES = sorted((Path(__file__).parents[2] / "tests" / "constructs").glob("*.yaml"))
CONSTRUCTS = tuple(row for file in FILES for row in _read(file))

DECISIONS = yaml.safe_load((Path(__file__).parents[2] / "tests" / "decisions.yaml").read_text("utf-8"))
DECIDED = tuple(
    Construct("", number, name, test)
    for number, decision in DECISIONS.items()
    for name, test in decision["tests"].items()
)

INTRO = """The language was specified in five documents, numbered by age: 000 and 003 describe the
[classic dialect](../explanation/classic-steps.md), 001, 002 and 004 the canonical one. This page lists their
requirements by section, each with the test that covers it. A test compiles or refuses the
text (*compiled*), or it runs what the row names (*run*). The rows are in `tests/constructs`."""


DECISIONS_INTRO = """Where the specifications leave a question open, or contradict each other,
[Semantics, numbered](../explanation/semantics.md) has the rule. These are the rules R1 to R20, each with the tests that
cover it. The rows are in `tests/decisions.yaml`."""


def pages() -> Iterator[tuple[str, str]]:
    decisions = ("## Decisions", DECISIONS_INTRO, _decision_table())
    yield "contributing/constructs.md", page("Constructs of the specifications", INTRO, *_tables(), *decisions)


def _decision_table() -> str:
    rows = [(row.section, row.name, row.covered_by, code(row.test)) for row in DECIDED]
    return table(["Rule", "Statement", "Is", "Test"], rows)


def _tables() -> Iterator[str]:
    for file in FILES:
        yield f"## Specification {file.stem}"
        rows = [(row.section, row.name, row.covered_by, code(row.test)) for row in CONSTRUCTS if row.seed == file.stem]
        yield table(["Section", "Construct", "Is", "Test"], rows)
