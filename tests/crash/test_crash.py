"""Kill the engine at a point, resume, compare with a run that nobody has disturbed.

The default run takes a sample that is the same every time: the first crash leaves out no place and takes one of its
sides, before or after the await; the second takes one point in 120. `slow` takes everything.
"""

from __future__ import annotations

import pytest

from crash.cases import CASES
from crash.proof import KILLED, Nursery, copied, crash_and_resume, dice, folder, is_in_sample, look, sampled, targets

ONE_IN = 120
"""Of the points of a playbook, how many the default run kills at."""
FEW = 2
"""So many points of a small sample may be missed."""


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_is_resumed_to_the_same_end(nursery: Nursery, case: str) -> None:
    kill_each(nursery, case, sampled(nursery, case, ONE_IN))


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_that_is_killed_is_resumed_again(nursery: Nursery, case: str) -> None:
    kills = targets(nursery.survey[case].resumed)
    sample = [kill for kill in kills if is_in_sample(case, "resumed", kill, ONE_IN)]
    kill_twice(nursery, case, sample or [min(kills, key=lambda kill: dice(case, *kill))])


@pytest.mark.slow(part="crash")
@pytest.mark.parametrize("case", CASES)
def test_everywhere_a_killed_run_is_resumed_to_the_same_end(nursery: Nursery, case: str) -> None:
    kill_each(nursery, case, targets(nursery.survey[case].started))


@pytest.mark.slow(part="crash-twice")
@pytest.mark.parametrize("case", CASES)
def test_everywhere_a_resumed_run_that_is_killed_is_resumed_again(nursery: Nursery, case: str) -> None:
    kill_twice(nursery, case, targets(nursery.survey[case].resumed))


def kill_each(nursery: Nursery, case: str, kills: list[tuple[str, int]]) -> None:
    reached = 0
    for kill in kills:
        with folder() as place:
            reached += crash_and_resume(nursery, nursery.survey[case], place, kill)
    check_reached(reached, len(kills))


def kill_twice(nursery: Nursery, case: str, kills: list[tuple[str, int]]) -> None:
    """After the first crash, which is always the same, a second one at each of the points."""
    reference = nursery.survey[case]
    reached = 0
    with folder() as first:
        assert nursery.ask(reference.case, first, kill=reference.crash).code == KILLED
        result = look(first)
        for kill in kills:
            with folder() as place:
                copied(first, place)
                reached += crash_and_resume(nursery, reference, place, kill, [result])
    check_reached(reached, len(kills))


def check_reached(reached: int, kills: int) -> None:
    """A point may not be come by again where things happen side by side, but not most of the time."""
    assert kills - reached <= max(FEW, kills // 2), "too many points were not come by again"
