"""noetl runs ...: list and show runs, follow them, stop them, resume them, send them signals, and remove old ones."""

from __future__ import annotations

import os
import time
from datetime import datetime

import click

from noetl.cli.compare import diff_command, replay_command
from noetl.cli.export import export_command
from noetl.cli.fork import fork_command, retry_command
from noetl.cli.inputs import json_or_file
from noetl.cli.output import emit, emit_or
from noetl.cli.progress import EventLines, new_view
from noetl.cli.report import RESULT, error_text, format_duration, print_result
from noetl.cli.run import timeout_option
from noetl.cli.start import collect_garbage
from noetl.cli.target import client_and_output
from noetl.client.ports import PAGE, TERMINAL, Client, Items, Json
from noetl.errors import UsageError
from noetl.model.duration import seconds
from noetl.model.identity import uuid7
from noetl.model.status import STATUSES
from noetl.printable import printable
from noetl.settings import DEFAULT_RETENTION

LISTED = ("execution_id", "name", "path", "status", "started", "ended", "duration_ms")
"""Fields of a run in a list."""
AGE_HELP = "Minimum time since the end of a run."
run_argument = click.argument("run", metavar="RUN")


@click.group("runs")
def command() -> None:
    """List, follow and control runs. RUN is an id, the beginning of one, or `last`."""


for subcommand in (fork_command, retry_command, replay_command, diff_command, export_command):
    command.add_command(subcommand)


# -- reading --------------------------------------------------------------------------------------------------------


@command.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="List only runs with this status.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=PAGE, show_default=True, help="Maximum number of runs to list."
)
@client_and_output
def list_command(status: str | None, limit: int, client: Client, output: str | None) -> None:
    """List runs, newest first."""
    runs = client.runs.list(status, limit)
    if output is not None:
        emit([{key: run[key] for key in LISTED} for run in runs], output)
    else:
        emit(list(map(_line, runs)), "table")


def _line(run: Json) -> Json:
    started = datetime.fromisoformat(run["started"]).timestamp()
    return {
        "run": run["execution_id"],
        "name": run["name"],
        "status": f"{run['status']} (no process)" if run["orphaned"] else run["status"],
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)),
        "took": format_duration(run["duration_ms"] / 1000),
    }


@command.command("show")
@run_argument
@client_and_output
def show_command(run: str, client: Client, output: str | None) -> None:
    """Show the status, steps, result and error of a run."""
    record = client.runs.get(run)
    if output is not None:
        emit({key: record[key] for key in (*RESULT, "started", "ended")}, output)
        return
    click.echo(f"{printable(record['name'])}  {record['status']}  {record['execution_id']}")
    took = format_duration(record["duration_ms"] / 1000)
    click.echo(f"started {record['started']}, {took}, {record['events']:,} events")
    steps = [
        {"step": name, "status": step["status"], "runs": step["runs"], "result": step["result"]}
        for name, step in record["steps"].items()
    ]
    if steps:
        click.echo()
        emit(steps, "table")
    if record["error"] is not None:
        click.echo(f"\n{error_text(record)}")
    elif record["status"] in TERMINAL:
        click.echo()
        emit(record["result"], "json")


@command.command("events")
@run_argument
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Print only events after this one.")
@client_and_output
def events_command(run: str, after: int, client: Client, output: str | None) -> None:
    """Print the log of a run; `-o jsonl` prints one envelope per line."""
    pages = client.runs.events(run, after)
    if output == "jsonl":
        for page in pages:
            emit(page, output)
    elif output is not None:
        emit([event for page in pages for event in page], output)
    else:
        keys = ("seq", "timestamp", "event_type", "entity_id", "status")
        emit([{key: event[key] for key in keys} for page in pages for event in page], "table")


@command.command("logs")
@run_argument
@client_and_output
def logs_command(run: str, client: Client, output: str | None) -> None:
    """Print the standard output and standard error of a run's tasks."""
    emit_or(client.runs.output(run), output, _print_output)


def _print_output(lines: Items) -> None:
    for line in lines:
        click.echo(f"{click.style(printable(line['task']), fg='cyan')} | {printable(line['line'])}")


