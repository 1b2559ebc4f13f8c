"""noetl runs ...: list and show runs, follow them, stop them, resume them, and send them signals."""

from __future__ import annotations

import os
import time
from datetime import datetime

import click

from noetl.cli.diff import diff_command
from noetl.cli.export import export_command
from noetl.cli.fork import fork_command, retry_command
from noetl.cli.inputs import json_or_file
from noetl.cli.output import emit, emit_or_echo, output_option
from noetl.cli.progress import EventLines, new_view
from noetl.cli.prune import prune_command
from noetl.cli.replay import replay_command
from noetl.cli.report import RESULT, error_text, format_duration, print_result
from noetl.cli.start import collect_garbage
from noetl.cli.target import client_option
from noetl.client.ports import LISTED, PAGE, TERMINAL, Client, Json
from noetl.errors import UsageError
from noetl.model.identity import uuid7
from noetl.model.status import STATUSES
from noetl.printable import printable

run_argument = click.argument("run", metavar="RUN")


@click.group("runs")
def command() -> None:
    """List, follow and control runs. RUN is an id, the beginning of one, or `last`."""


command.add_command(prune_command)
command.add_command(fork_command)
command.add_command(retry_command)
command.add_command(replay_command)
command.add_command(diff_command)
command.add_command(export_command)


# -- reading --------------------------------------------------------------------------------------------------------


@command.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="List only runs with this status.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=PAGE, show_default=True, help="Maximum number of runs to list."
)
@client_option
@output_option()
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
@client_option
@output_option()
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
@client_option
@output_option()
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
@client_option
@output_option()
def logs_command(run: str, client: Client, output: str | None) -> None:
    """Print the standard output and standard error of a run's tasks."""
    lines = client.runs.output(run)
    if output is not None:
        emit(lines, output)
        return
    for line in lines:
        click.echo(f"{click.style(printable(line['task']), fg='cyan')} | {printable(line['line'])}")


@command.command("watch")
@run_argument
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Maximum time to wait; then exit 124.")
@client_option
@output_option()
@click.pass_context
def watch_command(ctx: click.Context, run: str, timeout: float | None, client: Client, output: str | None) -> None:
    """Follow a run until it ends, then print its result; `-o jsonl` prints its events as they come."""
    if output == "jsonl":
        ctx.exit(0 if client.runs.watch(run, EventLines(), timeout)["status"] == "succeeded" else 1)
    ctx.exit(print_result(client.runs.watch(run, new_view(output), timeout), output))


# -- commands to a run ----------------------------------------------------------------------------------------------


@command.command("cancel")
@run_argument
@click.option("--reason", default="", help="Reason, which is kept in the log.")
@client_option
@output_option()
def cancel_command(run: str, reason: str, client: Client, output: str | None) -> None:
    """Stop a run for good, and the runs it has started."""
    _print_status(client.runs.cancel(run, reason), output)


@command.command("pause")
@run_argument
@client_option
@output_option()
def pause_command(run: str, client: Client, output: str | None) -> None:
    """Start no new tasks; running tasks finish. `resume` continues the run."""
    _print_status(client.runs.pause(run), output)


def _print_status(run: Json, output: str | None) -> None:
    emit_or_echo(run, output, f"{run['execution_id']} {run['status']}")


@command.command("signal")
@run_argument
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE", help="Payload of the signal.")
@click.option("--id", help="Id of the signal: a second signal with the same id is ignored.")
@client_option
@output_option()
def signal_command(run: str, name: str, data: str | None, id: str | None, client: Client, output: str | None) -> None:
    """Send a signal to a run. Prints `accepted`, `duplicate` for a known id, or `late` if the run has ended."""
    id = id or uuid7(time.time(), os.urandom(8))
    answer = client.runs.signal(run, name, id, json_or_file(data, "--data"))
    emit_or_echo(answer, output, answer["answer"])


@command.command("resume")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--all", "every", is_flag=True, help="Resume every run that is paused or whose process is gone.")
@client_option
@output_option()
@click.pass_context
def resume_command(ctx: click.Context, run: str | None, every: bool, client: Client, output: str | None) -> None:
    """Continue a run that was paused or whose process is gone, and wait for its end as `noetl run` does."""
    if (run is None) is not every:
        raise UsageError("name a RUN, or use --all")
    collect_garbage()
    if run is not None:
        ctx.exit(print_result(client.runs.resume(run, lambda: new_view(output)), output))
    ended: list[Json] = []
    codes = [0]

    def on_end(run: Json) -> None:
        if output is None:
            codes.append(print_result(run, None))
        else:
            ended.append({key: run[key] for key in RESULT})
            codes.append(0 if run["status"] == "succeeded" else 1)

    try:
        if not client.runs.resume_all(lambda: new_view(output), on_end) and output is None:
            click.echo("nothing to resume", err=True)
    finally:
        if output is not None:
            emit(ended, output)
    ctx.exit(max(codes))
