"""noetl schedule ...: playbooks that start at certain times. A server on the database starts them."""

from __future__ import annotations

import click

from noetl.cli.inputs import json_or_file, payload_options, split_version
from noetl.cli.output import emit, emit_or_echo, output_option
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json
from noetl.errors import UsageError

OVERLAP_HELP = "Firing while a run of the schedule is open: it is skipped, queued, or starts a second run."
MISSED_HELP = "Firings that were due while no server ran: none, one run for all, or one run each (100 at most)."


@click.group("schedule")
def command() -> None:
    """Start registered playbooks at certain times.

    Servers start them: `noetl server` and `noetl dev`. Each firing starts one run, however many servers there are.
    """


@command.command("add")
@click.argument("name")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--cron", metavar="EXPRESSION", help="Minute, hour, day, month and weekday; or @daily and the like.")
@click.option("--every", metavar="DURATION", help="Interval, such as 90s, 15m or 1h30m.")
@click.option("--at", metavar="TIME", help="A single time, such as 2030-01-31T09:00.")
@click.option("--timezone", default="UTC", show_default=True, help="Time zone of --cron and --at.")
@click.option(
    "--overlap", type=click.Choice(["skip", "queue", "allow"]), default="skip", show_default=True, help=OVERLAP_HELP
)
@click.option(
    "--missed", type=click.Choice(["skip", "once", "all"]), default="once", show_default=True, help=MISSED_HELP
)
@payload_options
@click.option("--ctx", metavar="JSON|@FILE", help="Initial ctx: a JSON object, or a file that contains one.")
@click.option("--paused", is_flag=True, help="Add the schedule paused.")
@click.option("--replace", is_flag=True, help="Change the schedule if it exists.")
@client_option
@output_option()
def add_command(
    name: str,
    path: str,
    payload: Json,
    ctx: str | None,
    paused: bool,
    replace: bool,
    client: Client,
    output: str | None,
    **timing: str | None,
) -> None:
    """Start a playbook by --cron, --every or --at."""
    playbook, version = split_version(path)
    initial_ctx = json_or_file(ctx, "--ctx")
    if initial_ctx is not None and not isinstance(initial_ctx, dict):
        raise UsageError("--ctx must be a JSON object, such as '{\"limit\": 5}'")
    request = {
        "path": playbook,
        "version": version,
        "payload": payload,
        "ctx": initial_ctx or {},
        "paused": paused or None,
        **timing,
    }
    _print(client.schedules.put(name, request, replace), output)


@command.command("list")
@client_option
@output_option()
def list_command(client: Client, output: str | None) -> None:
    """List schedules with their last and next firing."""
    schedules = client.schedules.list()
    emit(schedules if output is not None else list(map(_line, schedules)), output or "table")


@command.command("show")
@click.argument("name")
@client_option
@output_option()
def show_command(name: str, client: Client, output: str | None) -> None:
    """Show a schedule and the outcome of its latest firings."""
    emit(client.schedules.get(name), output or "yaml")


@command.command("pause")
@click.argument("name")
@client_option
@output_option()
def pause_command(name: str, client: Client, output: str | None) -> None:
    """Start nothing until the schedule is resumed."""
    _print(client.schedules.pause(name), output)


@command.command("resume")
@click.argument("name")
@client_option
@output_option()
def resume_command(name: str, client: Client, output: str | None) -> None:
    """Continue with the next firing. Firings during the pause are skipped."""
    _print(client.schedules.resume(name), output)


@command.command("trigger")
@click.argument("name")
@client_option
@output_option()
def trigger_command(name: str, client: Client, output: str | None) -> None:
    """Fire now, also while the schedule is paused, and print the id of the run.

    On a database, a server that works on it starts the run.
    """
    firing = client.schedules.trigger(name)
    emit_or_echo(firing, output, firing["execution_id"])
    if firing["queued"]:
        click.echo(f"schedule {name}: the run starts when the previous one has ended", err=True)


@command.command("delete")
@click.argument("name")
@client_option
def delete_command(name: str, client: Client) -> None:
    """Delete a schedule. Runs that it has started go on."""
    client.schedules.delete(name)
    click.echo(f"schedule {name} is deleted", err=True)


def _print(schedule: Json, output: str | None) -> None:
    if output is not None:
        emit(schedule, output)
        return
    following = f"next at {schedule['next']}" if schedule["next"] else schedule["status"]
    click.echo(f"schedule {schedule['name']} ({_when(schedule)}): {following}", err=True)


def _line(schedule: Json) -> Json:
    last = schedule["last"]
    return {
        "name": schedule["name"],
        "path": schedule["path"] + (f"@{schedule['version']}" if schedule["version"] else ""),
        "when": _when(schedule),
        "status": schedule["status"],
        "next": schedule["next"],
        "last": None if last is None else f"{last['due']} {last['outcome']}",
    }


def _when(schedule: Json) -> str:
    if schedule["cron"]:
        return f"{schedule['cron']} {schedule['timezone']}"
    return f"every {schedule['every']:g}s" if schedule["every"] else f"at {schedule['at']}"
