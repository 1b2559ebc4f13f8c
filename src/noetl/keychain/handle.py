"""Handles: placeholders of secrets in results, events and logs. Only the keychain of a lease can open one.

A handle is a reference to the store `secret`. Its key is the address of the secret, never its value:
`PROVIDER/KEY@VERSION#FIELD`, with `!ENTRY` at the end if a keychain entry is used to sign in at the provider.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from noetl.reference import SECRET, Reference

FIELD = "value"
"""The field of a secret that is one text."""


class Handle(NamedTuple):
    provider: str
    key: str
    field: str
    version: int | str | None = None
    auth: str | None = None

    def reference(self) -> Reference:
        version, field = ("" if part is None else quote(str(part), safe="") for part in (self.version, self.field))
        auth = "" if self.auth is None else f"!{quote(self.auth, safe='')}"
        return reference_to_handle(f"{self.provider}/{quote(self.key)}@{version}#{field}{auth}")


def reference_to_handle(key: str) -> Reference:
    return Reference(SECRET, key, 0, "", SECRET)


def handle_of(reference: Reference) -> Handle:
    """The handle of a reference; ValueError if it is another reference."""
    if reference.store != SECRET:
        raise ValueError(f"a reference to the store {reference.store!r} is not a handle of a secret")
    provider, _, rest = reference.key.partition("/")
    key, _, rest = rest.partition("@")
    version, _, rest = rest.partition("#")
    field, marked, auth = rest.partition("!")
    return Handle(provider, unquote(key), unquote(field), unquote(version) or None, unquote(auth) if marked else None)
