"""noetl restore FILE: create a database from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from noetl.cli.backup import database_file
from noetl.cli.output import emit, output_option
from noetl.cli.target import target_options
from noetl.errors import FileMissing
from noetl.settings import ServerAddress, master_key_settings


@click.command("restore")
@click.argument("file", metavar="FILE")
@target_options
@output_option()
def command(file: str, db: str | None, address: ServerAddress | None, output: str | None) -> None:
    """Create the database that `--db` names from a copy that `noetl backup` has made.

    An existing database is never overwritten: stop the processes that use it and move it away first, together with the
    files beside it (-wal and -shm), which SQLite would take for a part of the new one.
    """
    target = database_file(db, address, "restore")
    if not Path(file).is_file():
        raise FileMissing(f"no such file: {file}")
    from noetl.keychain.master import MasterKeySource
    from noetl.keychain.revisions import Revisions
    from noetl.store.sqlite.backup import copy_database

    size = copy_database(Path(file), target)
    Revisions(MasterKeySource(master_key_settings(), target)).forget()
    if output is not None:
        emit({"file": str(target), "bytes": size}, output)
    else:
        click.echo(f"{target} created from {file}, {size:,} bytes", err=True)
        click.echo(
            "check it with `noetl verify`; continue open runs with `noetl server` or `noetl runs resume --all`",
            err=True,
        )
