"""Hooks: requests that start a playbook because they are signed.

The sender shares a secret with the hook and sends, beside the body, the time and an HMAC of both:

    X-Noetl-Timestamp: 1760000000
    X-Noetl-Signature: sha256=HEX        HMAC-SHA256 of "TIMESTAMP.BODY" under the secret
    X-Noetl-Delivery: ID                 may be missing

A request that was seen on its way can't be changed, and after five minutes it is worth nothing. Until then it counts
once: the signature names the delivery. A sender that tries again later signs anew; an id of its own in X-Noetl-Delivery
makes that the same delivery, for the same body. Since the id is not signed, it can only ever join deliveries together.
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
from noetl.server.roles import is_name
from noetl.server.show import stamp
from noetl.store.ports import Store
from noetl.store.triggers import Hook

WINDOW_SECONDS = 300.0
"""How far the clocks of sender and server may be apart, and how long a delivery may be on its way."""
SHORTEST_SECRET = 16
KIND = WEBHOOK
NOBODY = ("//hooks",)
"""Allowed paths of a hook's secret: matches no playbook, and the keychain rejects the kind as well."""
TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
SIGNATURE = re.compile(r"\s*sha256=[0-9a-f]{64}\s*", re.ASCII | re.IGNORECASE)
UNKNOWN = os.urandom(32).hex()
"""What signatures for hooks that do not exist are compared with."""


class Signature:
    """The signature of a delivery, computed as its body arrives."""

    def __init__(self, secret: str, timestamp: str, body: bytes = b"") -> None:
        self._mac = hmac.new(secret.encode(), timestamp.encode("latin-1") + b"." + body, sha256)

    def update(self, part: bytes) -> None:
        self._mac.update(part)

    def hex(self) -> str:
        return self._mac.hexdigest()

    def fits(self, given: str) -> bool:
        """Whether the header X-Noetl-Signature has this signature."""
        expected = f"sha256={self.hex()}"
        return hmac.compare_digest(expected.encode(), given.strip().lower().encode("utf-8", "replace"))


def is_plausible(timestamp: str, given: str, now: float) -> bool:
    """Whether the headers of a delivery could be right: they look like a time and a signature, and the time is near.
    This is known before the body is read."""
    return (
        SIGNATURE.fullmatch(given) is not None
        and TIMESTAMP.fullmatch(timestamp) is not None
        and abs(now - int(timestamp)) <= WINDOW_SECONDS
    )


class Decoy:
    """A dummy secret, decrypted for hooks that do not exist, so that rejecting them takes the same time."""

    def __init__(self) -> None:
        self.label = Label(credential_of("_"), KIND, NOBODY)
        self.sealed = b""

    def open(self, safe: Safe) -> None:
        """Decrypt the dummy secret. Blocks."""
        safe.store.get(self.label.name)
        try:
            unseal(self.sealed, self.label, safe.keys.read())
        except AuthError:  # the first time, or the master key is another one
            with suppress(AuthError):  # without a master key there are no hooks either
                self.sealed = seal({"secret": UNKNOWN}, self.label, safe.keys.read().current)


def payload_of(body: bytes) -> dict[str, Any]:
    """The body as a payload: a JSON object as it is, any other value as `body`. DecodeError if it is no JSON."""
    found = msgspec.json.decode(body) if body.strip() else {}
    return found if isinstance(found, dict) else {"body": found}


def deliveries(signed: str, delivery: str, body: bytes) -> list[str]:
    """What a delivery is known by, what the sender calls it first."""
    named = [f"delivery {sha256(delivery.encode() + b'|' + sha256(body).digest()).hexdigest()}"] if delivery else []
    return [*named, f"signature {signed}"]


# -- keeping them ---------------------------------------------------------------------------------------------------


def credential_of(name: str) -> str:
    """The name of the credential that holds the secret of a hook."""
    return f"hook/{name}"


def put(
    store: Store, safe: Safe, name: str, path: str, version: int | None, secret: str | None, now: float
) -> tuple[Hook, str | None, bool]:
    """Keep a hook: the hook, a secret that was made for it, and whether it is new. Blocks."""
    if not is_name(name):
        raise UsageError(f"{name[:100]!r} can't be the name of a hook: use letters, digits and _ . @ -")
    if secret is not None and len(secret) < SHORTEST_SECRET:
        raise UsageError(f"the secret of a hook has at least {SHORTEST_SECRET} characters")
    known = store.triggers.hook(name)
    made = None
    if secret is None and (known is None or _sealed_kind(safe, name) is None):
        made = new_secret()
    if secret is not None:
        _check_unique(store, safe, name, secret)
    if (chosen := secret or made) is not None:
        _keep(safe, name, chosen, now)
    store.triggers.put_hook(Hook(name, path, version, now, now))
    kept = store.triggers.hook(name)
    if kept is None:
        raise Conflict(f"hook {name!r} was deleted this very moment")
    return kept, made, known is None


def rotate(store: Store, safe: Safe, name: str, now: float) -> tuple[Hook, str]:
    """Give a hook another secret; the one before it ends at once. Blocks."""
    known = store.triggers.hook(name)
    if known is None:
        raise NotFound(f"there is no hook {name!r}")
    made = new_secret()
    _keep(safe, name, made, now)
    return known, made


def delete(store: Store, name: str) -> None:
    """Forget a hook and its secret. Blocks."""
    gone = store.triggers.delete_hook(name)
    sealed = store.credentials.get(credential_of(name))
    if sealed is not None and sealed.kind == KIND:
        store.credentials.delete(sealed.name)
    if not gone:
        raise NotFound(f"there is no hook {name!r}")


def opened(store: Store, safe: Safe, name: str, decoy: Decoy | None = None) -> tuple[Hook, str] | None:
    """A hook and its secret; None if there is none, after the decoy was opened instead. AuthError where the secret
    can't be read. Blocks."""
    hook, kind = store.triggers.hook(name), _sealed_kind(safe, name)
    if hook is None or kind != KIND:
        if decoy is not None:
            decoy.open(safe)
        return None
    return hook, str(safe.open_webhook(credential_of(name)).fields["secret"])


def _check_unique(store: Store, safe: Safe, name: str, secret: str) -> None:
    """UsageError if another hook has the secret: the name of a hook is not signed, so whoever records a delivery to
    one could send it to the other."""
    for hook in store.triggers.hooks():
        with suppress(AuthError):  # it can't be read, so it takes no deliveries either
            other = None if hook.name == name else opened(store, safe, hook.name)
            if other is not None and hmac.compare_digest(other[1].encode(), secret.encode()):
                raise UsageError(
                    "another hook uses this secret, so a delivery to one could be replayed to the other; "
                    "use another secret, or omit it to generate a random one"
                )


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def _sealed_kind(safe: Safe, name: str) -> str | None:
    sealed = safe.store.get(credential_of(name))
    return None if sealed is None else sealed.kind


def _keep(safe: Safe, name: str, secret: str, now: float) -> None:
    credential = credential_of(name)
    if _sealed_kind(safe, name) not in (None, KIND):
        raise Conflict(f"the credential {credential!r}, which would hold the secret, is something else")
    safe.put(credential, KIND, {"secret": secret}, paths=NOBODY, now=now)


def shown(hook: Hook) -> dict[str, Any]:
    """A hook as the API and the command line show it."""
    return {
        "name": hook.name,
        "path": hook.path,
        "version": hook.version,
        "created": stamp(hook.created),
        "updated": stamp(hook.updated),
    }
