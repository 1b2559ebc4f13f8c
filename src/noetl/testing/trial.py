"""Making the calls of the examples, one way for each thing that is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from noetl.model.outcome import Outcome
from noetl.testing.example import Example
from noetl.testing.tool import Tool, calling, tool_context

CANCEL_AFTER_SECONDS = 0.2
PROMPT_SECONDS = 10.0
"""What a tool gets to end after it was cancelled: far more than it needs, so that only one that hangs fails."""
CALL_SECONDS = 30.0

Value = TypeVar("Value")
Made = Outcome | Exception
"""What came of a call: an exception stands for one that it let out."""


def made(tool: Tool, calls: Sequence[tuple[str, Example]]) -> Iterator[tuple[str, Made]]:
    """The calls, with words for each, one after the other in one event loop."""

    async def all_of_them() -> list[Made]:
        return [await _caught(tool, example) for _, example in calls]

    yield from zip([what for what, _ in calls], asyncio.run(_closed(tool, all_of_them())), strict=True)


def cancelled(tool: Tool, example: Example) -> str | None:
    """What is wrong with how a call ends that is cancelled; None if nothing is."""
    return asyncio.run(_closed(tool, _cancelled(tool, example)))


def tasks_left(tool: Tool, example: Example) -> list[str]:
    """Make a call in an event loop of its own, and close; the tasks that are left there."""

    async def main() -> list[str]:
        call = asyncio.create_task(_caught(tool, example))
        await asyncio.wait([call], timeout=CANCEL_AFTER_SECONDS if example.lasts else None)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        await _closed(tool, asyncio.sleep(0))
        return [str(task.get_coro()) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    return asyncio.run(main())


def closed_twice(tool: Tool, examples: Sequence[Example]) -> None:
    """Make calls, if any, and close two times; raises what `close` raises."""

    async def main() -> None:
        for example in examples:
            await _caught(tool, example)
        if tool.close is not None:
            await tool.close()
            await tool.close()

    asyncio.run(main())


async def _cancelled(tool: Tool, example: Example) -> str | None:
    call = asyncio.create_task(_call(tool, example))
    await asyncio.wait([call], timeout=CANCEL_AFTER_SECONDS)
    if call.done():
        return f"does not last, or blocks the event loop: it ended with {call.exception() or call.result()}"
    call.cancel()
    await asyncio.wait([call], timeout=PROMPT_SECONDS)
    if not call.done():
        return f"has not ended {PROMPT_SECONDS:g} s after it was cancelled"
    return None if call.cancelled() else "swallows CancelledError: let it pass"


async def _caught(tool: Tool, example: Example) -> Made:
    try:
        return await _call(tool, example)
    except Exception as error:
        return error


async def _call(tool: Tool, example: Example) -> Outcome:
    context = tool_context(tool.kind, example.credentials, **{"timeout": CALL_SECONDS} | example.context)
    return await calling(tool, example.inputs, context)


async def _closed(tool: Tool, work: Awaitable[Value]) -> Value:
    """Close after the work. A `close` that fails is seen by the check of closing, and is in nobody's way here."""
    try:
        return await work
    finally:
        if tool.close is not None:
            with suppress(Exception):
                await tool.close()