@command.command("watch")
@run_argument
@timeout_option
@client_and_output
def watch_command(run: str, timeout: float | None, client: Client, output: str | None) -> int:
    """Follow a run until it ends, then print its result; `-o jsonl` prints its events as they come."""
    if output == "jsonl":
        return 0 if client.runs.watch(run, EventLines(), timeout)["status"] == "succeeded" else 1
    return print_result(client.runs.watch(run, new_view(output), timeout), output)


# -- commands to a run ----------------------------------------------------------------------------------------------


@command.command("cancel")
@run_argument
@click.option("--reason", default="", help="Reason, which is kept in the log.")
@client_and_output
def cancel_command(run: str, reason: str, client: Client, output: str | None) -> None:
    """Stop a run for good, and the runs it has started."""
    emit_or(client.runs.cancel(run, reason), output, _print_status)


@command.command("pause")
@run_argument
@client_and_output
def pause_command(run: str, client: Client, output: str | None) -> None:
    """Start no new tasks; running tasks finish. `resume` continues the run."""
    emit_or(client.runs.pause(run), output, _print_status)


def _print_status(run: Json) -> None:
    click.echo(f"{run['execution_id']} {run['status']}")


@command.command("signal")
@run_argument
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE", help="Payload of the signal.")
@click.option("--id", help="Id of the signal: a second signal with the same id is ignored.")
@client_and_output
def signal_command(run: str, name: str, data: str | None, id: str | None, client: Client, output: str | None) -> None:
    """Send a signal to a run. Prints `accepted`, `duplicate` for a known id, or `late` if the run has ended."""
    id = id or uuid7(time.time(), os.urandom(8))
    signalled = client.runs.signal(run, name, id, json_or_file(data, "--data"))
    emit_or(signalled, output, lambda signalled: click.echo(signalled["answer"]))


@command.command("resume")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--all", "every", is_flag=True, help="Resume every run that is paused or whose process is gone.")
@client_and_output
def resume_command(run: str | None, every: bool, client: Client, output: str | None) -> int:
    """Continue a run that was paused or whose process is gone, and wait for its end as `noetl run` does."""
    if (run is None) is not every:
        raise UsageError("name a RUN, or use --all")
    collect_garbage()
    if run is not None:
        return print_result(client.runs.resume(run, lambda: new_view(output)), output)
    ended: Items = []

    def on_end(run: Json) -> None:
        ended.append({key: run[key] for key in RESULT})
        if output is None:
            print_result(run, None)

    try:
        if not client.runs.resume_all(lambda: new_view(output), on_end) and output is None:
            click.echo("nothing to resume", err=True)
    finally:
        if output is not None:
            emit(ended, output)
    return 0 if all(run["status"] == "succeeded" for run in ended) else 1


@command.command("prune")
@click.option("--older-than", default=DEFAULT_RETENTION, show_default=True, metavar="DURATION", help=AGE_HELP)
@click.option("--dry-run", is_flag=True, help="List the runs that would be removed, and remove none.")
@client_and_output
def prune_command(older_than: str, dry_run: bool, client: Client, output: str | None) -> None:
    """Remove runs that ended long ago, with their logs, results and output.

    Open runs stay, and so do their parents and children. Results that a remaining run refers to are kept, and so is all
    content that is younger than a day. Servers prune by themselves after 30 days (`noetl server --retention`), and so
    does `noetl run`, a few runs at a time.
    """
    age = 0.0 if older_than == "0" else seconds(older_than)
    if age is None:
        raise UsageError(f"--older-than {older_than}: write a duration such as 12h or 30d")
    removed, runs = client.runs.prune(age, dry_run)
    if output is not None:
        listed = [{key: run[key] for key in LISTED} for run in runs]
        emit({"dry_run": dry_run, "removed": removed, "runs": listed}, output)
        return
    if dry_run:
        emit([{key: run[key] for key in ("execution_id", "name", "status", "ended")} for run in runs], "table")
    count = len(runs) if dry_run else removed
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{count:,} run{'s' * (count != 1)} {verb}", err=True)
