"""Hooks: signed requests that start a playbook.

The sender shares a secret with the hook and sends the time and an HMAC of time and body:

    X-Noetl-Timestamp: 1760000000
    X-Noetl-Signature: sha256=HEX        HMAC-SHA256 of "TIMESTAMP.BODY" under the secret
    X-Noetl-Delivery: ID                 optional

A recorded request cannot be changed, and is invalid after five minutes. Until then it counts once: the signature
identifies the delivery. A sender that retries later signs again; with the same X-Noetl-Delivery and the same body that
is the same delivery. The id is not signed, but it can only merge deliveries.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from noetl.errors import AuthError, Conflict, NotFound, UsageError
from noetl.keychain.kinds import WEBHOOK
from noetl.keychain.safe import Safe
from noetl.keychain.sealed import Label, seal, unseal
from noetl.model.identity import is_name
from noetl.store.store import Store
from noetl.store.triggers import Hook

WINDOW_SECONDS = 300.0  # maximum age of a delivery, including the difference of the clocks
MIN_SECRET_LENGTH = 16
NOBODY = ("//hooks",)
"""Allowed paths of a hook's secret: matches no playbook, and the keychain rejects the kind as well."""
TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
SIGNATURE = re.compile(r"\s*sha256=[0-9a-f]{64}\s*", re.ASCII | re.IGNORECASE)
UNKNOWN = os.urandom(32).hex()  # secret for the signatures of hooks that do not exist


def signature_of(secret: str, timestamp: str, body: bytes = b"") -> hmac.HMAC:
    """`update` adds further parts of the body."""
    return hmac.new(secret.encode(), timestamp.encode("latin-1") + b"." + body, sha256)


def fits(signature: hmac.HMAC, header: str) -> bool:
    expected = f"sha256={signature.hexdigest()}"
    return hmac.compare_digest(expected.encode(), header.strip().lower().encode("utf-8", "replace"))


def is_plausible(timestamp: str, signature: str, now: float) -> bool:
    """Whether the headers have a recent time and the form of a signature. This is checked before the body is read."""
    has_form = SIGNATURE.fullmatch(signature) and TIMESTAMP.fullmatch(timestamp)
    return bool(has_form) and abs(now - int(timestamp)) <= WINDOW_SECONDS


class Decoy:
    """A dummy secret, decrypted for hooks that do not exist, so that rejecting them takes the same time."""

    def __init__(self) -> None:
        self.label = Label(credential_of("_"), WEBHOOK, NOBODY)
        self.sealed = b""

    def open(self, safe: Safe) -> None:
        safe.store.get(self.label.name)
        try:
            unseal(self.sealed, self.label, safe.keys.read())
        except AuthError:  # the first time, or after a change of the master key
            with suppress(AuthError):  # without a master key there are no hooks either
                self.sealed = seal({"secret": UNKNOWN}, self.label, safe.keys.read().current)


def payload_of(body: bytes) -> dict[str, Any]:
    """The payload: the JSON object of the body, or any other value as `body`. DecodeError if it is not JSON."""
    value = msgspec.json.decode(body) if body.strip() else {}
    return value if isinstance(value, dict) else {"body": value}


def deliveries(signature: str, delivery: str, body: bytes) -> list[str]:
    named = [f"delivery {sha256(delivery.encode() + b'|' + sha256(body).digest()).hexdigest()}"] if delivery else []
    return [*named, f"signature {signature}"]


def credential_of(name: str) -> str:
    return f"hook/{name}"


def put(
    store: Store, safe: Safe, name: str, path: str, version: int | None, secret: str | None, now: float
) -> tuple[Hook, str | None, bool]:
    """Store a hook; returns the hook, its secret if that was generated, and whether the hook is new."""
    if not is_name(name):
        raise UsageError(f"{name[:100]!r} is not a valid name of a hook: use letters, digits and _ . @ -")
    if secret is not None and len(secret) < MIN_SECRET_LENGTH:
        raise UsageError(f"the secret of a hook must have at least {MIN_SECRET_LENGTH} characters")
    existing = store.triggers.hook(name)
    generated = None
    if secret is not None:
        for other in store.triggers.hooks():
            with suppress(AuthError):  # it cannot be decrypted, so it accepts no deliveries
                pair = None if other.name == name else opened(store, safe, other.name)
                if pair is not None and hmac.compare_digest(pair[1].encode(), secret.encode()):
                    raise UsageError(
                        "another hook uses this secret, so a delivery to one could be replayed to the other; "
                        "use another secret, or omit it to generate a random one"
                    )
        _seal(safe, name, secret, now)
    elif existing is None or _sealed_kind(safe, name) is None:
        generated = secrets.token_urlsafe(32)
        _seal(safe, name, generated, now)
    store.triggers.put_hook(Hook(name, path, version, now, now))
    hook = store.triggers.hook(name)
    if hook is None:
        raise Conflict(f"hook {name!r} was deleted at the same time")
    return hook, generated, existing is None


def rotate(store: Store, safe: Safe, name: str, now: float) -> tuple[Hook, str]:
    hook = store.triggers.hook(name)
    if hook is None:
        raise NotFound(f"hook {name!r} not found: `noetl hook list` lists all hooks")
    secret = secrets.token_urlsafe(32)
    _seal(safe, name, secret, now)
    return hook, secret


def delete(store: Store, name: str) -> None:
    existed = store.triggers.delete_hook(name)
    sealed = store.credentials.get(credential_of(name))
    if sealed is not None and sealed.kind == WEBHOOK:
        store.credentials.delete(sealed.name)
    if not existed:
        raise NotFound(f"hook {name!r} not found: `noetl hook list` lists all hooks")


def opened(store: Store, safe: Safe, name: str, decoy: Decoy | None = None) -> tuple[Hook, str] | None:
    """A hook and its secret (AuthError if it cannot be decrypted); None if there is none, after the decoy was
    opened."""
    hook, kind = store.triggers.hook(name), _sealed_kind(safe, name)
    if hook is None or kind != WEBHOOK:
        if decoy is not None:
            decoy.open(safe)
        return None
    return hook, str(safe.open(credential_of(name), webhook=True).fields["secret"])


def _sealed_kind(safe: Safe, name: str) -> str | None:
    sealed = safe.store.get(credential_of(name))
    return None if sealed is None else sealed.kind


def _seal(safe: Safe, name: str, secret: str, now: float) -> None:
    credential = credential_of(name)
    if _sealed_kind(safe, name) not in (None, WEBHOOK):
        raise Conflict(f"the name of the secret, {credential!r}, is used by another credential")
    safe.put(credential, WEBHOOK, {"secret": secret}, paths=NOBODY, now=now)
