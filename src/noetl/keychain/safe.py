"""The credentials of a database: sealed when stored, opened when read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from noetl.errors import AuthError, NotFound, UsageError
from noetl.keychain.keychain import StoredCredential
from noetl.keychain.kinds import PLUGIN, SHAPES, WEBHOOK, faults, is_known
from noetl.keychain.master import MasterKeySource
from noetl.keychain.revisions import Revisions
from noetl.keychain.sealed import Label, MasterKeys, revision_of, rewrap, seal, unseal
from noetl.store.credentials import Credentials, SealedCredential

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]{0,199}")


class Rotated(NamedTuple):
    """The number of credentials that were wrapped again, and of old master keys that were removed."""

    credentials: int
    forgotten: int


class Safe:
    """Seals and opens with the master key of the database. Its methods block."""

    def __init__(self, store: Credentials, keys: MasterKeySource) -> None:
        self.store, self.keys = store, keys
        self.revisions = Revisions(keys)

    def put(
        self,
        name: str,
        kind: str,
        fields: dict[str, Any],
        *,
        paths: Sequence[str] = (),
        pools: Sequence[str] = (),
        now: float,
    ) -> None:
        check(name, kind, fields)
        keys, row = self.keys.read_or_create(), self.store.get(name)
        before = 0 if row is None else revision_of(row.sealed)
        # Greater than every earlier revision; based on the clock, so also after the credential was deleted.
        revision = max(int(now * 1_000_000), before + 1, self.revisions.newest(name) + 1)
        label = Label(name, kind, tuple(paths), tuple(pools), revision)
        while True:
            sealed = seal(fields, label, keys.current)
            self.store.put(SealedCredential(name, kind, sealed, now, now, label.paths, label.pools))
            sealed_with, keys = keys.current, self.keys.read()
            if keys.find(sealed_with.id):  # else a rotation has removed it in the meantime
                self.revisions.check(name, label.revision)
                return

    def open(self, name: str) -> StoredCredential:
        """A credential with its fields, for a lease. The caller enforces its restrictions, as `Keychain` does.
        AuthError for the secret of a webhook, which no lease needs."""
        row = self._row(name)
        if row.kind == WEBHOOK:
            raise AuthError(f"credential {name!r} is the secret of a webhook: playbooks cannot use it")
        return self._opened(row)

    def open_webhook(self, name: str) -> StoredCredential:
        """The secret of a webhook, for the server that checks signatures."""
        return self._opened(self._row(name))

    def _row(self, name: str) -> SealedCredential:
        row = self.store.get(name)
        if row is None:
            raise NotFound(f"there is no credential {name!r}: create it with `noetl credential set {name}`")
        return row

    def _opened(self, row: SealedCredential) -> StoredCredential:
        fields = unseal(row.sealed, _label(row), self.keys.read())
        self.revisions.check(row.name, revision_of(row.sealed))
        return StoredCredential(row.name, row.kind, fields, row.paths, row.pools)

    def rotate(self, *, forget_older: bool = False) -> Rotated:
        """Wrap every data key with a new master key.

        The new key is on the disk before anything is wrapped with it, and the old ones stay: after an interruption all
        credentials can be opened. A key in the environment is changed by the operator; then this only wraps.
        """
        keys = self.keys.add() if self.keys.is_file else self.keys.read()
        wrapped, forgotten = self._wrap_all(keys), 0
        if forget_older and self.keys.is_file:
            forgotten = self.keys.forget_older()
            wrapped += self._wrap_all(keys)  # sealed with an old key by another process meanwhile
        return Rotated(wrapped, forgotten)

    def _wrap_all(self, keys: MasterKeys) -> int:
        wrapped = 0
        for row in self.store.all():
            new = rewrap(row.sealed, _label(row), keys)
            if new is not row.sealed:
                wrapped += self.store.reseal(row.name, row.sealed, new)
        return wrapped


def check(name: str, kind: str, fields: Any) -> None:
    """UsageError if a credential is invalid. The message contains no values."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid credential name: use letters, digits and _ . / @ -")
    if not is_known(kind):
        from noetl.dsl.problem import did_you_mean

        hint = did_you_mean(kind, SHAPES) or f"the kinds are {', '.join(SHAPES)}; kinds of plug-ins match {PLUGIN}"
        raise UsageError(f"unknown credential kind {kind!r}: {hint}")
    if not isinstance(fields, dict):
        raise UsageError("the data of a credential must be a JSON map of its fields")
    if wrong := "; ".join(faults(kind, fields)):
        raise UsageError(f"credential {name!r} is not a valid {kind}: {wrong}")


def _label(row: SealedCredential) -> Label:
    return Label(row.name, row.kind, row.paths, row.pools)
