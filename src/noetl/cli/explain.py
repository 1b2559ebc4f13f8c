"""noetl explain RUN STEP: why each rule and arc matched or did not, with the values it saw."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from noetl.cli.local import engine, opened, pick
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.printable import printable
from noetl.reference import Reference
from noetl.runtime import history
from noetl.runtime.report import explained
from noetl.settings import ServerAddress
from noetl.store.ports import Store

COLOURS = {"matched": "green", "not matched": "yellow", "not reached": "bright_black", "error": "red"}
MAX_CHARACTERS = 100


@click.command("explain")
@click.argument("run", metavar="RUN")
@click.argument("step")
@click.option("--run", "one", metavar="ID", help="Only one run of the step, such as fetch#2.")
@place_option
@output_option("json", "yaml")
def command(run: str, step: str, one: str | None, place: Place, output: str | None) -> None:
    """Tell why a step of a run went as it did: each arc, rule and gate that was looked at, and what it saw.

    Guards are evaluated once more, on the state as it was. Also why a token is held, what a join waits for, and why
    a step never ran. STEP may be a run of a step, such as fetch#2. RUN is an id, the beginning of one, or `last`.
    """
    if one is None and "#" in step and step.rpartition("#")[2].isdigit():
        step, one = step.rpartition("#")[0], step
    found = _there(place.server, run, step, one) if place.server is not None else _here(place, run, step, one)
    if output is not None:
        emit(found, output)
    else:
        _tell(found)


def _there(address: ServerAddress, run: str, step: str, one: str | None) -> dict[str, Any]:
    from noetl.cli import remote

    with remote.server(address) as server:
        found: dict[str, Any] = server.get(f"/executions/{server.pick(run)}/explain", step=step, run=one)
        return found


def _here(place: Place, run: str, step: str, one: str | None) -> dict[str, Any]:
    with opened(place.db) as store:
        return asyncio.run(_explained(store, pick(store, run).execution_id, step, one))


async def _explained(store: Store, execution: str, step: str, one: str | None) -> dict[str, Any]:
    async with engine(store) as local:
        found, state = await history.explain(local.embedded.runtime, execution, step, one)
        source = local.catalog.source(state.digest)
        shown = explained(found, state, one, source.shown, source.places)
        plain: dict[str, Any] = msgspec.to_builtins(shown, enc_hook=_plain)
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} can't be shown")


# -- for people -----------------------------------------------------------------------------------------------------


def _tell(found: dict[str, Any]) -> None:
    place = printable(f"{found['file']}:{found['line']}" if found["line"] else found["file"])
    runs = f"{found['runs']} run{'s' * (found['runs'] != 1)}"
    click.echo(
        f"{click.style(printable(found['step']), bold=True)}  {found['status'] or 'never entered'}, {runs}  {place}"
    )
    for sentence in found["stands"]:
        click.echo(f"  {printable(sentence)}")
    if found["left_out"]:
        click.echo(f"  ({found['left_out']:,} earlier decisions are left out)")
    for one in found["decisions"]:
        _tell_decision(one)


def _tell_decision(one: dict[str, Any]) -> None:
    click.echo(f"\n{click.style(str(one['seq']), fg='cyan')}  {printable(one['says'])}")
    for reason in one["reasons"]:
        _tell_reason(reason, "always" if one["kind"] == "arcs" else "else")
    if one["differs"]:
        outcome = printable(one["differs"])
        differs = f"evaluated again, the outcome differs ({outcome}): a guard reads the clock, or saw other data"
        click.echo(f"    {click.style(differs, fg='yellow')}")


def _tell_reason(one: dict[str, Any], unguarded: str) -> None:
    place = printable(f"{one['file']}:{one['line']}" if one["line"] else "-")
    verdict = click.style(f"{one['verdict']:<11}", fg=COLOURS[one["verdict"]])
    guard = f"when {_cut(' '.join(one['when'].split()))}" if one["when"] else unguarded
    leads = printable(f"{one['leads_to']}  {guard}")
    click.echo(f"    {verdict}  {leads}  {click.style(place, fg='bright_black')}")
    for name, value in one["values"].items():
        click.echo(printable(f"                   {name} = {_cut(msgspec.json.encode(value).decode())}"))
    for name in one["missing"]:
        click.echo(printable(f"                   {name} is not there"))
    if one["note"]:
        click.echo(printable(f"                   {one['note']}"))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 4]} ..."
