"""Sealed credentials by name. A store cannot open them."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.store.database import Database


class SealedCredential(msgspec.Struct, frozen=True):
    name: str
    kind: str
    sealed: bytes
    created: float
    updated: float
    paths: tuple[str, ...] = ()  # patterns of playbooks that may use it; none means all
    pools: tuple[str, ...] = ()


class Credentials:
    def __init__(self, database: Database) -> None:
        self._db = database

    def all(self) -> list[SealedCredential]:
        return self._db.all(_credential, "list_credentials")

    def get(self, name: str) -> SealedCredential | None:
        return self._db.get(_credential, "get_credential", name)

    def put(self, credential: SealedCredential) -> None:
        """Add or replace a credential; `created` stays."""
        *about, paths, pools = msgspec.structs.astuple(credential)
        restrictions = (msgspec.json.encode(patterns).decode() for patterns in (paths, pools))
        self._db.write("put_credential", *about, *restrictions)

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        """Replace the sealed bytes; False if they are no longer `before`."""
        return bool(self._db.write("reseal_credential", after, name, before))

    def delete(self, name: str) -> bool:
        return bool(self._db.write("delete_credential", name))


def _credential(*row: Any) -> SealedCredential:
    *about, paths, pools = row
    return SealedCredential(*about, *(tuple(msgspec.json.decode(patterns)) for patterns in (paths, pools)))
