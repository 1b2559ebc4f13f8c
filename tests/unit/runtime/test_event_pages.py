"""Pages of a log: forwards, backwards, filtered, with a limit on what one request reads."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.conformance.memory import MemoryStore

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.errors import UsageError
from noetl.model.event_filter import ALL_EVENTS, LEVELS, EventFilter, types_of
from noetl.model.event_names import EVENT_NAMES
from noetl.model.identity import TaskId, uuid7
from noetl.model.outcome import Error, Outcome
from noetl.runtime import event_pages
from noetl.runtime.event_pages import PagePlace, all_envelopes, row_page
from noetl.runtime.run_indexes import RunIndexes
from noetl.store.codec import decode, encode
from noetl.store.store import Change, Row

EXECUTION = uuid7(1.0, b"12345678")


def log_events() -> list[e.Event]:
    """Three loops side by side, with a worker each."""
    chance, events = random.Random(3), [e.ExecutionRequested("digest", "tests/pages"), e.RequestEvaluated()]
    left: dict[str, list[int]] = {}
    for number in range(3):
        run = f"load#{number}"
        events += [e.StepScheduled(run, (number,)), e.LoopStarted(run, 400)]
        events.append(e.StepStarted(run, number + 1, f"w{number}@x", (0, 400)))
        left[run] = list(range(400))
    while any(left.values()):
        run = chance.choice([run for run, items in left.items() if items])
        item = left[run].pop(0)
        events.append(e.IterationStarted(run, item))
        events.append(e.TaskDone(TaskId(run, "t#1", item), 1, Outcome(), "continue"))
        failed = item % 100 == 7
        events.append(e.IterationFailed(run, item, Error("x", "Größe")) if failed else e.IterationDone(run, item))
    return events


EVENTS = log_events()


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    store = MemoryStore()
    rows = [Row(seq, event.name, float(seq), encode(event), b"") for seq, event in enumerate(EVENTS, 1)]
    store.commit([Change(EXECUTION, 0, rows)])
    return store


def spans_of(store: Any, filter: EventFilter) -> Any:
    return RunIndexes().of(store, EXECUTION, filter.run).spans(filter.item) if filter.run else None


FILTERS = [
    ALL_EVENTS,
    EventFilter(frozenset(["loop.iteration.failed"])),
    EventFilter(run="load#1"),
    EventFilter(frozenset(["task.done"]), "load#2", 350),
    EventFilter(run="load#0", item=7),
    EventFilter(run="load#9"),
    EventFilter(text="GRÖSSE"),
    EventFilter(text="item failed: x"),
    EventFilter(text="load#1[33]/t#1"),
]


def wanted(filter: EventFilter) -> list[int]:
    """The seqs of the events that match."""
    seqs = []
    for seq, event in enumerate(EVENTS, 1):
        run, index, task = subject_of(event)
        text = {"GRÖSSE": "x", "item failed: x": "x"}.get(filter.text)
        has_text = isinstance(event, e.IterationFailed) if text else str(task) == filter.text
        if (
            (filter.types is None or event.name in filter.types)
            and filter.run in ("", run)
            and filter.item in (None, index)
            and (not filter.text or has_text)
        ):
            seqs.append(seq)
    return seqs


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("scanned", [50, 20_000])
def test_pages_have_every_matching_event_once(
    store: Any, filter: EventFilter, scanned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_pages, "MAX_SCANNED", scanned)
    spans, seqs, place = spans_of(store, filter), [], PagePlace(limit=70)
    while True:
        page = row_page(store, EXECUTION, filter, place, spans)
        seqs += [row.seq for row in page.matching]
        assert len(page.matching) <= 70
        if page.next is None:
            break
        assert page.next == page.scanned_to
        place = PagePlace(after=page.next, limit=70)
    assert seqs == wanted(filter)


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("scanned", [50, 20_000])
def test_pages_backwards_have_the_same_events(
    store: Any, filter: EventFilter, scanned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_pages, "MAX_SCANNED", scanned)
    spans, seqs, place = spans_of(store, filter), [], PagePlace(before=len(EVENTS) + 1, limit=70)
    while True:
        page = row_page(store, EXECUTION, filter, place, spans)
        seqs = [row.seq for row in page.matching] + seqs
        if page.prev is None:
            break
        assert page.prev == page.scanned_to
        place = PagePlace(before=page.prev, limit=70)
    assert seqs == wanted(filter)


def test_a_page_leads_to_its_neighbours(store: Any) -> None:
    page = row_page(store, EXECUTION, ALL_EVENTS, PagePlace(before=101, limit=10))
    assert [row.seq for row in page.matching] == list(range(91, 101))
    assert (page.prev, page.next) == (91, 100)
    assert row_page(store, EXECUTION, ALL_EVENTS, PagePlace(after=100, limit=10)).prev == 101
    assert row_page(store, EXECUTION, ALL_EVENTS, PagePlace(limit=10)).prev is None
    assert row_page(store, EXECUTION, ALL_EVENTS, PagePlace(before=1, limit=10)).matching == []
    last = row_page(store, EXECUTION, ALL_EVENTS, PagePlace(before=2**31, limit=3))
    assert ([row.seq for row in last.matching][-1], last.next) == (len(EVENTS), None)


@pytest.mark.parametrize("before", [0, 1])
def test_the_page_before_the_first_event_leads_to_the_start(store: Any, before: int) -> None:
    page = row_page(store, EXECUTION, ALL_EVENTS, PagePlace(before=before, limit=10))
    assert (page.matching, page.next, page.prev) == ([], 0, None)


def test_the_events_of_an_item_are_read_without_the_rest(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filter = EventFilter(run="load#1", item=399)
    page = row_page(store, EXECUTION, filter, PagePlace(), spans_of(store, filter))
    assert [decode(row.type, row.data).name for row in page.matching] == [
        "loop.iteration.started", "task.done", "loop.iteration.done",
    ]  # fmt: skip
    assert min(row.seq for rows in page.stretches for row in rows) > 2_000


@pytest.mark.parametrize("filter", FILTERS)
def test_filters_do_not_change_the_actors(store: Any, filter: EventFilter) -> None:
    everything = {
        envelope["seq"]: envelope
        for envelope in row_page(store, EXECUTION, ALL_EVENTS, PagePlace(limit=9_999)).envelopes(store, EXECUTION)
    }
    spans = spans_of(store, filter)
    page = row_page(store, EXECUTION, filter, PagePlace(before=3_000, limit=20), spans)
    assert page.envelopes(store, EXECUTION) == [everything[row.seq] for row in page.matching]
    parts = all_envelopes(store, EXECUTION, filter, 1_234, spans)
    assert [one for part in parts for one in part] == [everything[seq] for seq in wanted(filter) if seq > 1_234]


def test_rows_of_a_page_are_texts(store: Any) -> None:
    page = row_page(store, EXECUTION, EventFilter(run="load#1", item=7), PagePlace(), None)
    assert [(type, entity, summary) for _, _, type, entity, _, summary in page.texts()] == [
        ("loop.iteration.started", "load#1[7]", "Item started"),
        ("task.done", "load#1[7]/t#1", "Ok in 0 ms; continue"),
        ("loop.iteration.failed", "load#1[7]", "Item failed: x: Größe"),
    ]


def test_levels_contain_each_other() -> None:
    assert LEVELS["step"] < LEVELS["task"] < LEVELS["event"] == EVENT_NAMES
    assert types_of([]) is None
    assert types_of([], "step") == LEVELS["step"]
    assert types_of(["step.done,task.done"], "step") == {"step.done"}
    with pytest.raises(UsageError, match=r"the level 'step' has no events of type task\.done"):
        types_of(["task.done"], "step")
