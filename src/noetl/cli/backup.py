"""noetl backup FILE: a copy of a database as of one moment, also while a server works on it."""

from __future__ import annotations

from pathlib import Path

import click

from noetl.cli.local import opened
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.errors import NotFound, UsageError
from noetl.settings import settings
from noetl.store.open import SQLITE, is_file

POSTGRES = "a database in Postgres is copied by pg_dump and brought back by pg_restore: see docs/howto/back-up.md"


@click.command("backup")
@click.argument("file", metavar="FILE")
@place_option
@output_option()
def command(file: str, place: Place, output: str | None) -> None:
    """Copy a database to FILE, which must not exist yet.

    Servers and runs may go on meanwhile: the copy is the database as of one moment. It holds everything but the master
    key of the credentials, which is kept apart, and results that playbooks have put into files or object stores.
    """
    source = database_file(place, "backup")
    if not source.is_file():
        raise NotFound(f"there is no database {source}: --db names another")
    from noetl.store.sqlite.backup import copy_database

    size = copy_database(source, Path(file))
    with opened(file) as store:
        credentials = len(store.credentials.all())
    if output is not None:
        emit({"file": file, "bytes": size, "credentials": credentials}, output)
        return
    click.echo(f"{source} is copied to {file}, {size:,} bytes", err=True)
    if credentials:
        click.echo("its credentials can be opened with the master key only: keep a copy of it elsewhere", err=True)


def database_file(place: Place, verb: str) -> Path:
    """The file of the database that a verb is about."""
    if place.server is not None:
        raise UsageError(f"{verb} is done where the database is: name it with --db")
    address = settings(place.db).db
    if not is_file(address):
        raise UsageError(POSTGRES)
    return Path(address.removeprefix(SQLITE))
