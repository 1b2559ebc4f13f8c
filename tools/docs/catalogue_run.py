"""The run of `catalogue.yaml` in the screenshots: its log is written to a database before a server opens it.

7,412 of 12,000 items have ended: some failed, and some were retried. The next ones have started. Only the log is
written, so no lease of theirs expires, and the run stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.long_run import LongRun

from noetl.engine import events as e
from noetl.model.actor import Actor
from noetl.model.identity import TaskId, uuid7
from noetl.model.outcome import Error, Outcome
from noetl.reference import refer
from noetl.store.sqlite import SqliteStore

PLAYBOOK = Path(__file__).with_name("catalogue.yaml")
ITEMS, ENDED = 12_000, 7_412
LANES, GROUP_SECONDS = 8, 2.7
"""So many items start at once, and so often."""
SECONDS_BEFORE = 10.0
"""More than the steps take that end before the loop."""
WORKER = "worker-1"
COPY = "copy#1"
TIMEOUT = Error("timeout", "no response within 10 s", retryable=True)
GONE = Error("http", "404 Not Found: the product has no pictures")
BROKEN = Error("data", "the price is not a number: 'on request'")
FAILED = {611: BROKEN, 1_846: GONE, 2_930: BROKEN, 4_305: TIMEOUT, 4_306: TIMEOUT, 5_018: BROKEN, 6_777: GONE}
RETRIED = frozenset([402, 2_377, 4_304, 6_120])


def record_catalogue(database: Path, now: float) -> str:
    """Write the run as it is at a time; its id."""
    started = now - ENDED / LANES * GROUP_SECONDS - SECONDS_BEFORE
    with closing(SqliteStore(database, synchronous="normal")) as store:
        run = LongRun(store, uuid7(started, b"pictures"), PLAYBOOK.read_text("utf-8"), started)
        collection, content = refer(list(range(ITEMS)))
        for events in _connected(run.loaded.state.digest):
            run.write(events, [])
            run.at += 0.4
        run.write(
            [e.StepScheduled(COPY, tokens=(2,)), e.LoopStarted(COPY, ITEMS, collection)], [(collection.key, content)]
        )
        for events in _rates(run):
            run.write(events, [])
        for first in range(0, ENDED, LANES):
            begun, indices = run.at, range(first, min(first + LANES, ENDED))
            run.write([event for index in indices for event in _begun(index)], [])
            for index in sorted(indices, key=_duration_ms):
                run.at = begun + _duration_ms(index) / 1000
                run.write(list(_ended(index, run.at)), [])
            run.at = begun + GROUP_SECONDS
        run.write([event for index in range(ENDED, ENDED + LANES) for event in _begun(index)], [])
        return run.loaded.state.id


def _connected(digest: str) -> Iterator[list[e.Event]]:
    task = TaskId("connect#1", "list#1")
    yield [
        e.ExecutionRequested(digest, "shop/catalogue", actor=Actor("user", "ada")),
        e.RequestEvaluated(),
        e.PlaybookStarted(),
        e.WorkflowStarted(),
        e.TokenEnqueued(1, "connect"),
        e.StepScheduled("connect#1", tokens=(1,)),
    ]
    yield [e.StepStarted("connect#1", 1, WORKER), e.TaskStarted(task)]
    yield [
        e.TaskDone(task, 1, Outcome(result=ITEMS), "continue", duration_ms=386.0),
        e.StepDone("connect#1", ITEMS),
        e.NextEvaluated("connect#1", "step.done", (0, 1)),
        e.TokenEnqueued(2, "copy", origin="connect#1"),
        e.TokenEnqueued(3, "rates", origin="connect#1"),
    ]


def _rates(run: LongRun) -> Iterator[list[e.Event]]:
    """The first attempt fails."""
    task, result = TaskId("rates#1", "get#1"), {"USD": 1.09, "CHF": 0.94}
    failure = Error("http", "503 Service Unavailable", retryable=True)
    yield [e.StepScheduled("rates#1", tokens=(3,)), e.StepStarted("rates#1", 2, WORKER), e.TaskStarted(task)]
    run.at += 0.6
    yield [
        e.TaskDone(task, 1, Outcome("error", error=failure), "retry", duration_ms=571.0),
        e.TaskRetryScheduled(task, 2, run.at + 4),
    ]
    run.at += 4
    yield [e.StepStarted("rates#1", 3, WORKER), e.TaskStarted(task, 2)]
    run.at += 0.5
    yield [
        e.TaskDone(task, 2, Outcome(result=result), "continue", duration_ms=482.0),
        e.StepDone("rates#1", result),
        e.NextEvaluated("rates#1", "step.done", (0,)),
        e.TokenEnqueued(4, "publish", origin="rates#1"),
    ]


def _begun(index: int) -> Iterator[e.Event]:
    yield e.StepStarted(COPY, index + 4, WORKER, (index, index + 1))  # the fences before belong to other steps
    yield e.IterationStarted(COPY, index)
    yield e.TaskStarted(TaskId(COPY, "fetch#1", index))


def _ended(index: int, at: float) -> Iterator[e.Event]:
    task, error, attempt = TaskId(COPY, "fetch#1", index), FAILED.get(index), 1
    duration = _duration_ms(index)
    if index in RETRIED:
        yield e.TaskDone(task, 1, Outcome("error", error=TIMEOUT), "retry", duration_ms=duration)
        yield e.TaskRetryScheduled(task, 2, at)
        yield e.TaskStarted(task, 2)
        attempt = 2
    if error is None:
        yield e.TaskDone(task, attempt, Outcome(), "continue", duration_ms=duration)
        yield e.IterationDone(COPY, index)
    else:
        yield e.TaskDone(task, attempt, Outcome("error", error=error), "fail", duration_ms=duration)
        yield e.IterationFailed(COPY, index, error, "fetch", attempt)


def _duration_ms(index: int) -> float:
    return 900.0 + index * 7919 % 1_700
