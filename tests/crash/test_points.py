"""The list of crash points is whole, its names are good, and the reference playbooks come by all of them."""

from __future__ import annotations

import ast
import asyncio
import tokenize
from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from itertools import pairwise

import pytest

from crash import points
from crash.cases import CASES
from crash.proof import Nursery, Reference, surveyed

SURVEYS = 3
"""How often all playbooks are run again, at most: a point may be come by, or not, by chance."""
BY_NO_PLAYBOOK = {
    "host.children:ChildExecutions._sync_child:5": "an execution with the id of a child and another parent",
    "host.children:ChildExecutions._start:6": "a child refuses its payload: told as for one that is not found",
    "host.dispatcher:Dispatcher._granted": "only a server gets a claim again: it is killed in tests/acceptance/modes",
    "host.dispatcher:Dispatcher.claim:1": "the same",
    "host.dispatcher:Dispatcher._wait_for_work": "claims wait only at a server",
    "host.dispatcher:Dispatcher.claim:3": "the same",
    "host.dispatcher:StoredWork.ready": "only a server scans the store",
    "host.dispatcher:StoredWork.due": "the same",
    "host.dispatcher:Dispatcher.on_hint": "NATS, which tests/acceptance/modes takes away and brings back",
    "runtime.contents:Contents.put_in_bucket": "the same",
    "host.restore:accept_restore:1": "an operator accepts a restored database, and does so again if it was interrupted",
    "host.local_link:LocalLink.claim:2": "the worker of `noetl dev`, which is killed in tests/acceptance/modes",
    "runtime.committer:Committer._decide:1": "a process that only sends a command (`runs cancel`)",
    "runtime.contents:Contents.read:1": "an object store: content is there before a fact speaks of it",
    "runtime.contents:Contents.read_json:1": "the same",
    "runtime.contents:Contents.load_for_template:1": "the same",
    "runtime.fork_preview:preview_fork:1": "a dry run, which writes nothing",
    "runtime.fork_preview:preview_retry:1": "the same",
    "runtime.fork_preview:preview_retry:2": "the same",
    "runtime.history:_earlier_fork:1": "a fork that is asked for again, which writes nothing",
    "runtime.loaded_executions:LoadedExecutions.change_net:1": "a fork is loaded again only after a kill",
    "worker.link:Reporter.send_early:1": "a task that takes more than a second: a report like the others",
    "worker.result_store:ResultStore._put:2": "an object store, as above",
    "worker.result_store:ResultStore._put:3": "NATS as well",
    "worker.lease_run:LeaseRun.run:2": "another worker has opened secrets: those of a server do, and are killed there",
    "worker.terms:LeaseTerms.current:1": "only a worker of a server waits for heartbeats",
}
"""Places that no reference playbook comes by, and why that has to be so."""
BY_CHANCE = {
    "host.children:ChildExecutions._has_stored_wait:1": "a wait for a child is decided and its commit is on its way",
    "runtime.committer:Committer.handle:1": "a child that has ended is unloaded while a command to it is on its way",
    "runtime.loaded_executions:LoadedExecutions.require": "the same",
    "host.local_link:LocalLink.holds:1": "an execution is loaded again while a task of it is about to be called",
}
"""Places that a playbook comes by, or not, depending on what happens side by side."""

SAMPLE = """
class Shell:
    async def run(self, source, lock):
        one = self.take(await source(1), await source(await source(2)))
        async with lock(3) as a, lock(4) as b:
            [x async for x in numbers(2)]
        async for y in numbers(1):
            async def inner():
                return await source(y)
            await inner()
        return [one, a, b, *[await source(z) for z in (6, 7)]]
    def take(self, *numbers):
        return list(numbers)
"""


def test_every_await_of_the_shell_is_a_point() -> None:
    for name, file in points.modules():
        text = file.read_bytes()
        words = [token.string for token in tokenize.tokenize(BytesIO(text).readline) if token.type == tokenize.NAME]
        written = Counter(
            {
                points.AWAIT: words.count("await"),
                points.ENTER: sum(pair == ("async", "with") for pair in pairwise(words)),
                points.NEXT: sum(pair == ("async", "for") for pair in pairwise(words)),
            }
        )
        assert Counter(place.sides for place in points.places(name, ast.parse(text))) == +written, name


def test_names_are_unique_and_do_not_depend_on_lines() -> None:
    result = points.all_points()
    assert len(set(result)) == len(result)
    for name, file in points.modules():
        text = file.read_text()
        moved = "# one\n\n" + text.replace("\n\n", "\n\n\n")
        before = [place.points for place in points.places(name, ast.parse(text))]
        assert [place.points for place in points.places(name, ast.parse(moved))] == before


def test_code_with_points_does_what_it_did_and_hits_each(monkeypatch: pytest.MonkeyPatch) -> None:
    hits: list[str] = []
    monkeypatch.setattr(points.METER, "hit", hits.append)

    class Lock:
        def __init__(self, number: int) -> None:
            self.number = number

        async def __aenter__(self) -> int:
            return self.number

        async def __aexit__(self, *error: object) -> None:
            pass

    async def source(number: int) -> int:
        return number

    async def numbers(count: int):  # type: ignore[no-untyped-def]
        for number in range(count):
            yield number

    space = {**points.GLOBALS, "__hit__": hits.append, "numbers": numbers}
    exec(points.rebuilt("sample", SAMPLE, "sample.py"), space)
    shell = space["Shell"]()
    assert asyncio.run(shell.run(source, Lock)) == [[1, 2], 3, 4, 6, 7]
    expected = [point for place in points.places("sample", ast.parse(SAMPLE)) for point in place.points]
    assert {"sample:Shell.run:1 before", "sample:Shell.run.inner:1 after"} < set(expected)
    assert set(hits) == set(expected)
    nested = hits.index("sample:Shell.run:2 before")
    assert hits[nested : nested + 2] == ["sample:Shell.run:2 before", "sample:Shell.run:3 before"]


def test_there_are_enough_reference_playbooks() -> None:
    assert len(CASES) >= 12


def points_of(references: Iterable[Reference]) -> set[str]:
    return {point for reference in references for point in (*reference.started, *reference.resumed)}


def _names(point: str) -> list[str]:
    """The point, its await and its function."""
    place = point.partition(" ")[0]
    return [point, place, place.rpartition(":")[0]]


def test_every_point_is_come_by(nursery: Nursery) -> None:
    """A new await is a point by itself; this fails until a playbook comes by it."""
    hit = points_of(nursery.survey.values())
    every = points.all_points()
    excused = {point for point in every if set(_names(point)) & BY_NO_PLAYBOOK.keys()}
    assert hit <= set(every)
    by_chance = {point for point in every if set(_names(point)) & BY_CHANCE.keys()}
    missing, needless = set(every) - hit - excused - by_chance, excused & hit
    for _ in range(SURVEYS):  # what happens side by side takes turns as it likes, on a busy machine above all
        if missing or needless:
            again = points_of(surveyed(nursery, case) for case in CASES.values())
            missing, needless = missing - again, needless & again
    missed = sorted(missing)
    assert not missed, "no reference playbook comes by these:\n" + "\n".join(missed)
    assert sorted(needless) == [], "these are come by and need no excuse"
    assert all(any(point.startswith(place) for point in every) for place in BY_NO_PLAYBOOK)
