"""The progress of a run: lines on standard error, or a tree with progress bars if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from noetl.cli.output import (
    brief,
    emit,
    format_duration,
    local_time,
    print_message,
    target_options_text,
    terminal_columns,
)
from noetl.client.client import Items, ProgressView, SignalCommands
from noetl.engine import events as e
from noetl.engine.step_runs import MAX_CONTINUED
from noetl.engine.tasks import CONTINUES
from noetl.engine.waits import signals_text
from noetl.model.identity import TaskId, iteration_id, step_of
from noetl.model.outcome import Outcome
from noetl.printable import printable
from noetl.store.codec import decode
from noetl.store.store import Row
from noetl.wording import counted

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

BAR_WIDTH = 24
MIN_COLUMNS = 40  # narrower terminals get lines instead of the tree


def new_view(output: str | None) -> ProgressView | None:
    """Shows a run to people; None if the output is data."""
    if output is not None:
        return None
    return Tree() if sys.stderr.isatty() and terminal_columns() >= MIN_COLUMNS else Lines()


class EventLines(ProgressView):
    def show(self, rows: Sequence[Row], envelopes: Callable[[], Items]) -> None:
        emit(envelopes(), "jsonl")


def waits_for(event: e.StepPaused) -> str:
    texts = {
        "signal": f"waits for {signals_text(event.keys or (event.key,))}",
        "child": f"waits for the child {event.key}",
    }
    texts |= {"retry": "waits for its next attempt", "event": "listens"}
    text = texts.get(event.until or "", "was lost" if event.reason == "lost" else "was returned")
    return f"{text} until {local_time(event.due)}" if event.until == "signal" and event.due is not None else text


def answer_text(event: e.StepPaused, signal_commands: SignalCommands) -> str:
    """The commands that send the signals which a run waits for; empty if it waits for something else."""
    if event.until != "signal":
        return ""
    commands = signal_commands(step_of(event.run), event.keys or (event.key,))
    texts = [f"`{command}{target_options_text()}`" for command in commands]
    return f"answer with {' or '.join(texts)}" if texts else ""


class FailureLine(NamedTuple):
    line: str
    error: str
    is_item: bool


class Lines(ProgressView):
    """One line on standard error for each event that matters to people."""

    def __init__(self) -> None:
        self.last_old = 0
        self.started: dict[str, float] = {}
        self.looped: set[str] = set()  # step runs whose loop is done; the rest of a classic step may follow
        self.problems: dict[TaskId, str] = {}
        self.continued = 0
        self.last = ""
        self.signal_commands: SignalCommands = lambda step, names: []
        self.failures: list[FailureLine] = []  # not printed yet: the run may end with them
        self.old_waits: dict[tuple[str, int | None], e.StepPaused] = {}  # for signals, since before the view began

    def begin(self, name: str, execution: str, last_old: int, signal_commands: SignalCommands) -> None:
        self.last_old, self.signal_commands = last_old, signal_commands
        print_message(f"{printable(name)} {execution}")

    def show(self, rows: Sequence[Row], envelopes: Callable[[], Items]) -> None:
        lines: list[str] = []
        for row in rows:  # most are not even decoded
            if self.failures and row.type not in UNDECIDED:
                lines += self._release(_final_error(row) if row.type == e.PlaybookProcessed.name else "")
            if row.type in PRINTED and (
                row.type != e.TaskDone.name or b'"error"' in row.data or b'"retry"' in row.data
            ):
                event = decode(row.type, row.data)
                self._note_wait(event, is_old=row.seq <= self.last_old)
                for line in self._lines(event, row.at):
                    if row.seq <= self.last_old:
                        continue
                    if isinstance(line, FailureLine):
                        self.failures.append(line)
                    else:
                        lines.append(line)
        if rows and rows[-1].seq >= self.last_old:
            lines += [line for wait in self.old_waits.values() for line in self._wait_lines(wait)]
            self.old_waits.clear()
        self._print(lines if rows else self._release())

    def close(self) -> None:
        self._print(self._release())

    def _release(self, final: str = "") -> list[str]:
        """The failures, each error once: a failed item fails its step, and the result of the run prints the error with
        which it ended."""
        lines, printed = [], ""
        for line, error, is_item in self.failures:
            is_printed = error == final or (error == printed and not is_item)
            lines.append(line if is_printed else f"{line}: {brief(error)}")
            printed = error
        self.failures.clear()
        return lines

    def _print(self, lines: list[str]) -> None:
        for line, same in groupby(lines):  # each lane of a loop is lost, and starts again
            if line != self.last:
                number = len(list(same))
                print_message(printable(f"{line}, {number:,} times" if number > 1 else line))
            self.last = line

    def _lines(self, event: e.Event, at: float) -> Iterator[str | FailureLine]:
        match event:
            case e.ExecutionForked():  # times before it are those of the source
                self.started = dict.fromkeys(self.started, at)
            case e.StepRegranted(run=run, reason=reason):
                self.started.setdefault(run, at)
                yield f"{run} started again ({reason})"
            case e.StepStarted(run=run):
                if run not in self.started and run not in self.looped:
                    self.started[run] = at
                    yield f"{run} started"
            case e.LoopDone(run=run, total=total, failed=failed) if run not in self.looped:
                self.looped.add(run)
                failures = f", {failed:,} failed" if failed else ""
                yield f"{run} done in {self._took(run, at)}, {counted(total, 'item')}{failures}"
            case e.StepDone(run=run) if run not in self.looped:
                yield f"{run} done in {self._took(run, at)}"
            case e.StepFailed(run=run, error=error):
                yield FailureLine(f"{run} failed in {self._took(run, at)}", f"{error.kind}: {error.message}", False)
            case e.IterationFailed(run=run, index=index, error=error):
                yield FailureLine(f"{run}[{index}] failed", f"{error.kind}: {error.message}", True)
            case e.TaskDone(task=task, outcome=outcome) if event.do == "retry":
                self.problems[task] = retry_reason(outcome)
            case e.TaskDone(task=task, outcome=outcome) if outcome.error is not None and event.do in CONTINUES:
                self.continued += 1
                if self.continued <= MAX_CONTINUED:
                    yield f"{task} continued past {brief(f'{outcome.error.kind}: {outcome.error.message}')}"
            case e.TaskRetryScheduled(task=task, attempt=attempt, due=due):
                yield f"{task} attempt {attempt} in {format_duration(due - at)} ({self.problems.pop(task, 'again')})"
            case e.StepPaused() if event.reason != "returned":
                yield from self._wait_lines(event)
            case e.StepResumed(run=run, index=index):
                yield f"{iteration_id(run, index)} resumed"
            case e.MessageReceived(type=kind):
                yield f"signal {kind!r} received"
            case e.PlaybookCancelled(reason=reason):
                yield f"cancelled{f': {brief(reason)}' if reason else ''}"
            case e.PlaybookPaused() | e.PlaybookResumed():
                yield event.name.partition(".")[2]

    def _note_wait(self, event: e.Event, *, is_old: bool) -> None:
        match event:
            case e.StepPaused(run=run, index=index) if is_old and event.until == "signal":
                self.old_waits[run, index] = event
            case e.StepResumed(run=run, index=index) | e.StepPaused(run=run, index=index):
                self.old_waits.pop((run, index), None)
            case e.ExecutionForked(again=again, reopened=reopened):
                self._drop_waits({*again, reopened})
            case e.StepDone(run=run) | e.StepFailed(run=run) | e.LoopDone(run=run):
                self._drop_waits({run})
            case e.PlaybookCancelled():
                self.old_waits.clear()

    def _drop_waits(self, runs: set[str]) -> None:
        self.old_waits = {key: wait for key, wait in self.old_waits.items() if key[0] not in runs}

    def _wait_lines(self, event: e.StepPaused) -> Iterator[str]:
        yield f"{iteration_id(event.run, event.index)} {waits_for(event)}"
        if answer := answer_text(event, self.signal_commands):
            yield f"  {answer}"

    def _took(self, run: str, at: float) -> str:
        return format_duration(at - self.started.pop(run, at))


def _final_error(row: Row) -> str:
    error = decode(row.type, row.data).error  # type: ignore[attr-defined]
    return f"{error['kind']}: {error['message']}" if error else ""


STEP_EVENTS = (e.StepStarted, e.StepRegranted, e.StepDone, e.StepFailed, e.StepPaused, e.StepResumed, e.LoopDone)
OTHER_EVENTS = (e.IterationFailed, e.TaskDone, e.TaskRetryScheduled, e.MessageReceived)
RUN_EVENTS = (e.ExecutionForked, e.PlaybookCancelled, e.PlaybookPaused, e.PlaybookResumed)
PRINTED = frozenset(kind.name for kind in STEP_EVENTS + OTHER_EVENTS + RUN_EVENTS)
UNDECIDED = frozenset(kind.name for kind in (e.IterationFailed, e.StepFailed, e.NextEvaluated, e.WorkflowFinished))
"""Events of a failure, after which the run ends or continues."""


MARKS = {
    "scheduled": ("·", "dim"),
    "running": ("▶", "cyan"),
    "waiting": ("…", "yellow"),
    "paused": ("‖", "yellow"),
    "succeeded": ("✔", "green"),
    "failed": ("✘", "red"),
    "cancelled": ("■", "magenta"),
}


def retry_reason(outcome: Outcome) -> str:
    """The reason of a retry."""
    error = outcome.error
    return brief(f"{error.kind}: {error.message}") if error is not None else "retried by a rule"


class StepRow(msgspec.Struct):
    run: str
    status: str = "scheduled"
    started: float | None = None
    ended: float | None = None
    total: int | None = None
    done: int = 0
    failed: int = 0
    running: dict[TaskId, tuple[int, float]] = {}  # attempt and start of each task
    retried: tuple[str, int] | None = None  # the task that waits for its next attempt, or runs it
    reason: str = ""  # of the current retry
    answer: str = ""
    note: str = ""

    def update(self, event: e.Event, at: float) -> None:
        match event:
            case e.TaskStarted(task=task, attempt=attempt):
                self.running[task], self.retried = (attempt, event.began(at)), None
                self.reason = self.reason if attempt > 1 else ""
            case e.TaskDone(task=task, outcome=outcome):
                self.running.pop(task, None)
                if event.do == "retry":
                    self.reason = retry_reason(outcome)
            case e.TaskRetryScheduled(task=task, attempt=attempt):
                self.retried = task.label, attempt
            case e.StepStarted() | e.StepResumed():
                self.status, self.note, self.answer = "running", "", ""
                self.started = at if self.started is None else self.started
            case e.StepDone() | e.LoopDone():
                self.status, self.ended, self.note, self.answer = "succeeded", at, "", ""
                self.running.clear()
            case e.StepFailed(error=error):
                self.status, self.ended, self.note = "failed", at, f"{error.kind}: {error.message}"
                self.answer = ""
                self.running.clear()
            case e.LoopStarted(total=total):
                self.total = total
            case e.IterationDone() | e.IterationFailed():
                self.done += 1
                self.failed += isinstance(event, e.IterationFailed)
            case e.StepPaused(reason=reason) if reason != "returned":
                self.status, self.note = "waiting", waits_for(event)
                self.running.clear()

    def fork(self, at: float, *, is_repeated: bool) -> None:
        """Count from the start of the fork, without the failed items that run again."""
        self.started = None if self.started is None else at
        self.running.clear()
        if is_repeated:
            self.done, self.failed = self.done - self.failed, 0

    def row(self, now: float) -> list[Any]:
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        mark, style = MARKS[self.status]
        style = "yellow" if self.failed and self.status == "succeeded" else style
        took = format_duration((self.ended or now) - self.started) if self.started is not None else ""
        bar: Any = ""
        if self.total is not None:
            bar = ProgressBar(max(1, self.total), self.done if self.total else 1, width=BAR_WIDTH)
        items = f"{self.done:,} of {self.total:,}" if self.total is not None else ""
        failed = f"{self.failed:,} failed" if self.failed else ""
        note = ", ".join(filter(None, [items, failed, self._activity(now), self.note]))
        return [Text(mark, style), Text(f"  {printable(self.run)}"), bar, took, Text(brief(note, 100), style)]

    def _activity(self, now: float) -> str:
        """The task that runs longest, with its attempt and its time; or the one that is tried again."""
        if self.running and self.ended is None:
            task, (attempt, since) = min(self.running.items(), key=lambda item: item[1][1])
            place = task.label if task.index is None else f"[{task.index}]/{task.label}"
            more = f", attempt {attempt}" if attempt > 1 else ""
            reason = f" ({self.reason})" if attempt > 1 and self.reason else ""
            return f"{place}{more}, {format_duration(now - since)}{reason}"
        if self.retried is None or self.ended is not None:
            return ""
        return f"{self.retried[0]}, attempt {self.retried[1]}{f' ({self.reason})' if self.reason else ''}"


class Tree(ProgressView):
    """Draws the run and its step runs on the terminal, and draws them again when something changes."""

    def __init__(self) -> None:
        self.name = self.execution = ""
        self.status = "running"
        self.started: float | None = None
        self.ended: float | None = None
        self.steps: dict[str, StepRow] = {}
        self.live: Live | None = None
        self.signal_commands: SignalCommands = lambda step, names: []

    def begin(self, name: str, execution: str, last_old: int, signal_commands: SignalCommands) -> None:
        self.name, self.execution, self.signal_commands = name, execution, signal_commands

    def show(self, rows: Sequence[Row], envelopes: Callable[[], Items]) -> None:
        for row in rows:
            self._take(decode(row.type, row.data), row.at)
        if self.live is None:
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self.live.start()
        self.live.update(self._drawing(self.live.console.height), refresh=True)

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()

    def _take(self, event: e.Event, at: float) -> None:
        self.started = at if self.started is None else self.started
        match event:
            case e.PlaybookProcessed(outcome=outcome):
                self.status, self.ended = outcome, at
                for step in self.steps.values():
                    if step.ended is None:
                        step.status, step.ended = "cancelled", at
            case e.ExecutionForked(again=again, reopened=reopened):
                self.started = at
                for open_step in self.steps.values():
                    if open_step.ended is None:
                        open_step.fork(at, is_repeated=open_step.run in (*again, reopened))
            case e.PlaybookPaused():
                self.status = "paused"
            case e.PlaybookResumed():
                self.status = "running"
            case e.TaskEvent(task=task):
                self.steps.setdefault(task.run, StepRow(task.run)).update(event, at)
            case _ if (run := getattr(event, "run", None)) is not None:
                step = self.steps.setdefault(run, StepRow(run))
                step.update(event, at)
                if isinstance(event, e.StepPaused):
                    step.answer = answer_text(event, self.signal_commands)

    def _drawing(self, height: int) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = time.time()
        grid = Table.grid(padding=(0, 1))
        mark, style = MARKS[self.status]
        took = format_duration((self.ended or now) - (self.started or now))
        grid.add_row(Text(mark, style), Text(printable(self.name), "bold"), "", took, Text(self.execution, "dim"))
        steps = list(self.steps.values())
        hidden = max(0, len(steps) - max(5, height - 4))
        if hidden:
            grid.add_row("", Text(f"{hidden:,} earlier", "dim"))
        for step in steps[hidden:]:
            grid.add_row(*step.row(now))
        answers = [Text(printable(f"    {step.answer}"), "yellow") for step in steps[hidden:] if step.answer]
        return Group(grid, *answers)  # outside of the grid, whose cells wrap
