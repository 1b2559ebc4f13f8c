"""Outlines of stored logs: the blocks that the commits wrote, those that are missing, and the incomplete last one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from noetl.engine.events import PlaybookProcessed
from noetl.engine.history.outline import BLOCK_EVENTS, Block, OutlineWriter, decode_block, encode_block
from noetl.engine.history.outline_fold import OutlineFold
from noetl.errors import StoreError
from noetl.latest import Latest
from noetl.store.codec import decode
from noetl.store.store import Store

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutlineFold).decode

BLOCKS_PER_READ = 200
MAX_FOLDS = 16


def resumed_writer(store: Store, execution: str, seq: int) -> OutlineWriter | None:
    """The writer of a log of that length; None if the block before is missing or damaged, or nothing will follow."""
    complete, before = seq // BLOCK_EVENTS, None
    if complete:
        before = _stored_block(store, execution, complete - 1)
        if before is None:
            return None
    writer = OutlineWriter(before)
    rows = store.read(execution, complete * BLOCK_EVENTS, seq - complete * BLOCK_EVENTS)
    if rows and rows[-1].type == PlaybookProcessed.name:
        return None
    for row in rows:
        writer.extend((decode(row.type, row.data),), row.at)
    return writer


def blocks(
    store: Store, execution: str, first: int = 0, before: Block | None = None, until: int | None = None
) -> Iterator[Block]:
    """The blocks of a log from a number on, the last of which may be incomplete. `before` is the block before them;
    events after `until` are left out. Blocks that are missing, or cannot be read, are made from the events and
    stored."""
    while True:
        stored, computed = dict(store.outline(execution, first, BLOCKS_PER_READ)), []
        for number in range(first, first + BLOCKS_PER_READ):
            events = BLOCK_EVENTS if until is None else max(0, min(BLOCK_EVENTS, until - number * BLOCK_EVENTS))
            block = _readable(stored.get(number)) if events == BLOCK_EVENTS else None
            if block is None:
                block = _computed_block(store, execution, number, before, events)
                if block is not None and block.events == BLOCK_EVENTS:
                    computed.append(encode_block(block))
            if block is not None:
                yield block
            before = block
            if block is None or block.events < BLOCK_EVENTS:
                break
        if computed:
            with suppress(StoreError):  # a store that only reads keeps none
                store.put_outline(execution, computed)
        if before is None or before.events < BLOCK_EVENTS:
            return
        first += BLOCKS_PER_READ


def blocks_from(store: Store, execution: str, number: int) -> Iterator[Block]:
    """The blocks of a log from a number on, whose predecessor need not be loaded."""
    before = _stored_block(store, execution, number - 1) if number else None
    if before is not None or not number:
        yield from blocks(store, execution, number, before)
    else:  # the missing blocks are made in order
        yield from (block for block in blocks(store, execution) if block.number >= number)


def block_at(store: Store, execution: str, number: int) -> Block | None:
    """One block of a log; None if the log ends before it."""
    return _stored_block(store, execution, number) or next(blocks_from(store, execution, number), None)


def _stored_block(store: Store, execution: str, number: int) -> Block | None:
    stored = store.outline(execution, number, 1)
    return _readable(stored[0][1]) if stored and stored[0][0] == number else None


def _readable(data: bytes | None) -> Block | None:
    try:
        return None if data is None else decode_block(data)
    except ValueError:  # `verify` reports it
        return None


def _computed_block(store: Store, execution: str, number: int, before: Block | None, events: int) -> Block | None:
    """A block from its first events; None if there are none."""
    writer, complete = OutlineWriter(before), []
    for row in store.read(execution, number * BLOCK_EVENTS, events):
        complete = writer.extend((decode(row.type, row.data),), row.at)
    if complete:
        return complete[0]
    return writer.finish() if writer.block.events else None


class Outlines:
    """Folds of outlines. The latest are kept, encoded, and continue with the blocks that have come since."""

    def __init__(self, index_blocks: Callable[[str, Iterator[Block]], Iterator[Block]] | None = None) -> None:
        """`index_blocks` sees the blocks of a whole log when they are read, and yields them."""
        self._folds: Latest[str, tuple[bytes, Block]] = Latest(MAX_FOLDS)
        self._index_blocks = index_blocks

    def fold(self, store: Store, execution: str) -> OutlineFold:
        """The outline of the whole log; its `seq` is 0 if there is none."""
        return self.fold_with_last(store, execution)[0]

    def fold_with_last(self, store: Store, execution: str) -> tuple[OutlineFold, Block | None]:
        """The outline, and its last block, after which a writer can continue."""
        cached = self._folds.get(execution)
        fold, last = (_decode(cached[0]), cached[1]) if cached else (OutlineFold(), None)
        following = blocks(store, execution, last.number + 1 if last else 0, last)
        if last is None and self._index_blocks is not None:
            following = self._index_blocks(execution, following)
        for block in following:
            if block.events < BLOCK_EVENTS:
                self._keep(execution, fold, last)
            fold.add(block)
            last = block
        self._keep(execution, fold, last)
        return fold, last

    def _keep(self, execution: str, fold: OutlineFold, last: Block | None) -> None:
        """Keep a fold of complete blocks."""
        cached = self._folds.get(execution)
        if last is not None and last.events == BLOCK_EVENTS and (cached is None or cached[1].number < last.number):
            self._folds[execution] = _encode(fold), last
