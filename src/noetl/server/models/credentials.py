"""Requests and responses of /credentials."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.server.models.base import RequestBody
from noetl.store.credentials import SealedCredential
from noetl.timestamps import rfc3339


class CredentialRequest(RequestBody, frozen=True):
    """A credential: its fields, and the playbooks and pools that may use it (default: all)."""

    kind: str
    data: dict[str, Any]
    paths: list[str] = []
    pools: list[str] = []


class CredentialView(msgspec.Struct, frozen=True):
    """A credential without its values."""

    name: str
    kind: str
    paths: list[str]
    pools: list[str]
    created: str
    updated: str

    @classmethod
    def of(cls, sealed: SealedCredential) -> CredentialView:
        restrictions = list(sealed.paths), list(sealed.pools)
        return cls(sealed.name, sealed.kind, *restrictions, rfc3339(sealed.created), rfc3339(sealed.updated))


class CredentialPage(msgspec.Struct, frozen=True):
    items: list[CredentialView]
