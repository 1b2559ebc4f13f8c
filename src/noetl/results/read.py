"""Reading the value behind a reference."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.errors import NoetlError
from noetl.reference import CHUNKS, HOLDS_REFERENCES, Reference, decoded


class Contents(Protocol):
    """Where stored bytes are found by their key; a store is one."""

    def blob(self, key: str) -> bytes | None: ...


class Damaged(NoetlError):
    """A stored value is missing, can't be reached, or is not what was stored: its checksum does not fit."""


def found(store: Contents, place: str, key: str) -> bytes | None:
    """The bytes that a reference leads to, whatever they are; None if there are none."""
    match place:
        case "file":
            path = Path(key)
            return path.read_bytes() if path.is_file() else None
        case "object":
            from noetl.results.object import read_object

            return read_object(key)
        case "nats_object":  # a copy of what is in the database
            return store.blob(key.rpartition("/")[2])
    return store.blob(key)


def read_bytes(store: Contents, reference: Reference) -> bytes:
    """The stored bytes, verified."""
    try:
        content = found(store, reference.store, reference.key)
    except (NoetlError, OSError) as error:
        raise Damaged(f"the stored value {reference.digest[:12]} can't be reached: {error}") from error
    if content is None:
        raise Damaged(f"the stored value {reference.digest[:12]} ({reference.size:,} bytes) is missing")
    if f"sha256:{sha256(content).hexdigest()}" != reference.checksum:
        raise Damaged(f"the stored value {reference.digest[:12]} does not have its checksum any more")
    return content


def read_value(store: Contents, reference: Reference) -> Any:
    """The value itself; the results of a large loop are put together from their chunks."""
    value = decoded(read_bytes(store, reference), reference)
    if reference.schema_hint != CHUNKS:
        return value
    results: list[Any] = [None] * value["total"]
    for key in value["chunks"]:
        hint = HOLDS_REFERENCES if key in value.get("marked", ()) else ""
        for index, result in read_value(store, Reference("db", key, 0, f"sha256:{key}", hint)):
            results[index] = result
    return results


def read_json(store: Contents, reference: Reference) -> bytes:
    """The value as JSON, without building it where it is stored in one piece."""
    if reference.schema_hint == CHUNKS or reference.schema_hint.endswith(HOLDS_REFERENCES):
        return msgspec.json.encode(read_value(store, reference), enc_hook=Reference.as_data)
    return read_bytes(store, reference)
