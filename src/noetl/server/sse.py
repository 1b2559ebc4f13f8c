"""Following an execution: its events as server-sent events, each with its seq as the id.

Who was cut off sends the id it saw last and misses nothing, at this server or another. Events are read from the store
by their seq, so it does not matter which server wrote them: this one's commits wake the stream at once, others are
found by looking now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec

from noetl.engine.events import PlaybookProcessed
from noetl.server import show
from noetl.server.api import Api
from noetl.store.ports import Row

LOOK_SECONDS = 0.5
"""How often the store is asked for what others have written."""
PAUSE_SECONDS = 0.02
"""The least time between two looks: what happens in between comes together."""
BEAT_SECONDS = 15.0
"""How often a silent stream shows that it is alive, and whether its reader may still read is asked."""
PAGE = 500

Ask = Callable[[], Awaitable[bool]]


async def stream(api: Api, execution: str, after: int, may_go_on: Ask) -> AsyncIterator[bytes]:
    """The events behind a seq as they come, until the execution has ended, or who reads them may not any more."""
    api.metrics.streams += 1
    loop = asyncio.get_running_loop()
    beat = ask = loop.time() + BEAT_SECONDS
    try:
        yield b": events of an execution\nretry: 1000\n\n"
        while not api.closing.is_set():
            if loop.time() > ask:
                if not await may_go_on():
                    return
                ask = loop.time() + BEAT_SECONDS
            moved = api.runtime.moved
            rows = await api.in_store(api.store.read, execution, after, PAGE)
            if rows:
                yield b"".join(_written(execution, row) for row in rows)
                after, beat = rows[-1].seq, loop.time() + BEAT_SECONDS
                if rows[-1].type == PlaybookProcessed.name:
                    yield b"event: end\ndata: {}\n\n"
                    return
            elif loop.time() > beat:
                yield b": still here\n\n"
                beat = loop.time() + BEAT_SECONDS
            if len(rows) < PAGE:
                await _pause(api, execution, after, moved)
    finally:
        api.metrics.streams -= 1


async def _pause(api: Api, execution: str, after: int, moved: asyncio.Event) -> None:
    """Until there may be something new."""
    await asyncio.sleep(PAUSE_SECONDS)
    look = asyncio.get_running_loop().time() + LOOK_SECONDS
    with suppress(TimeoutError):
        async with asyncio.timeout_at(look):
            while not api.closing.is_set():
                cell = api.runtime.cells.get(execution)
                if cell is not None and cell.state.seq > after:
                    return
                await moved.wait()
                moved = api.runtime.moved


def _written(execution: str, row: Row) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (
        row.seq,
        msgspec.json.encode(show.event(execution, row), enc_hook=show.plain),
    )
