"""Pages of the items of a loop. Only the blocks that have events of these items are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from noetl.engine import events as e
from noetl.engine.history.item_clock import END_EVENTS, InFlight
from noetl.engine.history.loop_items import ItemHistories, ItemHistory
from noetl.engine.history.outline import BLOCK_EVENTS, run_names
from noetl.engine.history.run_index import ItemStatus, RunIndex, ends, numbers_after
from noetl.errors import NotFound
from noetl.runtime.event_subjects import subject_of_row
from noetl.runtime.outlines import block_at
from noetl.runtime.past import PastReader
from noetl.store.codec import decode
from noetl.store.store import Row

MAX_BLOCKS = 16  # that a page reads
END_TYPES = frozenset(event.name for event in END_EVENTS)


class LoopItem(msgspec.Struct, frozen=True):
    index: int
    status: ItemStatus
    history: ItemHistory


class Items(NamedTuple):
    items: list[LoopItem]
    next: int | None  # the `after` of the next page
    collection: Any  # the list, or a reference to it


def check_run(index: RunIndex, execution: str) -> None:
    """NotFound if there is no such step run."""
    if not index.scheduled:
        subject = f"step run {index.run!r}" if index.seq else f"execution {execution!r}"
        raise NotFound(f"{subject} not found")


def check_loop(index: RunIndex, execution: str) -> None:
    """NotFound if there is no such step run, or it has no loop."""
    check_run(index, execution)
    if index.loop_block < 0:
        raise NotFound(f"step run {index.run!r} has no loop")


def items_after(
    past: PastReader, execution: str, index: RunIndex, status: ItemStatus | None, after: int, limit: int
) -> Items:
    """The items after an index. A page whose events are in many blocks has fewer items than the limit."""
    indexes = list(islice(numbers_after(index.items(status), after), limit + 1))
    has_more = len(indexes) > limit
    blocks = index.blocks_of(indexes[:limit])
    items, numbers = _within_block_limit(blocks, indexes[:limit])
    has_more = has_more or len(items) < len(indexes[:limit])
    skipped = {number for item in items for number in blocks.get(item, ())} - numbers
    histories = ItemHistories(index.run, items)
    for number in sorted(numbers):
        past.check_stopped()
        if number - 1 in skipped:
            histories.resume(number - 1, items_in_flight(past, execution, index.run, number - 1))
        for row in index_rows(past, execution, index, number):
            run, item = subject_of_row(row)
            if (run == index.run and item in histories.by_item) or (run in (None, index.run) and row.type in END_TYPES):
                histories.take(decode(row.type, row.data), row.seq, row.at)
    page = [LoopItem(item, index.status(item), histories.by_item[item]) for item in items]
    return Items(page, items[-1] if has_more and items else None, _collection(past, execution, index))


def items_in_flight(past: PastReader, execution: str, run: str, number: int) -> dict[int, InFlight]:
    """The items of a run that are in flight at the end of a block."""
    block = block_at(past.store, execution, number)
    if block is None:
        return {}
    names = run_names(block)
    parts = (part for part in block.loops if names[part.run] == run)
    return {index: InFlight(started, work) for part in parts for index, started, work in part.open}


def index_rows(past: PastReader, execution: str, index: RunIndex, number: int) -> Sequence[Row]:
    """The rows of a block, up to the event of the index."""
    return past.store.read(execution, number * BLOCK_EVENTS, min(BLOCK_EVENTS, index.seq - number * BLOCK_EVENTS))


def _within_block_limit(blocks: Mapping[int, list[int]], indexes: list[int]) -> tuple[list[int], set[int]]:
    """As many of the items as the blocks of a page cover, and these blocks."""
    numbers: set[int] = set()
    for place, item in enumerate(indexes):
        more = numbers.union(ends(blocks.get(item, [])))
        if place and len(more) > MAX_BLOCKS:
            return indexes[:place], numbers
        numbers = more
    return indexes, numbers


def _collection(past: PastReader, execution: str, index: RunIndex) -> Any:
    if index.loop_block < 0:
        return None  # the loop has not started yet
    rows = past.store.read_backwards(
        execution, (index.loop_block + 1) * BLOCK_EVENTS + 1, [e.LoopStarted.name], BLOCK_EVENTS,
        index.loop_block * BLOCK_EVENTS,
    )  # fmt: skip
    for row in rows:
        event = decode(row.type, row.data)
        if isinstance(event, e.LoopStarted) and event.run == index.run:
            return event.items
    return None
