"""Pages of the step runs of stored logs, and the history of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from noetl.engine import events as e
from noetl.engine.history.outline import BLOCK_EVENTS, STATUSES, Block, run_names
from noetl.engine.history.outline_fold import OutlineFold, StepRunRow
from noetl.engine.history.run_index import RunIndex, ends
from noetl.engine.history.step_run_history import StepRunHistory
from noetl.engine.signal_fields import SignalField, parts_of
from noetl.errors import NotFound
from noetl.runtime.event_subjects import subject_of_row
from noetl.runtime.item_pages import END_TYPES, index_rows, items_in_flight
from noetl.runtime.outlines import blocks_from
from noetl.runtime.past import PastReader
from noetl.store.codec import decode
from noetl.store.store import Row

MAX_BLOCKS = 50  # that a page of step runs with filters reads, if their runs have ended by then
HISTORY_BLOCKS, LOOP_BLOCKS = 40, 6  # that the history of a step run reads: the first and the last ones
ITEM_EVENTS = frozenset([e.IterationDone.name, e.IterationFailed.name])
EXECUTION_TYPES = END_TYPES | {e.ExecutionForked.name}
GRANTS = (e.StepStarted.name, e.StepRegranted.name)
MAX_GRANTS, MAX_GRANT_EVENTS = 100, 20_000  # that are searched for the grant of an item before its first event


Position: TypeAlias = tuple[int, int]
"""Where a step run was scheduled: the number of the block, and how many the block scheduled before."""


class StepRuns(NamedTuple):
    rows: list[StepRunRow]
    next: int | None  # the `after` of the next page
    positions: dict[str, Position]  # of these step runs and of those that they come from


class _RunWindow(OutlineFold):
    """The fold of some blocks, with a row of each step run that was scheduled in them."""

    @property
    def has_rows(self) -> bool:
        return True


def step_runs_after(
    past: PastReader, execution: str, after: int, limit: int, step: str = "", status: str = ""
) -> StepRuns:
    """The step runs that were scheduled after an event, in that order; NotFound if there is no execution.

    Blocks are read until there are enough step runs, and then until these have ended.
    """
    end = past.store.seq(execution)
    if not end:
        raise NotFound(f"execution {execution!r} not found")
    if after >= end:
        return StepRuns([], None, {})
    candidates = _Candidates(after, step, status)
    is_full = False
    for count, block in enumerate(blocks_from(past.store, execution, after // BLOCK_EVENTS), start=1):
        past.check_stopped()
        candidates.add(block, is_full)
        is_full = is_full or count >= MAX_BLOCKS or candidates.count > limit
        if is_full and not candidates.open:
            break
    selected = [row for row in candidates.rows if candidates.has_status(row)]
    page = selected[:limit]
    _add_origins(past, execution, after // BLOCK_EVENTS, page, candidates)
    following = candidates.seq if is_full and candidates.seq % BLOCK_EVENTS == 0 else None  # else the log ends there
    following = page[-1].scheduled_seq if len(selected) > limit else following
    return StepRuns(page, following, candidates.positions)


class _Candidates:
    """Step runs of a step that were scheduled after an event, in that order."""

    def __init__(self, after: int, step: str, status: str) -> None:
        self.after, self.step, self.status = after, step, status
        self.seq = after  # the last event up to which they are complete
        self.rows: list[StepRunRow] = []
        self.count = 0  # those with the status; one that has not ended may still get it
        self.open: list[StepRunRow] = []
        self.tokens: dict[str, Sequence[int]] = {}  # that each of them has consumed
        self.positions: dict[str, Position] = {}  # of all step runs of the blocks
        self._window = _RunWindow()

    def add(self, block: Block, is_full: bool) -> None:
        """The step runs that a block schedules, unless they are enough; and what it says about the ones before."""
        window, names = self._window, run_names(block)
        window.add(block)
        if not is_full:
            self.seq = block.first + block.events - 1
            for place, (run, offset, tokens) in enumerate(block.scheduled):
                row = window.runs[names[run]]
                self.positions[row.name] = block.number, place
                if block.first + offset > self.after and self.step in ("", row.step):
                    self.rows.append(row)
                    self.open.append(row)
                    self.count += not self.status
                    self.tokens[row.name] = tokens
        if self.status:
            self.count += sum(bool(row.ended_seq) and self.has_status(row) for row in self.open)
        self.open = [row for row in self.open if not row.ended_seq]
        window.runs = {row.name: row for row in self.open}

    def has_status(self, row: StepRunRow) -> bool:
        return self.status in ("", STATUSES[row.status])

    def origins(self, rows: Sequence[StepRunRow]) -> dict[int, str | None]:
        """The step runs that sent the tokens of rows; without those that were sent before the first block."""
        window_tokens, tokens = self._window.tokens, (token for row in rows for token in self.tokens[row.name])
        return {token: window_tokens[token].origin for token in tokens if token in window_tokens}


def _add_origins(
    past: PastReader, execution: str, number: int, rows: Sequence[StepRunRow], candidates: _Candidates
) -> None:
    """Add the step runs that rows come from. Those before a block are looked for backwards from there."""
    origins, positions = candidates.origins(rows), candidates.positions
    missing = {token for row in rows for token in candidates.tokens[row.name]} - origins.keys()
    unplaced = {origin for origin in origins.values() if origin is not None} - positions.keys()
    before = _backwards(past, execution, number)
    while (missing or unplaced) and (block := next(before, None)) is not None:
        names = run_names(block)
        for at in range(0, len(block.tokens), 4):
            token, _, place, _ = block.tokens[at : at + 4]
            if token in missing:
                missing.discard(token)
                origin = origins[token] = None if place < 0 else names[place]
                if origin is not None and origin not in positions:
                    unplaced.add(origin)
        for place, (run, _, _) in enumerate(block.scheduled):
            if names[run] in unplaced:
                unplaced.discard(names[run])
                positions[names[run]] = block.number, place
    for row in rows:
        senders = (origins.get(token) for token in candidates.tokens[row.name])
        row.from_runs = [sender for sender in senders if sender is not None]


def _backwards(past: PastReader, execution: str, number: int) -> Iterator[Block]:
    """The blocks before a number, the last one first."""
    while number > 0:
        past.check_stopped()
        first = max(0, number - 50)
        batch = []
        for block in blocks_from(past.store, execution, first):
            if block.number >= number:
                break
            batch.append(block)
        yield from reversed(batch)
        number = first


class StepRunDetails(NamedTuple):
    history: StepRunHistory
    args: dict[str, Any]
    kinds: dict[str, str]  # kinds of tasks by label
    fields: dict[str, list[SignalField]]  # of the payloads of signals, by the label of their task
    now: float  # time of the last event
    truncated: bool


def step_run_details(past: PastReader, execution: str, index: RunIndex, item: int | None) -> StepRunDetails:
    """The history of a step run or of an item; NotFound if the loop does not have the item."""
    if item is not None and item >= index.loop.total:
        raise NotFound(f"item {item} of step run {index.run!r} not found: its loop has {index.loop.total:,} items")
    state, scheduled = past.state_at(execution, index.scheduled)
    history = StepRunHistory(index.run, item)
    history.scheduled = scheduled
    numbers, truncated = _history_blocks(index, item)
    rows = list(_rows_of(past, execution, index, item, numbers))
    if item is not None and numbers:
        rows = [*_grant_before(past, execution, index, item, rows), *rows]
    gap_end = numbers[len(numbers) // 2] - 1 if truncated else None  # the last block that is left out
    for row in rows:
        if item is not None and gap_end is not None and row.seq > (gap_end + 1) * BLOCK_EVENTS:
            history.resume(gap_end, items_in_flight(past, execution, index.run, gap_end).get(item))
            gap_end = None
        history.take(decode(row.type, row.data), row.seq, row.at)
    last = next(iter(past.store.read(execution, index.seq - 1, 1)), None)
    if last is None:
        raise NotFound(f"execution {execution!r} not found")  # it was pruned a moment ago
    history.conclude(last.at, last.type == e.PlaybookProcessed.name)
    run_state = state.runs.get(index.run)
    kinds = {task.label: task.kind for _, task in state.net.steps[index.step].step.every_task}
    args = {} if run_state is None else run_state.args
    fields = _signal_fields(past, execution, index.step) if history.waits else {}
    return StepRunDetails(history, args, kinds, fields, last.at, truncated or history.truncated)


def _rows_of(
    past: PastReader, execution: str, index: RunIndex, item: int | None, numbers: Sequence[int]
) -> Iterator[Row]:
    """The rows of a step run or an item in some blocks, and those that end or fork its execution."""
    for number in numbers:
        past.check_stopped()
        for row in index_rows(past, execution, index, number):
            run, row_item = subject_of_row(row)
            is_own = run == index.run and (row_item in (None, item) or row.type in ITEM_EVENTS)
            if is_own or (run is None and row.type in EXECUTION_TYPES):
                yield row


def _grant_before(past: PastReader, execution: str, index: RunIndex, item: int, rows: Sequence[Row]) -> Iterator[Row]:
    """The grant of a lane with an item whose events, in these rows, begin in a later block."""
    first = next((row.seq for row in rows if subject_of_row(row) == (index.run, item)), 0)
    grants = past.store.read_backwards(
        execution, first, GRANTS, MAX_GRANTS, max(index.loop_block * BLOCK_EVENTS, first - MAX_GRANT_EVENTS)
    )
    for row in grants:
        grant = decode(row.type, row.data)
        if isinstance(grant, e.StepStarted) and grant.run == index.run and grant.items is not None:
            start, end = grant.items
            if start <= item < end:
                if rows and row.seq < rows[0].seq:
                    yield row
                return


def _signal_fields(past: PastReader, execution: str, step: str) -> dict[str, list[SignalField]]:
    """By label. A fork may have changed the playbook since the step run was scheduled; the current one counts."""
    digest = next((summary.digest for summary in past.store.summaries(prefix=execution, limit=1)), None)
    if digest is None:
        return {}  # it was pruned a moment ago
    parts = parts_of(past.playbook(digest))
    return {label: [part.field for part in parts[name, label]] for name, label in parts if name == step}


def _history_blocks(index: RunIndex, item: int | None) -> tuple[Sequence[int], bool]:
    """The blocks to read, and whether some are left out."""
    if item is not None:
        blocks = index.blocks_of([item]).get(item, [])
        return ends(blocks), len(ends(blocks)) < len(blocks)
    blocks = ends(index.blocks, HISTORY_BLOCKS if index.loop_block < 0 else LOOP_BLOCKS)
    return blocks, len(blocks) < len(index.blocks)
