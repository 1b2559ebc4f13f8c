"""Reads the value of a reference. References come from workers and are not trusted: a file is read only where results
are written and only if it has the size in the reference; content must match its checksum.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import sha256
from stat import S_ISREG
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.json_errors import NOT_JSON
from noetl.reference import CHUNKS, HOLDS_REFERENCES, Reference, decoded

MAX_HOLES = 1_000_000  # failed items of a loop. None has more: the engine keeps the error of each in memory

ReadBlob = Callable[[str], bytes | None]  # reads stored bytes by key, such as `Store.blob`
Admit = Callable[[bytes], None]  # called with each content before it is decoded; raises to refuse it


def admit_all(content: bytes) -> None:
    """For readers without a limit beyond the size of the reference."""


class Damaged(NoetlError):
    """A stored value is missing, cannot be read, or does not match its checksum."""


class Manifest(msgspec.Struct):
    total: int
    chunks: list[str]
    marked: list[str] = []  # chunks whose content contains references


decode_manifest = msgspec.json.Decoder(Manifest).decode
"""Made here and not in the threads that use it: see `noetl.store.codec`."""


def read_content(read_blob: ReadBlob, kind: str, key: str, size: int | None = None) -> bytes | None:
    """The unverified bytes of a reference; None if there are none. A file of another size is not read."""
    if kind not in ("file", "object"):
        return read_blob(key.rpartition("/")[2] if kind == "nats_object" else key)  # the database has a copy
    if re.fullmatch(r"(/|[a-z0-9]+://).*/([0-9a-f]{2})/\2[0-9a-f]{62}", key, re.DOTALL) is None or "\0" in key:
        raise NoetlError("the reference does not point to a stored result")
    if kind == "object":
        from noetl.results.stores import read_object

        return read_object(key)
    try:
        opened = os.open(key, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(opened, "rb") as file:
        status = os.fstat(opened)
        if not S_ISREG(status.st_mode):
            return None
        if size is not None and status.st_size != size:
            raise NoetlError(f"the file has {status.st_size:,} bytes instead of {size:,}")
        return file.read(status.st_size)


def read_bytes(read_blob: ReadBlob, reference: Reference, *, any_size: bool = False) -> bytes:
    name, size = f"the stored value {reference.digest[:12]}", None if any_size else reference.size
    try:
        content = read_content(read_blob, reference.store, reference.key, size)
    except (NoetlError, OSError) as error:
        raise Damaged(f"cannot read {name}: {error}") from error
    if content is None:
        raise Damaged(f"{name} ({reference.size:,} bytes) is missing")
    if size is not None and len(content) != size:
        raise Damaged(f"{name} has {len(content):,} bytes instead of {size:,}")
    if f"sha256:{sha256(content).hexdigest()}" != reference.checksum:
        raise Damaged(f"{name} does not match its checksum")
    return content


def read_value(read_blob: ReadBlob, reference: Reference, admit: Admit = admit_all) -> Any:
    """The value; the results of a large loop are joined from their chunks."""
    content = read_bytes(read_blob, reference)
    admit(content)
    try:
        if reference.schema_hint == CHUNKS:
            return _joined(read_blob, decode_manifest(content), admit)
        return decoded(content, reference)
    except (*NOT_JSON, TypeError, ValueError) as error:
        raise Damaged(f"cannot decode the stored value {reference.digest[:12]}: {error}") from error


def _joined(read_blob: ReadBlob, manifest: Manifest, admit: Admit) -> list[Any]:
    pairs: dict[int, Any] = {}
    marked = set(manifest.marked)
    for key in dict.fromkeys(manifest.chunks):
        chunk = Reference("db", key, 0, f"sha256:{key}", HOLDS_REFERENCES if key in marked else "")
        content = read_bytes(read_blob, chunk, any_size=True)
        admit(content)
        pairs.update(decoded(content, chunk))
    if not all(type(index) is int and 0 <= index < manifest.total for index in pairs):
        raise ValueError("a chunk has results of items that the loop does not have")
    if manifest.total - len(pairs) > MAX_HOLES:
        raise ValueError(f"a list of {manifest.total:,} items, and its chunks hold {len(pairs):,}")
    return [pairs.get(index) for index in range(manifest.total)]


def read_json(read_blob: ReadBlob, reference: Reference) -> bytes:
    """The value as JSON, without decoding it if it is stored in one piece."""
    if reference.schema_hint == CHUNKS or reference.schema_hint.endswith(HOLDS_REFERENCES):
        return msgspec.json.encode(read_value(read_blob, reference), enc_hook=Reference.as_data)
    return read_bytes(read_blob, reference)
