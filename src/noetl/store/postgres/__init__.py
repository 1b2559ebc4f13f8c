"""The store in a Postgres database."""

from noetl.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
