"""The loops of an outline: how far a loop got in a block, which items ended, how long they took and why they failed."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.engine.history.items_in_flight import ItemsInFlight

BINS = 24
"""Durations of items: bin 0 is below 1 ms, bin n below 2 to the power of n ms, the last one has all longer ones."""
MAX_ERRORS = 20  # different errors of a loop in a block
MAX_MESSAGE = 200
MAX_SLOWEST = 5
POINT_EVENTS = 50  # minimum distance of two points of the progress of a loop
ITEM_EVENTS = [e.IterationStarted, e.TaskStarted, e.TaskDone, e.IterationDone]  # of an item with one task


class ItemError(msgspec.Struct, array_like=True):
    """Failed items with the same error: how many, and the first and the last of them."""

    kind: str
    message: str
    count: int
    first: int
    last: int


class LoopPart(msgspec.Struct, array_like=True):
    """The part of a loop in a block. Ranges are flat lists of starts and ends."""

    run: int
    total: int = -1  # the number of items, if the loop starts in this block
    points: list[int] = []  # offset, items that succeeded and failed since the start of the block, items in flight
    done: list[int] = []  # ranges of items that succeeded
    failed: list[int] = []  # ranges of items that failed
    touched: list[int] = []  # ranges of other items with events
    bins: list[int] = []  # numbers of bins and of items in them
    unknown: int = 0  # items that ended without a known duration
    errors: list[ItemError] = []
    slowest: list[tuple[int, int]] = []  # milliseconds and item
    open: list[tuple[int, int, int]] = []  # items in flight: index, start and work so far, in milliseconds
    parked: list[tuple[int, int]] = []  # waiting items: index and kind of the wait
    waits: list[int] | None = None
    """When all started items begin to wait, and when one works again: milliseconds since 1970, and the kind of the wait
    or 0. None in a block of an earlier version."""


def ranges(numbers: Iterable[int]) -> list[int]:
    """Numbers as a flat list of starts and ends of intervals."""
    return joined([border for number in numbers for border in (number, number + 1)])


def joined(flat: list[int]) -> list[int]:
    """Ranges in any order as ranges in ascending order, none of which touch."""
    if len(flat) <= 2:
        return flat
    ordered = sorted(zip(flat[::2], flat[1::2], strict=True))
    joined = list(ordered[0])
    for start, end in ordered:
        if start > joined[-1]:
            joined += (start, end)
        elif end > joined[-1]:
            joined[-1] = end
    return joined


def like_items(types: list[type[e.Event]], start: int) -> int:
    """How many events from `start` on are of items with one task that start and succeed one after the other."""
    count = (len(types) - start) // 4
    if types[start : start + 4 * count] == ITEM_EVENTS * count:
        return 4 * count
    others = (place for place, kind in enumerate(types[start:]) if kind is not ITEM_EVENTS[place % 4])
    return next(others) // 4 * 4


class ItemDurations:
    """The durations of the items that end in a block, in milliseconds."""

    def __init__(self) -> None:
        self.bins = [0] * BINS
        self.unknown = 0
        self.slowest: list[tuple[int, int]] = []
        self._threshold = -1  # longer items are among the slowest

    @property
    def shortest_slow(self) -> int:
        """0 until the slowest items are full, then 1: items below 1 ms count in the first bin only."""
        return 0 if self._threshold < 0 else 1

    def add(self, index: int, milliseconds: int) -> None:
        width = milliseconds.bit_length()
        self.bins[width if width < BINS else -1] += 1
        if milliseconds > self._threshold:
            insort(self.slowest, (milliseconds, index))
            del self.slowest[:-MAX_SLOWEST]
            self._threshold = self.slowest[0][0] if len(self.slowest) == MAX_SLOWEST else -1

    def drop_slow(self, items: Collection[int]) -> None:
        """Leave items that run again out of the slowest ones; the bins still count their first tries."""
        self.slowest = [slow for slow in self.slowest if slow[1] not in items]
        if len(self.slowest) < MAX_SLOWEST:
            self._threshold = -1


class LoopWriter:
    """A loop while its block is being written."""

    def __init__(self, in_flight: ItemsInFlight | None = None) -> None:
        self.in_flight = ItemsInFlight() if in_flight is None else in_flight
        self.clear()

    def clear(self) -> None:
        """Begin the next block with the items in flight."""
        self.in_flight.begin_block()
        self.total = -1
        self.points: list[int] = []
        self.next_point = 0  # the offset from which it is due
        self.succeeded = 0  # items
        self.done: list[int] = []  # their ranges, in the order of their ends
        self.failed: list[int] = []
        self.touched: set[int] = set()
        self.durations = ItemDurations()
        self.errors: dict[tuple[str, str], ItemError] = {}

    @property
    def is_idle(self) -> bool:
        return not (self.in_flight or self.done or self.failed or self.touched) and self.total < 0

    def add_items(self, events: Iterator[Any], run: str, first: int, offset: int) -> int:
        """Add items from `first` on that start and succeed one after the other, each with the events `ITEM_EVENTS`.
        Returns the number of events before the first item that is another one, failed or was in flight before. Takes an
        iterator, because a slice would write to the reference count of every event."""
        if self.in_flight.parked:
            return 0
        count = self._add_durations(events, run, first)
        if count:
            self._add_points(count, offset)
            self.succeed(first, first + count)
        return 4 * count

    def _add_durations(self, events: Iterator[Any], run: str, first: int) -> int:
        """Add the durations of the items that follow each other, and return how many they are."""
        durations, item, added = self.durations, first - 1, 0
        least = durations.shortest_slow
        successors = range(first, self.in_flight.next_item(first))
        for item, start, called, returned, ended in zip(successors, events, events, events, events, strict=False):
            task = returned.task
            if (
                (called.task is not task and called.task != task)
                or item != start.index
                or item != task.index
                or item != ended.index
                or run != start.run
                or run != task.run
                or run != ended.run
                or returned.outcome.error is not None
                or "/" in task.path
            ):
                break
            if returned.duration_ms >= least:
                durations.add(item, int(returned.duration_ms))
                added += 1
                least = least or durations.shortest_slow
        else:
            item += 1
        durations.bins[0] += item - first - added
        return item - first

    def _add_points(self, count: int, offset: int) -> None:
        """The points of items that succeed from an offset on, each with four events."""
        before, item = self.succeeded, 0
        while (item := max(item + 1, (self.next_point - offset + 4) // 4)) <= count:
            self.succeeded = before + item
            self.add_point(offset + 4 * item - 1)
        self.succeeded = before

    def succeed(self, first: int, end: int) -> None:
        done = self.done
        if done and done[-1] == first:
            done[-1] = end
        else:
            done += (first, end)
        self.succeeded += end - first

    def end_item(self, index: int, now: int) -> None:
        duration = self.in_flight.end(index, now)
        if duration is None:
            self.durations.unknown += 1
        else:
            self.durations.add(index, duration)

    def reopen(self) -> None:
        """Run the failed items again."""
        self.touched.update(self.failed)
        self.durations.drop_slow(self.failed)
        self.failed, self.errors = [], {}

    def add_error(self, index: int, error: Any) -> None:
        key = error.kind, error.message[:MAX_MESSAGE]
        group = self.errors.get(key)
        if group is None and len(self.errors) >= MAX_ERRORS:
            key = "", ""  # all others
            group = self.errors.get(key)
        if group is None:
            self.errors[key] = ItemError(*key, 1, index, index)
        else:
            group.count, group.first, group.last = group.count + 1, min(group.first, index), max(group.last, index)

    def resume(self, index: int, now: int) -> None:
        self.in_flight.resume(index, now)
        self.touched.add(index)

    def resume_all(self, kind: int, now: int) -> None:
        """End the waits of a kind."""
        self.touched.update(self.in_flight.parked)
        self.in_flight.resume_all(kind, now)

    def stop(self, now: int) -> None:
        """End all items in flight."""
        self.touched.update(self.in_flight.open, self.in_flight.parked)
        self.in_flight.stop(now)

    def part(self, run: int, now: int) -> LoopPart:
        items, done = self.in_flight, joined(self.done)
        items.end_common_wait(now)
        touched = {*self.touched, *items.open, *items.parked}
        touched = {item for item in touched.difference(self.failed) if bisect_right(done, item) % 2 == 0}
        return LoopPart(
            run,
            self.total,
            self.points,
            done,
            ranges(self.failed),
            ranges(touched),
            [number for pair in enumerate(self.durations.bins) if pair[1] for number in pair],
            self.durations.unknown,
            list(self.errors.values()),
            self.durations.slowest,
            [(index, start, int(items.work.get(index, 0))) for index, start in items.open.items()],
            list(items.parked.items()),
            items.waits,
        )

    def add_point(self, offset: int) -> None:
        point = offset, self.succeeded, len(self.failed), self.in_flight.running
        if self.points[-4:-3] == [offset]:
            self.points[-4:] = point
        else:
            self.points += point
        self.next_point = offset + POINT_EVENTS
