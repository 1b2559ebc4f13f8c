"""Where the events of one step run are: the blocks that have some and, for a loop, the items of each block."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Literal, NamedTuple

from msgspec.structs import replace

from noetl.engine.history.outline import BLOCK_EVENTS, Block
from noetl.engine.history.outline_fold import LoopDetails, covered
from noetl.engine.history.outline_loop import LoopPart
from noetl.model.identity import number_of, step_of

ItemStatus = Literal["ok", "failed", "running", "waiting", "pending"]
Span = tuple[int, int]  # the first and the last seq

MAX_BLOCKS_PER_ITEM = 4
"""Blocks in which the events of an item are read: those of its start and its end. In between it is only in flight."""


class Ranges:
    """A set of integers as a flat list of starts and ends. Added ranges are sorted in later, many at once."""

    def __init__(self) -> None:
        self._flat: list[int] = []
        self._added: list[int] = []

    def add(self, flat: Sequence[int]) -> None:
        self._added += flat
        if len(self._added) > len(self._flat) + 1_000:
            self._merge()

    @property
    def flat(self) -> list[int]:
        self.settle()
        return self._flat

    def settle(self) -> None:
        if self._added:
            self._merge()

    def _merge(self) -> None:
        self._flat, self._added = merged((*self._flat, *self._added)), []

    def copy(self) -> Ranges:
        other = Ranges()
        other._flat = self.flat[:]
        return other


def merged(flat: Sequence[int]) -> list[int]:
    """The fewest ranges with the same numbers, in order. A gap is where as many ranges have ended as have started."""
    starts, ends = sorted(flat[::2]), sorted(flat[1::2])
    result = starts[:1]
    for end, start in zip(ends, starts[1:], strict=False):
        if start > end:
            result += (end, start)
    return result + ends[-1:]


def without(flat: Sequence[int], other: Sequence[int]) -> list[int]:
    """The ranges of one set that are not in the other; both in order."""
    rest: list[int] = []
    place = 0
    for start, end in zip(flat[::2], flat[1::2], strict=True):
        while place < len(other) and other[place + 1] <= start:
            place += 2
        at = place
        while at < len(other) and other[at] < end:
            if start < other[at]:
                rest += (start, other[at])
            start = max(start, other[at + 1])
            at += 2
        if start < end:
            rest += (start, end)
    return rest


def has(flat: Sequence[int], number: int) -> bool:
    return bisect_right(flat, number) % 2 == 1


def numbers_after(flat: Sequence[int], after: int) -> Iterator[int]:
    """The numbers of the ranges above one."""
    place = bisect_right(flat, after + 1)
    start = place - place % 2
    for at in range(start, len(flat), 2):
        yield from range(max(flat[at], after + 1), flat[at + 1])


class IndexedPart(NamedTuple):
    """The items with events in a block."""

    number: int
    first: int
    last: int
    flat: array[int]  # ranges of the items that succeeded, then that failed, then that have other events
    failed_start: int
    touched_start: int

    @classmethod
    def of(cls, number: int, part: LoopPart) -> IndexedPart:
        flat = array("Q", part.done + part.failed + part.touched if part.failed or part.touched else part.done)
        failed_start = len(part.done)
        first, last = (min(flat), max(flat)) if flat else (0, 0)
        return cls(number, first, last - 1, flat, failed_start, failed_start + len(part.failed))

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return 8 * len(self.flat) + 192

    def __contains__(self, item: object) -> bool:
        starts, flat = (0, self.failed_start, self.touched_start, len(self.flat)), self.flat
        return isinstance(item, int) and any(
            (bisect_right(flat, item, start, end) - start) % 2 for start, end in pairwise(starts)
        )


class RunIndex:
    """Add the blocks of a log in order. `copy` it before adding an incomplete one."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.step, self.run_number = step_of(run), number_of(run)
        self.blocks = array("Q")  # numbers of the blocks with events of the run
        self.seq = 0
        self.scheduled = 0  # seq
        self.tokens: tuple[int, ...] = ()
        self.loop_block = -1  # the block in which its loop starts
        self.loop = LoopDetails(run)
        self.parts: list[IndexedPart] = []
        self.open: dict[int, int] = {}  # items in flight, and their start in milliseconds
        self.parked: set[int] = set()
        self._done, self._failed = Ranges(), Ranges()

    def copy(self) -> RunIndex:
        other = copy(self)
        other.blocks, other.parts = self.blocks[:], self.parts[:]
        other.loop, other._done, other._failed = copied_details(self.loop), self._done.copy(), self._failed.copy()
        return other

    def settle(self) -> None:
        """Sort the added ranges, so that threads may read the index at once."""
        self._done.settle()
        self._failed.settle()

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return 8 * len(self.blocks) + sum(part.size for part in self.parts)

    def add(self, block: Block) -> None:
        self.seq = block.first + block.events - 1
        self.open, self.parked = {}, set()
        place = self._place(block)
        if place is None:
            return
        self.blocks.append(block.number)
        for run, offset, tokens in block.scheduled:
            if run == place:
                self.scheduled, self.tokens = block.first + offset, tokens
        if any(name == self.run for _, name in block.reopened):
            failed = self._failed.flat
            self.loop.slowest = [slow for slow in self.loop.slowest if not has(failed, slow[1])]
            self.loop.reopen()
            self._failed = Ranges()
        for part in block.loops:
            if part.run == place:
                self._add_part(block, part)

    def _place(self, block: Block) -> int | None:
        """The number of the run in a block; None if it has no events there."""
        if self.step not in block.steps:
            return None
        step, runs = block.steps.index(self.step), block.runs
        for at in range(0, len(runs), 2):
            if runs[at] == step and runs[at + 1] == self.run_number:
                return at // 2
        return None

    def _add_part(self, block: Block, part: LoopPart) -> None:
        if part.total >= 0:
            self.loop_block = block.number
        self.loop.add_details(part)
        self.loop.add_waits(part)
        self._done.add(part.done)
        self._failed.add(part.failed)
        self.parts.append(IndexedPart.of(block.number, part))
        self.open = {index: start for index, start, _ in part.open}
        self.parked = {index for index, _ in part.parked}

    # -- items --------------------------------------------------------------------------------------------------------

    def items(self, status: ItemStatus | None = None) -> list[int]:
        """The items with a status, or all, as ranges."""
        everything = [0, self.loop.total] if self.loop.total else []
        succeeded = self._done.flat
        match status:
            case None:
                return everything
            case "ok":
                return succeeded
            case "failed":
                return without(self._failed.flat, succeeded)
            case "waiting":
                return single(self.parked)
            case "running":
                return single(index for index in self.open if index not in self.parked)
        return without(everything, merged((*succeeded, *self._failed.flat, *single((*self.open, *self.parked)))))

    def status(self, item: int) -> ItemStatus:
        if item in self.parked:
            return "waiting"
        if item in self.open:
            return "running"
        if has(self._done.flat, item):
            return "ok"
        return "failed" if has(self._failed.flat, item) else "pending"

    def counts(self) -> dict[ItemStatus, int]:
        statuses: tuple[ItemStatus, ...] = ("ok", "failed", "running", "waiting", "pending")
        return {status: covered(self.items(status)) for status in statuses}

    def blocks_of(self, items: Sequence[int]) -> dict[int, list[int]]:
        """The blocks in which the events of these items, which are in order, are."""
        blocks: dict[int, list[int]] = {}
        for part in self.parts:
            for at in range(bisect_left(items, part.first), bisect_right(items, part.last)):
                if items[at] in part:
                    blocks.setdefault(items[at], []).append(part.number)
        return blocks

    def spans(self, item: int | None = None) -> list[Span]:
        """Where events of the run, or of one of its items, are."""
        numbers = self.blocks if item is None else self.blocks_of([item]).get(item, [])
        return [(number * BLOCK_EVENTS + 1, (number + 1) * BLOCK_EVENTS) for number in numbers]


def copied_details(loop: LoopDetails) -> LoopDetails:
    errors = {key: copy(error) for key, error in loop.errors.items()}
    return replace(loop, bins=loop.bins[:], errors=errors, wait=copy(loop.wait))


def single(numbers: Iterable[int]) -> list[int]:
    """Numbers as ranges."""
    return merged([bound for number in numbers for bound in (number, number + 1)])


def ends(blocks: Sequence[int], limit: int = MAX_BLOCKS_PER_ITEM) -> list[int]:
    """The first and the last blocks, at most `limit`."""
    half = limit // 2
    return [*blocks[:half], *blocks[max(half, len(blocks) - half) :]]
