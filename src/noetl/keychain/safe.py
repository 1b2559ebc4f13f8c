"""The credentials of a database: sealed when stored, opened when read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from noetl.durable import replace_file
from noetl.errors import AuthError, NotFound, UsageError
from noetl.json_errors import NOT_JSON
from noetl.keychain.keychain import Fields, StoredCredential
from noetl.keychain.kinds import PLUGIN, SHAPES, WEBHOOK, faults, is_known, public_fields
from noetl.keychain.master import MasterKeySource
from noetl.keychain.sealed import Label, MasterKeys, revision_of, rewrap, seal, unseal
from noetl.store.credentials import Credentials, SealedCredential

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]{0,199}")
Newest = dict[str, int]


class Rotated(NamedTuple):
    credentials: int  # that were wrapped again
    forgotten: int  # old master keys that were removed


class Revisions:
    """Detects rollbacks: records the newest revision of each credential outside the database.

    A sealed credential contains its revision, which cannot be changed without the master key. But an attacker who can
    write to the database can restore a whole old row, and it still decrypts. Only a record of a newer revision reveals
    that. Each process keeps such a record in memory. If the database and the master key are files, the record is also
    stored next to the key, in `master.key.revisions`.

    Not detected: an old row whose newer revision was never read here; a deleted credential that is restored; and, if
    the key comes from the environment or the database is Postgres, a rollback before the process started.
    """

    def __init__(self, keys: MasterKeySource) -> None:
        self.keys = keys
        self.file: Path | None = None
        self.database = ""
        if keys.is_file and keys.database is not None:
            self.file = keys.file.with_name(f"{keys.file.name}.revisions")
            self.database = str(keys.database.resolve())
        self.recorded: Newest = {}

    def newest(self, name: str) -> int:
        return max(self.recorded.get(name, 0), self._listed().get(self.database, {}).get(name, 0))

    def check(self, name: str, revision: int) -> None:
        """Record a revision that was read or stored. AuthError if a newer one is known."""
        newest = self.newest(name)
        if revision < newest:
            raise AuthError(
                f"credential {name!r} is older than the one that was last used here: an old row was restored in the "
                "database, or the database was replaced by a backup without `noetl restore`; set the credential again"
            )
        self.recorded[name] = revision
        if revision > newest and self.file is not None:
            with suppress(AuthError), self.keys.locked():  # if the folder is not writable, the record is in memory only
                listed = self._listed()
                revisions = listed.setdefault(self.database, {})
                revisions[name] = max(revision, revisions.get(name, 0))
                self._write(listed)

    def forget(self) -> None:
        """Reset the record: the database was restored from a backup, whose credentials may be older."""
        self.recorded.clear()
        listed = self._listed()
        if listed.pop(self.database, None) is not None:
            self._write(listed)

    def _listed(self) -> dict[str, Newest]:
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, Newest]) if self.file is not None else {}
        except FileNotFoundError:
            return {}
        except (OSError, *NOT_JSON):
            raise AuthError(
                f"{self.file} is not readable, so rollbacks of credentials cannot be detected: repair or remove it"
            ) from None

    def _write(self, listed: dict[str, Newest]) -> None:
        assert self.file is not None
        with suppress(OSError):
            replace_file(self.file, msgspec.json.encode(listed), self.file.with_name(f"{self.file.name}.new"), 0o600)


class Safe:
    """Seals and opens with the master key of the database. Its methods block."""

    def __init__(self, store: Credentials, keys: MasterKeySource) -> None:
        self.store, self.keys = store, keys
        self.revisions = Revisions(keys)

    def put(
        self, name: str, kind: str, fields: Fields, *, paths: Sequence[str] = (), pools: Sequence[str] = (), now: float
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

    def open(self, name: str, *, webhook: bool = False) -> StoredCredential:
        """A credential with its fields. The caller enforces its restrictions, as `Keychain` does. AuthError for the
        secret of a webhook, unless the caller is the server that checks signatures: no lease needs it."""
        row = self.store.get(name)
        if row is None:
            raise NotFound(f"credential {name!r} not found: create it with `noetl credential set {name} --kind KIND`")
        if row.kind == WEBHOOK and not webhook:
            raise AuthError(f"credential {name!r} is the secret of a webhook: playbooks cannot use it")
        fields = unseal(row.sealed, _label(row), self.keys.read())
        self.revisions.check(row.name, revision_of(row.sealed))
        return StoredCredential(row.name, row.kind, fields, row.paths, row.pools)

    def describe(self, name: str) -> tuple[SealedCredential, dict[str, Any]]:
        """A credential and the fields of it that may be shown; NotFound if there is none."""
        fields = public_fields(self.open(name, webhook=True).fields)
        row = self.store.get(name)
        if row is None:
            raise NotFound(f"credential {name!r} was deleted at the same time")
        return row, fields

    def rotate(self, *, forget_older: bool = False) -> Rotated:
        """Wrap every data key with a new master key; the old ones stay, so that all credentials can be opened after an
        interruption. A key in the environment is changed by the operator; then this only wraps."""
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
        raise UsageError(f"credential {name!r} of kind {kind!r} is invalid: {wrong}")


def _label(row: SealedCredential) -> Label:
    return Label(row.name, row.kind, row.paths, row.pools)
