"""The store in a SQLite file."""

from noetl.store.sqlite.owner import Owner
from noetl.store.sqlite.store import SqliteStore

__all__ = ["Owner", "SqliteStore"]
