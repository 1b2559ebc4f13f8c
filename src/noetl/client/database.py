"""Opening a database, the runs in it, and who runs them."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.client.client import MAX_MATCHES, Json, RunFilter, latest, not_one_run
from noetl.errors import Conflict, NotFound, UsageError
from noetl.model.actor import Actor
from noetl.reference import Reference
from noetl.settings import master_key_settings, settings, state_folder
from noetl.store.database import Mode
from noetl.store.open import SQLITE, is_file, open_store
from noetl.store.sqlite import Owner, SqliteStore
from noetl.store.store import Store, Summary

if TYPE_CHECKING:
    from noetl.keychain.safe import Safe
    from noetl.runtime.runtime import OpenCredential


@contextmanager
def opened(db: str | None, mode: Mode = "read", *, allow_behind: bool = False) -> Iterator[Store]:
    """The database; NotFound if it does not exist and the mode is not `create`. DatabaseBehind if it is opened to write
    and lacks commits, unless `allow_behind` is set."""
    effective = settings(db)
    if mode != "create" and is_file(effective.db) and not os.path.isfile(effective.db.removeprefix(SQLITE)):
        if os.path.isdir(effective.db.removeprefix(SQLITE)):
            raise NotFound(f"{effective.db} is a folder: name the database file in it with --db PATH")
        raise NotFound(
            f"database {effective.db} does not exist: create it with `noetl run FILE`, or name another with --db PATH"
        )
    folder = state_folder()
    state = None if folder is None else Path(folder)
    store = open_store(
        effective.db, synchronous=effective.synchronous, mode=mode, state=state, allow_behind=allow_behind
    )
    try:
        yield store
    finally:
        store.close()


@contextmanager
def opened_file(db: str | None, mode: Mode = "read") -> Iterator[SqliteStore]:
    """A database in a file, where processes own their runs; UsageError for Postgres."""
    with opened(db, mode) as store:
        if not isinstance(store, SqliteStore):
            raise UsageError("only servers execute runs of a Postgres database: use --server URL")
        yield store


def list_runs(store: Store, filter: RunFilter, limit: int) -> list[Summary]:
    parent = None if filter.parent is None else find_run(store, filter.parent).execution_id
    options: dict[str, Any] = filter._replace(parent=parent)._asdict()
    if filter.waits == "worker" and parent is None:
        from noetl.server.execution_lists import missing_pools_of

        options |= {"waits": None, "pools": missing_pools_of(store, time.time())}
    return store.summaries(**options, limit=limit)


def find_run(store: Store, run: str) -> Summary:
    """The run with an id, the only run whose id begins so, or one of the last ones."""
    if place := latest(run):
        filter, back = place
        matches = list_runs(store, filter, back + 1)[back:]
    else:
        matches = store.summaries(prefix=run.lower(), limit=MAX_MATCHES + 1) if run else []
        matches = [summary for summary in matches if summary.execution_id == run] or matches
    if len(matches) != 1:
        raise not_one_run(run, [(match.execution_id, match.name, match.status) for match in matches])
    return matches[0]


def registered(store: Store, path: str, version: int | None) -> str:
    """The digest of a registered playbook; NotFound if there is none."""
    digest = store.find(path, version)
    if digest is None:
        if version is not None and store.versions(path, 1):
            raise NotFound(
                f"version {version} of playbook {path!r} not found: `noetl catalog show {path}` lists its versions"
            )
        hint = "`noetl catalog list` lists all, `noetl register` adds one"
        raise NotFound(f"playbook {path!r} not found: {hint}")
    return digest


def local_actor() -> Actor:
    """The user of the operating system, who acts on the database without a server."""
    try:
        return Actor("local", pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:  # such as in a container that runs under any number
        return Actor("local", str(os.getuid()))


def json_of(record: Any) -> Json:
    """The record as a map of JSON values; references to stored values stay references."""
    view: Json = msgspec.to_builtins(record, enc_hook=Reference.as_data)
    return view


def owned(store: SqliteStore, execution: str) -> Owner:
    """The right to run an execution in this process; Conflict if another process has it."""
    owner = Owner.acquire(store, execution)
    if owner is None:
        raise not_owned(execution)
    return owner


def not_owned(execution: str) -> Conflict:
    return Conflict(f"{execution} is running in another process; follow it with `noetl runs watch {execution}`")


def is_owned(store: Store, summary: Summary) -> bool:
    """Whether a live process runs it. A child runs in the process of its parent."""
    if not isinstance(store, SqliteStore):
        return True  # servers share it, and cannot be seen from here
    top = top_of(store, summary)
    return Owner.is_owned(store, top.execution_id if top.local else server_of(store))


def top_of(store: Store, summary: Summary) -> Summary:
    """The run that a child descends from; a run without a parent is its own."""
    while summary.parent is not None:
        summary = find_run(store, summary.parent)
    return summary


def server_of(store: SqliteStore) -> str:
    """The owner of the executions of this file's server. Other files in the folder may have a server too."""
    return f"server-{sha256(store.path.name.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def opener(store: Store) -> OpenCredential:
    """Opens credentials of the database; imports what that takes on first use."""
    safe = cache(lambda: safe_of(store))  # one for all: it caches credentials
    return lambda name: safe().open(name)


def safe_of(store: Store) -> Safe:
    """The credentials of the database, with the keys that open them."""
    from noetl.keychain.master import MasterKeySource
    from noetl.keychain.safe import Safe

    file = store.path if isinstance(store, SqliteStore) else None
    return Safe(store.credentials, MasterKeySource(master_key_settings(), file))
