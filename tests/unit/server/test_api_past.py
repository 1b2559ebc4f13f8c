"""The past of random runs over HTTP, on both databases, against a plain reading of their logs.

The runs are those of `test_loops`: loops side by side whose items wait, retry, fail, call children and lose their
workers. Snapshots are stored every few events, so that states are folded from many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from api_server import ApiServer
from shared_store import address_of, server_at
from tests.property.simulation import EXECUTION, Simulation
from tests.property.test_loops import CHILD, Story
from tests.servers.postgres import postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.engine.evolve import evolve
from noetl.engine.history.item_clock import END_EVENTS
from noetl.engine.state import Execution
from noetl.reference import encode_reference
from noetl.runtime import committer
from noetl.server.execution_views import state_view
from noetl.store.codec import decode
from noetl.store.store import Change, Row, Store
from noetl.timestamps import rfc3339

SEEDS = {"sqlite": (5, 11, 17, 21, 23, 27), "postgres": (27,)}
SNAPSHOT_EVENTS = 40
MAX_EVENTS = 700
API = f"/api/v1/executions/{EXECUTION}"


class Log(NamedTuple):
    server: ApiServer
    client: httpx2.Client
    rows: list[Row]
    events: list[e.Event]

    def up_to(self, seq: int) -> Log:
        return self._replace(rows=self.rows[:seq], events=self.events[:seq])

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(f"{API}/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(params=[f"{kind}-{seed}" for kind, seeds in SEEDS.items() for seed in seeds])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    kind, _, seed = request.param.partition("-")
    simulation = simulated(int(seed))
    address = address_of(request, kind, tmp_path)
    with closing(server_at(address)) as server, server.client("viewer") as client:
        copy(simulation, server.store)
        yield Log(
            server, client, rows := simulation.store.read(EXECUTION), [decode(row.type, row.data) for row in rows]
        )


@lru_cache
def simulated(seed: int) -> Simulation:
    story = Story(seed)
    tools = {"work": story.work, "part": story.part}
    simulation = Simulation(story.text, {"child": CHILD}, tools, story.random, story.faults)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "SNAPSHOT_EVENTS", SNAPSHOT_EVENTS)
        simulation.run()
    for playbook, text in zip(simulation.playbooks.values(), (CHILD, story.text), strict=True):
        simulation.store.put_playbook(playbook.digest, "simulated.yaml", text.encode())
    return simulation


def copy(simulation: Simulation, store: Store) -> None:
    """The playbooks, the log and its snapshots."""
    source = simulation.store
    for playbook in simulation.playbooks.values():
        store.put_playbook(playbook.digest, *source.playbook(playbook.digest))
    (summary,) = source.summaries(prefix=EXECUTION, limit=1)
    rows, before = source.read(EXECUTION), 0
    assert len(rows) <= MAX_EVENTS
    for seq in [*range(SNAPSHOT_EVENTS, len(rows), SNAPSHOT_EVENTS), len(rows)]:
        snapshot = source.snapshot(EXECUTION, seq)
        end = snapshot.seq if snapshot is not None and seq < len(rows) else seq
        if end > before:
            data = snapshot.data if snapshot is not None and snapshot.seq == end else None
            store.commit([Change(EXECUTION, before, rows[before:end], summary=summary, snapshot=data)])
            before = end


def test_the_state_at_every_event_is_the_fold_up_to_there(log: Log) -> None:
    requested = log.events[0]
    assert isinstance(requested, e.ExecutionRequested)
    playbook = log.server.do(log.server.host.runtime.playbooks.load(requested.playbook))
    state = Execution(EXECUTION, playbook, requested.playbook)
    for row, event in zip(log.rows, log.events, strict=True):
        evolve(state, event, row.at)
        view = msgspec.json.encode(state_view(state, row.at, playbook.file), enc_hook=encode_reference)
        assert log.get("state", at=row.seq) == msgspec.json.decode(view), row.seq


# -- step runs ------------------------------------------------------------------------------------------------------


def test_the_details_of_every_step_run_and_item_are_in_the_log(log: Log) -> None:
    totals = {event.run: event.total for event in log.events if isinstance(event, e.LoopStarted)}
    runs = [event.run for event in log.events if isinstance(event, e.StepScheduled)]
    assert [row["run"] for row in log.get("step-runs", limit=1_000)["items"]] == runs
    for run in runs:
        compare(log, run, None, run in totals)
        for item in range(totals.get(run, 0)):
            compare(log, run, item, False)


def test_step_runs_and_items_are_shown_as_of_any_event(log: Log) -> None:
    for seq in range(7, len(log.rows) - 1, 61):
        past = log.up_to(seq)
        totals = {event.run: event.total for event in past.events if isinstance(event, e.LoopStarted)}
        for run, total in totals.items():
            statuses = item_statuses(past, run, total)
            items = log.get("items", run=run, at=seq, limit=1_000)["items"]
            assert [item["status"] for item in items] == statuses, (run, seq)
            summary = log.get("items/summary", run=run, at=seq)
            assert [summary[name] for name in ("ok", "failed")] == [statuses.count(name) for name in ("ok", "failed")]
        for run in [event.run for event in past.events if isinstance(event, e.StepScheduled)]:
            compare(past, run, None, run in totals, seq)
            statuses = item_statuses(past, run, totals.get(run, 0))
            for item in [item for item, status in enumerate(statuses[:2]) if status != "pending"]:
                compare(past, run, item, False, seq)


def test_events_and_step_runs_of_the_future_are_not_found(log: Log) -> None:
    first = next(event.run for event in log.events if isinstance(event, e.StepScheduled))
    for query in ({"run": first, "at": 1}, {"run": first, "at": len(log.rows) + 1}):
        assert log.client.get(f"{API}/step-run", params=query).status_code == 404, query


def item_statuses(log: Log, run: str, total: int) -> list[str]:
    statuses = ["pending"] * total
    words = {
        e.IterationStarted: "running",
        e.StepResumed: "running",
        e.IterationDone: "ok",
        e.IterationFailed: "failed",
    }
    for event in log.events:
        name, index, task = subject_of(event)
        if name != run or index is None or task is not None:
            continue
        if isinstance(event, e.StepPaused):
            statuses[index] = "waiting" if event.until is not None else statuses[index]
        else:
            statuses[index] = words.get(type(event), statuses[index])
    return statuses


def compare(log: Log, run: str, item: int | None, is_loop: bool, at: int | None = None) -> None:
    query = {"item": item, "at": at}
    view = log.get("step-run", run=run, **{name: value for name, value in query.items() if value is not None})
    plain = Reading(log, run, item)
    assert not view["truncated"]
    for name, value in plain.details(is_loop).items():
        assert view[name] == value, (run, item, name)
    visits = {
        visit["task"]: [tuple(attempt[name] for name in ATTEMPT) for attempt in visit["attempts"]]
        for visit in view["tasks"]
    }
    assert visits == plain.visits, (run, item)
    writes = [(write["seq"], write["scope"], write["key"], write["op"], write["value"]) for write in view["writes"]]
    assert writes == plain.writes, (run, item)
    waits = [(wait["for"], wait["name"], wait["since"]) for wait in view["waits"]]
    assert waits == plain.waits, (run, item)
    leases = [(lease["fence"], lease["worker"], lease["from"]) for lease in view["leases"]]
    assert leases == plain.leases, (run, item)
    assert at is not None or all(lease["to"] for lease in view["leases"])


ATTEMPT = ("attempt", "seq", "status", "do", "to", "duration_ms", "due")


class Reading:
    """A step run or an item, as the events of the log say it."""

    def __init__(self, log: Log, run: str, item: int | None) -> None:
        self.run, self.item = run, item
        subjects = [(row, event, *subject_of(event)) for row, event in zip(log.rows, log.events, strict=True)]
        self.events = [(row, event) for row, event, name, index, _ in subjects if name == run and index == item]
        self.item_events = [
            (row, event)
            for row, event, name, index, _ in subjects
            if name in (run, None) and (index == item or isinstance(event, END_EVENTS))
        ]
        of_run = [(row, event) for row, event, name, _, _ in subjects if name == run]
        self.leases = [
            (event.fence, event.worker, rfc3339(row.at))
            for row, event in of_run
            if isinstance(event, e.StepStarted)
            and (item is None or event.items is None or event.items[0] <= item < event.items[1])
        ]

    def last(self, *types: type[e.Event]) -> tuple[Row, e.Event] | None:
        return next(((row, event) for row, event in reversed(self.events) if isinstance(event, types)), None)

    def details(self, is_loop: bool) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if (scheduled := self.last(e.StepScheduled)) is not None:
            details["scheduled"] = rfc3339(scheduled[0].at)
        if (begin := self.item_start) is not None:  # stored with the report of its first task
            calls = [
                event.began(row.at)
                for row, event in self.events
                if isinstance(event, e.TaskStarted) and row.seq > begin.seq
            ]
            details["started"] = rfc3339(min([begin.at, *calls]))
        if (end := self.last(e.IterationDone, e.StepDone, e.LoopDone)) is not None:
            result = getattr(end[1], "result")  # noqa: B009
            details |= {"status": "succeeded", "ended": rfc3339(end[0].at), "error": None}
            details |= {} if is_loop else {"result": result}
        elif (end := self.last(e.IterationFailed, e.StepFailed)) is not None:
            details |= {"status": "failed", "ended": rfc3339(end[0].at), "result": None}
        paused = [event for _, event in self.events if isinstance(event, e.StepPaused)]
        details["children"] = [event.key for event in paused if event.until == "child"]
        return details

    @property
    def item_start(self) -> Row | None:
        """The start of the item: the first one since it last ended, by itself or with its loop."""
        start, is_open = None, False
        for row, event in self.item_events if self.item is not None else ():
            if isinstance(event, e.IterationStarted) and not is_open:
                start, is_open = row, True
            elif isinstance(event, (e.IterationDone, e.IterationFailed, *END_EVENTS)):
                is_open = False
        return start

    @property
    def visits(self) -> dict[str, list[tuple[Any, ...]]]:
        """Calls by task. A call that began anew had lost its worker; what follows an outcome is a new one."""
        visits: dict[str, list[list[Any]]] = {}
        for row, event in self.events:
            if isinstance(event, e.TaskStarted):
                calls = visits.setdefault(str(event.task), [])
                if calls and calls[-1][2] == "running":
                    calls[-1][2] = "lost"
                calls.append([event.attempt, row.seq, "running", None, None, None, None])
            elif isinstance(event, e.TaskDone):
                calls = visits.setdefault(str(event.task), [])
                if not calls or calls[-1][2] != "running":
                    calls.append([event.attempt, 0, "", None, None, None, None])
                status = "skipped" if event.skipped else event.outcome.status
                calls[-1] = [event.attempt, row.seq, status, event.do, event.to, event.duration_ms, None]
            elif isinstance(event, e.TaskRetryScheduled):
                visits[str(event.task)][-1][6] = rfc3339(event.due)
        return {task: [tuple(call) for call in calls] for task, calls in visits.items()}

    @property
    def writes(self) -> list[tuple[Any, ...]]:
        return [
            (row.seq, scope, *change)
            for row, event in self.events
            if isinstance(event, e.TaskDone)
            for scope, patch in (("ctx", event.set_ctx), ("iter", event.set_iter))
            for change in patch
        ]

    @property
    def waits(self) -> list[tuple[str, str, str]]:
        return [
            (event.until, event.key if event.until in ("signal", "child") else "", rfc3339(row.at))
            for row, event in self.events
            if isinstance(event, e.StepPaused) and event.until is not None
        ]
