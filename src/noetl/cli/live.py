"""A run as it happens: plain lines where nobody draws, a tree with progress bars on a terminal.

Both look at the log, not at the engine, so a run in this process and one in another terminal are shown alike. They
look at most some fifteen times a second, so showing costs a fast run next to nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from noetl.engine import events as e
from noetl.model.identity import TaskId
from noetl.printable import printable
from noetl.store.codec import decode
from noetl.store.ports import Row, Store

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

LOOK_SECONDS = 1 / 15
STILL_SECONDS = 0.25
"""How often a tree is drawn when nothing happens, so that times move."""
BAR = 24


class View(Protocol):
    """Shows rows of a log."""

    def show(self, rows: Sequence[Row]) -> None:
        """Take in what is new."""

    def close(self) -> None:
        """Nothing more will come."""


class Follower:
    """Reads what is new in a log and hands it to a view."""

    def __init__(self, store: Store, thread: Executor, execution: str, view: View) -> None:
        self.store, self.thread, self.execution, self.view = store, thread, execution, view
        self.seq = 0
        self.task: asyncio.Task[None] | None = None

    def follow(self, moved: Callable[[], asyncio.Event]) -> None:
        """Look in the background whenever something has moved."""
        self.task = asyncio.create_task(self._follow(moved))

    async def _follow(self, moved: Callable[[], asyncio.Event]) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STILL_SECONDS):
                    await moved().wait()
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> list[Row]:
        """Show what is new."""
        ask = asyncio.get_running_loop().run_in_executor
        rows = await ask(self.thread, self.store.read, self.execution, self.seq)
        self.seq = rows[-1].seq if rows else self.seq
        self.view.show(rows)
        return rows

    async def close(self) -> None:
        """Show the rest."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        try:
            await self.look()
        finally:
            self.view.close()


# -- words ----------------------------------------------------------------------------------------------------------


