"""The .sql files of a database: queries by name, and numbered migrations. A released migration is never edited.

The files lie beside the code and are not read through `importlib.resources`, whose import takes 10 ms: longer than
opening a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from noetl.errors import NewerDatabase

QUERIES_FILE = "queries.sql"
HEAD = "-- name: "


def load_queries(folder: Path, parameter: str = "?") -> dict[str, str]:
    """The queries that all databases share, with `parameter` as the placeholder, and those in the folder of one."""
    shared = (Path(__file__).parent / QUERIES_FILE).read_text("utf-8").replace("?", parameter)
    queries: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in [*shared.splitlines(), *(folder / QUERIES_FILE).read_text("utf-8").splitlines()]:
        if line.startswith(HEAD):
            lines = queries[line.removeprefix(HEAD)] = []
        elif line and not line.startswith("--"):
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in queries.items()}


class SchemaMigration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations_in(folder: Path) -> list[SchemaMigration]:
    """The files `0001_NAME.sql`, `0002_NAME.sql` and so on."""
    migrations = []
    for number, file in enumerate(sorted(folder.glob("*.sql")), start=1):
        digits, _, name = file.stem.partition("_")
        assert int(digits) == number, f"{file.name} should be number {number}"
        migrations.append(SchemaMigration(number, name, file.read_text("utf-8")))
    return migrations


def pending(migrations: Sequence[SchemaMigration], version: int, database: str) -> Sequence[SchemaMigration]:
    """The migrations that a database of this version needs; NewerDatabase if the version is unknown."""
    if version > len(migrations):
        raise NewerDatabase(
            f"{database} was created by a newer noetl (schema version {version}, this one supports {len(migrations)}): "
            "upgrade noetl to use it"
        )
    return migrations[version:]
