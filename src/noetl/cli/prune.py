"""noetl runs prune: remove runs that ended long ago."""

from __future__ import annotations

import click

from noetl.cli.output import emit, output_option
from noetl.cli.target import client_option
from noetl.client.ports import LISTED, Client
from noetl.errors import UsageError
from noetl.model.duration import seconds
from noetl.settings import DEFAULT_RETENTION


@click.command("prune")
@click.option(
    "--older-than",
    default=DEFAULT_RETENTION,
    show_default=True,
    metavar="DURATION",
    help="Minimum time since the end of a run.",
)
@click.option("--dry-run", is_flag=True, help="List the runs that would be removed, and remove none.")
@client_option
@output_option()
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
