"""Numbered .sql files that bring a database from one version to the next. A released file is never edited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from noetl.errors import NewerDatabase


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations_in(folder: Path) -> list[Migration]:
    """The files `0001_NAME.sql`, `0002_NAME.sql` and so on."""
    migrations = []
    for number, file in enumerate(sorted(folder.glob("*.sql")), start=1):
        digits, _, name = file.stem.partition("_")
        assert int(digits) == number, f"{file.name} should be number {number}"
        migrations.append(Migration(number, name, file.read_text("utf-8")))
    return migrations


def pending(migrations: Sequence[Migration], version: int, database: str) -> Sequence[Migration]:
    """The migrations that a database of this version needs; NewerDatabase if the version is unknown."""
    if version > len(migrations):
        raise NewerDatabase(
            f"{database} was created by a newer noetl (schema version {version}, this one supports {len(migrations)}): "
            "upgrade noetl to use it"
        )
    return migrations[version:]
