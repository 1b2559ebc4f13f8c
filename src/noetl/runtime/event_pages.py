"""Pages of a log, forwards or backwards, filtered while they are read.

A page with filters reads up to `MAX_SCANNED` events and says how far it has come. Blocks without events of the step run
or item of the filter are skipped, and do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from noetl.engine.history.event_summaries import EventRow, event_row
from noetl.engine.history.run_index import Span
from noetl.model.event_filter import ALL_EVENTS, EventFilter
from noetl.runtime.event_envelopes import LEASE_EVENTS, EventEnvelopes
from noetl.runtime.event_subjects import subject_of_row
from noetl.store.codec import decode
from noetl.store.store import Row, Store

MAX_SCANNED = 20_000
ROWS_PER_READ = 1_000


def matches(filter: EventFilter, row: Row) -> bool:
    if filter.types is not None and row.type not in filter.types:
        return False
    if filter.run:
        run, index = subject_of_row(row)
        if run != filter.run or filter.item not in (None, index):
            return False
    return not filter.text or _has_text(row, filter.text.casefold())


def _has_text(row: Row, text: str) -> bool:
    if text in row.type or _as_stored(text) in row.data.decode("utf-8", "replace").casefold():
        return True
    _, _, _, entity, _, summary = event_row(row.seq, row.at, decode(row.type, row.data))
    return text in entity.casefold() or text in summary.casefold()


def _as_stored(text: str) -> str:
    """The text within a JSON string, where quotes, backslashes and control characters are escaped."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class PagePlace(NamedTuple):
    """The events after one, or the last ones before one."""

    after: int = 0
    before: int | None = None
    limit: int = 100


class RowPage(NamedTuple):
    """A page. `next` is the `after` of the next page, `prev` the `before` of the one before it."""

    matching: list[Row]
    stretches: list[list[Row]]  # rows in order, without gaps except those that neither match nor concern a lease
    next: int | None
    prev: int | None
    scanned_to: int | None  # the last event that was read

    def texts(self) -> list[EventRow]:
        return [event_row(row.seq, row.at, decode(row.type, row.data)) for row in self.matching]

    def envelopes(self, store: Store, execution: str) -> list[dict[str, Any]]:
        seqs = {row.seq for row in self.matching}
        return [
            envelope
            for rows in self.stretches
            for envelope in EventEnvelopes(store, execution).selected(rows, lambda row: row.seq in seqs)
        ]


def row_page(
    store: Store, execution: str, filter: EventFilter, place: PagePlace, spans: Sequence[Span] | None = None
) -> RowPage:
    """A page of a log; `spans` are the only ones with events that match, in order."""
    end = store.seq(execution)
    spans = _joined([(1, end)] if spans is None else spans, end)
    matching: list[Row] = []
    stretches: list[list[Row]] = []
    scanned, scanned_to, is_full = 0, None, False
    for span in _clipped(spans, place):
        stretches.append([])
        for row in _rows(store, execution, span, place, place.limit if filter == ALL_EVENTS else ROWS_PER_READ):
            scanned, scanned_to = scanned + 1, row.seq
            if matches(filter, row):
                matching.append(row)
                stretches[-1].append(row)
            elif row.type in LEASE_EVENTS:
                stretches[-1].append(row)
            is_full = len(matching) == place.limit or scanned == MAX_SCANNED
            if is_full:
                break
        if is_full:
            break
    if place.before is not None:
        matching.reverse()
        stretches = [rows[::-1] for rows in reversed(stretches)]
        first, last = scanned_to if is_full and scanned_to is not None else 1, min(max(0, place.before - 1), end)
    else:
        first, last = place.after + 1, scanned_to if is_full and scanned_to is not None else end
    following = last if any(span_last > last for _, span_last in spans) else None
    preceding = first if any(span_first < first for span_first, _ in spans) else None
    return RowPage(matching, [rows for rows in stretches if rows], following, preceding, scanned_to)


def _joined(spans: Sequence[Span], end: int) -> list[Span]:
    """Spans up to the end of the log, as few as possible."""
    joined: list[Span] = []
    for first, last in spans:
        last = min(last, end)
        if joined and joined[-1][1] + 1 >= first:
            joined[-1] = joined[-1][0], last
        elif first <= last:
            joined.append((first, last))
    return joined


def _clipped(spans: Sequence[Span], place: PagePlace) -> Iterator[Span]:
    """The spans of a page in the order in which they are read."""
    low, high = place.after + 1, spans[-1][1] if spans and place.before is None else (place.before or 1) - 1
    clipped = [(max(first, low), min(last, high)) for first, last in spans if first <= high and last >= low]
    return iter(clipped) if place.before is None else reversed(clipped)


def _rows(store: Store, execution: str, span: Span, place: PagePlace, rows_per_read: int) -> Iterator[Row]:
    first, last = span
    while first <= last:
        count = min(rows_per_read, ROWS_PER_READ, last - first + 1)
        if place.before is None:
            yield from store.read(execution, first - 1, count)
            first += count
        else:
            yield from reversed(store.read(execution, last - count, count))
            last -= count


def all_envelopes(
    store: Store, execution: str, filter: EventFilter, after: int, spans: Sequence[Span] | None = None
) -> Iterator[list[dict[str, Any]]]:
    """The envelopes of all events after one that match, in parts; `spans` as above."""
    end = store.seq(execution)
    for first, last in _joined([(1, end)] if spans is None else spans, end):
        envelopes = EventEnvelopes(store, execution)
        for start in range(max(first, after + 1), last + 1, ROWS_PER_READ):
            count = min(ROWS_PER_READ, last - start + 1)
            yield envelopes.selected(store.read(execution, start - 1, count), partial(matches, filter))
