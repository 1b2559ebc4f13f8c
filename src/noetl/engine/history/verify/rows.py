"""Invariants of stored rows: numbers, hashes, sizes, references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from noetl.engine.events import Event
from noetl.latest import Latest
from noetl.model.marks import MARK
from noetl.reference import CHUNKS, SECRET

MAX_EVENT_BYTES = 64 * 1024
MAX_CACHED_REFERENCES = 4_096  # number of references that are not resolved again when other rows name them
QUOTED_MARK = f'"{MARK}"'.encode()

Load = Callable[[str, str], bytes | None]  # returns the content that a store has under a key
StoredRow = tuple[int, str, float, bytes, bytes]  # a row of a log: seq, type, time, data, hash


class Codec(Protocol):
    """How rows are encoded and hashed; the module `noetl.store.codec`."""

    ZERO: bytes

    def chained(self, before: bytes, name: str, at: float, data: bytes) -> bytes: ...

    def decode(self, name: str, data: bytes) -> Event: ...


class Rows:
    """Checks the rows of a log in their order; `note` gets the name of a violated invariant and a message."""

    def __init__(self, note: Callable[[str, str], None], codec: Codec, load: Load | None) -> None:
        self.note, self.load = note, load
        self.chained, self.head = codec.chained, codec.ZERO
        self.last = 0
        self.resolved: Latest[tuple[str, ...], None] = Latest(MAX_CACHED_REFERENCES)

    def check(self, seq: int, kind: str, at: float, data: bytes, hashed: bytes) -> None:
        """Check the next row. Call it after `note` has the row's number."""
        if seq != self.last + 1:
            self.note("seq", f"follows row {self.last}")
        if hashed != self.chained(self.head, kind, at, data):
            self.note(
                "hash_chain", f"the hash of this {kind} does not follow from the row before it: one of them was changed"
            )
        if len(data) > MAX_EVENT_BYTES:
            self.note("size", f"{kind} has {len(data):,} bytes, more than {MAX_EVENT_BYTES:,}")
        if QUOTED_MARK in data and self.load is not None:
            self._resolve_all(data, self.load)
        self.last, self.head = seq, hashed

    def _resolve_all(self, data: bytes, load: Load) -> None:
        try:
            value = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return  # reported by `readable`
        for reference in _references(value):
            if reference.get("store") == SECRET:  # a handle has no stored content
                continue
            # Neighbouring rows name the same content: that of the task, the step and the arc.
            fields = tuple(str(reference.get(name)) for name in ("store", "key", "size", "checksum", "schema_hint"))
            if fields not in self.resolved and self._resolve(reference, load):
                self.resolved[fields] = None

    def _resolve(self, reference: dict[str, Any], load: Load) -> bool:
        """Whether the content and all its parts are unchanged; records violations."""
        key, size = str(reference.get("key")), reference.get("size")
        content = load(str(reference.get("store")), key)
        if content is None:
            self.note("references", f"refers to {key[:16]}, which is not stored")
            return False
        if f"sha256:{sha256(content).hexdigest()}" != reference.get("checksum") or len(content) != size:
            self.note("references", f"refers to {key[:16]}, whose content was changed")
            return False
        sound = True
        for chunk in msgspec.json.decode(content)["chunks"] if reference.get("schema_hint") == CHUNKS else ():
            part = load("db", chunk)
            if part is None or sha256(part).hexdigest() != chunk:
                self.note("references", f"refers to {key[:16]}, whose part {chunk[:16]} is missing or was changed")
                sound = False
        return sound


def _references(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict) and len(data) == 1 and isinstance(data.get(MARK), dict):
        yield data[MARK]
    elif isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _references(value)
