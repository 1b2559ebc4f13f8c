"""Seeds of the simulation: a sample here, 20,000 in `make sim`, a million in the soak."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.sim import simulate, story
from tests.sim.__main__ import main
from tests.sim.batches import SEEDS, SoakLane, fails, report
from tests.sim.faults import KINDS
from tests.sim.forks import FORK_KINDS
from tests.sim.playbooks import CANONICAL, CLASSIC, SEEDS_PER_PLAYBOOK, programs
from tests.sim.shrink import shrink
from tests.sim.story import Story
from tests.verifying import verified

from noetl.cli.main import noetl_command
from noetl.engine import decide
from noetl.engine.commands import Report
from noetl.engine.decide import accept_report
from noetl.engine.decision import Decision
from noetl.engine.events import EVENTS, ExecutionForked
from noetl.engine.evolve import HANDLERS
from noetl.engine.history import fork
from noetl.engine.history.fork import _forked
from noetl.engine.history.outline import Block, OutlineWriter
from noetl.engine.state import Execution, Run
from noetl.runtime import outlines
from noetl.worker.terms import LeaseTerms

SAMPLES = [range(first, SEEDS, 79) for first in (0, 40)]
"""Five hundred seeds of `make sim`, each sample of different playbooks. In the first one, everything occurs."""
SEARCHED_SEEDS = 400
"""In which a planted defect must be found."""
UNSEEN_EVENTS = [
    *("token.held", "token.denied", "sink.started", "sink.processed"),
    *("poll.started", "poll.iteration", "poll.finished", "ctx.patched", "timer.armed", "case.branch.suppressed"),
]
"""Events of constructs that no playbook of the simulation has."""
ZOMBIE_SEED = 102  # the search for a zombie that causes a problem starts here
SOAK_SEEDS, LANES, SLICE_SECONDS = 1_000_000, 2, 1_500.0
PROGRESS = Path(__file__).parent / "progress"
"""Has the files of the lanes of the soak, which are committed: a million seeds take longer than one checkout lives."""


@pytest.mark.parametrize("sample", SAMPLES[1:], ids=str)
def test_seeds_have_no_problems(sample: range) -> None:
    assert not report(seed for seed in sample if fails(seed))


@pytest.mark.slow(part="sim")
@pytest.mark.parametrize("number", range(LANES))
def test_a_million_seeds_have_no_problems(number: int, record_property: Callable[[str, str], None]) -> None:
    """Continues where the last slice has stopped, and stops after its time."""
    lane, began = SoakLane(PROGRESS, number, LANES), time.monotonic()
    before = lane.seeds_done
    failed = list(lane.run(SOAK_SEEDS // SEEDS_PER_PLAYBOOK, SLICE_SECONDS))
    count, total = lane.seeds_done - before, sum(SoakLane(PROGRESS, other, LANES).seeds_done for other in range(LANES))
    rate = f"{count:,} seeds, {count / (time.monotonic() - began):.1f}/s"
    record_property("measured", f"lane {number}: {rate}, {len(failed)} failed; {total:,} of {SOAK_SEEDS:,} in all")
    assert not failed, report(failed)


def test_every_fault_every_fork_every_end_and_every_event_occurs_in_a_sample_without_problems() -> None:
    faults: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    events: Counter[str] = Counter()
    forks: Counter[str] = Counter()
    failing = []
    hints = snapshots = outline_blocks = firings = 0
    for seed in SAMPLES[0]:
        with verified(damaged=True):
            story = simulate(seed)
        if story.problems:
            failing.append(seed)
        faults += story.faults
        statuses += story.statuses
        events += story.events
        hints += story.hints
        snapshots += story.snapshots
        outline_blocks += story.outline_blocks
        firings += story.firings
        forks += story.forks
    assert not report(failing)
    assert [kind for kind in KINDS if not faults[kind]] == []
    assert [kind for kind in FORK_KINDS if not forks[kind]] == []
    assert hints
    assert snapshots
    assert outline_blocks
    assert firings
    assert {*statuses} == {"succeeded", "failed", "cancelled"}
    assert [name for name in EVENTS if not events[name]] == UNSEEN_EVENTS


def test_every_block_occurs_in_the_seeds_of_a_change() -> None:
    playbooks = range(SEEDS // SEEDS_PER_PLAYBOOK)
    drawn = {block for number in playbooks for program in programs(number).values() for block in program.kinds}
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
        stories = (simulate(seed) for seed in range(ZOMBIE_SEED, ZOMBIE_SEED + 1_000))
        problems = next(story.problems for story in stories if story.problems)
    assert any("which was accepted" in problem for problem in problems)


def test_a_retry_that_repeats_finished_items_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def reopen_all(run: Run) -> None:
        assert run.loop is not None
        run.loop.returned = [(0, run.loop.total)]
        run.loop.ok, run.loop.failed, run.loop.failures = 0, 0, []

    monkeypatch.setattr(fork, "reopen", reopen_all)
    monkeypatch.setattr(story, "RETRY_SHARE", 1.0)
    first = next(number for number in count() if programs(number)["main"].flaws) * SEEDS_PER_PLAYBOOK
    with verified(damaged=True):
        stories = (simulate(seed) for seed in range(first, first + SEEDS_PER_PLAYBOOK))
        problems = next(retried.problems for retried in stories if retried.forks["retry of failed items"])
    assert any("have ended, and are run again" in problem for problem in problems)


def test_a_fork_that_repeats_finished_tasks_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(state: Execution, event: ExecutionForked, at: float) -> None:
        for run in state.runs.values():
            run.progress.clear()
            run.item_progress.clear()
        _forked(state, event, at)

    monkeypatch.setitem(HANDLERS, ExecutionForked, forget)
    monkeypatch.setattr(story, "FORK_SHARE", 2.0)
    with verified(damaged=True):
        problems = (problem for seed in range(SEARCHED_SEEDS) for problem in simulate(seed).problems)
        assert any("whose result it has" in problem for problem in problems)


def test_an_outline_that_forgets_items_in_flight_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(before: Block | None) -> OutlineWriter:
        return OutlineWriter(first=1 if before is None else before.first + before.events)

    monkeypatch.setattr(outlines, "OutlineWriter", forgetful)
    with verified(damaged=True):
        problems = (problem for seed in range(SEARCHED_SEEDS) for problem in simulate(seed).problems)
        assert any("outline: block" in problem for problem in problems)


@contextmanager
def planted_defect() -> Iterator[None]:
    """Servers accept the facts of a repeated report again."""

    def accept(decision: Decision, report: Report) -> None:
        lease = decision.state.leases.get(report.fence)
        accept_report(decision, report if lease is None else replace(report, first=lease.facts))

    with pytest.MonkeyPatch.context() as patch, verified(damaged=True):
        patch.setattr(decide, "accept_report", accept)
        patch.setattr(decide, "check_fact", lambda *fact: None)
        yield


@pytest.fixture(scope="module")
def failing_seed() -> int:
    """The first seed that finds the planted defect."""
    with planted_defect():
        return next(seed for seed in range(SEARCHED_SEEDS) if fails(seed))


def test_a_failing_seed_is_shrunk(failing_seed: int) -> None:
    with planted_defect():
        whole, shrunk = simulate(failing_seed), shrink(failing_seed)
        replayed = CliRunner().invoke(noetl_command, shlex.split(shrunk.command)[1:])
    assert 0 < shrunk.story.faults.total() < whole.faults.total()
    assert len(shrunk.story.lines) < len(whole.lines)
    assert (replayed.exit_code, replayed.output) == (1, f"{shrunk.story}\n")
    assert f"PROBLEM   {shrunk.story.problems[0]}" in replayed.output


def test_the_seeds_of_a_change_fail_with_the_seed_and_its_command(
    failing_seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.sim.batches.MAX_SHRUNK", 0)
    with planted_defect():
        assert main(range(failing_seed, failing_seed + 1)) == 1
    assert f"replay it with: noetl sim --seed {failing_seed} --shrink" in capsys.readouterr().out
    assert main(range(failing_seed, failing_seed + 1)) == 0
    assert "1 seeds" in capsys.readouterr().out


def test_an_error_of_a_simulation_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_off(seed: int) -> Story:
        raise ZeroDivisionError

    monkeypatch.setattr("tests.sim.batches.simulate", break_off)
    with pytest.raises(ZeroDivisionError) as caught:
        main(range(12, 13))
    assert caught.value.__notes__ == ["seed 12; replay it with: noetl sim --seed 12"]


def test_the_smallest_set_of_faults_is_found() -> None:
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


def test_a_slice_continues_the_last_one_and_tries_failed_seeds_again(
    failing_seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.sim.batches.SEEDS_PER_PLAYBOOK", 2)
    playbook = failing_seed // 2
    lane = SoakLane(tmp_path, playbook % 2, 2)
    (tmp_path / f"lane-{lane.number}").write_text(str(playbook))
    with planted_defect():
        failed = list(lane.run(playbook + 1, 600.0))
        assert failing_seed in failed
        assert failed == lane.failed
        assert (lane.next_playbook, lane.seeds_done) == (playbook + 2, (playbook // 2 + 1) * 2)
        assert list(lane.run(playbook + 1, 600.0)) == failed
        assert f"replay it with: noetl sim --seed {failing_seed}" in report(failed)
    assert (list(lane.run(playbook + 1, 600.0)), lane.failed) == ([], [])


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
