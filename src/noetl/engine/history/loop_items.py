"""Items of a loop: the history of each, and a summary of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.engine.history.item_clock import END_EVENTS, InFlight, ItemClock
from noetl.engine.history.outline_fold import LoopDetails
from noetl.engine.history.outline_loop import BINS
from noetl.engine.history.run_index import RunIndex


class ItemHistory(msgspec.Struct):
    """An item since it last started: one that failed may run again."""

    started: float | None = None  # its first call may have begun before the event of its start, which is stored later
    ended: float | None = None
    duration_ms: int | None = None
    attempts: int = 0
    error: Any = None
    seq: int | None = None  # of the event that decided its status
    clock: ItemClock = msgspec.field(default_factory=ItemClock)


class ItemHistories:
    """Takes the events of the items of one run, in order."""

    def __init__(self, run: str, items: Collection[int]) -> None:
        self.run = run
        self.by_item = {item: ItemHistory() for item in items}

    def resume(self, block: int, in_flight: Mapping[int, InFlight]) -> None:
        """Continue after a block whose events are left out, with the items in flight at its end."""
        for item, history in self.by_item.items():
            history.clock.resume(block, in_flight.get(item))

    def take(self, event: e.Event, seq: int, at: float) -> None:
        run, index, _ = subject_of(event)
        if isinstance(event, END_EVENTS) and run in (None, self.run):
            for history in self.by_item.values():
                history.clock.stop()
        if run != self.run or index not in self.by_item:
            return
        history = self.by_item[index]
        match event:
            case e.IterationStarted():
                if not history.clock.is_running:  # else another worker starts it again
                    history = self.by_item[index] = ItemHistory(at, seq=seq, clock=history.clock)
                history.clock.start(seq, at)
            case e.TaskStarted(attempt=attempt):
                history.attempts = max(history.attempts, attempt)
                if history.started is not None:
                    history.started = min(history.started, event.began(at))
            case e.TaskDone(attempt=attempt, duration_ms=duration, task=task):
                history.attempts = max(history.attempts, attempt)
                if "/" not in task.path:  # a task inside of another is part of its time
                    history.clock.add_work(seq, duration)
            case e.StepPaused(until=until) if until is not None:
                history.seq = seq
            case e.StepResumed():
                history.seq = seq
            case e.IterationDone():
                history.ended, history.error, history.seq = at, None, seq
                history.duration_ms = history.clock.end(seq, at)
            case e.IterationFailed(error=error):
                history.ended, history.error, history.seq = at, error, seq
                history.duration_ms = history.clock.end(seq, at)


class ErrorGroup(msgspec.Struct, frozen=True):
    """Failed items with the same error. An empty kind groups all errors beyond the first 20."""

    kind: str
    message: str
    count: int
    first: int
    last: int


class DurationBin(msgspec.Struct, frozen=True):
    """Items that took less than `up_to_ms`, and not less than the bin before; null: all longer ones."""

    up_to_ms: int | None
    count: int


class Durations(msgspec.Struct, frozen=True):
    """Times in milliseconds. `p50` and `p95` are upper bounds by a factor of two, `max` is exact."""

    p50: int | None
    p95: int | None
    max: int | None
    unknown: int  # items that ended without a known duration
    bins: list[DurationBin]


class SlowItem(msgspec.Struct, frozen=True):
    index: int
    duration_ms: int


class ItemsSummary(msgspec.Struct, frozen=True):
    """The items of a loop."""

    total: int
    ok: int
    failed: int
    running: int
    waiting: int
    remaining: int
    errors: list[ErrorGroup]  # the most frequent first
    durations: Durations
    slowest: list[SlowItem]


def items_summary(index: RunIndex) -> ItemsSummary:
    loop, counts = index.loop, index.counts()
    errors = sorted(loop.errors.values(), key=lambda error: (-error.count, error.first))
    return ItemsSummary(
        loop.total,
        counts["ok"],
        counts["failed"],
        counts["running"],
        counts["waiting"],
        counts["pending"],
        [ErrorGroup(error.kind, error.message, error.count, error.first, error.last) for error in errors],
        durations_of(loop),
        [SlowItem(item, took) for took, item in reversed(loop.slowest)],
    )


def durations_of(loop: LoopDetails) -> Durations:
    longest = loop.slowest[-1][0] if loop.slowest else None
    last = max((number for number, count in enumerate(loop.bins) if count), default=-1)
    bins = [DurationBin(upper_ms(number), loop.bins[number]) for number in range(last + 1)]
    return Durations(_quantile(loop, 0.5, longest), _quantile(loop, 0.95, longest), longest, loop.unknown, bins)


def upper_ms(number: int) -> int | None:
    """The bound of a bin; None for the last one."""
    return None if number == BINS - 1 else 2**number


def _quantile(loop: LoopDetails, share: float, longest: int | None) -> int | None:
    total, below = sum(loop.bins), 0
    for number, count in enumerate(loop.bins):
        below += count
        if below and below >= share * total:
            bound = upper_ms(number)
            return longest if bound is None or longest is None else min(bound, longest)
    return None
