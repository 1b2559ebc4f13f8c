"""A SQL database that runs named queries: what `Store` needs of SQLite and Postgres."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

Record = TypeVar("Record")

Mode = Literal["create", "write", "read"]
"""`create` makes a database that is missing, `write` and `read` need one."""
Query = tuple[str, tuple[Any, ...]]


class Database(ABC):
    @abstractmethod
    def rows(self, name: str, *parameters: Any) -> list[Any]:
        """Run a query that only reads."""

    def row(self, name: str, *parameters: Any) -> Any:
        """The first row of a query that only reads; None if there is none."""
        return next(iter(self.rows(name, *parameters)), None)

    def get(self, kind: Callable[..., Record], name: str, *parameters: Any) -> Record | None:
        """The first row of a query as a record; None if there is none."""
        row = self.row(name, *parameters)
        return None if row is None else kind(*row)

    @abstractmethod
    def write_all(self, *queries: Query) -> list[list[Any]]:
        """Run queries in one transaction; the rows that each returns."""

    def write(self, name: str, *parameters: Any) -> list[Any]:
        """Run a query in a transaction; the rows that it returns."""
        return self.write_all((name, parameters))[0]

    @abstractmethod
    def delete(self, name: str, *parameters: Any) -> int:
        """Run a query in a transaction; the number of rows that it deletes."""

    @abstractmethod
    def read_snapshot(self) -> AbstractContextManager[None]:
        """Queries inside read one state of the database."""

    @abstractmethod
    def changed_elsewhere(self) -> bool:
        """Whether another connection has written since the last call."""

    @abstractmethod
    def close(self) -> None: ...

    @staticmethod
    @abstractmethod
    def key(execution: str) -> Any:
        """The key of an execution; one that matches nothing if this is not an id."""

    @staticmethod
    @abstractmethod
    def id(key: Any) -> str:
        """The execution of a key."""

    @staticmethod
    @abstractmethod
    def key_range(prefix: str) -> tuple[Any, Any] | None:
        """The smallest and the largest key of ids with this prefix; None if no id has it."""

    @staticmethod
    @abstractmethod
    def text(value: str) -> str:
        """The text with everything escaped that the database cannot store."""
