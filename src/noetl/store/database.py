"""A SQL database that runs named queries: the interface of SQLite and Postgres to `Store`.

Queries and migrations are .sql files next to the code. They are not read through `importlib.resources`, whose import
takes 10 ms: longer than opening a store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from noetl.errors import NewerDatabase, StoreError
from noetl.model.identity import uuid_text

Record = TypeVar("Record")
Mode = Literal["create", "write", "read"]  # `create` makes a database that is missing, `write` and `read` need one
Query = tuple[str, tuple[Any, ...]]

QUERIES_FILE = "queries.sql"
HEAD = "-- name: "
OPTION = "-- if "


class Database(ABC):
    @abstractmethod
    def rows(self, name: str, *parameters: Any) -> list[Any]:
        """Run a query that only reads."""

    def row(self, name: str, *parameters: Any) -> Any:
        return next(iter(self.rows(name, *parameters)), None)

    def get(self, kind: Callable[..., Record], name: str, *parameters: Any) -> Record | None:
        row = self.row(name, *parameters)
        return None if row is None else kind(*row)

    def all(self, kind: Callable[..., Record], name: str, *parameters: Any) -> list[Record]:
        return [kind(*row) for row in self.rows(name, *parameters)]

    @abstractmethod
    def write_all(self, *queries: Query) -> list[list[Any]]:
        """Run queries in one transaction; the rows that each returns."""

    def write(self, name: str, *parameters: Any) -> list[Any]:
        """Run a query in a transaction; the rows that it returns."""
        return self.write_all((name, parameters))[0]

    @abstractmethod
    def read_snapshot(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def changed_elsewhere(self) -> bool: ...

    @abstractmethod
    def close(self) -> None: ...

    @staticmethod
    @abstractmethod
    def text(value: str) -> str:
        """The text with everything escaped that the database cannot store."""


def readable(value: str) -> str:
    """The text with lone surrogates escaped, which represent bytes that are not UTF-8."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


class ExecutionKey(bytes):
    """The 16 bytes of an execution id. Because of its type the driver of Postgres sends a uuid."""

    __slots__ = ()


NO_KEY = ExecutionKey(16)  # matches no execution, and comes before all


@lru_cache(4096)
def key_of(execution: str) -> ExecutionKey:
    try:
        key = ExecutionKey.fromhex(execution.replace("-", ""))
    except ValueError:
        return NO_KEY
    return key if len(key) == 16 and id_of(key) == execution else NO_KEY


def valid_key(execution: str) -> ExecutionKey:
    key = key_of(execution)
    if key is NO_KEY:
        raise StoreError(f"{execution!r} is not an execution id")
    return key


def id_of(key: bytes) -> str:
    return uuid_text(key.hex())


def key_range(prefix: str) -> tuple[ExecutionKey, ExecutionKey] | None:
    """The smallest and the largest key of ids with this prefix; None if no id has it."""
    digits = prefix.replace("-", "")
    try:
        low, high = (ExecutionKey.fromhex(digits.ljust(32, filler)) for filler in "0f")
    except ValueError:
        return None
    return (low, high) if id_of(low).startswith(prefix) else None


class Queries(dict[str, str]):
    """Queries by name. The query `NAME: OPTION OTHER` has the lines of these options."""

    def __init__(self, lines: dict[str, list[str]]) -> None:
        super().__init__()
        self._lines = lines
        self.update({name: self[name] for name in lines})

    def __missing__(self, name: str) -> str:
        query, _, options = name.partition(": ")
        options_set, lines = options.split(), []
        for line in self._lines[query]:
            option, _, part = line.removeprefix(OPTION).partition(": ") if line.startswith(OPTION) else ("", "", line)
            if not option or option in options_set:
                lines.append(part)
        self[name] = "\n".join(lines)
        return self[name]


def load_queries(folder: Path, parameter: str = "?") -> Queries:
    """The queries that all databases share, with `parameter` as the placeholder, and those in the folder of one."""
    shared = (Path(__file__).parent / QUERIES_FILE).read_text("utf-8").replace("?", parameter)
    queries: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in [*shared.splitlines(), *(folder / QUERIES_FILE).read_text("utf-8").splitlines()]:
        if line.startswith(HEAD):
            lines = queries[line.removeprefix(HEAD)] = []
        elif line and (line.startswith(OPTION) or not line.startswith("--")):
            lines.append(line)
    return Queries(queries)


def migrations_in(folder: Path) -> dict[int, str]:
    """The SQL of the files `0001_NAME.sql` and so on, by number. A released migration is never edited."""
    migrations = {int(file.name.partition("_")[0]): file.read_text("utf-8") for file in sorted(folder.glob("*.sql"))}
    assert list(migrations) == list(range(1, len(migrations) + 1)), f"{folder} has gaps"
    return migrations


def pending(migrations: dict[int, str], version: int, database: str) -> dict[int, str]:
    """The migrations that a database of this version needs; NewerDatabase if the version is unknown."""
    if version > len(migrations):
        raise NewerDatabase(
            f"{database} was created by a newer noetl (schema version {version}, this one supports {len(migrations)}): "
            "upgrade noetl to use it"
        )
    return {number: sql for number, sql in migrations.items() if number > version}
