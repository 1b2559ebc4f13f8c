"""noetl runs replay: fold the log of a run again."""

from __future__ import annotations

import click
import msgspec

from noetl.cli.output import emit, output_option
from noetl.cli.run import is_runnable
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json
from noetl.printable import printable
from noetl.runtime.catalog import read


@click.command("replay")
@click.argument("run", metavar="RUN")
@click.option("--playbook", metavar="FILE", help="Decide the log again under this playbook.")
@client_option
@output_option()
@click.pass_context
def replay_command(ctx: click.Context, run: str, playbook: str | None, client: Client, output: str | None) -> None:
    """Fold the log of a run again, and compare the state with the stored one; exits with 1 if they differ.

    With --playbook the log is decided again: inputs from outside are taken from it, and the decisions of the engine are
    compared, up to the first difference. No tool is called and nothing is written.
    """
    source = read(playbook) if playbook is not None else None
    if source is not None and not is_runnable(source, quiet=output is not None):
        ctx.exit(3)
    replayed = client.runs.replay(run, source)
    if output is not None:
        emit(replayed, output)
    else:
        _print_replayed(replayed)
    ctx.exit(0 if replayed["equal"] else 1)


def _print_replayed(replayed: Json) -> None:
    click.echo(f"{replayed['execution_id']}  {replayed['status']}, {replayed['events']:,} events")
    difference = replayed.get("first_difference")
    if difference is None:
        same = "same decisions" if "first_difference" in replayed else "equal to the stored state"
        click.echo(same if replayed["equal"] else click.style("differs from the stored state", fg="red"))
        return
    click.echo(printable(f"differs at event {difference['seq']}: {difference['message']}"))
    for name in ("logged", "found"):
        click.echo(printable(f"  {name}: {msgspec.json.encode(difference[name]).decode()}"))
