"""Sealed credentials in a SQL database."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.store.database import Database
from noetl.store.ports import SealedCredential


class SqlCredentials:
    def __init__(self, database: Database) -> None:
        self._db = database

    def all(self) -> list[SealedCredential]:
        return [_credential(row) for row in self._db.rows("list_credentials")]

    def get(self, name: str) -> SealedCredential | None:
        row = self._db.row("get_credential", name)
        return None if row is None else _credential(row)

    def put(self, credential: SealedCredential) -> None:
        *fields, paths, pools = msgspec.structs.astuple(credential)
        restrictions = (msgspec.json.encode(patterns).decode() for patterns in (paths, pools))
        self._db.write("put_credential", *fields, *restrictions)

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        return bool(self._db.write("reseal_credential", after, name, before))

    def delete(self, name: str) -> bool:
        return bool(self._db.write("delete_credential", name))


def _credential(row: tuple[Any, ...]) -> SealedCredential:
    *fields, paths, pools = row
    return SealedCredential(*fields, *(tuple(msgspec.json.decode(patterns)) for patterns in (paths, pools)))
