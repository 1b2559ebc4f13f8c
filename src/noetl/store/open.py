"""Opens a store by its address; the only place that knows all adapters."""

from __future__ import annotations

import re
from pathlib import Path

from noetl.errors import StoreError, UsageError
from noetl.settings import Synchronous
from noetl.store.database import Mode
from noetl.store.store import Store

SQLITE = "sqlite:"
POSTGRES = ("postgresql://", "postgres://")

KEYWORDS = re.compile(r"(?i)(?:^|\s)(?:dbname|host|hostaddr|port|user|password|service|passfile|sslmode)\s*=")
"""A connection string of libpq: `dbname=x host=y password=z`."""


def open_store(
    address: str,
    *,
    synchronous: Synchronous = "full",
    mode: Mode = "create",
    state: Path | None = None,
    allow_behind: bool = False,
) -> Store:
    """The store at a path, `sqlite:PATH` or `postgresql://...`; made if it is missing and the mode is `create`.
    DatabaseBehind if it is opened to write and lacks commits, unless `allow_behind` is set. The record of the last
    commit is next to a file, and for Postgres in the folder `state`."""
    _refuse_keywords(address)
    if address.startswith(POSTGRES):
        try:
            from noetl.store.postgres import PostgresStore
        except ImportError:
            raise StoreError(
                "a Postgres store needs a driver that is not installed: pip install 'noetl-engine[postgres]'"
            ) from None
        return PostgresStore(address, synchronous=synchronous, mode=mode, state=state, allow_behind=allow_behind)
    if re.match(r"\w+://", address):
        scheme = address.partition(":")[0]
        raise UsageError(f"{scheme}:// is not supported: use a file, sqlite:PATH or postgresql://HOST/DATABASE")
    from noetl.store.sqlite import SqliteStore

    return SqliteStore(address.removeprefix(SQLITE), synchronous=synchronous, mode=mode, allow_behind=allow_behind)


def is_file(address: str) -> bool:
    _refuse_keywords(address)
    return not re.match(r"\w+://", address)


def _refuse_keywords(address: str) -> None:
    """UsageError for a libpq keyword string, which would otherwise become a file name. Never prints the string."""
    if KEYWORDS.search(address) and not address.startswith((SQLITE, *POSTGRES)):
        raise UsageError(
            "keyword connection strings (dbname=... host=...) are not supported: in NOETL_DB or --db, use "
            "postgresql://USER@HOST:5432/DATABASE, or sqlite:PATH for a file of that name"
        )
