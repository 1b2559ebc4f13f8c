"""Compares the ledger with the logs of the runs: lost calls, calls that were repeated after their outcome was accepted,
and the time from each fault until the runs made progress."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from statistics import quantiles
from typing import Any

from tests.acceptance.chaos.ledger import Effect, Ledger
from tests.acceptance.chaos.playbooks import CHILD_PLACES
from tests.acceptance.chaos.stream import Event, StartedRun, moment
from tests.acceptance.modes import stage

COMMIT_SECONDS = 1.0
"""Maximum time from the decision of an event, which is its timestamp, until it is stored."""


def accepted(events: Iterable[Event]) -> dict[tuple[str, int], float]:
    """When the outcome of each task and attempt was accepted."""
    times: dict[tuple[str, int], float] = {}
    for event in events:
        if event["event_type"] == "task.done":
            times.setdefault((event["entity_id"], event["attempt"]), moment(event))
    return times


def repeated(events: list[Event], effects: Iterable[Effect]) -> list[tuple[Effect, float]]:
    """Effects that began after their outcome was accepted, and how long after."""
    accepted_at = accepted(events)
    late = [
        (effect, effect.at - accepted_at[effect.place, effect.attempt])
        for effect in effects
        if (effect.place, effect.attempt) in accepted_at
    ]
    return [(effect, seconds) for effect, seconds in late if seconds > COMMIT_SECONDS]


class Audit:
    """Of one site. `problems` has a line for everything that is wrong, `executions` counts runs and their children."""

    def __init__(self, client: stage.Client, book: Ledger) -> None:
        self.client, self.book = client, book
        self.problems: list[str] = []
        self.executions = self.effects = 0
        self.times: list[list[float]] = []

    def run(self, run: StartedRun, end: dict[str, Any]) -> None:
        """Compare a run and its children with the ledger."""
        script, family = run.script, self.book.of_family(run.execution)
        if end["status"] != "succeeded" or script.result not in (None, end["result"]):
            self._add(run, f"ended as {end['status']} with {end['result']!r}: {end['error']}")
        children = sorted({effect.execution for effect in family} - {run.execution})
        if len(children) != script.children:
            self._add(run, f"has {len(children)} children instead of {script.children}")
        logs = {execution: self.client.events(execution) for execution in (run.execution, *children)}
        for execution, events in logs.items():
            effects = [effect for effect in family if effect.execution == execution]
            places = script.places if execution == run.execution else CHILD_PLACES
            for problem in problems_in(events, effects, places):
                self._add(run, problem)
        self.executions += len(logs)
        self.effects += len(family)
        own = {moment(event) for events in logs.values() for event in events}
        self.times.append(sorted({run.at, *own}))

    def _add(self, run: StartedRun, problem: str) -> None:
        self.problems.append(f"{run.name} {run.execution}: {problem}")


def problems_in(events: list[Event], effects: list[Effect], places: frozenset[str]) -> Iterator[str]:
    """Where the log of an execution and the lines of the ledger disagree about the calls at these places."""
    done = [
        (event["entity_id"], event["attempt"], event["action_id"])
        for event in events
        if event["event_type"] == "task.done" and event["status"] != "error" and event["entity_id"] in places
    ]
    for place in sorted(places - {name for name, *_ in done}):
        yield f"lost: {place} has no outcome in the log"
    if len(done) != len({name for name, *_ in done}):
        yield f"accepted twice: {sorted(done)}"
    written = {(effect.place, effect.attempt, effect.key) for effect in effects}
    for outcome in sorted(set(done) - written):
        yield f"lost: the ledger has no line for {outcome}"
    for name in sorted({effect.place for effect in effects} - places):
        yield f"{name} is not in the playbook"
    for effect, seconds in repeated(events, effects):
        yield f"repeated {seconds:.1f} s after it was accepted: {effect}"


def recovery(runs: Iterable[list[float]], fault: float) -> tuple[float, float] | None:
    """Seconds after a fault until the first and until the last of the runs that were open has an event again; None if
    no run was open. Of each run there are the times of its events, in their order."""
    gaps = [times[bisect_right(times, fault)] - fault for times in runs if times[0] <= fault < times[-1]]
    return (min(gaps), max(gaps)) if gaps else None


def percentiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "".join(f"{value:.1f} s" for value in seconds)
    p50, p99 = (quantiles(seconds, n=100, method="inclusive")[at] for at in (49, 98))
    return f"p50 {p50:.1f} s, p99 {p99:.1f} s"
