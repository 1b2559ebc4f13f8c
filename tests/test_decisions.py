"""Every decision of the second round (R1 to R20) has tests that exist, and three pages state it."""

from __future__ import annotations

import re
from pathlib import Path

from tools.docs.constructs import DECIDED, DECISIONS
from tools.docs.markdown import slug

from test_constructs import has_a_test

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS = [f"R{number}" for number in range(1, 21)]


def section(page: str, anchor: str) -> str:
    """The text below the heading with this anchor, up to the next heading; empty if there is none."""
    parts = re.split(r"^#+ (.+)$", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)
    return next((text for title, text in zip(parts[1::2], parts[2::2], strict=True) if slug(title) == anchor), "")


def test_every_decision_has_tests_that_exist() -> None:
    assert list(DECISIONS) == NUMBERS
    assert [f"{row.section} {row.name}: {row.test}" for row in DECIDED if not has_a_test(row)] == []


def test_the_reference_states_every_decision() -> None:
    missing = []
    for number, decision in DECISIONS.items():
        page, _, anchor = decision["reference"].partition("#")
        if decision["says"] not in section(page, anchor):
            missing.append(f"{number}: {decision['reference']} does not say {decision['says']!r}")
    assert missing == []


def test_the_semantics_page_has_every_decision_once_and_in_order() -> None:
    page = (DOCS / "explanation" / "semantics.md").read_text("utf-8")
    assert re.findall(r"^\| (R\d+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE) == NUMBERS


def test_the_page_of_constructs_has_every_statement_of_every_decision() -> None:
    rows = section("contributing/constructs.md", "decisions")
    assert [row.name for row in DECIDED if f"| {row.section} | {row.name} |" not in rows] == []
