"""Every decision of the second round (R1 to R20) has tests that exist."""

from __future__ import annotations

from pathlib import Path

import yaml
from tools.docs.constructs import Construct

from test_constructs import has_a_test

DECISIONS = yaml.safe_load((Path(__file__).parent / "decisions.yaml").read_text("utf-8"))


def test_every_decision_has_tests_that_exist() -> None:
    assert list(DECISIONS) == [f"R{number}" for number in range(1, 21)]
    rows = [
        Construct("", decision, name, test) for decision, tests in DECISIONS.items() for name, test in tests.items()
    ]
    assert [f"{row.section} {row.name}: {row.test}" for row in rows if not has_a_test(row)] == []
