"""noetl runs prune: remove runs that ended long ago."""

from __future__ import annotations

from typing import Any

import click

from noetl.cli.local import duration, opened, stamp
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.clock import SystemClock
from noetl.errors import StoreError, UsageError
from noetl.model.duration import seconds
from noetl.settings import DEFAULT_RETENTION, ServerAddress, retention
from noetl.store.ports import Store, Summary

BATCH = 100
AFTER_A_RUN = 20
"""So many are removed at most when a run has ended, so that nobody waits."""
LISTED = ("execution_id", "name", "path", "status", "started", "ended", "duration_ms")


@click.command("prune")
@click.option(
    "--older-than", default=DEFAULT_RETENTION, show_default=True, metavar="DURATION", help="Since the end of a run."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing, and list what would be removed.")
@place_option
@output_option()
def prune_command(older_than: str, dry_run: bool, place: Place, output: str | None) -> None:
    """Remove runs that ended long ago, with their logs, results and output.

    A run that has not ended stays, and so does its parent, and a run whose parent is open. Results that a run which
    stays refers to are kept, and so is all content that is younger than a day. Servers do this by themselves after 30
    days (`noetl server --retention`), and so does `noetl run`, a few runs at a time.
    """
    age = 0.0 if older_than == "0" else seconds(older_than)
    if age is None:
        raise UsageError(f"--older-than {older_than}: write a duration such as 12h or 30d")
    removed, runs = _here(place.db, age, dry_run) if place.server is None else _there(place.server, age, dry_run)
    if output is not None:
        emit({"dry_run": dry_run, "removed": removed, "runs": runs}, output)
        return
    if dry_run:
        emit([{key: one[key] for key in ("execution_id", "name", "status", "ended")} for one in runs], "table")
    count = len(runs) if dry_run else removed
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{count:,} run{'s' * (count != 1)} {verb}", err=True)


def _here(db: str | None, age: float, dry_run: bool) -> tuple[int, list[dict[str, Any]]]:
    before = SystemClock().now() - age
    with opened(db, "read" if dry_run else "write") as store:
        if dry_run:
            return 0, [_listed(one) for one in store.prunable(before)]
        removed = 0
        while batch := store.prune(before, BATCH):
            removed += batch
        return removed, []


def _there(address: ServerAddress, age: float, dry_run: bool) -> tuple[int, list[dict[str, Any]]]:
    from noetl.cli.remote import LONG, server

    removed = 0
    with server(address) as remote:
        while True:
            answer = remote.post("/executions/prune", {"older_than": age, "dry_run": dry_run}, timeout=LONG)
            removed += answer["removed"]
            if dry_run or not answer["more"]:
                return removed, [{key: one[key] for key in LISTED} for one in answer["items"]]


def _listed(one: Summary) -> dict[str, Any]:
    return {
        "execution_id": one.execution_id,
        "name": one.name,
        "path": one.path,
        "status": one.status,
        "started": stamp(one.started),
        "ended": stamp(one.ended),
        "duration_ms": round(duration(one) * 1000, 3),
    }


def prune_a_few(store: Store) -> None:
    """What the end of a run does for a database that has no server. It takes one look where nothing is old."""
    kept_seconds = retention()
    if kept_seconds is None:
        return
    before = SystemClock().now() - kept_seconds
    try:
        if store.prunable(before, 1):
            store.prune(before, AFTER_A_RUN)
    except StoreError as error:  # the run itself has ended well, and the next one tries again
        click.echo(f"noetl: old runs can't be removed: {error}", err=True)
