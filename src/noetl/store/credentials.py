"""The credentials in a SQL database, on the connection of its store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.store.ports import SealedCredential

Ask = Callable[[str, tuple[Any, ...]], list[Any]]
"""Runs the query of a name with bindings and gives its rows."""


class SqlCredentials:
    """Sealed credentials by name."""

    def __init__(self, read: Ask, write: Ask) -> None:
        self._read, self._write = read, write

    def all(self) -> list[SealedCredential]:
        return [_credential(row) for row in self._read("list_credentials", ())]

    def get(self, name: str) -> SealedCredential | None:
        rows = self._read("get_credential", (name,))
        return _credential(rows[0]) if rows else None

    def put(self, credential: SealedCredential) -> None:
        *plain, paths, pools = msgspec.structs.astuple(credential)
        self._write("put_credential", (*plain, *map(_listed, (paths, pools))))

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        return bool(self._write("reseal_credential", (after, name, before)))

    def delete(self, name: str) -> bool:
        return bool(self._write("delete_credential", (name,)))


def _listed(patterns: tuple[str, ...]) -> str:
    return msgspec.json.encode(patterns).decode()


def _credential(row: tuple[Any, ...]) -> SealedCredential:
    *plain, paths, pools = row
    return SealedCredential(*plain, *(tuple(msgspec.json.decode(text)) for text in (paths, pools)))
