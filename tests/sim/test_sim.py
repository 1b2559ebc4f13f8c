"""Seeds of the simulation: a sample in every run of the tests, a million in the soak."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.sim import simulate
from tests.sim.faults import KINDS
from tests.sim.playbooks import CANONICAL, CLASSIC, SEEDS_PER_PLAYBOOK, programs
from tests.sim.shrink import shrink
from tests.sim.story import Story
from tests.verifying import verified

from noetl.cli.main import noetl_command
from noetl.worker.terms import LeaseTerms

BATCHES = 40
"""Playbooks of the sample, each with all of its seeds."""
REGRESSION_SEEDS = {
    301: "the answer to a repeated report had no branches of a classic loop, but an internal error",
    900_468: "a repeated claim got a lease again whose facts another server had accepted",
    1_856: "children stayed paused after their parent was resumed",
}
"""Seeds that found a defect. Each defect has a test of its own, too: another generator makes other seeds."""
SOAK_SEEDS, LANES, SLICE_SECONDS = 1_000_000, 2, 1_500.0
PROGRESS = Path(__file__).parents[2] / ".noetl" / "sim"
"""Has a file for each lane of the soak: the number of its next playbook."""


def check_batch(batch: int) -> None:
    for seed in range(batch * SEEDS_PER_PLAYBOOK, (batch + 1) * SEEDS_PER_PLAYBOOK):
        with verified(damaged=True):  # its logs are verified by `simulate`, which knows the seed
            story = simulate(seed)
            assert not story.problems, str(shrink(seed))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_seeds_have_no_problems(batch: int) -> None:
    check_batch(batch)


@pytest.mark.parametrize("seed", REGRESSION_SEEDS)
def test_a_seed_that_has_found_a_defect_has_no_problems(seed: int) -> None:
    with verified(damaged=True):
        assert simulate(seed).problems == []


@pytest.mark.slow(part="sim")
@pytest.mark.parametrize("lane", range(LANES))
def test_a_million_seeds_have_no_problems(lane: int, record_property: Callable[[str, str], None]) -> None:
    """Continues where the last slice has stopped, and stops after its time."""
    progress, began = PROGRESS / f"lane-{lane}", time.monotonic()
    batch = first = int(progress.read_text()) if progress.exists() else lane
    PROGRESS.mkdir(parents=True, exist_ok=True)
    while batch < SOAK_SEEDS // SEEDS_PER_PLAYBOOK and time.monotonic() - began < SLICE_SECONDS:
        check_batch(batch)
        batch += LANES
        progress.write_text(str(batch))
    seeds, count = min(SOAK_SEEDS, batch * SEEDS_PER_PLAYBOOK), (batch - first) // LANES * SEEDS_PER_PLAYBOOK
    rate = f"{count / (time.monotonic() - began):.1f} seeds/s"
    record_property("measured", f"lane {lane}: its seeds below {seeds:,} of {SOAK_SEEDS:,} have no problems ({rate})")


def test_every_fault_and_every_end_occurs_in_the_sample() -> None:
    faults: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for batch in range(60):
        with verified(damaged=True):
            story = simulate(batch * SEEDS_PER_PLAYBOOK + batch % SEEDS_PER_PLAYBOOK)
        faults += story.faults
        statuses += story.statuses
    assert [kind for kind in KINDS if not faults[kind]] == []
    assert {*statuses} == {"succeeded", "failed", "cancelled"}


def test_every_block_occurs_in_the_sample() -> None:
    drawn = {block for number in range(BATCHES) for program in programs(number).values() for block in program.kinds}
    assert drawn == {kind.__name__ for kind in [*CANONICAL, *CLASSIC]}


def test_a_seed_tells_the_same_story_in_another_process() -> None:
    seeds = [3, *range(1_856, 1_862)]  # some with children
    code = f"from tests.sim import simulate\nfor seed in {seeds}: print(simulate(seed).hash)"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    with verified(damaged=True):
        assert done.stdout.split() == [simulate(seed).hash for seed in seeds]


def test_a_zombie_that_calls_tools_without_a_lease_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def trust(terms: LeaseTerms, lease: tuple[str, int]) -> None:
        pass

    monkeypatch.setattr(LeaseTerms, "current", trust)
    with verified(damaged=True):
        assert any("which was accepted" in problem for seed in range(20) for problem in simulate(seed).problems)


def test_a_failing_seed_is_shrunk() -> None:
    def run(seed: int, without: tuple[str, ...], limits: dict[str, int], blocks: tuple[int, ...]) -> Story:
        """A system that fails if a second request is lost, in the block 2."""
        story = Story(seed)
        story.blocks = 4
        fired = {"lost request": 5, "clock jump": 3}
        story.faults = Counter(
            {kind: min(count, limits.get(kind, 9)) for kind, count in fired.items() if kind not in without}
        )
        if story.faults["lost request"] >= 2 and (not blocks or 2 in blocks):
            story.problems = ["it fails"]
        return story

    shrunk = shrink(7, run)
    assert (shrunk.blocks, shrunk.limits) == ((2,), {"lost request": 2})
    assert set(shrunk.without) == set(KINDS) - {"lost request"}
    assert "noetl sim --seed 7" in str(shrunk)


def test_the_verb_prints_the_story_of_a_seed() -> None:
    with verified(damaged=True):
        done = CliRunner().invoke(noetl_command, ["sim", "--seed", "12"])
        assert done.exit_code == 0, done.output
        assert str(simulate(12)) in done.output
    assert "FAULT" in done.output
    assert "sim" not in CliRunner().invoke(noetl_command, ["--help"]).output.split()


def test_the_verb_is_refused_without_the_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("noetl.cli.sim.CHECKOUT", tmp_path)
    done = CliRunner().invoke(noetl_command, ["sim", "--seed", "12"])
    assert "run it in a checkout of the sources, after `make setup`" in str(done.exception)
