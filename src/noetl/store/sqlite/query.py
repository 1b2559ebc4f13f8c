"""The queries, one .sql file each, read when first used.

Read beside this file and not through `importlib.resources`, which takes 10 ms to import: more than opening the store.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"


@cache
def sql(name: str) -> str:
    """The text of a query."""
    return (HERE / "queries" / f"{name}.sql").read_text("utf-8")
