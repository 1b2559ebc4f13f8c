"""The twenty classic control-flow patterns of van der Aalst and others: an example of each, and what it does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent / "unit" / "engine"))

from stage import play_text

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "patterns"
PAGE = ROOT / "docs" / "explanation" / "control-flow-patterns.md"


class Pattern(NamedTuple):
    """The steps that run, how often each, and how it ends."""

    ran: str
    status: str = "succeeded"
    result: Any = ...


PATTERNS = {
    "01_sequence": Pattern("start second", result=2),
    "02_parallel_split": Pattern("start left right"),
    "03_synchronization": Pattern("start left right both"),
    "04_exclusive_choice": Pattern("start large"),
    "05_simple_merge": Pattern("start large end"),
    "06_multi_choice": Pattern("start odd large"),
    "07_structured_synchronizing_merge": Pattern("start odd large end"),
    "08_multi_merge": Pattern("start left right end end"),
    "09_structured_discriminator": Pattern("start first quick slow end"),
    "10_arbitrary_cycles": Pattern("start count count count end"),
    "11_implicit_termination": Pattern("start left right more"),
    "12_instances_without_synchronization": Pattern("start spawn spawn spawn work work work"),
    "13_instances_known_at_design_time": Pattern("start end", result="abc"),
    "14_instances_known_at_run_time": Pattern("start end", result=6),
    "15_instances_not_known_beforehand": Pattern("start spawn spawn spawn work work work end"),
    "16_deferred_choice": Pattern("start too_late"),
    "17_interleaved_parallel_routing": Pattern("start", result=["did b", "did a"]),
    "18_milestone": Pattern("start pay ship"),
    "19_cancel_activity": Pattern("start end"),
    "20_cancel_case": Pattern("start waits breaks", "failed"),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_runs_as_it_should(name: str) -> None:
    expected = PATTERNS[name]
    stage = play_text((EXAMPLES / f"{name}.yaml").read_text("utf-8"), {})
    ran = [run.partition("#")[0] for run in stage.runs()]
    assert (sorted(ran), stage.state.status) == (sorted(expected.ran.split()), expected.status)
    if expected.result is not ...:
        assert stage.state.result == expected.result


def test_a_step_behind_a_milestone_comes_after_it() -> None:
    stage = play_text((EXAMPLES / "18_milestone.yaml").read_text("utf-8"), {})
    assert [run.partition("#")[0] for run in stage.runs()] == ["start", "pay", "ship"]


def test_every_example_is_tried_and_every_pattern_is_in_the_table() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.yaml")} == set(PATTERNS)
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 44))
    verdicts = {row.split("|")[3].strip() for row in rows}
    assert verdicts == {"direct", "by composition", "no"}
    assert all(f"{name}.yaml" in row for name, row in zip(PATTERNS, rows, strict=False))
