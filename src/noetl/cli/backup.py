"""noetl backup FILE, noetl restore FILE: a consistent copy of a database, also while a server works on it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import click

from noetl.cli.options import target_options
from noetl.cli.output import emit, output_option, print_message
from noetl.client.client import ALL
from noetl.client.database import is_owned, not_owned, opened, server_of
from noetl.errors import Conflict, FileMissing, NotFound, UsageError
from noetl.model.status import OPEN
from noetl.settings import ServerAddress, master_key_settings, settings
from noetl.store.open import SQLITE, is_file
from noetl.store.sqlite import Owner, SqliteStore

CONTINUE = "check it with `noetl verify`; continue open runs with `noetl server` or `noetl runs resume --all`"
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
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--accept", is_flag=True, help="Continue from a database that another program has restored.")
@target_options
@output_option()
def restore_command(
    file: str | None, accept: bool, db: str | None, address: ServerAddress | None, output: str | None
) -> None:
    """Create the database that `--db` names from a copy that `noetl backup` has made.

    An existing database is never overwritten: stop the processes that use it and move it away first, together with the
    files next to it (-wal and -shm), which SQLite would take for a part of the new one.

    noetl refuses to write to a database that lacks commits: after pg_restore, a plain copy of a file, or the loss of
    its -wal. `noetl restore --accept` continues from the state of that database. Either way all earlier leases are
    void: reports under them are rejected, and their work is granted again.
    """
    if accept == (file is not None):
        raise UsageError("write `noetl restore FILE`, or `noetl restore --accept` without a file")
    if file is None:
        _accept_present(db, address, output)
    else:
        _restore(file, _database_file(db, address, "restore"), output)


def _accept_present(db: str | None, address: ServerAddress | None, output: str | None) -> None:
    if address is not None:
        raise UsageError("restore works on the database of the server: run it there with --db")
    undecided = _accept(db)
    if output is not None:
        emit({"undecided": undecided}, output)
        return
    print_message("accepted the current state of the database; all earlier leases are void")
    print_message(CONTINUE)


def _restore(file: str, target: Path, output: str | None) -> None:
    if not Path(file).is_file():
        raise FileMissing(f"no such file: {file}")
    from noetl.keychain.master import MasterKeySource
    from noetl.keychain.safe import Revisions
    from noetl.store.sqlite.backup import copy_database

    size = copy_database(Path(file), target)
    Revisions(MasterKeySource(master_key_settings(), target)).forget()
    _accept(str(target))
    if output is not None:
        emit({"file": str(target), "bytes": size}, output)
        return
    print_message(f"{target} created from {file}, {size:,} bytes")
    print_message(CONTINUE)


def _accept(db: str | None) -> list[str]:
    """Accept the state of a restored database. Returns the executions that cannot be decided. Conflict if a process
    uses the database."""
    from noetl.host.restore import accept_restore

    with ExitStack() as stack:
        store = stack.enter_context(opened(db, "write", allow_behind=True))
        if isinstance(store, SqliteStore):
            owner = Owner.acquire(store, server_of(store))
            if owner is None:
                raise Conflict(f"a server uses {store.path}: stop it first, with `noetl server stop`")
            stack.enter_context(owner)
            for summary in store.summaries(statuses=OPEN, top=True, limit=ALL):
                if summary.local and is_owned(store, summary):
                    raise not_owned(summary.execution_id)
        undecided = asyncio.run(accept_restore(store))
    if undecided:
        print_message(f"cannot void the leases of {', '.join(undecided)}: check them with `noetl verify`")
    return undecided


def _database_file(db: str | None, address: ServerAddress | None, verb: str) -> Path:
    if address is not None:
        raise UsageError(f"{verb} works on the database file of the server: run it there with --db PATH")
    url = settings(db).db
    if not is_file(url):
        raise UsageError(POSTGRES)
    return Path(url.removeprefix(SQLITE))
