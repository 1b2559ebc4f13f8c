"""The queries, one .sql file each, read when first used."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"


@cache
def sql(name: str) -> bytes:
    """The text of a query."""
    return (HERE / "queries" / f"{name}.sql").read_bytes()
