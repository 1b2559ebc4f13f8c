"""Handles: what stands for a secret in results, events and logs. Only the keychain of a lease can open one.

A handle is a reference to the store `secret`. Its key says where the secret is, never what it is:
`PROVIDER/KEY@VERSION#FIELD`, and `!ENTRY` at the end where a keychain entry is used to sign in at the provider.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from noetl.reference import Reference

STORE = "secret"
FIELD = "value"
"""The field of a secret that is one text."""


class Handle(NamedTuple):
    """Where the value of a handle is."""

    provider: str
    key: str
    field: str
    version: str | None = None
    auth: str | None = None

    def reference(self) -> Reference:
        """The handle as results hold it."""
        key = f"{self.provider}/{quote(self.key)}@{_part(self.version)}#{_part(self.field)}"
        if self.auth is not None:
            key += f"!{_part(self.auth)}"
        return Reference(STORE, key, 0, "", STORE)


def _part(text: str | None) -> str:
    return quote(text or "", safe="")


def handle_of(reference: Reference) -> Handle:
    """The handle that a reference is; ValueError if it is something else."""
    if reference.store != STORE:
        raise ValueError(f"a reference to the store {reference.store!r} is no handle of a secret")
    provider, _, rest = reference.key.partition("/")
    key, _, rest = rest.partition("@")
    version, _, rest = rest.partition("#")
    field, marked, auth = rest.partition("!")
    return Handle(provider, unquote(key), unquote(field), unquote(version) or None, unquote(auth) if marked else None)
