"""The counts on the page about reliability are those of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.hostile.documents import DOCUMENTS
from tests.hostile.targets import TARGETS
from tests.hostile.test_corpora import CORPORA, corpus
from tests.hostile.test_documents import requests
from tests.hostile.test_routes import PATH_TRICKS, routes
from tests.hostile.test_security import FINDINGS
from tests.mutants.mutant import mutants
from tests.property.test_damage import SHARES, thorough

from crash.cases import CASES
from noetl.store.access import ROLES

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "reliability.md"


def leaves(value: Any) -> int:
    return sum(map(leaves, value.values())) if isinstance(value, dict) else len(value)


def test_the_counts_of_the_page_are_those_of_the_tests() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    attacks = sum(leaves(corpus(file.stem)) for file in CORPORA.iterdir())
    facts = [
        f"Each of the {len(CASES)} playbooks",
        f"All {len(mutants())} mutants die",
        f"`make soak-damage` on {SHARES * thorough.max_examples} more",
        f"in proportion to the size | {len(DOCUMENTS)} |",
        f"| {len(DOCUMENTS) * len(list(requests(b'')))} requests |",
        f"terminals | {len(TARGETS)} |",
        f"each of the {len(TARGETS)} targets",
        f"XSS | {attacks} |",
        f"with {len(PATH_TRICKS)} manipulations of the path, for {len(ROLES) + 1} kinds of callers",
        f"| {len(routes())} routes |",
        f"each with its regression tests | {len(FINDINGS)} |",
    ]
    assert [fact for fact in facts if fact not in text] == []
