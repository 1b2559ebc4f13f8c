"""A call to try, odd variants of it, the ways in which the checks make calls, and the resources that calls leave
behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from noetl.model.outcome import Outcome
from noetl.testing.tool import Tool, calling, secrets_of, tool_context

ODD_TEXTS = ("", " ", "\0", "{{ x }}", "'; --", "../..", "x" * 100_000)
MIN_SECRET_LENGTH = 12  # a shorter secret, or half of one, may occur in a text by chance
CANCEL_AFTER_SECONDS = 0.2
CANCELLED_WITHIN_SECONDS = 10.0  # far more than a cancelled tool needs to end, so that only one that hangs fails
CALL_SECONDS = 30.0
END_SECONDS = 5.0  # how long threads and processes may take to end

Ended = Outcome | Exception  # the outcome of a call, or the exception that it raised


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A call to try. It is made several times, so its effects must be repeatable."""

    inputs: dict[str, Any] = {}
    context: dict[str, Any] = {}  # fields of the context, such as `args`
    credentials: dict[str, dict[str, Any]] = {}
    """The credentials that `auth` can name. Texts in it are secrets, and no error may show one."""
    error: str | None = None  # the kind of error that the call must end with; None if it must succeed
    lasts: bool = False
    """Whether the call takes long enough to be cancelled: ten seconds or more. Such a call is only ever cancelled."""

    @property
    def secrets(self) -> list[str]:
        return [secret for secret in secrets_of(self.credentials) if len(secret) >= MIN_SECRET_LENGTH]


def odd_variants(example: Example) -> Iterator[tuple[str, Example]]:
    inputs = example.inputs
    odd: dict[str, dict[str, Any]] = {" with an unknown key": {**inputs, "no_such_input": 1}}
    for name, value in inputs.items():
        odd[f" without {name!r}"] = {key: value for key, value in inputs.items() if key != name}
        odd[f" with a list of lists for {name!r}"] = {**inputs, name: [[[]]]}
        if isinstance(value, str):
            odd |= {f" with {name}={text[:20]!r}": {**inputs, name: text} for text in ODD_TEXTS}
    for description, variant in odd.items():
        yield description, msgspec.structs.replace(example, inputs=variant)


async def call_all(tool: Tool, examples: Sequence[Example]) -> list[Ended]:
    try:
        return [await _ended(tool, example) for example in examples]
    finally:
        await _close(tool)


async def cancel_call(tool: Tool, example: Example) -> str | None:
    """A message if a cancelled call does not end as it should; None if it does."""
    call = asyncio.create_task(_call(tool, example))
    await asyncio.wait([call], timeout=CANCEL_AFTER_SECONDS)
    if call.done():
        await _close(tool)
        return f"does not last, or blocks the event loop: it ended with {call.exception() or call.result()}"
    call.cancel()
    await asyncio.wait([call], timeout=CANCELLED_WITHIN_SECONDS)
    await _close(tool)
    if not call.done():
        return f"has not ended {CANCELLED_WITHIN_SECONDS:g} s after it was cancelled"
    return None if call.cancelled() else "swallows CancelledError: let it pass"


async def _leaked_tasks(tool: Tool, example: Example) -> list[str]:
    """Make a call and close; the tasks that still run in the event loop."""
    call = asyncio.create_task(_ended(tool, example))
    await asyncio.wait([call], timeout=CANCEL_AFTER_SECONDS if example.lasts else None)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    await _close(tool)
    return [str(task.get_coro()) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def close_twice(tool: Tool, examples: Sequence[Example]) -> None:
    """Make calls, if any, and close two times; raises what `close` raises."""
    for example in examples:
        await _ended(tool, example)
    if tool.close is not None:
        await tool.close()
        await tool.close()


async def _ended(tool: Tool, example: Example) -> Ended:
    try:
        return await _call(tool, example)
    except Exception as error:
        return error


async def _call(tool: Tool, example: Example) -> Outcome:
    context = tool_context(tool.kind, example.credentials, **{"timeout": CALL_SECONDS} | example.context)
    return await calling(tool, example.inputs, context)


async def _close(tool: Tool) -> None:
    """The check `closing` reports a `close` that fails; the other checks ignore it."""
    if tool.close is not None:
        with suppress(Exception):
            await tool.close()


class Resources(NamedTuple):
    threads: frozenset[str]
    processes: frozenset[int]
    files: dict[str, str]  # open descriptors with their targets


def _resources() -> Resources:
    gc.collect()
    threads = frozenset(f"{thread.name} {thread.ident}" for thread in threading.enumerate())
    children, files = set(), {}
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            children |= {int(pid) for pid in task.read_text().split()}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor that lists them is closed already
            files[entry.name] = os.readlink(entry)
    return Resources(threads, frozenset(children), files)


def left_behind(tool: Tool, example: Example) -> list[str]:
    """Tasks that a call leaves, and resources that the process has longer than a grace time after `close`."""
    asyncio.run(_leaked_tasks(tool, example))  # the first call may load what the process keeps
    before = _resources()
    tasks = asyncio.run(_leaked_tasks(tool, example))
    deadline = time.monotonic() + END_SECONDS
    while (leftovers := _more(before, _resources())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [f"a task is left: {task}" for task in tasks] + leftovers


def _more(before: Resources, now: Resources) -> list[str]:
    leftovers = [f"a thread is left: {name}" for name in sorted(now.threads - before.threads)]
    for pid in sorted(now.processes - before.processes):
        command = ""
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(bytes(1), b" ").decode(errors="replace")
        leftovers.append(f"a process is left: {pid} {command}".rstrip())
    new = sorted(target for number, target in now.files.items() if before.files.get(number) != target)
    return leftovers + [f"a file is left open: {target}" for target in new]
