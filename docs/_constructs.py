"""The page of constructs: everything the five language specifications ask for, and the test that shows it.

The specifications are named by their numbers, oldest first: 000 and 003 are the classic dialect, 001, 002 and 004 the
canonical one. docs/constructs has a file for each: section, construct, test. tests/test_constructs.py fails when a
construct has no test, when that test is not there, and when a section has no construct.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from docs._markdown import code, page, table


class Construct(NamedTuple):
    """What a specification asks for, where, and the test that shows it."""

    seed: str
    section: str
    what: str
    test: str


def _read(file: Path) -> Iterator[Construct]:
    for section, rows in yaml.safe_load(file.read_text("utf-8")).items():
        for what, test in rows.items():
            yield Construct(file.stem, section, what, test or "")


FILES = sorted((Path(__file__).parent / "constructs").glob("*.yaml"))
CONSTRUCTS = tuple(row for file in FILES for row in _read(file))

INTRO = """The language was specified in five documents, numbered by age: 000 and 003 describe the
[classic dialect](../explanation/classic-steps.md), 001, 002 and 004 the canonical one. This page lists what they ask
for, section by section, and the test that shows it."""


def pages() -> Iterator[tuple[str, str]]:
    yield "constructs.md", page("Constructs of the specifications", INTRO, *_tables())


def _tables() -> Iterator[str]:
    for file in FILES:
        yield f"## Specification {file.stem}"
        rows = [(row.section, row.what, code(row.test)) for row in CONSTRUCTS if row.seed == file.stem]
        yield table(["Section", "Construct", "Test"], rows)
