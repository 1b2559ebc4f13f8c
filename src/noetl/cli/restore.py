"""noetl restore FILE: a database from its backup."""

from __future__ import annotations

from pathlib import Path

import click

from noetl.cli.backup import database_file
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.errors import FileMissing
from noetl.settings import master_key_settings


@click.command("restore")
@click.argument("file", metavar="FILE")
@place_option
@output_option()
def command(file: str, place: Place, output: str | None) -> None:
    """Make the database that `--db` names from a copy that `noetl backup` has made.

    A database that is there is never written over: stop who uses it and move it away first, together with the files
    that lie beside it (-wal and -shm), since SQLite would take them for a part of the new one.
    """
    target = database_file(place, "restore")
    if not Path(file).is_file():
        raise FileMissing(f"there is no backup {file}")
    from noetl.keychain.master import MasterKeySource
    from noetl.keychain.revisions import Revisions
    from noetl.store.sqlite.backup import copy_database

    size = copy_database(Path(file), target)
    Revisions(MasterKeySource(master_key_settings(), target)).forget()
    if output is not None:
        emit({"file": str(target), "bytes": size}, output)
    else:
        click.echo(f"{target} is made from {file}, {size:,} bytes", err=True)
        click.echo(
            "`noetl verify` proves it; open runs go on with `noetl server` or `noetl runs resume --all`", err=True
        )
