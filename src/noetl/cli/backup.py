"""noetl backup FILE, noetl restore FILE: a consistent copy of a database, also while a server works on it."""

from __future__ import annotations

from pathlib import Path

import click

from noetl.cli.options import target_options
from noetl.cli.output import emit, output_option, print_message
from noetl.client.database import opened
from noetl.errors import FileMissing, NotFound, UsageError
from noetl.settings import ServerAddress, master_key_settings, settings
from noetl.store.open import SQLITE, is_file

POSTGRES = "use pg_dump and pg_restore for a Postgres database: see docs/howto/back-up.md"


@click.command("backup")
@click.argument("file", metavar="FILE")
@target_options
@output_option()
def command(file: str, db: str | None, address: ServerAddress | None, output: str | None) -> None:
    """Copy a database to FILE, which must not exist.

    Servers and runs may continue meanwhile: the copy is a snapshot. It does not contain the master key of the
    credentials, nor results that playbooks have written to files or object stores.
    """
    source = _database_file(db, address, "backup")
    if not source.is_file():
        raise NotFound(f"database {source} does not exist: name another with --db PATH")
    from noetl.store.sqlite.backup import copy_database

    size = copy_database(source, Path(file))
    with opened(file) as store:
        credentials = len(store.credentials.all())
    if output is not None:
        emit({"file": file, "bytes": size, "credentials": credentials}, output)
        return
    print_message(f"{source} copied to {file}, {size:,} bytes")
    if credentials:
        print_message("its credentials can be decrypted only with the master key: keep a copy of the key elsewhere")


@click.command("restore")
@click.argument("file", metavar="FILE")
@target_options
@output_option()
def restore_command(file: str, db: str | None, address: ServerAddress | None, output: str | None) -> None:
    """Create the database that `--db` names from a copy that `noetl backup` has made.

    An existing database is never overwritten: stop the processes that use it and move it away first, together with the
    files next to it (-wal and -shm), which SQLite would take for a part of the new one.
    """
    target = _database_file(db, address, "restore")
    if not Path(file).is_file():
        raise FileMissing(f"no such file: {file}")
    from noetl.keychain.master import MasterKeySource
    from noetl.keychain.safe import Revisions
    from noetl.store.sqlite.backup import copy_database

    size = copy_database(Path(file), target)
    Revisions(MasterKeySource(master_key_settings(), target)).forget()
    if output is not None:
        emit({"file": str(target), "bytes": size}, output)
        return
    print_message(f"{target} created from {file}, {size:,} bytes")
    print_message("check it with `noetl verify`; continue open runs with `noetl server` or `noetl runs resume --all`")


def _database_file(db: str | None, address: ServerAddress | None, verb: str) -> Path:
    if address is not None:
        raise UsageError(f"{verb} works on the database file of the server: run it there with --db PATH")
    url = settings(db).db
    if not is_file(url):
        raise UsageError(POSTGRES)
    return Path(url.removeprefix(SQLITE))
