"""Control-flow patterns of van der Aalst and others: the examples, and what they do."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent / "unit" / "engine"))

from stage import EXECUTION, During, Stage, play

from noetl.engine.commands import Cancel, Command, Signal

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "patterns"
PAGE = ROOT / "docs" / "explanation" / "control-flow-patterns.md"


class Pattern(NamedTuple):
    """The steps that run, how often each, and how it ends."""

    ran: str
    status: str = "succeeded"
    result: Any = ...
    signals: tuple[Signal, ...] = ()
    """What is sent right after the start, before anything waits."""


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
    "16_deferred_choice": Pattern("start declined", signals=(Signal("decline", "1"), Signal("accept", "2"))),
    "17_interleaved_parallel_routing": Pattern("start", result=["did b", "did a"]),
    "18_milestone": Pattern("start pay ship"),
    "19_cancel_activity": Pattern("start end"),
    "20_cancel_case": Pattern("start waits breaks", "failed"),
    "23_transient_trigger": Pattern("start listen missed", signals=(Signal("go", "1", keep=False),)),
    "25_cancel_region": Pattern("start region beside end"),
}
VARIANTS = {
    "16_deferred_choice_classic": Pattern("start too_late"),
}
"""Other spellings of a pattern."""
CHILDREN = {"25_cancel_region_child"}


def text_of(name: str) -> str:
    return (EXAMPLES / f"{name}.yaml").read_text("utf-8")


def played(name: str, *commands: Command, during: During | None = None) -> Stage:
    _, metadata, text = text_of(name).partition("metadata: ")
    head, _, workflow = text.partition("\n")[2].partition("workflow:\n")
    assert metadata
    children = {f"{child}.yaml": text_of(child) for child in CHILDREN}
    return play(workflow, *commands, head=head, children=children, during=during)


def ran(stage: Stage) -> list[str]:
    return [run.partition("#")[0] for run in stage.runs()]


@pytest.mark.parametrize("name", [*PATTERNS, *VARIANTS])
def test_pattern_runs_as_it_should(name: str) -> None:
    expected = (PATTERNS | VARIANTS)[name]
    stage = played(name, *expected.signals)
    assert (sorted(ran(stage)), stage.state.status) == (sorted(expected.ran.split()), expected.status)
    if expected.result is not ...:
        assert stage.state.result == expected.result


def test_a_deferred_choice_ends_with_its_time_limit_if_no_signal_comes() -> None:
    assert ran(played("16_deferred_choice")) == ["start", "too_late"]
    assert ran(played("16_deferred_choice", Signal("accept", "1"))) == ["start", "accepted"]


def test_a_transient_trigger_counts_while_a_task_waits_and_a_kept_signal_before() -> None:
    async def wait_and_send(stage: Stage) -> None:
        drive = asyncio.create_task(stage.drive())
        await stage.until(lambda: any(run.parked for run in stage.live().runs.values()))
        await stage.handle(Signal("go", "1", keep=False))
        await drive

    assert ran(played("23_transient_trigger", during=wait_and_send)) == ["start", "listen", "triggered"]
    assert ran(played("23_transient_trigger", Signal("go", "1"))) == ["start", "listen", "triggered"]


def test_a_cancelled_region_leaves_nothing_open() -> None:
    stage = played("25_cancel_region")
    (child,) = [summary for summary in stage.store.summaries() if summary.parent is not None]
    assert child.status == "cancelled"
    assert {step.status for step in stage.live(child.execution_id).steps.values()} >= {"cancelled"}


def test_a_cancelled_child_ends_its_region_and_the_run_continues() -> None:
    async def cancel(stage: Stage) -> None:
        drive = asyncio.create_task(stage.drive())
        await stage.until(lambda: len(stage.engine.runtime.executions) > 1)
        (child,) = set(stage.engine.runtime.executions) - {EXECUTION}
        await stage.handle(Cancel("enough"), execution=child)
        await drive

    assert sorted(ran(played("25_cancel_region", during=cancel))) == ["beside", "end", "region", "start"]


def test_an_admission_gate_on_ctx_is_not_a_lock() -> None:
    """The page warns about it: tokens pass before the first of them writes the key."""
    stage = play(
        """
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: work}, {step: work}, {step: work}]}}
        - step: work
          spec: {policy: {admit: {rules: [{when: "{{ not (ctx.busy | default(false)) }}", then: {allow: true}}]}}}
          tool: [{t: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {busy: true}}}}]}}}}]
        """
    )
    assert ran(stage) == ["start", "work", "work", "work"]
    assert "is not a lock" in PAGE.read_text("utf-8")


def test_a_step_behind_a_milestone_comes_after_it() -> None:
    assert ran(played("18_milestone")) == ["start", "pay", "ship"]


def test_every_example_is_tried_and_every_pattern_is_in_the_table() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.yaml")} == {*PATTERNS, *VARIANTS, *CHILDREN}
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 44))
    verdicts = {row.split("|")[3].strip() for row in rows}
    assert verdicts == {"direct", "by composition", "no"}
    assert all(f"{name}.yaml" in rows[int(name[:2]) - 1] for name in [*PATTERNS, *VARIANTS])
