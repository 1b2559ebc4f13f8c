"""noetl schedule ...: playbooks that start by the clock. A server fires them; on a database they wait for one."""

from __future__ import annotations

import secrets
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from noetl.cli.exec import parted
from noetl.cli.local import ALL, json_or_file, opened
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.run import payload_of
from noetl.clock import SystemClock
from noetl.errors import Conflict, NotFound, UsageError
from noetl.server import schedules
from noetl.server.models.schedules import ScheduleRequest
from noetl.store.ports import Store
from noetl.store.triggers import Firing

OVERLAP_HELP = "What happens to a firing while a run of the schedule is open: it is left out, waits, or starts beside."
MISSED_HELP = (
    "What happens to firings for which there was no server: nothing, one run for all, or one each (100 at most)."
)


@click.group("schedule")
def command() -> None:
    """Start registered playbooks by the clock.

    Servers do it: `noetl server` and `noetl dev`. Each firing starts one run, however many servers there are.
    """


@command.command("add")
@click.argument("name")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--cron", metavar="EXPRESSION", help="Minute, hour, day, month, weekday; or @daily and such.")
@click.option("--every", metavar="DURATION", help="An interval such as 90s, 15m or 1h30m.")
@click.option("--at", metavar="TIME", help="A single time, such as 2030-01-31T09:00.")
@click.option("--timezone", default="UTC", show_default=True, help="Whose clock --cron and --at mean.")
@click.option(
    "--overlap", type=click.Choice(["skip", "queue", "allow"]), default="skip", show_default=True, help=OVERLAP_HELP
)
@click.option(
    "--missed", type=click.Choice(["skip", "once", "all"]), default="once", show_default=True, help=MISSED_HELP
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a part of the payload to a YAML scalar.")
@click.option("--set-string", "strings", multiple=True, metavar="KEY=TEXT", help="Set a part of the payload to text.")
@click.option("--payload", metavar="JSON|@FILE", help="The payload: a JSON object, or a file that holds one.")
@click.option("--ctx", metavar="JSON|@FILE", help="What `ctx` begins with: a JSON object, or a file that holds one.")
@click.option("--paused", is_flag=True, help="Begin paused.")
@click.option("--replace", "replaces", is_flag=True, help="Change the schedule if there is one of this name.")
@place_option
@output_option()
def add_command(
    name: str,
    path: str,
    cron: str | None,
    every: str | None,
    at: str | None,
    timezone: str,
    overlap: str,
    missed: str,
    sets: tuple[str, ...],
    strings: tuple[str, ...],
    payload: str | None,
    ctx: str | None,
    paused: bool,
    replaces: bool,
    place: Place,
    output: str | None,
) -> None:
    """Start a playbook by --cron, --every or --at."""
    where, version = parted(path)
    found_ctx = json_or_file(ctx, "--ctx")
    if found_ctx is not None and not isinstance(found_ctx, dict):
        raise UsageError("--ctx: write a JSON object")
    request = {
        "path": where,
        "version": version,
        "payload": payload_of(json_or_file(payload, "--payload"), sets, strings),
        "ctx": found_ctx or {},
        "cron": cron,
        "every": every,
        "at": at,
        "timezone": timezone,
        "overlap": overlap,
        "missed": missed,
        "paused": paused or None,
    }
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            if replaces:
                found = remote.put(f"/schedules/{name}", request)
            else:
                found = remote.post("/schedules", request | {"name": name})
    else:
        with opened(place.db, "write") as store:
            found = _added(store, name, request, replaces)
    _tell(found, output)


def _added(store: Store, name: str, request: dict[str, Any], replaces: bool) -> dict[str, Any]:
    wanted, now = _checked(request), SystemClock().now()
    made = schedules.made(name, wanted, now)
    if store.find(wanted.path, wanted.version) is None:
        which = wanted.path + (f"@{wanted.version}" if wanted.version else "")
        raise NotFound(f"no playbook is registered as {which}: `noetl register` does that")
    if replaces:
        made, _ = schedules.put_in(store, name, wanted, now)
    elif not store.triggers.add_schedule(made):
        raise Conflict(f"there is a schedule {name!r} already: --replace changes it")
    shown: dict[str, Any] = msgspec.to_builtins(schedules.view(store, made))
    return shown


def _checked(request: dict[str, Any]) -> ScheduleRequest:
    try:
        return msgspec.convert(request, ScheduleRequest)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None


@command.command("list")
@place_option
@output_option()
def list_command(place: Place, output: str | None) -> None:
    """List schedules with their last and next firing."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            found = list(remote.pages("/schedules", ALL))
    else:
        with opened(place.db) as store:
            found = [msgspec.to_builtins(schedules.view(store, one)) for one in store.triggers.schedules(limit=ALL)]
    emit(found if output is not None else [_line(one) for one in found], output or "table")


@command.command("show")
@click.argument("name")
@place_option
@output_option()
def show_command(name: str, place: Place, output: str | None) -> None:
    """Show a schedule, and what became of its latest firings."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            found = remote.get(f"/schedules/{name}")
    else:
        with opened(place.db) as store:
            one = store.triggers.schedule(name)
            if one is None:
                raise _missing(name)
            found = msgspec.to_builtins(schedules.view(store, one))
    emit(found, output or "yaml")


@command.command("pause")
@click.argument("name")
@place_option
@output_option()
def pause_command(name: str, place: Place, output: str | None) -> None:
    """Start nothing until it is resumed."""
    _tell(_changed(place, name, "pause"), output)


@command.command("resume")
@click.argument("name")
@place_option
@output_option()
def resume_command(name: str, place: Place, output: str | None) -> None:
    """Go on with the next firing; what fell into the pause is not made up for."""
    _tell(_changed(place, name, "resume"), output)


def _changed(place: Place, name: str, verb: str) -> dict[str, Any]:
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            answer: dict[str, Any] = remote.post(f"/schedules/{name}/{verb}")
            return answer
    change, now = {"pause": schedules.paused, "resume": schedules.resumed}[verb], SystemClock().now()
    with opened(place.db, "write") as store:
        changed = schedules.change_in(store, name, lambda old, _: change(old, now))
        shown: dict[str, Any] = msgspec.to_builtins(schedules.view(store, changed))
        return shown


@command.command("trigger")
@click.argument("name")
@place_option
@output_option()
def trigger_command(name: str, place: Place, output: str | None) -> None:
    """Fire now, beside its times and also while it is paused, and print the id of the run.

    On a database, a server that works on it starts the run.
    """
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            found = remote.post(f"/schedules/{name}/trigger", Idempotency_Key=secrets.token_hex(16))
    else:
        with opened(place.db, "write") as store:
            found = _triggered(store, name)
    if output is not None:
        emit(found, output)
    else:
        click.echo(found["execution_id"])
    if found["queued"]:
        click.echo(f"schedule {name}: it starts when the run before it has ended", err=True)


def _triggered(store: Store, name: str) -> dict[str, Any]:
    """Decided here; whichever server looks next starts it."""
    now = SystemClock().now()
    firing = Firing(round(now, 3), secrets.token_hex(8))
    one = schedules.change_in(
        store, name, lambda old, is_open: replace(schedules.asked(old, firing, is_open, now), look=now)
    )
    return {"execution_id": firing.execution(one.id), "queued": firing in one.queue}


@command.command("delete")
@click.argument("name")
@place_option
def delete_command(name: str, place: Place) -> None:
    """Forget a schedule. Runs that it has started go on."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            remote.delete(f"/schedules/{name}")
    else:
        with opened(place.db, "write") as store:
            if not store.triggers.delete_schedule(name):
                raise _missing(name)
    click.echo(f"schedule {name} is deleted", err=True)


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r}: `noetl schedule list` shows them")


def _tell(found: dict[str, Any], output: str | None) -> None:
    if output is not None:
        emit(found, output)
        return
    following = f"next at {found['next']}" if found["next"] else found["status"]
    click.echo(f"schedule {found['name']} ({_when(found)}): {following}", err=True)


def _line(one: dict[str, Any]) -> dict[str, Any]:
    last = one["last"]
    return {
        "name": one["name"],
        "path": one["path"] + (f"@{one['version']}" if one["version"] else ""),
        "when": _when(one),
        "status": one["status"],
        "next": one["next"],
        "last": None if last is None else f"{last['due']} {last['outcome']}",
    }


def _when(one: dict[str, Any]) -> str:
    if one["cron"]:
        return f"{one['cron']} {one['timezone']}"
    return f"every {one['every']:g}s" if one["every"] else f"at {one['at']}"