def span(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `2 min 5 s`, `1 h 4 min`."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def waits_for(event: e.StepPaused) -> str:
    """What a run waits for, in words."""
    match event.until:
        case "signal":
            return f"waits for the signal {event.key!r}"
        case "child":
            return f"waits for the child {event.key}"
        case "retry":
            return "waits for its next attempt"
        case "event":
            return "listens"
    return "was lost" if event.reason == "lost" else "was given back"


def brief(text: str, limit: int = 200) -> str:
    """The text on one line, and not too much of it."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


# -- lines ----------------------------------------------------------------------------------------------------------


class Lines:
    """One line on stderr for each thing worth knowing."""

    def __init__(self, after: int = 0) -> None:
        self.after = after
        """What is older is known already."""
        self.started: dict[str, float] = {}
        self.looped: set[str] = set()
        """Runs whose loop was told to be done; a classic step may have more to do then."""
        self.problems: dict[TaskId, str] = {}

    def show(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.type in TOLD and (row.type != e.TaskDone.name or b'"retry"' in row.data):
                for line in self._lines(decode(row.type, row.data), row.at):
                    if row.seq > self.after:
                        click.echo(printable(line), err=True)

    def close(self) -> None:
        pass

    def _lines(self, event: e.Event, at: float) -> Iterator[str]:
        match event:
            case e.StepStarted(run=run):
                if run not in self.started and run not in self.looped:
                    self.started[run] = at
                    yield f"{run} started"
            case e.StepRegranted(run=run, reason=reason):
                self.started.setdefault(run, at)
                yield f"{run} started again ({reason})"
            case e.StepDone(run=run) | e.LoopDone(run=run):
                items = f", {_items(event)}" if isinstance(event, e.LoopDone) else ""
                if run not in self.looped:
                    yield f"{run} done in {self._took(run, at)}{items}"
                if items:
                    self.looped.add(run)
            case e.StepFailed(run=run, error=error):
                yield f"{run} failed in {self._took(run, at)}: {brief(f'{error.kind}: {error.message}')}"
            case e.IterationFailed(run=run, index=index, error=error):
                yield f"{run}[{index}] failed: {brief(f'{error.kind}: {error.message}')}"
            case e.TaskDone(task=task, outcome=outcome) if event.do == "retry":
                why = outcome.error
                self.problems[task] = brief(f"{why.kind}: {why.message}") if why else "a rule asks for it"
            case e.TaskRetryScheduled(task=task, attempt=attempt, due=due):
                yield f"{task} attempt {attempt} in {span(due - at)} ({self.problems.pop(task, 'again')})"
            case e.StepPaused(run=run, index=index):
                if event.reason != "returned":
                    yield f"{run if index is None else f'{run}[{index}]'} {waits_for(event)}"
            case e.StepResumed(run=run, index=index):
                yield f"{run if index is None else f'{run}[{index}]'} goes on"
            case e.MessageReceived(type=kind):
                yield f"signal {kind!r} received"
            case e.PlaybookCancelled(reason=reason):
                yield f"cancelled{f': {brief(reason)}' if reason else ''}"
            case e.PlaybookPaused() | e.PlaybookResumed():
                yield event.name.partition(".")[2]

    def _took(self, run: str, at: float) -> str:
        return span(at - self.started.pop(run, at))


def _items(event: e.LoopDone) -> str:
    failed = f", {event.failed:,} failed" if event.failed else ""
    return f"{event.total:,} item{'s' * (event.total != 1)}{failed}"


TOLD = frozenset(
    kind.name
    for kind in (
        e.StepStarted,
        e.StepRegranted,
        e.StepDone,
        e.LoopDone,
        e.StepFailed,
        e.IterationFailed,
        e.TaskDone,
        e.TaskRetryScheduled,
        e.StepPaused,
        e.StepResumed,
        e.MessageReceived,
        e.PlaybookCancelled,
        e.PlaybookPaused,
        e.PlaybookResumed,
    )
)
"""What lines are made of; the rest of a log is not even decoded."""


# -- a tree ---------------------------------------------------------------------------------------------------------


class RunLine(msgspec.Struct):
    """A run of a step, as it is drawn."""

    run: str
    status: str = "scheduled"
    started: float | None = None
    ended: float | None = None
    total: int | None = None
    done: int = 0
    failed: int = 0
    task: str = ""
    attempt: int = 1
    note: str = ""


class Picture:
    """What a tree shows: a small fold of the log."""

    def __init__(self) -> None:
        self.status = "running"
        self.started: float | None = None
        self.ended: float | None = None
        self.runs: dict[str, RunLine] = {}

    def take(self, event: e.Event, at: float) -> None:
        """Take in one event."""
        self.started = at if self.started is None else self.started
        match event:
            case e.PlaybookProcessed(outcome=outcome):
                self.status, self.ended = outcome, at
                for line in self.runs.values():
                    if line.ended is None:
                        line.status, line.ended = "cancelled", at
            case e.PlaybookPaused():
                self.status = "paused"
            case e.PlaybookResumed():
                self.status = "running"
            case e.TaskStarted(task=task, attempt=attempt) | e.TaskRetryScheduled(task=task, attempt=attempt):
                line = self._line(task.run)
                line.task, line.attempt = task.label, attempt
            case _:
                run = getattr(event, "run", None)
                if run is not None and type(event) in _CHANGES:
                    _CHANGES[type(event)](self._line(run), event, at)

    def _line(self, run: str) -> RunLine:
        if run not in self.runs:
            self.runs[run] = RunLine(run)
        return self.runs[run]


def _start(line: RunLine, event: Any, at: float) -> None:
    line.status, line.note = "running", ""
    line.started = at if line.started is None else line.started


def _end(line: RunLine, event: Any, at: float) -> None:
    line.status, line.ended, line.note = "succeeded", at, ""


def _fail(line: RunLine, event: e.StepFailed, at: float) -> None:
    line.status, line.ended, line.note = "failed", at, f"{event.error.kind}: {event.error.message}"


def _loop(line: RunLine, event: e.LoopStarted, at: float) -> None:
    line.total = event.total


def _item(line: RunLine, event: Any, at: float) -> None:
    line.done += 1
    line.failed += isinstance(event, e.IterationFailed)


def _pause(line: RunLine, event: e.StepPaused, at: float) -> None:
    if event.reason != "returned":
        line.status, line.note = "waiting", waits_for(event)


_CHANGES: dict[type[e.Event], Callable[[RunLine, Any, float], None]] = {
    e.StepScheduled: lambda line, event, at: None,
    e.StepStarted: _start,
    e.StepRegranted: _start,
    e.StepResumed: _start,
    e.StepDone: _end,
    e.LoopDone: _end,
    e.StepFailed: _fail,
    e.LoopStarted: _loop,
    e.IterationDone: _item,
    e.IterationFailed: _item,
    e.StepPaused: _pause,
}

MARKS = {
    "scheduled": ("·", "dim"),
    "running": ("▶", "cyan"),
    "waiting": ("…", "yellow"),
    "paused": ("‖", "yellow"),
    "succeeded": ("✔", "green"),
    "failed": ("✘", "red"),
    "cancelled": ("■", "magenta"),
}


class Tree:
    """Draws the picture on the terminal, over and over."""

    def __init__(self, name: str, execution: str) -> None:
        self.name, self.execution = name, execution
        self.picture = Picture()
        self.live: Live | None = None

    def show(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.picture.take(decode(row.type, row.data), row.at)
        if self.live is None:
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self.live.start()
        self.live.update(self._drawing(self.live.console.height), refresh=True)

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()

    def _drawing(self, height: int) -> Table:
        from rich.table import Table
        from rich.text import Text

        now = _now()
        picture = self.picture
        grid = Table.grid(padding=(0, 1))
        mark, style = MARKS[picture.status]
        took = span((picture.ended or now) - (picture.started or now))
        grid.add_row(Text(mark, style), Text(printable(self.name), "bold"), "", took, Text(self.execution, "dim"))
        lines = list(picture.runs.values())
        hidden = max(0, len(lines) - max(5, height - 4))
        if hidden:
            grid.add_row("", Text(f"{hidden:,} earlier", "dim"))
        for line in lines[hidden:]:
            grid.add_row(*_row(line, now))
        return grid


def _row(line: RunLine, now: float) -> list[Any]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    mark, style = MARKS[line.status]
    took = span((line.ended or now) - line.started) if line.started is not None else ""
    bar: Any = "" if line.total is None else ProgressBar(max(1, line.total), line.done if line.total else 1, width=BAR)
    return [Text(mark, style), Text(f"  {printable(line.run)}"), bar, took, Text(brief(_note(line), 100), style)]


def _note(line: RunLine) -> str:
    parts = [f"{line.done:,} of {line.total:,}"] if line.total is not None else []
    parts += [f"{line.failed:,} failed"] if line.failed else []
    if line.attempt > 1 and line.total is None:
        parts.append(f"{line.task}, attempt {line.attempt}")
    return ", ".join([*parts, *([line.note] if line.note else [])])


def _now() -> float:
    import time

    return time.time()
