"""What a crash may do to a run, and what it may not."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from crash.cases import CASES, Case
from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.limits import whole
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.model.identity import action_id
from noetl.runtime.audit import Audit
from noetl.runtime.report import report
from noetl.store.codec import decode
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Row

TESTS = Path(__file__).parent.parent
TRIES = 20
"""Undisturbed runs, until one has met none of its time limits too early."""
ANSWER_SECONDS = 120.0
KILLED = -9
EFFECTS = ("effects.txt", "python-effects.txt")
"""What was called, as the worker saw it and as the code of a playbook wrote it: action and attempt a line."""

Target = tuple[str, int]
"""A point, and the how manieth time it is come by."""


class Answer(msgspec.Struct):
    """How a child has ended."""

    code: int
    hits: dict[str, int]
    left: list[int]
    said: str


# -- what is in a folder --------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a killed or a finished run has left."""

    logs: dict[str, list[Row]]
    ends: dict[str, dict[str, Any]]
    violations: list[Any]
    effects: dict[str, Counter[str]]

    def accepted(self) -> set[str]:
        """Action and attempt of every call whose outcome counts: that of a failed item does not once a fork runs it
        again."""
        result = set()
        for execution, log in self.logs.items():
            failed: set[tuple[str, int]] = set()
            calls: dict[str, e.TaskDone] = {}
            for event in events(log):
                match event:
                    case e.TaskDone(skipped=False):
                        calls[f"{action_id(execution, event.task)} {event.attempt}"] = event
                    case e.IterationFailed(run=run, index=index):
                        failed.add((run, index))
                    case e.ExecutionForked(reopened=run) if run:
                        again = {(run, index) for loop, index in failed if loop == run}
                        calls = {
                            call: done for call, done in calls.items() if (done.task.run, done.task.index) not in again
                        }
            result |= calls.keys()
        return result

    def granted(self) -> set[tuple[str, str]]:
        """Execution and run of everything that was ever handed to a worker."""
        return {
            (execution, event.run)
            for execution, log in self.logs.items()
            for event in events(log)
            if isinstance(event, e.StepStarted | e.StepRegranted)
        }


def events(log: Iterable[Row]) -> Iterator[e.Event]:
    return (decode(row.type, row.data) for row in log)


NETS: dict[str, Net] = {}


def look(folder: Path) -> Found:
    """Read everything, fold the logs, check every promise."""
    effects = {file: Counter((folder / file).read_text().splitlines()) for file in EFFECTS if (folder / file).exists()}
    if not (folder / "noetl.db").exists():
        return Found({}, {}, [], effects)
    store = SqliteStore(folder / "noetl.db", mode="read")
    before = Path.cwd()
    os.chdir(folder)  # files that results were put into are relative
    try:
        audit = Audit(store)
        audit.nets = NETS
        runs = store.summaries()
        violations = [violation for run in runs for violation in audit.of(run)]
        logs = {run.execution_id: store.read(run.execution_id) for run in runs}
        ends = {run.execution_id: end_of(run.execution_id, logs[run.execution_id], NETS[run.digest]) for run in runs}
        return Found(logs, ends, violations, effects)
    finally:
        os.chdir(before)
        store.close()


def end_of(execution: str, log: list[Row], net: Net) -> dict[str, Any]:
    """What a log says of a run, without what depends on time."""
    state = Execution(execution, net, "")
    for row, event in zip(log, events(log), strict=True):
        evolve(state, event, row.at)
    result: dict[str, Any] = whole(report(state, "", {}, 0))
    del result["events"], result["duration_ms"]
    result["continued"].sort(key=lambda error: error["item"] or 0)  # items of a loop run side by side
    return {**result, "over": state.over, "leases": len(state.leases), "cancel": state.cancel_reason}


# -- the process that forks -----------------------------------------------------------------------------------------


