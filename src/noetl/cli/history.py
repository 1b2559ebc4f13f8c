"""noetl runs fork, noetl runs retry: go on from an event of a run, in a new one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import click

from noetl.cli.local import Engine, engine, opened_file, owned, pick
from noetl.cli.output import output_option
from noetl.cli.place import Place, place_option
from noetl.cli.run import carry, collect_garbage, conclude, runnable, scalar
from noetl.engine.state import Execution
from noetl.errors import UsageError
from noetl.model.identity import uuid7
from noetl.printable import printable
from noetl.runtime import history
from noetl.runtime.catalog import Source, read
from noetl.runtime.history import Edit, Forked
from noetl.settings import ServerAddress
from noetl.store.ports import Summary
from noetl.store.sqlite import SqliteStore

Make = Callable[[Engine, str, str, Edit], Awaitable[Forked]]
"""Makes the new run in an engine, of a source and with a name."""

playbook_option = click.option("--playbook", metavar="FILE", help="Go on with this edited playbook.")
ctx_option = click.option(
    "--set-ctx", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key of ctx to a YAML scalar."
)


@click.command("fork")
@click.argument("run", metavar="RUN")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="The last event that both runs have.")
@playbook_option
@ctx_option
@place_option
@output_option()
@click.pass_context
def fork_command(
    ctx: click.Context,
    run: str,
    at: int | None,
    playbook: str | None,
    sets: tuple[str, ...],
    place: Place,
    output: str | None,
) -> None:
    """Start a run that begins with the events of another one, and wait for its end as `noetl run` does.

    The other run stays as it is. Without --at a run that goes on is forked where it stands. What the engine said in
    one breath stays together: some more events may come along. An edited playbook must have the steps at which
    something is alive.
    """

    async def make(one: Engine, source: str, name: str, edit: Edit) -> Forked:
        return await history.fork(one.embedded.runtime, source, name, at, edit)

    ctx.exit(_begin("fork", run, {"at": at}, playbook, sets, place, output, make))


@click.command("retry")
@click.argument("run", metavar="RUN")
@playbook_option
@ctx_option
@place_option
@output_option()
@click.pass_context
def retry_command(
    ctx: click.Context, run: str, playbook: str | None, sets: tuple[str, ...], place: Place, output: str | None
) -> None:
    """Take up a run that failed or was cancelled, in a new run, and wait for its end as `noetl run` does.

    It is a fork just before the failure: steps, tasks and items that were done are not done again. The task that failed
    is tried once more, with all its attempts.
    """

    async def make(one: Engine, source: str, name: str, edit: Edit) -> Forked:
        return await history.retry(one.embedded.runtime, source, name, edit)

    ctx.exit(_begin("retry", run, {}, playbook, sets, place, output, make))


def _begin(
    verb: str,
    run: str,
    body: dict[str, Any],
    playbook: str | None,
    sets: tuple[str, ...],
    place: Place,
    output: str | None,
    make: Make,
) -> int:
    source = read(playbook) if playbook is not None else None
    if source is not None and not runnable(source, quiet=output is not None):
        return 3
    ctx = _ctx(sets)
    if place.server is not None:
        return _begin_there(place.server, verb, run, body | {"ctx": ctx}, source, output)
    collect_garbage()
    with opened_file(place.db, "write") as store:
        return asyncio.run(_begin_here(store, pick(store, run), ctx, source, place, output, make))


def _ctx(sets: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key or "." in key:
            raise UsageError(
                f"--set-ctx {text}: write it as KEY=VALUE, for instance limit=5; KEY is a whole key of ctx"
            )
        found[key] = scalar(value)
    return found


async def _begin_here(
    store: SqliteStore,
    run: Summary,
    ctx: dict[str, Any],
    source: Source | None,
    place: Place,
    output: str | None,
    make: Make,
) -> int:
    name = uuid7(time.time(), os.urandom(8))
    with owned(store, name):
        async with engine(store) as one:
            if source is None:
                one.catalog.know(run.digest)
            edit = Edit(one.catalog.add(source) if source is not None else "", ctx)
            forked = await make(one, run.execution_id, name, edit)
            _tell(forked._asdict(), output)

            async def begun() -> Execution:
                return one.embedded.runtime.cells[name].state

            state = await carry(one, name, output, place, begun(), forked.source_seq)
            return conclude(one, state, output)


def _begin_there(
    address: ServerAddress, verb: str, run: str, body: dict[str, Any], source: Source | None, output: str | None
) -> int:
    from noetl.cli.remote import server
    from noetl.cli.remote_runs import watch

    if source is not None:
        body["playbook"] = source.text.decode("utf-8-sig")
    with server(address) as one:
        forked = one.begin(f"/executions/{one.pick(run)}/{verb}", body)
        _tell(forked, output)
        return watch(one, forked["execution_id"], output, source=source)


def _tell(forked: dict[str, Any], output: str | None) -> None:
    """What comes from the source and what is done now, for people."""
    if output is not None:
        return
    click.echo(f"from {forked['source_id']}, up to its event {forked['source_seq']}", err=True)
    if forked["done"]:
        click.echo(printable(f"  kept: {', '.join(forked['done'])}"), err=True)
    for one in forked["again"]:
        click.echo(printable(f"  {_words(one)}"), err=True)


def _words(one: dict[str, Any]) -> str:
    verb = "again" if one["failed"] else "goes on"
    if one["items"] is not None:
        return f"{verb}: {one['run']}, {one['items']} item{'s' * (one['items'] != 1)} left"
    return f"{verb}: {one['run']}" + (f" at task {one['task']}" if one["task"] else "")
