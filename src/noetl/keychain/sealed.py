"""Sealing: the format of a credential in the database.

    version (1)  key id (8)  revision (8)  nonce (12)  wrapped data key (48)  nonce (12)  content and tag

The content is encrypted with a data key of its own (AES-256-GCM), and the data key with a master key, whose id comes
first. A new master key means wrapping 32 bytes again, not decrypting every secret. The name, kind, restrictions and
revision of the credential are authenticated with the secret; the revision grows each time the credential is set (see
`Revisions`). A row that was copied to another name or opened to more playbooks cannot be read. Version 1 has no
revision, which counts as 0.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from noetl.errors import AuthError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FIRST_VERSION, VERSION = 1, 2
KEY_BYTES = 32
ID_BYTES = 8
REVISION_BYTES = 8
NONCE_BYTES = 12
WRAPPED_BYTES = KEY_BYTES + 16


class MasterKey(NamedTuple):
    secret: bytes

    @property
    def id(self) -> bytes:
        return sha256(b"noetl master key\0" + self.secret).digest()[:ID_BYTES]

    def __repr__(self) -> str:
        return f"MasterKey({self.id.hex()})"


class MasterKeys(NamedTuple):
    current: MasterKey
    older: tuple[MasterKey, ...] = ()

    def find(self, key_id: bytes) -> MasterKey | None:
        return next((key for key in (self.current, *self.older) if key.id == key_id), None)


class Label(NamedTuple):
    name: str
    kind: str
    paths: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    revision: int = 0

    def authenticated(self) -> bytes:
        *fields, revision = self
        return msgspec.json.encode(["noetl credential", *fields, *([revision] if revision else [])])


def seal(fields: dict[str, Any], label: Label, key: MasterKey) -> bytes:
    data_key, nonce = os.urandom(KEY_BYTES), os.urandom(NONCE_BYTES)
    content = _cipher(data_key).encrypt(nonce, msgspec.json.encode(fields), label.authenticated())
    return _wrap(data_key, label, key) + nonce + content


def unseal(sealed: bytes, label: Label, keys: MasterKeys) -> dict[str, Any]:
    """The fields that were sealed under this label, of any revision. AuthError if they cannot be decrypted."""
    label = label._replace(revision=revision_of(sealed))
    data_key, rest = _unwrap(sealed, label, keys)
    nonce, content = rest[:NONCE_BYTES], rest[NONCE_BYTES:]
    fields: dict[str, Any] = msgspec.json.decode(_decrypt(data_key, nonce, content, label.authenticated(), label))
    return fields


def rewrap(sealed: bytes, label: Label, keys: MasterKeys) -> bytes:
    """The same content under the current master key; the same object if it already is."""
    if _key_id(sealed) == keys.current.id:
        return sealed
    label = label._replace(revision=revision_of(sealed))
    data_key, rest = _unwrap(sealed, label, keys)
    return _wrap(data_key, label, keys.current) + rest


def revision_of(sealed: bytes) -> int:
    """The claimed revision of a sealed credential; authentic if the credential decrypts."""
    if sealed[:1] != bytes([VERSION]):
        return 0
    return int.from_bytes(sealed[1 + ID_BYTES : 1 + ID_BYTES + REVISION_BYTES], "big")


def _wrap(data_key: bytes, label: Label, key: MasterKey) -> bytes:
    nonce, head = os.urandom(NONCE_BYTES), bytes([VERSION if label.revision else FIRST_VERSION]) + key.id
    if label.revision:
        head += label.revision.to_bytes(REVISION_BYTES, "big")
    return head + nonce + _cipher(key.secret).encrypt(nonce, data_key, head + label.authenticated())


def _unwrap(sealed: bytes, label: Label, keys: MasterKeys) -> tuple[bytes, bytes]:
    size = 1 + ID_BYTES + (REVISION_BYTES if label.revision else 0)
    end = size + NONCE_BYTES + WRAPPED_BYTES
    if len(sealed) < end + NONCE_BYTES:
        raise AuthError(f"credential {label.name!r} is damaged: set it again")
    if sealed[0] not in (FIRST_VERSION, VERSION):
        raise AuthError(f"credential {label.name!r} was sealed by a newer noetl: upgrade noetl to use it")
    key = keys.find(_key_id(sealed))
    if key is None:
        raise AuthError(
            f"credential {label.name!r} was sealed with the master key {_key_id(sealed).hex()}, which is missing: "
            "add it to NOETL_MASTER_KEY or the key file"
        )
    head, wrapped = sealed[:size], sealed[size:end]
    associated = head + label.authenticated()
    return _decrypt(key.secret, wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], associated, label), sealed[end:]


def _key_id(sealed: bytes) -> bytes:
    return sealed[1 : 1 + ID_BYTES]


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decrypt(key: bytes, nonce: bytes, content: bytes, associated: bytes, label: Label) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(nonce, content, associated)
    except InvalidTag:
        raise AuthError(
            f"cannot open credential {label.name!r}: it was changed in the database, or belongs to another name; "
            "set it again"
        ) from None
