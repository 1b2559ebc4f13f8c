"""noetl verify [RUN]: check the logs of runs against the invariants of the engine."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

import click
import msgspec

from noetl.cli.live import span
from noetl.cli.local import ALL, opened, pick
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.run import collect_garbage
from noetl.printable import printable
from noetl.runtime.audit import Audit, Progress
from noetl.runtime.audit_process import LARGE, verify_large
from noetl.settings import ServerAddress, settings

SHOW_SECONDS = 0.2
CLEAR_LINE = "\r\x1b[K"


@click.command("verify")
@click.argument("run", metavar="[RUN]", required=False)
@place_option
@output_option()
@click.pass_context
def command(ctx: click.Context, run: str | None, place: Place, output: str | None) -> None:
    """Check the log of a run, or of all runs, against every invariant. Exits with 1 if one is violated.

    Logs are streamed, so memory does not grow with their size. On a terminal a progress line shows the events checked,
    events per second and the time left. A large log is checked by two processes.
    """
    collect_garbage()
    executions, violations = _here(run, place.db) if place.server is None else _there(run, place.server)
    if output is not None:
        emit({"executions": executions, "violations": violations}, output)
    else:
        print_violations(violations)
        click.echo(f"{executions:,} execution{'s' * (executions != 1)}: {verdict(violations)}", err=True)
    ctx.exit(1 if violations else 0)


def _here(run: str | None, db: str | None) -> tuple[int, list[dict[str, Any]]]:
    with opened(db) as store:
        summaries = [pick(store, run)] if run is not None else store.summaries(limit=ALL)
        audit, violations = Audit(store), []
        for number, summary in enumerate(summaries, start=1):
            with ProgressLine(f"run {number:,} of {len(summaries):,}") as line:
                if store.seq(summary.execution_id) < LARGE:
                    violations += audit.of(summary, line.show)
                else:
                    violations += verify_large(settings(db).db, store, summary, line.show)
        return len(summaries), [msgspec.to_builtins(violation) for violation in violations]


def _there(run: str | None, address: ServerAddress) -> tuple[int, list[dict[str, Any]]]:
    """The server reads its own database; page by page, so that no answer is waited for too long."""
    from noetl.cli.remote import LONG, server

    with server(address) as remote:
        if run is not None:
            answer = remote.get(f"/executions/{remote.pick(run)}/verify", timeout=LONG)
            return answer["executions"], answer["violations"]
        executions, violations, cursor = 0, [], None
        while True:
            page = remote.get("/verify", timeout=LONG, cursor=cursor)
            executions += page["executions"]
            violations += page["violations"]
            cursor = page["next"]
            if cursor is None:
                return executions, violations


def print_violations(violations: list[dict[str, Any]], *, err: bool = False) -> None:
    """A line for each."""
    for violation in violations:
        name = click.style(violation["invariant"], fg="red", bold=True)
        click.echo(
            f"{violation['execution_id']}.{violation['seq']}: {name}: {printable(violation['message'])}", err=err
        )


def verdict(violations: list[dict[str, Any]]) -> str:
    """`sound`, or how many violations there are."""
    count = len(violations)
    return f"{count:,} violation{'s' * (count != 1)}" if count else click.style("sound", fg="green")


class ProgressLine:
    """A line on stderr, if that is a terminal, with the events checked, events per second and the time left."""

    def __init__(self, title: str) -> None:
        self.title, self.terminal = title, sys.stderr.isatty()
        self.began = self.shown = monotonic()
        self.visible = False

    def __enter__(self) -> ProgressLine:
        return self

    def show(self, progress: Progress) -> None:
        """Update the line, at most a few times per second."""
        now = monotonic()
        if self.terminal and now - self.shown >= SHOW_SECONDS:
            self.shown, self.visible = now, True
            click.echo(f"{CLEAR_LINE}{self.title}: {progress_text(progress, now - self.began)}", nl=False, err=True)

    def __exit__(self, *error: object) -> None:
        if self.visible:
            click.echo(CLEAR_LINE, nl=False, err=True)


def progress_text(progress: Progress, seconds: float) -> str:
    """`1,250,000 of 4,000,000 events, 100,000/s, 27.5 s left`."""
    rate = progress.events / seconds
    left = span((progress.total - progress.events) / rate)
    return f"{progress.events:,} of {progress.total:,} events, {rate:,.0f}/s, {left} left"
