"""noetl exec PATH[@VERSION]: run a playbook of the catalog."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import click

from noetl.cli.local import engine, json_or_file, opened_file, owned
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.run import carry, collect_garbage, conclude, payload_of
from noetl.errors import NotFound, UsageError
from noetl.model.identity import uuid7
from noetl.settings import ServerAddress
from noetl.store.sqlite import SqliteStore


@click.command("exec")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a part of the payload to a YAML scalar.")
@click.option("--set-string", "strings", multiple=True, metavar="KEY=TEXT", help="Set a part of the payload to text.")
@click.option("--payload", metavar="JSON|@FILE", help="The payload: a JSON object, or a file that holds one.")
@click.option("--wait", is_flag=True, help="Follow it to its end, and exit by its outcome.")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Wait at most so long; then exit 124.")
@place_option
@output_option()
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    sets: tuple[str, ...],
    strings: tuple[str, ...],
    payload: str | None,
    wait: bool,
    timeout: float | None,
    place: Place,
    output: str | None,
) -> None:
    """Run a registered playbook. On a server it is started, and its id printed; with --wait it is followed to its end.

    Without a server there is nobody else to run it: it runs in this process, as `noetl run` does.
    """
    given = payload_of(json_or_file(payload, "--payload"), sets, strings)
    name, version = parted(path)
    if place.server is not None:
        request = {"path": name, "version": version, "payload": given}
        ctx.exit(_there(place.server, request, wait or timeout is not None, timeout, output))
    collect_garbage()
    with opened_file(place.db, "write") as store:
        ctx.exit(asyncio.run(_here(store, name, version, given, place, output)))


def parted(path: str) -> tuple[str, int | None]:
    """Path and version of `PATH[@VERSION]`."""
    name, at, version = path.rpartition("@")
    if not at:
        return path, None
    if not version.isdecimal():
        raise UsageError(f"{path}: a version is a number, as in {name}@3")
    return name, int(version)


def _there(address: ServerAddress, request: dict[str, Any], wait: bool, limit: float | None, output: str | None) -> int:
    from noetl.cli.remote import server
    from noetl.cli.remote_runs import watch

    with server(address) as one:
        execution = one.start(request)
        if wait:
            return watch(one, execution, output, limit)
    if output is not None:
        emit({"execution_id": execution}, output)
    else:
        click.echo(execution)
    return 0


async def _here(
    store: SqliteStore, path: str, version: int | None, payload: dict[str, Any], place: Place, output: str | None
) -> int:
    digest = store.find(path, version)
    if digest is None:
        which = f"{path}@{version}" if version else path
        raise NotFound(f"no playbook is registered as {which}: `noetl catalog list` shows them")
    execution = uuid7(time.time(), os.urandom(8))
    with owned(store, execution):
        async with engine(store) as one:
            one.catalog.know(digest)
            begin = one.embedded.start(execution, digest, payload, {})
            return conclude(one, await carry(one, execution, output, place, begin), output)
