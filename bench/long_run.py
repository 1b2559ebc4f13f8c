"""Writes the log of a long run straight to a store, which is much faster than running it.

A step leads to a loop with ten lanes and four events an item, and that to a last step. The rules of the loop's task
continue past an error of every thousandth item; those that are listed as failed fail. The store also gets the snapshots
and the outline, as commits write them. `python -m bench.long_run DB 1000000` writes one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.history.outline import OutlineWriter, encode_block
from noetl.engine.state import Execution
from noetl.model.identity import TaskId, uuid7
from noetl.model.outcome import Error, Outcome
from noetl.reference import Reference, refer
from noetl.runtime.committer import SNAPSHOT_EVENTS
from noetl.runtime.loaded_executions import LoadedExecution, summary_of
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.store import codec
from noetl.store.open import open_store
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change, Store
from noetl.tools.registry import KINDS

LANES, ITEMS_A_LANE = 10, 64
EVENTS_A_COMMIT, EVENTS_AT_ONCE = 10_000, 100  # at once: with the same time
AROUND = 31  # events around the items
TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: long-run, path: bench/long_run}
workflow:
  - step: first
    tool: [{t: {kind: noop}}]
    next: {arcs: [{step: many}]}
  - step: many
    loop: {in: "{{ range(9) }}", iterator: n, spec: {mode: parallel, max_in_flight: 10, on_error: continue}}
    tool:
      - t:
          kind: noop
          spec:
            policy:
              rules:
                - {when: "{{ outcome.status == 'error' and outcome.error.kind == 'data' }}", then: {do: fail}}
                - {when: "{{ outcome.status == 'error' and iter.n > 0 }}", then: {do: continue}}
                - {else: {then: {do: continue}}}
    next: {arcs: [{step: last, when: "{{ event.name == 'loop.done' }}"}]}
  - {step: last, tool: [{t: {kind: noop}}]}
"""


def log(digest: str, items: int, collection: Reference, failed: frozenset[int]) -> Iterator[e.Event]:
    yield e.ExecutionRequested(digest, "bench/long_run")
    yield e.RequestEvaluated()
    yield e.PlaybookStarted()
    yield e.WorkflowStarted()
    yield e.TokenEnqueued(1, "first")
    yield from step("first#1", 1, 1)
    yield e.NextEvaluated("first#1", "step.done", (0,))
    yield e.TokenEnqueued(2, "many", origin="first#1")
    yield e.StepScheduled("many#1", tokens=(2,))
    yield e.LoopStarted("many#1", items, collection)
    lanes: dict[int, int] = {}
    fence, free, done = 1, 0, 0
    while done < items:
        while len(lanes) < LANES and free < items:
            fence, first, free = fence + 1, free, min(items, free + ITEMS_A_LANE)
            yield e.StepStarted("many#1", fence, "bench", (first, free))
            lanes[fence] = first
        for lane, index in list(lanes.items()):
            yield from failed_item(index) if index in failed else item(index)
            done += 1
            if (index + 1) % ITEMS_A_LANE == 0 or index + 1 == items:
                del lanes[lane]
            else:
                lanes[lane] = index + 1
    yield e.LoopDone("many#1", items, items - len(failed), len(failed))
    yield e.NextEvaluated("many#1", "loop.done", (0,))
    yield e.TokenEnqueued(3, "last", origin="many#1")
    yield from step("last#1", 3, fence + 1)
    yield e.NextEvaluated("last#1", "step.done")
    yield e.WorkflowFinished("succeeded")
    yield e.PlaybookProcessed("succeeded")


def step(run: str, token: int, fence: int) -> Iterator[e.Event]:
    yield e.StepScheduled(run, tokens=(token,))
    yield e.StepStarted(run, fence, "bench")
    yield e.TaskStarted(TaskId(run, "t#1"))
    yield e.TaskDone(TaskId(run, "t#1"), 1, Outcome(), "continue", duration_ms=0.02)
    yield e.StepDone(run)


def item(index: int) -> Iterator[e.Event]:
    task = TaskId("many#1", "t#1", index)
    outcome = Outcome() if index % 1_000 else Outcome("error", error=Error("http", "status 503"))
    yield e.IterationStarted("many#1", index)
    yield e.TaskStarted(task)
    yield e.TaskDone(task, 1, outcome, "continue", duration_ms=0.02)
    yield e.IterationDone("many#1", index)


def failed_item(index: int) -> Iterator[e.Event]:
    task, error = TaskId("many#1", "t#1", index), Error("data", f"row {index} has no price")
    yield e.IterationStarted("many#1", index)
    yield e.TaskStarted(task)
    yield e.TaskDone(task, 1, Outcome("error", error=error), "fail", duration_ms=0.02)
    yield e.IterationFailed("many#1", index, error, "t", 1)


class LongRun:
    """A run while it is being written."""

    def __init__(self, store: Store, execution: str, text: str = TEXT, started: float | None = None) -> None:
        playbook = load("bench.yaml", text, KINDS).require()
        store.put_playbook(playbook.digest, "bench.yaml", text.encode())
        self.store, self.outline = store, OutlineWriter()
        self.at = self.started = time.time() if started is None else started
        state = Execution(execution, LoadedPlaybook(playbook, "bench.yaml"), playbook.digest)
        self.loaded = LoadedExecution(state, codec.ZERO, None, self.outline)

    def write(self, events: list[e.Event], blobs: list[tuple[str, bytes]]) -> None:
        state, loaded = self.loaded.state, self.loaded
        change = Change(state.id, state.seq, [], blobs=blobs)
        for first in range(0, len(events), EVENTS_AT_ONCE):
            batch = events[first : first + EVENTS_AT_ONCE]
            self.at += 0.01
            change.rows += codec.rows_of(batch, state.seq + 1, self.at, loaded.head)
            loaded.head = change.rows[-1].hash
            for event in batch:
                evolve(state, event, self.at)
            change.outline += map(encode_block, self.outline.extend(batch, self.at))
        state.drain()
        change.summary = summary_of(state, self.started, self.at, False)
        if state.seq - loaded.snapshot_seq >= SNAPSHOT_EVENTS and not state.over:
            change.snapshot = codec.packed(codec.freeze(state))
            change.stale_snapshots = loaded.add_snapshot(state.seq)
        assert self.store.commit([change]) == [True]


def fill(store: Store, events: int, execution: str | None = None, failed: frozenset[int] = frozenset()) -> int:
    """Write a run of about so many events; how many it has."""
    run = LongRun(store, execution or uuid7(time.time(), os.urandom(8)))
    items = max(1, (events - AROUND) // 4)
    collection, content = refer(list(range(items)))
    events, blobs = log(run.loaded.state.digest, items, collection, failed), [(collection.key, content)]
    while batch := list(islice(events, EVENTS_A_COMMIT)):
        run.write(batch, blobs)
        blobs = []
    return run.loaded.state.seq


def write(path: Path, events: int) -> int:
    """Make a database with such a run."""
    with closing(SqliteStore(path, synchronous="normal")) as store:
        return fill(store, events)


if __name__ == "__main__":
    with closing(open_store(sys.argv[1])) as store:
        print(f"{fill(store, int(sys.argv[2])):,} events")
