"""A schedule that two servers serve: each of its firings starts one run."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.sim.database import Database
from tests.sim.virtual import START_TIME

from noetl.store.triggers import Firing, Schedule
from noetl.triggers.schedules import ScheduleRequest, changed, next_after

SCHEDULE = "ticks"
SCHEDULED_SECONDS = 25.0  # after which it is paused


def drawn_schedule(seed: int) -> Schedule | None:
    """The schedule of a seed; most have none."""
    random = Random(f"{seed} schedule")
    if random.random() > 0.06:
        return None
    path, every = random.choice(["child", "classic_child"]), random.choice([8.0, 12.0])
    request = ScheduleRequest(path=path, every=every, overlap="allow", missed="all")
    return changed(Schedule(SCHEDULE, f"{seed:016x}", path, anchor=START_TIME), request, START_TIME)


def firings(database: Database) -> list[str]:
    """The runs of all firings that were due before the next one."""
    schedule = database.triggers.schedule(SCHEDULE)
    return [] if schedule is None else list(_executions(schedule))


def _executions(schedule: Schedule) -> Iterator[str]:
    due = next_after(schedule, START_TIME)
    while due is not None and schedule.next is not None and due < schedule.next:
        yield Firing(due).execution(schedule.id)
        due = next_after(schedule, due)


def schedule_problems(database: Database, mains: list[str]) -> Iterator[str]:
    """Every firing has started its run, and no run has another origin."""
    expected, schedule = {*firings(database)}, database.triggers.schedule(SCHEDULE)
    roots = {execution for execution, run in database.runs.items() if run.parent is None} - {*mains}
    for execution in sorted(expected - roots):
        yield f"a firing was lost: its run {execution} does not exist"
    for execution in sorted(roots - expected):
        yield f"run {execution} was started by no firing and no client"
    if schedule is not None and schedule.starting:
        yield f"the schedule has firings that are not settled: {schedule.starting}"
