"""noetl schedule ..., noetl hook ...: playbooks that start at certain times, or by signed requests. A server on the
database starts them. A generated secret of a hook is printed once."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import click

from noetl.cli.options import add_resource, client_and_output, input_options, secret_text, split_version
from noetl.cli.output import emit, print_message
from noetl.client.client import Client, Items, Json, print_warnings
from noetl.errors import UsageError

OVERLAP, MISSED = click.Choice(["skip", "queue", "allow"]), click.Choice(["skip", "once", "all"])
OVERLAP_HELP = "Firing while a run of the schedule is open: it is skipped, queued, or starts a second run."
MISSED_HELP = "Firings that were due while no server ran: none, one run for all, or one run each (100 at most)."
CRON_HELP = "Minute, hour, day, month and weekday; or @daily and the like."
EVERY_HELP = "Interval, such as 90s, 15m or 1h30m."
AT_HELP = "A single time, such as 2030-01-31T09:00."
ZONE_HELP = "Time zone of --cron and --at."
SECRET_HELP = "Secret of the sender, read from a file or (-) from standard input; default a generated one."


@click.group("schedule")
def schedule_command() -> None:
    """Start registered playbooks on a schedule.

    Servers start them: `noetl server` and `noetl dev`. Each firing starts one run, however many servers there are.
    """


@schedule_command.command("add")
@click.argument("name")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--cron", metavar="EXPRESSION", help=CRON_HELP)
@click.option("--every", metavar="DURATION", help=EVERY_HELP)
@click.option("--at", metavar="TIME", help=AT_HELP)
@click.option("--timezone", default="UTC", show_default=True, help=ZONE_HELP)
@click.option("--overlap", type=OVERLAP, default="skip", show_default=True, help=OVERLAP_HELP)
@click.option("--missed", type=MISSED, default="once", show_default=True, help=MISSED_HELP)
@input_options
@click.option("--paused", is_flag=True, default=None, help="Add the schedule paused.")
@click.option("--replace", is_flag=True, help="Change the schedule if it exists.")
@client_and_output
def add_schedule(
    name: str, path: str, inputs: Json, replace: bool, client: Client, output: str | None, **request: Any
) -> None:
    """Start a playbook by --cron, --every or --at."""
    playbook, version = split_version(path)
    request |= {"path": playbook, "version": version, **inputs}
    schedule = client.schedules.put(name, request, replace)
    print_warnings(schedule["warnings"], print_message)
    emit(schedule, output, _print_schedule)


@schedule_command.command("preview")
@click.option("--cron", metavar="EXPRESSION", help=CRON_HELP)
@click.option("--every", metavar="DURATION", help=EVERY_HELP)
@click.option("--at", metavar="TIME", help=AT_HELP)
@click.option("--timezone", default="UTC", show_default=True, help=ZONE_HELP)
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of firings.")
def preview_schedule(cron: str | None, every: str | None, at: str | None, timezone: str, count: int) -> None:
    """Print the next firings of a schedule that does not exist yet, in its time zone."""
    from noetl.triggers import schedules

    request = schedules.ScheduleRequest(path="preview", cron=cron, every=every, at=at, timezone=timezone)
    for due in schedules.upcoming(schedules.new_schedule("preview", request, time.time()), count):
        click.echo(f"{datetime.fromtimestamp(due, schedules.zone_of(timezone)):%a %Y-%m-%d %H:%M:%S %Z}")


@schedule_command.command("show")
@click.argument("name")
@client_and_output
def show_schedule(name: str, client: Client, output: str | None) -> None:
    """Show a schedule and the outcome of its latest firings."""
    emit(client.schedules.get(name), output or "yaml")


def _add_change(verb: str, help: str) -> None:
    @schedule_command.command(verb, help=help)
    @click.argument("name")
    @client_and_output
    def change_schedule(name: str, client: Client, output: str | None) -> None:
        emit(client.schedules.act(name, verb), output, _print_schedule)


_add_change("pause", "Start nothing until the schedule is resumed.")
_add_change("resume", "Continue with the next firing. Firings during the pause are skipped.")


@schedule_command.command("trigger")
@click.argument("name")
@client_and_output
def trigger_schedule(name: str, client: Client, output: str | None) -> None:
    """Fire now, also while the schedule is paused, and print the id of the run.

    On a database, a server that works on it starts the run.
    """
    firing = client.schedules.act(name, "trigger")
    emit(firing, output, lambda firing: click.echo(firing["execution_id"]))
    if firing["queued"]:
        print_message(f"schedule {name}: the run starts when the previous one has ended")


def _print_schedules(schedules: Items) -> None:
    rows = [
        {
            "name": schedule["name"],
            "path": schedule["path"] + (f"@{schedule['version']}" if schedule["version"] else ""),
            "when": _when(schedule),
            "status": schedule["status"],
            "next": schedule["next"],
            "last": (last := schedule["last"]) and f"{last['due']} {last['outcome']}",
        }
        for schedule in schedules
    ]
    emit(rows, "table")


LIST_HELP = "List schedules with their last and next firing."
DELETE_HELP = "Delete a schedule. Runs that it has started go on."
add_resource(schedule_command, "schedules", LIST_HELP, DELETE_HELP, show=_print_schedules)


def _print_schedule(schedule: Json) -> None:
    following = f"next at {schedule['next']}" if schedule["next"] else schedule["status"]
    print_message(f"schedule {schedule['name']} ({_when(schedule)}): {following}")


def _when(schedule: Json) -> str:
    if schedule["cron"]:
        return f"{schedule['cron']} {schedule['timezone']}"
    return f"every {schedule['every']:g}s" if schedule["every"] else f"at {schedule['at']}"


@click.group("hook")
def hook_command() -> None:
    """Start registered playbooks by signed requests: POST /api/v1/hooks/NAME of a server.

    The sender signs the time and the request body with the secret of the hook. The secret is encrypted like a
    credential.
    """


@hook_command.command("add")
@click.argument("name")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--secret", metavar="@FILE or -", help=SECRET_HELP)
@client_and_output
def add_hook(name: str, path: str, secret: str | None, client: Client, output: str | None) -> None:
    """Add or change a hook. A generated secret is printed, and cannot be printed again."""
    if secret is not None and secret != "-" and not secret.startswith("@"):
        raise UsageError("--secret: the process list would expose it; use @FILE, or - for standard input")
    text = None if secret is None else secret_text("--secret", secret, "Secret")
    playbook, version = split_version(path)
    _print_hook(client.hooks.put(name, {"path": playbook, "version": version, "secret": text}), output)


@hook_command.command("rotate")
@click.argument("name")
@client_and_output
def rotate_hook(name: str, client: Client, output: str | None) -> None:
    """Replace the secret of a hook by a generated one and print it. The old secret is invalid at once."""
    _print_hook(client.hooks.act(name, "rotate"), output)


add_resource(hook_command, "hooks", "List hooks without their secrets.", "Delete a hook and its secret.")


def _print_hook(hook: Json, output: str | None) -> None:
    if output is not None:
        emit(hook, output)
    elif hook["secret"]:
        click.echo(hook["secret"])
    print_message(f"hook {hook['name']} starts {hook['path']}: POST /api/v1/hooks/{hook['name']}")
