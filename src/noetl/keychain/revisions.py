"""Detects rollbacks: records the newest revision of each credential outside the database.

A sealed credential contains its revision, which can't be changed without the master key. But an attacker who can write
to the database can restore a whole old row, and it still decrypts. Only a record of a newer revision reveals that. Each
process keeps such a record in memory. If the database and the master key are files, the record is also stored next to
the key, in `master.key.revisions`.

Not detected: an old row whose newer revision was never read here; a deleted credential that is restored; and, if the
key comes from the environment or the database is Postgres, a rollback before the process started.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from noetl.durable import replace_file
from noetl.errors import AuthError
from noetl.keychain.master import MasterKeySource

SUFFIX = ".revisions"
Newest = dict[str, int]


class Revisions:
    def __init__(self, keys: MasterKeySource) -> None:
        self.keys = keys
        self.file: Path | None = None
        self.database = ""
        if keys.is_file and keys.database is not None:
            self.file = keys.file.with_name(f"{keys.file.name}{SUFFIX}")
            self.database = str(keys.database.resolve())
        self.known: Newest = {}

    def newest(self, name: str) -> int:
        """The newest known revision of a credential; 0 if there is none."""
        return max(self.known.get(name, 0), self._listed().get(self.database, {}).get(name, 0))

    def check(self, name: str, revision: int) -> None:
        """Record a revision that was read or stored. AuthError if a newer one is known."""
        newest = self.newest(name)
        if revision < newest:
            raise AuthError(
                f"credential {name!r} is older than the one that was last used here: an old row was restored in the "
                "database, or the database was replaced by a backup without `noetl restore`; set the credential again"
            )
        self.known[name] = revision
        if revision > newest:
            self._list(name, revision)

    def forget(self) -> None:
        """Reset the record: the database was restored from a backup, whose credentials may be older."""
        self.known.clear()
        listed = self._listed()
        if listed.pop(self.database, None) is not None:
            self._write(listed)

    def _listed(self) -> dict[str, Newest]:
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, Newest]) if self.file is not None else {}
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            raise AuthError(
                f"{self.file} is not readable, so rollbacks of credentials cannot be detected: repair or remove it"
            ) from None

    def _list(self, name: str, revision: int) -> None:
        if self.file is None:
            return
        with suppress(AuthError), self.keys.locked():  # the folder is not writable: keep the record in memory only
            listed = self._listed()
            newest = listed.setdefault(self.database, {})
            newest[name] = max(revision, newest.get(name, 0))
            self._write(listed)

    def _write(self, listed: dict[str, Newest]) -> None:
        assert self.file is not None
        with suppress(OSError):
            replace_file(self.file, msgspec.json.encode(listed), self.file.with_name(f"{self.file.name}.new"), 0o600)
