"""The outline of a log: what happened to step runs, tokens, arcs and loops, in blocks of 1,000 events.

A block is a pure function of its events and of the items in flight at the end of the block before, so that a missing
one can be made again. `outline_fold.py` folds the blocks in order, without reading the events. A block has each name
once, everything else is numbers: a chain of steps costs a few bytes per step run.

Positions are offsets: 0 is the first event of the block. The time of an event follows from `ticks`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.engine import events as e
from noetl.model.identity import TaskId, step_of

BLOCK_EVENTS = 1_000
STATUSES = ("scheduled", "running", "waiting", "succeeded", "failed", "skipped", "cancelled")  # of step runs
SCHEDULED, RUNNING, WAITING, SUCCEEDED, FAILED, SKIPPED, CANCELLED = range(len(STATUSES))
EXECUTION_STATUSES = ("pending", "running", "paused", "cancelling", "succeeded", "failed", "cancelled")
WAIT_KINDS = ("", "signal", "child", "retry", "event", "worker")  # the first means the end of a wait
MARKER_KINDS = ("failure", "retry", "signal", "pause", "resume", "lost", "fork", "cancel")

BINS = 24
"""Durations of items: bin 0 is below 1 ms, bin n below 2 to the power of n, the last one has all that are longer."""
MAX_ERRORS = 20  # different errors of a loop that a block has
MAX_MESSAGE = 200
MAX_SLOWEST = 5
MAX_MARKERS = 20  # of one kind in a block
BUFFERED_EVENTS = 100
COMPRESSED_BYTES = 512  # smaller blocks, such as those of a loop, are stored as they are
POINT_EVENTS = 50  # minimum distance of two points of the progress of a loop
# Nine of ten events of a long log are of these types: `OutlineWriter._add` has their handlers written out.
TaskStarted, TaskDone = e.TaskStarted, e.TaskDone
IterationStarted, IterationDone = e.IterationStarted, e.IterationDone


class ItemError(msgspec.Struct, array_like=True):
    """Failed items with the same error: how many, and the first and the last of them."""

    kind: str
    message: str
    count: int
    first: int
    last: int


class LoopPart(msgspec.Struct, array_like=True):
    """The part of a loop that a block has. Ranges are flat lists of starts and ends."""

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


class Block(msgspec.Struct, array_like=True):
    first: int  # seq of its first event
    events: int
    ms: int  # time of the first event, in milliseconds since 1970
    ticks: list[int] = []  # where the time changes: events and milliseconds since the last change
    steps: list[str] = []
    runs: list[int] = []  # step and number of each step run that has events in the block, or sent a token that has
    scheduled: list[tuple[int, int, tuple[int, ...]]] = []  # run, offset, tokens
    started: list[int] = []  # run, offset
    ended: list[int] = []  # run, offset, status
    waits: list[int] = []  # run, offset, kind: `worker` if its lease has ended before it
    routed: list[int] = []  # run, offset
    tokens: list[int] = []  # number, step, run that sent it or -1, offset
    held: list[int] = []  # number, offset, 1 if it was denied
    arcs: list[int] = []  # step, arc, how often it fired, last offset
    loops: list[LoopPart] = []
    markers: list[tuple[int, int, str]] = []  # offset, kind, entity
    errors: list[int] = []  # offsets
    retries: list[int] = []  # offsets
    retried: list[int] = []  # run, number of retries
    stops: list[int] = []  # offsets of events that end all open runs
    statuses: list[int] = []  # offset, status of the execution
    digests: list[tuple[int, str]] = []  # offset, playbook
    reopened: list[tuple[int, str]] = []  # offset, loop whose failed items run again
    forks: list[int] = []  # offsets of events that end all leases, and the waits for children

    @property
    def number(self) -> int:
        return (self.first - 1) // BLOCK_EVENTS


_ZLIB = b"\x78"  # the first byte of compressed data; that of a struct is another one
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Block).decode


def encode_block(block: Block) -> tuple[int, bytes]:
    """The block as a store keeps it: its number and its data."""
    data = _encode(block)
    return block.number, zlib.compress(data, 1) if len(data) >= COMPRESSED_BYTES else data + _checksum(data)


def decode_block(data: bytes) -> Block:
    """ValueError if it is damaged."""
    try:
        if data[:1] == _ZLIB:
            return _decode(zlib.decompress(data))
        if data[-4:] != _checksum(data[:-4]):
            raise ValueError("the checksum of the block is wrong")
        return _decode(data[:-4])
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def ranges(numbers: Iterable[int]) -> list[int]:
    """Numbers as a flat list of starts and ends of intervals."""
    flat: list[int] = []
    for number in sorted(numbers):
        if flat and number == flat[-1]:
            flat[-1] += 1
        elif not flat or number > flat[-1]:
            flat += (number, number + 1)
    return flat


class _Loop:
    """A loop while its block is being written."""

    def __init__(self) -> None:
        self.total = -1
        self.open: dict[int, int] = {}  # start of the items in flight, in milliseconds
        self.work: dict[int, float] = {}  # milliseconds that their tasks took
        self.parked: dict[int, int] = {}
        self.clear()

    def clear(self) -> None:
        """Begin the next block: of the items in flight as much stays as the block before it has stored."""
        self.work = {index: float(int(work)) for index, work in self.work.items() if index in self.open}
        self.total = -1
        self.points: list[int] = []
        self.next_point = 0  # the offset from which it is due
        self.done: list[int] = []
        self.failed: list[int] = []
        self.touched: set[int] = set()
        self.bins = [0] * BINS
        self.unknown = 0
        self.errors: dict[tuple[str, str], ItemError] = {}
        self.slowest: list[tuple[int, int]] = []
        self.threshold = -1

    @property
    def is_idle(self) -> bool:
        return not (self.open or self.parked or self.done or self.failed or self.touched) and self.total < 0

    def end_open_item(self, index: int, now: int) -> None:
        start, work = self.open.pop(index, None), self.work.pop(index, None)
        if self.parked:
            self.parked.pop(index, None)
        if start is None and work is None:
            self.unknown += 1
        else:
            self.end_item(index, max(0 if start is None else now - start, int(work or 0), 0))

    def end_item(self, index: int, took: int) -> None:
        width = took.bit_length()
        self.bins[width if width < BINS else -1] += 1
        if took > self.threshold:
            insort(self.slowest, (took, index))
            del self.slowest[:-MAX_SLOWEST]
            self.threshold = self.slowest[0][0] if len(self.slowest) == MAX_SLOWEST else -1

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

    def part(self, run: int) -> LoopPart:
        ended = {*self.done, *self.failed}
        touched = {*self.touched, *self.open, *self.parked} - ended
        return LoopPart(
            run,
            self.total,
            self.points,
            ranges(self.done),
            ranges(self.failed),
            ranges(touched),
            [number for pair in enumerate(self.bins) if pair[1] for number in pair],
            self.unknown,
            list(self.errors.values()),
            self.slowest,
            [(index, start, int(self.work.get(index, 0))) for index, start in self.open.items()],
            list(self.parked.items()),
        )


class OutlineWriter:
    """Makes the blocks of a log, event by event. `before` is the block before the first event, if there is one."""

    def __init__(self, before: Block | None = None, first: int = 1) -> None:
        self._loops: dict[str, _Loop] = {}
        self._begin(before.first + before.events if before is not None else first)
        names = run_names(before) if before is not None else []
        for part in before.loops if before is not None else ():
            if part.open or part.parked:
                loop = self._loops[names[part.run]] = _Loop()
                loop.open = {index: start for index, start, _ in part.open}
                loop.work = {index: float(work) for index, _, work in part.open}
                loop.parked = dict(part.parked)

    def _begin(self, first: int) -> None:
        self.block = Block(first, 0, 0)
        self._now = -1  # milliseconds of the last event
        self._tick = 0  # offset of the last tick
        self._steps: dict[str, int] = {}
        self._runs: dict[str, int] = {}
        self._arcs: dict[tuple[int, int], list[int]] = {}
        self._retried: dict[int, int] = {}
        self._marked = [0] * len(MARKER_KINDS)
        self._granted_loops: set[int] = set()

    @property
    def next_seq(self) -> int:
        return self.block.first + self.block.events

    def extend(self, events: Sequence[Any], at: float) -> list[Block]:
        """Add events that were stored at one time; the blocks that they complete."""
        complete: list[Block] = []
        now, start = int(at * 1000), 0
        while start < len(events):
            room = BLOCK_EVENTS - self.block.events
            self._add(events[start : start + room], now)
            start += room
            if self.block.events == BLOCK_EVENTS:
                complete.append(self.finish())
        return complete

    def _add(self, events: Sequence[Any], now: int) -> None:
        block, loops, runs, first = self.block, self._loops, self._runs, self.block.events
        if now != self._now:
            self._set_time(now, first)
        # The loop of the last item that started: most items end before anything else happens, and are added at once.
        current: _Loop | None = None
        item, item_run, work = -1, "", 0.0
        for offset, event in enumerate(events, first):
            kind = type(event)
            if current is not None:
                if kind is TaskStarted:
                    task: TaskId = event.task
                    if task.index == item and task.run == item_run:
                        continue
                elif kind is TaskDone:
                    task = event.task
                    if task.index == item and task.run == item_run and event.outcome.error is None:
                        if "/" not in task.path:
                            work += event.duration_ms
                        continue
                elif kind is IterationDone and event.index == item and event.run == item_run:
                    current.end_item(item, int(work))
                    current.done.append(item)
                    if offset >= current.next_point:
                        self._add_point(current, offset)
                    current = None
                    continue
                current.open[item], current.work[item] = now, work
                current = None
            if kind is IterationStarted:
                item_run = event.run
                loop = loops.get(item_run) or self._loop(item_run)
                if loop.parked:
                    loop.open.setdefault(event.index, now)
                elif event.index not in loop.open:
                    current, item, work = loop, event.index, loop.work.pop(event.index, 0.0)
            elif kind is TaskStarted:
                task = event.task
                if task.index is None:
                    if task.run not in runs:
                        self._run(task.run)
                else:
                    loop = loops.get(task.run) or self._loop(task.run)
                    if task.index not in loop.open:  # else its item is part of the block anyway
                        loop.touched.add(task.index)
            elif kind is TaskDone:
                task = event.task
                if task.index is None:
                    if task.run not in runs:
                        self._run(task.run)
                elif "/" not in task.path:  # a task inside of another is part of its time
                    ended = (loops.get(task.run) or self._loop(task.run)).work
                    ended[task.index] = ended.get(task.index, 0.0) + event.duration_ms
                if event.outcome.error is not None:
                    block.errors.append(offset)
            elif kind is IterationDone:
                loop = loops.get(event.run) or self._loop(event.run)
                loop.end_open_item(event.index, now)
                loop.done.append(event.index)
                if offset >= loop.next_point:
                    self._add_point(loop, offset)
            elif (handle := HANDLERS.get(kind)) is not None:
                handle(self, event, offset)
        if current is not None:
            current.open[item], current.work[item] = now, work
        block.events = first + len(events)

    def finish(self) -> Block:
        """The incomplete block; the next one begins."""
        block = self.block
        for name, loop in self._loops.items():
            if not loop.is_idle:
                self._add_point(loop, block.events - 1)
                block.loops.append(loop.part(self._run(name)))
            loop.clear()
        self._loops = {name: loop for name, loop in self._loops.items() if loop.open or loop.parked}
        block.steps = list(self._steps)
        block.arcs = [number for key, fired in self._arcs.items() for number in (*key, *fired)]
        block.retried = [number for pair in self._retried.items() for number in pair]
        self._begin(block.first + block.events)
        return block

    def _set_time(self, now: int, offset: int) -> None:
        block = self.block
        if not offset:
            block.ms = now
        else:
            block.ticks += (offset - self._tick, now - self._now)
            self._tick = offset
        self._now = now

    def _step(self, name: str) -> int:
        return self._steps.setdefault(name, len(self._steps))

    def _run(self, name: str) -> int:
        number = self._runs.get(name)
        if number is None:
            step, _, count = name.rpartition("#")
            number = self._runs[name] = len(self._runs)
            self.block.runs += (self._step(step), int(count))
        return number

    def _loop(self, run: str) -> _Loop:
        loop = self._loops.get(run)
        if loop is None:
            loop = self._loops[run] = _Loop()
        return loop

    def _add_point(self, loop: _Loop, offset: int) -> None:
        point = offset, len(loop.done), len(loop.failed), len(loop.open) - len(loop.parked)
        if loop.points[-4:-3] == [offset]:
            loop.points[-4:] = point
        else:
            loop.points += point
        loop.next_point = offset + POINT_EVENTS

    def _mark(self, kind: str, entity: str, offset: int) -> None:
        number = MARKER_KINDS.index(kind)
        if self._marked[number] < MAX_MARKERS:
            self._marked[number] += 1
            self.block.markers.append((offset, number, entity))

    # -- events -------------------------------------------------------------------------------------------------------

    def _requested(self, event: e.ExecutionRequested, offset: int) -> None:
        self.block.digests.append((offset, event.playbook))
        self._set_status("pending", offset)

    def _set_status(self, status: str, offset: int) -> None:
        self.block.statuses += (offset, EXECUTION_STATUSES.index(status))

    def _playbook_started(self, event: e.Event, offset: int) -> None:
        self._set_status("running", offset)

    def _finished(self, event: e.WorkflowFinished, offset: int) -> None:
        self._stop(offset)

    def _processed(self, event: e.PlaybookProcessed, offset: int) -> None:
        self._stop(offset)
        self._set_status(event.outcome, offset)
        if event.outcome == "failed":
            self.block.errors.append(offset)
            self._mark("failure", "", offset)

    def _paused_playbook(self, event: e.Event, offset: int) -> None:
        self._set_status("paused", offset)
        self._mark("pause", "", offset)

    def _resumed_playbook(self, event: e.Event, offset: int) -> None:
        self._set_status("running", offset)
        self._mark("resume", "", offset)

    def _cancelled(self, event: e.Event, offset: int) -> None:
        self._stop(offset)
        self._set_status("cancelling", offset)
        self._mark("cancel", "", offset)

    def _stop(self, offset: int) -> None:
        self.block.stops.append(offset)
        for loop in self._loops.values():
            self._end_loop(loop, offset)

    def _end_loop(self, loop: _Loop, offset: int) -> None:
        loop.touched.update(loop.open, loop.parked)
        loop.open, loop.work, loop.parked = {}, {}, {}
        self._add_point(loop, offset)

    def _forked(self, event: e.ExecutionForked, offset: int) -> None:
        self._set_status("running", offset)
        self._mark("fork", event.source_id, offset)
        self.block.forks.append(offset)
        for loop in self._loops.values():
            loop.touched.update(loop.parked)
            loop.parked = {item: kind for item, kind in loop.parked.items() if WAIT_KINDS[kind] != "child"}
        if event.playbook:
            self.block.digests.append((offset, event.playbook))
        if event.reopened:
            self.block.reopened.append((offset, event.reopened))
            loop = self._loop(event.reopened)
            loop.touched.update(loop.failed)
            loop.failed, loop.errors = [], {}

    def _enqueued(self, event: e.TokenEnqueued, offset: int) -> None:
        origin = -1 if event.origin is None else self._run(event.origin)
        self.block.tokens += (event.token, self._step(event.step), origin, offset)

    def _held(self, event: e.TokenHeld, offset: int) -> None:
        self.block.held += (event.token, offset, 0)

    def _denied(self, event: e.TokenDenied, offset: int) -> None:
        self.block.held += (event.token, offset, 1)
        if event.error is not None:
            self.block.errors.append(offset)

    def _scheduled(self, event: e.StepScheduled, offset: int) -> None:
        self.block.scheduled.append((self._run(event.run), offset, event.tokens))

    def _granted(self, event: e.StepStarted, offset: int) -> None:
        run = self._run(event.run)
        if event.items is None or run not in self._granted_loops:
            self.block.started += (run, offset)
        if event.items is not None:
            self._granted_loops.add(run)

    def _paused(self, event: e.StepPaused, offset: int) -> None:
        if event.reason == "lost":
            self._mark("lost", event.run, offset)
        kind = WAIT_KINDS.index(event.until or "worker")
        if event.index is None:
            self.block.waits += (self._run(event.run), offset, kind)
        else:
            self._loop(event.run).parked[event.index] = kind

    def _resumed(self, event: e.StepResumed, offset: int) -> None:
        if event.index is None:
            self.block.waits += (self._run(event.run), offset, 0)
        else:
            loop = self._loop(event.run)
            loop.parked.pop(event.index, None)
            loop.touched.add(event.index)

    def _done(self, event: e.StepDone, offset: int) -> None:
        self._end(event.run, offset, SUCCEEDED)

    def _failed(self, event: e.StepFailed, offset: int) -> None:
        self._end(event.run, offset, FAILED)
        self.block.errors.append(offset)
        self._mark("failure", event.run, offset)

    def _case_started(self, event: CaseStarted, offset: int) -> None:
        self._run(event.run)
        if event.error is not None:
            self.block.errors.append(offset)

    def _end(self, run: str, offset: int, status: int) -> None:
        self.block.ended += (self._run(run), offset, status)
        loop = self._loops.get(run)
        if loop is not None:
            self._end_loop(loop, offset)

    def _routed(self, event: e.NextEvaluated, offset: int) -> None:
        run = self._run(event.run)
        self.block.routed += (run, offset)
        for arc in event.selected:
            fired = self._arcs.setdefault((self._step(step_of(event.run)), arc), [0, 0])
            fired[0] += 1
            fired[1] = offset

    def _loop_started(self, event: e.LoopStarted, offset: int) -> None:
        loop = self._loop(event.run)
        loop.total = event.total
        self._add_point(loop, offset)

    def _item_failed(self, event: e.IterationFailed, offset: int) -> None:
        loop = self._loop(event.run)
        loop.end_open_item(event.index, self._now)
        loop.failed.append(event.index)
        loop.add_error(event.index, event.error)
        self.block.errors.append(offset)
        self._mark("failure", f"{event.run}[{event.index}]", offset)
        self._add_point(loop, offset)

    def _loop_done(self, event: e.LoopDone, offset: int) -> None:
        self._end(event.run, offset, SUCCEEDED)

    def _retry(self, event: e.TaskRetryScheduled, offset: int) -> None:
        run = self._run(event.task.run)
        self._retried[run] = self._retried.get(run, 0) + 1
        self.block.retries.append(offset)
        self._mark("retry", str(event.task), offset)
        if event.task.index is not None:
            self._loop(event.task.run).touched.add(event.task.index)

    def _task_event(self, event: e.TaskEvent, offset: int) -> None:
        if event.task.index is not None:
            self._loop(event.task.run).touched.add(event.task.index)
        else:
            self._run(event.task.run)

    def _run_event(self, event: e.RunEvent, offset: int) -> None:
        self._run(event.run)

    def _sink_done(self, event: e.SinkProcessed, offset: int) -> None:
        self._task_event(event, offset)
        if event.outcome.error is not None:
            self.block.errors.append(offset)

    def _received(self, event: e.MessageReceived, offset: int) -> None:
        self._mark("signal", event.type, offset)


class OutlineBuffer:
    """Collects the events of small decisions: added together they take a third of the time."""

    def __init__(self, writer: OutlineWriter) -> None:
        self._writer = writer
        self._decisions: list[tuple[Sequence[Any], float]] = []
        self._events = 0

    def extend(self, events: Sequence[Any], at: float) -> list[Block]:
        """Add events that were stored at one time; the blocks that they complete."""
        self._decisions.append((events, at))
        self._events += len(events)
        if self._events < BUFFERED_EVENTS and self._writer.block.events + self._events < BLOCK_EVENTS:
            return []
        complete = [block for decision in self._decisions for block in self._writer.extend(*decision)]
        self._decisions, self._events = [], 0
        return complete


HANDLERS: dict[type[e.Event], Callable[[OutlineWriter, Any, int], None]] = {
    e.ExecutionRequested: OutlineWriter._requested,
    e.PlaybookStarted: OutlineWriter._playbook_started,
    e.WorkflowFinished: OutlineWriter._finished,
    e.PlaybookProcessed: OutlineWriter._processed,
    e.PlaybookPaused: OutlineWriter._paused_playbook,
    e.PlaybookResumed: OutlineWriter._resumed_playbook,
    e.PlaybookCancelled: OutlineWriter._cancelled,
    e.ExecutionForked: OutlineWriter._forked,
    e.TokenEnqueued: OutlineWriter._enqueued,
    e.TokenHeld: OutlineWriter._held,
    e.TokenDenied: OutlineWriter._denied,
    e.StepScheduled: OutlineWriter._scheduled,
    e.StepStarted: OutlineWriter._granted,
    e.StepRegranted: OutlineWriter._granted,
    e.StepPaused: OutlineWriter._paused,
    e.StepResumed: OutlineWriter._resumed,
    e.StepDone: OutlineWriter._done,
    e.StepFailed: OutlineWriter._failed,
    e.NextEvaluated: OutlineWriter._routed,
    e.LoopStarted: OutlineWriter._loop_started,
    e.IterationFailed: OutlineWriter._item_failed,
    e.LoopDone: OutlineWriter._loop_done,
    e.TaskRetryScheduled: OutlineWriter._retry,
    e.SinkStarted: OutlineWriter._task_event,
    e.SinkProcessed: OutlineWriter._sink_done,
    e.PollStarted: OutlineWriter._task_event,
    e.PollIteration: OutlineWriter._task_event,
    e.PollFinished: OutlineWriter._task_event,
    e.MessageReceived: OutlineWriter._received,
    CaseStarted: OutlineWriter._case_started,
    CaseEvaluated: OutlineWriter._run_event,
    BranchSuppressed: OutlineWriter._run_event,
    NextRequested: OutlineWriter._run_event,
}


def run_names(block: Block) -> list[str]:
    steps = block.steps
    return [f"{steps[step]}#{number}" for step, number in zip(block.runs[::2], block.runs[1::2], strict=True)]


class Times:
    """The time of each event of a block by its offset, in milliseconds since 1970."""

    def __init__(self, block: Block) -> None:
        self._offsets = list(accumulate(block.ticks[::2], initial=0))
        self._times = list(accumulate(block.ticks[1::2], initial=block.ms))

    def __getitem__(self, offset: int) -> int:
        return self._times[bisect_right(self._offsets, offset) - 1]
