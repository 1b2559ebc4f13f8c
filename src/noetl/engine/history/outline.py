"""The outline of a log: what happened to step runs, tokens, arcs and loops, in blocks of 1,000 events.

A block is a pure function of its events and of the items in flight at the end of the block before, so that a missing
one can be made again. `outline_fold.py` folds the blocks in order, without reading the events. A block has each name
once, everything else is numbers: a chain of steps costs a few bytes per step run.

Positions are offsets: 0 is the first event of the block. The time of an event follows from `ticks`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.engine import events as e
from noetl.engine.history.items_in_flight import ItemsInFlight
from noetl.engine.history.outline_loop import LoopPart, LoopWriter, like_items
from noetl.model.identity import TaskId

BLOCK_EVENTS = 1_000
STATUSES = ("scheduled", "running", "waiting", "succeeded", "failed", "skipped", "cancelled")  # of step runs
SCHEDULED, RUNNING, WAITING, SUCCEEDED, FAILED, SKIPPED, CANCELLED = range(len(STATUSES))
EXECUTION_STATUSES = ("pending", "running", "paused", "cancelling", "succeeded", "failed", "cancelled")
WAIT_KINDS = ("", "signal", "child", "retry", "event", "worker")  # "" ends a wait
MARKER_KINDS = ("failure", "retry", "signal", "pause", "resume", "lost", "fork", "cancel")

MAX_MARKERS = 20  # of one kind in a block
BUFFERED_EVENTS = 100
MIN_LIKE_EVENTS = 20  # fewer are added one by one
COMPRESSED_BYTES = 512  # smaller blocks, such as those of a loop, are stored as they are
# Nine of ten events of a long log are of these types: `OutlineWriter` has their handlers written out.
TaskStarted, TaskDone = e.TaskStarted, e.TaskDone
IterationStarted, IterationDone = e.IterationStarted, e.IterationDone


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


_ZLIB = b"\x78"  # the first byte of compressed data; no encoded struct begins with it
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


def is_same_block(stored: Block, computed: Block) -> bool:
    """Whether two blocks are equal, apart from the waits of loops, which earlier versions did not store."""
    if len(stored.loops) == len(computed.loops) and any(part.waits is None for part in stored.loops):
        pairs = zip(stored.loops, computed.loops, strict=True)
        loops = [part if old.waits is not None else replace(part, waits=None) for old, part in pairs]
        computed = replace(computed, loops=loops)
    return stored == computed


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


class OutlineWriter:
    """Makes the blocks of a log, event by event. `before` is the block before the first event, if there is one."""

    def __init__(self, before: Block | None = None, first: int = 1) -> None:
        self._loops: dict[str, LoopWriter] = {}
        self._begin(before.first + before.events if before is not None else first)
        names = run_names(before) if before is not None else []
        for part in before.loops if before is not None else ():
            if part.open or part.parked:
                self._loops[names[part.run]] = LoopWriter(ItemsInFlight(part.open, part.parked))

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
            fits = not start and len(events) <= room
            self._add(events if fits else events[start : start + room], now)
            start += room
            if self.block.events == BLOCK_EVENTS:
                complete.append(self.finish())
        return complete

    def _add(self, events: Sequence[Any], now: int) -> None:
        first = self.block.events
        if now != self._now:
            self._set_time(now, first)
        added = self._add_items(events, first) if len(events) >= MIN_LIKE_EVENTS else 0
        self._add_each(events[added:] if added else events, first + added)
        self.block.events = first + len(events)

    def _add_items(self, events: Sequence[Any], first: int) -> int:
        """Add the first items that are alike, and the events before them. Returns the number of these events."""
        types = list(map(type, events))
        start = types.index(IterationStarted) if IterationStarted in types else len(types)
        count = like_items(types, start)
        if not count:
            return 0
        self._add_each(events[:start], first)
        items, item = islice(events, start, start + count), events[start]
        return start + self._loop(item.run).add_items(items, item.run, item.index, first + start)

    def _add_each(self, events: Sequence[Any], first: int) -> None:
        block, runs = self.block, self._runs
        for offset, event in enumerate(events, first):
            kind = type(event)
            if kind is TaskStarted:
                task: TaskId = event.task
                if task.index is None:
                    if task.run not in runs:
                        self._run(task.run)
                elif task.index not in (loop := self._loop(task.run)).in_flight.open:  # else the block has it
                    loop.touched.add(task.index)
            elif kind is TaskDone:
                task = event.task
                if task.index is None:
                    if task.run not in runs:
                        self._run(task.run)
                elif "/" not in task.path:  # a task inside of another is part of its time
                    work = self._loop(task.run).in_flight.work
                    work[task.index] = work.get(task.index, 0.0) + event.duration_ms
                if event.outcome.error is not None:
                    block.errors.append(offset)
            elif kind is IterationDone:
                loop = self._loop(event.run)
                loop.end_item(event.index, self._now)
                loop.succeed(event.index, event.index + 1)
                if offset >= loop.next_point:
                    loop.add_point(offset)
            elif (handle := HANDLERS.get(kind)) is not None:
                handle(self, event, offset)

    def finish(self) -> Block:
        """The incomplete block; the next one begins."""
        block = self.block
        for name, loop in self._loops.items():
            if not loop.is_idle:
                loop.add_point(block.events - 1)
                block.loops.append(loop.part(self._run(name), self._now))
            loop.clear()
        self._loops = {name: loop for name, loop in self._loops.items() if loop.in_flight}
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

    def _loop(self, run: str) -> LoopWriter:
        loop = self._loops.get(run)
        if loop is None:
            loop = self._loops[run] = LoopWriter()
        return loop

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

    def _end_loop(self, loop: LoopWriter, offset: int) -> None:
        loop.stop(self._now)
        loop.add_point(offset)

    def _forked(self, event: e.ExecutionForked, offset: int) -> None:
        self._set_status("running", offset)
        self._mark("fork", event.source_id, offset)
        self.block.forks.append(offset)
        for loop in self._loops.values():
            loop.resume_all(WAIT_KINDS.index("child"), self._now)
        if event.playbook:
            self.block.digests.append((offset, event.playbook))
        if event.reopened:
            self.block.reopened.append((offset, event.reopened))
            loop = self._loop(event.reopened)
            loop.reopen()

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
            self._loop(event.run).in_flight.park(event.index, kind, self._now)

    def _resumed(self, event: e.StepResumed, offset: int) -> None:
        if event.index is None:
            self.block.waits += (self._run(event.run), offset, 0)
        else:
            self._loop(event.run).resume(event.index, self._now)

    def _done(self, event: e.StepDone | e.LoopDone, offset: int) -> None:
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
        step = self.block.runs[2 * run]
        for arc in event.selected:
            fired = self._arcs.setdefault((step, arc), [0, 0])
            fired[0] += 1
            fired[1] = offset

    def _loop_started(self, event: e.LoopStarted, offset: int) -> None:
        loop = self._loop(event.run)
        loop.total = event.total
        loop.add_point(offset)

    def _item_started(self, event: e.IterationStarted, offset: int) -> None:
        self._loop(event.run).in_flight.open.setdefault(event.index, self._now)

    def _item_failed(self, event: e.IterationFailed, offset: int) -> None:
        loop = self._loop(event.run)
        loop.end_item(event.index, self._now)
        loop.failed.append(event.index)
        loop.add_error(event.index, event.error)
        self.block.errors.append(offset)
        self._mark("failure", f"{event.run}[{event.index}]", offset)
        loop.add_point(offset)

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
    e.IterationStarted: OutlineWriter._item_started,
    e.IterationFailed: OutlineWriter._item_failed,
    e.LoopDone: OutlineWriter._done,
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
