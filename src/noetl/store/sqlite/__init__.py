"""The store in SQLite."""

from noetl.store.sqlite.locks import Owner
from noetl.store.sqlite.store import InMemoryStore, SqliteStore

__all__ = ["InMemoryStore", "Owner", "SqliteStore"]
