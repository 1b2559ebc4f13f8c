"""What the verbs that work on a local database share: opening it, naming a run, and the engine on top of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from noetl.clock import SystemClock
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound, UsageError
from noetl.reference import Reference
from noetl.runtime.catalog import Catalog
from noetl.runtime.embedded import Embedded
from noetl.runtime.report import report
from noetl.runtime.runtime import OpenCredential
from noetl.settings import NatsSettings, master_key_settings, nats_settings, settings
from noetl.store.database import Mode
from noetl.store.open import SQLITE, is_file, open_store
from noetl.store.ports import Store, Summary
from noetl.store.sqlite import Owner, SqliteStore
from noetl.tools.registry import KINDS

if TYPE_CHECKING:
    from noetl.keychain.safe import Safe
    from noetl.nats.connection import WriteLog
    from noetl.nats.objects import ObjectBuckets

LAST = "last"
FEW = 10
ALL = 1_000_000
"""Ids of children are not in the order of time: who wants the latest looks at all."""


@contextmanager
def opened(db: str | None, mode: Mode = "read") -> Iterator[Store]:
    """The database; only verbs that bring something into it make one."""
    chosen = settings(db)
    if mode != "create" and is_file(chosen.db) and not os.path.isfile(chosen.db.removeprefix(SQLITE)):
        raise NotFound(f"there is no database {chosen.db}: `noetl run` makes one, `--db` names another")
    store = open_store(chosen.db, synchronous=chosen.synchronous, mode=mode)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def opened_file(db: str | None, mode: Mode = "read") -> Iterator[SqliteStore]:
    """A database in a file, where runs belong to processes; UsageError for another one."""
    with opened(db, mode) as store:
        if not isinstance(store, SqliteStore):
            raise UsageError("runs in Postgres are run by servers: ask one, with --server URL")
        yield store


def owned(store: SqliteStore, execution: str) -> Owner:
    """The right to run an execution in this process; Conflict if another process does."""
    owner = Owner.acquire(store, execution)
    if owner is None:
        raise Conflict(f"{execution} is running in another process; `noetl runs watch {execution}` follows it")
    return owner


def is_owned(store: Store, summary: Summary) -> bool:
    """Whether a live process runs it. A child runs where the run above it does."""
    if not isinstance(store, SqliteStore):
        return True  # by servers, as far as can be known here
    top = summary
    while top.parent is not None:
        top = pick(store, top.parent)
    return Owner.is_owned(store, top.execution_id if top.local else server_of(store))


def server_of(store: SqliteStore) -> str:
    """Who owns what a server has begun: the one server of the file. Other files in its folder may have another."""
    return f"server-{sha256(store.path.name.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def pick(store: Store, run: str) -> Summary:
    """The run that an id, a prefix of one, or `last` means."""
    if run == LAST:
        found = [one for one in store.summaries(limit=ALL) if one.parent is None]
        if not found:
            raise NotFound("there are no runs yet")
        return max(found, key=lambda one: (one.started, one.execution_id))
    found = store.summaries(prefix=run.lower(), limit=FEW + 1) if run else []
    exact = [one for one in found if one.execution_id == run]
    if not found:
        raise NotFound(f"no run {run!r}: `noetl runs list` shows them")
    if len(found) > 1 and not exact:
        names = "\n".join(f"  {one.execution_id}  {one.name}  {one.status}" for one in found[:FEW])
        more = "\n  ..." if len(found) > FEW else ""
        raise UsageError(f"{run!r} is the beginning of several runs:\n{names}{more}")
    return (exact or found)[0]


class Engine(NamedTuple):
    """The engine of this process on a database, and the playbooks it knows."""

    embedded: Embedded
    catalog: Catalog

    def report(self, state: Execution) -> dict[str, Any]:
        """The execution as `-o json` shows it: references as data."""
        source = self.catalog.source(state.digest)
        summary = self.embedded.runtime.cells[state.id].summary
        seconds = duration(summary) if summary is not None else 0.0
        found: dict[str, Any] = msgspec.to_builtins(
            report(state, source.shown, source.places, seconds), enc_hook=_reference
        )
        return found


def _reference(value: Any) -> Any:
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} can't be shown")


@asynccontextmanager
async def engine(store: Store) -> AsyncIterator[Engine]:
    """An engine that stops its work when the block ends; the database stays open."""
    catalog = Catalog()
    embedded = Embedded(store, KINDS, SystemClock(), catalog.find, open_credential=opener(store))
    catalog.runtime = embedded.runtime
    try:
        async with shelf(nats_settings(), _say) as found:
            embedded.runtime.shelf = found
            yield Engine(embedded, catalog)
    finally:
        await embedded.close()


@asynccontextmanager
async def shelf(nats: NatsSettings | None, say: WriteLog) -> AsyncIterator[ObjectBuckets | None]:
    """Where large values go beside the database; None where there is no NATS."""
    if nats is None:
        yield None
        return
    from noetl.nats.connection import NatsConnection
    from noetl.nats.objects import ObjectBuckets

    bus = NatsConnection(nats, say)
    keeping = asyncio.create_task(bus.run())
    try:
        yield ObjectBuckets(bus)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def _say(level: str, text: str) -> None:
    click.echo(f"noetl: {text}", err=True)


def opener(store: Store) -> OpenCredential:
    """Opens credentials of the database; what that takes is imported when the first is asked for."""
    safe = cache(lambda: safe_of(store))  # one for all: it remembers what it has seen
    return lambda name: safe().open(name)


def safe_of(store: Store) -> Safe:
    """The credentials of the database, with the keys that open them."""
    from noetl.keychain.master import MasterKeySource
    from noetl.keychain.safe import Safe

    file = store.path if isinstance(store, SqliteStore) else None
    return Safe(store.credentials, MasterKeySource(master_key_settings(), file))


def duration(summary: Summary) -> float:
    """Seconds from start to end, or to now."""
    return max(0.0, (summary.ended if summary.ended is not None else SystemClock().now()) - summary.started)


def stamp(at: float | None) -> str | None:
    """A time as RFC 3339 in UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_or_file(text: str | None, option: str) -> Any:
    """JSON, or with `@` the JSON in a file (`@-` is standard input); None where nothing is given."""
    if text is None:
        return None
    from noetl.files import read_file

    data = read_file(text[1:]) if text.startswith("@") else text.encode()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        where = f" in {text[1:]}" if text.startswith("@") else ""
        raise UsageError(f"{option}: no valid JSON{where}: {error}") from None