class Nursery:
    """The other end of `nursery.py`, and what undisturbed runs look like."""

    def __init__(self) -> None:
        paths = [str(TESTS), *(path for path in [os.environ.get("PYTHONPATH")] if path)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.kills = 0

    def ask(self, case: Case, folder: Path, *, resume: bool = False, kill: Target | None = None) -> Answer:
        """Run or resume a case in a folder. Whoever ends or is killed leaves no process behind."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"case": case.name, "folder": str(folder), "resume": resume, "kill": kill}
        self.process.stdin.write(msgspec.json.encode(order) + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        assert ready, "the nursery does not answer"
        answer = msgspec.json.decode(self.process.stdout.readline(), type=Answer)
        assert answer.left == [], f"{case.name} killed at {kill} left processes behind"
        assert answer.code in (0, KILLED), f"{case.name} killed at {kill} ended with {answer.code}:\n{answer.said}"
        assert kill is not None or answer.code == 0
        self.kills += answer.code == KILLED
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(ANSWER_SECONDS)

    @cached_property
    def survey(self) -> dict[str, Reference]:
        """Every case undisturbed, and resumed after one crash in the middle."""
        return {name: surveyed(self, case) for name, case in CASES.items()}


class Reference(NamedTuple):
    """A case as it should be."""

    case: Case
    found: Found
    runs: dict[str, tuple[str, str]]
    """Execution and run of each call, by action."""
    started: dict[str, int]
    """How often each point is come by from the start."""
    crash: Target
    """A crash in the middle."""
    resumed: dict[str, int]
    """How often each point is come by after that crash."""


def surveyed(nursery: Nursery, case: Case) -> Reference:
    started, result = undisturbed(nursery, case)
    assert result.violations == []
    with folder() as other:
        crash = case.crash or ("store:commit after", max(1, started["store:commit after"] // 2))
        assert nursery.ask(case, other, kill=crash).code == KILLED
        resumed = nursery.ask(case, other, resume=True).hits
    runs = {
        action_id(execution, event.task): (execution, event.task.run)
        for execution, log in result.logs.items()
        for event in events(log)
        if isinstance(event, e.TaskStarted)
    }
    return Reference(case, result, runs, started, crash, resumed)


def undisturbed(nursery: Nursery, case: Case) -> tuple[dict[str, int], Found]:
    """How often a run comes by each point, and what it leaves: a run that was quick enough to skip nothing."""
    for _ in range(TRIES):
        with folder() as place:
            hits = nursery.ask(case, place).hits
            result = look(place)
        if sum(map(len, result.effects.values())) >= case.calls:
            return hits, result
    raise AssertionError(f"{case.name}: none of {TRIES} undisturbed runs has made all its calls")


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="noetl-crash-") as name:
        yield Path(name)


# -- the proof ------------------------------------------------------------------------------------------------------


def crash_and_resume(
    nursery: Nursery, reference: Reference, place: Path, kill: Target, crashes: Sequence[Found] = ()
) -> bool:
    """Run, or resume after other crashes, until killed at a point; then resume to the end and look at everything.

    False if the point was not come by again: what happens side by side takes turns as it likes.
    """
    case = reference.case
    try:
        answer = nursery.ask(case, place, resume=bool(crashes), kill=kill)
        result = look(place)
        if answer.code == KILLED:
            check_after_kill(reference, result)
            crashes = [*crashes, result]
            nursery.ask(case, place, resume=True)
            result = look(place)
        check_end(reference, crashes, result)
    except AssertionError as error:
        error.add_note(f"{case.name}, killed at {kill[0]!r}, time {kill[1]}, after {len(crashes)} crashes")
        raise
    return answer.code == KILLED


def check_after_kill(reference: Reference, found: Found) -> None:
    """What a killed process has left is sound, and nothing was called that was not handed out before."""
    assert found.violations == []
    called = {reference.runs.get(line.partition(" ")[0]) for notes in found.effects.values() for line in notes}
    assert called <= found.granted(), "a call whose grant was not durable, or which an undisturbed run does not make"


def check_end(reference: Reference, crashes: Sequence[Found], found: Found) -> None:
    """The end is that of an undisturbed run; what had been accepted stayed, and nothing of it was done again."""
    case, expected = reference.case, reference.found
    assert found.violations == []
    assert found.ends.keys() <= expected.ends.keys()
    assert case.may_skip or found.ends.keys() == expected.ends.keys()
    for execution, end in found.ends.items():
        assert end["over"], f"{execution} has not ended: {end}"
        keys = ("status", "result", "ctx") if case.once else end.keys()
        assert {key: end[key] for key in keys} == {key: expected.ends[execution][key] for key in keys}
    for crash in crashes:
        for execution, log in crash.logs.items():
            assert found.logs[execution][: len(log)] == log, "what was accepted before the crash has changed"
    for file, notes in found.effects.items():
        if not case.once:
            usual = expected.effects[file].keys()
            assert notes.keys() <= usual
            assert case.may_skip or notes.keys() == usual
            assert found.accepted() & usual <= notes.keys(), "an outcome was accepted of a call that was never made"
        most = 1 if case.once else 1 + len(crashes)
        assert {line: count for line, count in notes.items() if count > most} == {}
        for crash in crashes:
            done = crash.accepted()
            again = {line for line in done if notes[line] != crash.effects.get(file, Counter())[line]}
            assert not again, "called again after its outcome had been accepted"


def targets(hits: dict[str, int]) -> list[Target]:
    """Each point when it is first come by, and one in the middle for those that are come by often."""
    return [
        (point, number)
        for point, count in sorted(hits.items())
        for number in ([1, (count + 1) // 2] if count > 2 else [1])
    ]


def sampled(nursery: Nursery, case: str, one_in: int) -> list[Target]:
    """A part of the targets of a case: one in so many, and one side of each place that is assigned to this case."""
    surveys = {name: reference.started for name, reference in nursery.survey.items()}
    chosen = []
    for point, number in targets(surveys[case]):
        owner = min((name for name in surveys if point in surveys[name]), key=lambda name: dice(name, point))
        is_assigned = owner == case and number == 1 and is_chosen_side(point)
        if is_assigned or is_in_sample(case, "started", (point, number), one_in):
            chosen.append((point, number))
    return chosen


def is_chosen_side(point: str) -> bool:
    """Whether the default run kills at a point: at one side of an await, the same in every run, and at both sides of a
    place of the store, where facts become durable."""
    place, _, side = point.rpartition(" ")
    return place.startswith("store:") or (side in ("before", "entering")) == (dice(place) % 2 == 0)


def is_in_sample(case: str, hits: str, kill: Target, one_in: int) -> bool:
    """Whether a kill is one of so many; the same in every run."""
    return dice(case, hits, *kill) % one_in == 0


def dice(*words: object) -> int:
    return zlib.crc32(repr(words).encode())


def copied(place: Path, to: Path) -> None:
    """A folder again; the shared memory of the database is rebuilt by whoever opens it."""
    shutil.copytree(place, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*-shm", "locks"))
