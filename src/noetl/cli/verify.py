"""noetl verify [RUN]: check the logs of runs against the invariants of the engine."""

from __future__ import annotations

import sys
from time import monotonic

import click

from noetl.cli.output import emit_or
from noetl.cli.report import format_duration
from noetl.cli.start import collect_garbage
from noetl.cli.target import client_and_output
from noetl.client.ports import Client, Json
from noetl.printable import printable

REFRESH_SECONDS = 0.2
CLEAR_LINE = "\r\x1b[K"


@click.command("verify")
@click.argument("run", metavar="[RUN]", required=False)
@client_and_output
def command(run: str | None, client: Client, output: str | None) -> int:
    """Check the log of a run, or of all runs, against every invariant. Exits with 1 if one is violated.

    Logs are streamed, so memory does not grow with their size. On a terminal a progress line shows the events checked,
    events per second and the time left. A large log is checked by two processes.
    """
    collect_garbage()
    with ProgressLine() as line:
        checked = client.runs.verify(run, line.show if sys.stderr.isatty() else None)
    emit_or({key: checked[key] for key in ("executions", "violations")}, output, _print_checked)
    return 1 if checked["violations"] else 0


def _print_checked(checked: Json) -> None:
    executions, violations = checked["executions"], checked["violations"]
    print_violations(violations)
    click.echo(f"{executions:,} execution{'s' * (executions != 1)}: {verdict(violations)}", err=True)


def print_violations(violations: list[Json], *, err: bool = False) -> None:
    for violation in violations:
        name = click.style(violation["invariant"], fg="red", bold=True)
        click.echo(
            f"{violation['execution_id']}.{violation['seq']}: {name}: {printable(violation['message'])}", err=err
        )


def verdict(violations: list[Json]) -> str:
    count = len(violations)
    return f"{count:,} violation{'s' * (count != 1)}" if count else click.style("sound", fg="green")


class ProgressLine:
    """A line on a terminal: `run 1 of 2: 1,250,000 of 4,000,000 events, 100,000/s, 27.5 s left`."""

    def __init__(self) -> None:
        self.title, self.visible = "", False
        self.started = self.updated = monotonic()

    def __enter__(self) -> ProgressLine:
        return self

    def show(self, title: str, events: int, total: int) -> None:
        """Update the line, at most a few times per second."""
        now = monotonic()
        if title != self.title:
            self.title, self.started, self.updated = title, now, now
        if now - self.updated >= REFRESH_SECONDS:
            self.updated, self.visible = now, True
            rate = events / (now - self.started)
            remaining = format_duration((total - events) / rate)
            text = f"{events:,} of {total:,} events, {rate:,.0f}/s, {remaining} left"
            click.echo(f"{CLEAR_LINE}{title}: {text}", nl=False, err=True)

    def __exit__(self, *error: object) -> None:
        if self.visible:
            click.echo(CLEAR_LINE, nl=False, err=True)
