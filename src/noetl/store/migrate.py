"""Numbered .sql files that bring a database from one version to the next. What has been released is never edited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from noetl.errors import NewerDatabase


class Migration(NamedTuple):
    """One step from the version before it to its own."""

    version: int
    name: str
    sql: str


def migrations_in(folder: Path) -> list[Migration]:
    """The files `0001_what.sql`, `0002_what.sql` ... in order."""
    found = []
    for number, file in enumerate(sorted(folder.glob("*.sql")), start=1):
        digits, _, name = file.stem.partition("_")
        assert int(digits) == number, f"{file.name} should be number {number}"
        found.append(Migration(number, name, file.read_text("utf-8")))
    return found


def pending(migrations: Sequence[Migration], version: int, database: str) -> Sequence[Migration]:
    """The migrations a database of this version has yet to see."""
    if version > len(migrations):
        raise NewerDatabase(
            f"{database} was made by a newer noetl (its schema is {version}, this one knows {len(migrations)}): "
            "upgrade noetl to use it"
        )
    return migrations[version:]
