"""The newest revision of each credential that was seen, remembered outside of the database.

A sealed credential carries the revision it was stored as, and can't be given another one without the master key. But a
whole row of before can be put back by who can write to the database, and it opens as it always did. Only somebody who
remembers a newer one notices: a process does so for as long as it lives, and for a database in a file with the master
key in a file there is a list beside the key, `master.key.revisions`, that outlives processes.

What is not noticed: a row that was put back before anybody saw the newer one, a credential that was deleted and is put
back, and, where the key comes from the environment or the database is Postgres, what happened before the process began.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from noetl.errors import AuthError
from noetl.keychain.master import MasterKeySource

SUFFIX = ".revisions"
Seen = dict[str, int]


class Revisions:
    """What was seen of the credentials of one database."""

    def __init__(self, keys: MasterKeySource) -> None:
        self.keys = keys
        self.file: Path | None = None
        self.database = ""
        if keys.is_file and keys.database is not None:
            self.file = keys.file.with_name(f"{keys.file.name}{SUFFIX}")
            self.database = str(keys.database.resolve())
        self.seen: Seen = {}

    def newest(self, name: str) -> int:
        """The newest revision of a credential that was seen; 0 if none was."""
        return max(self.seen.get(name, 0), self._listed().get(self.database, {}).get(name, 0))

    def check(self, name: str, revision: int) -> None:
        """Remember a revision that was opened or stored. AuthError if a newer one was seen before."""
        newest = self.newest(name)
        if revision < newest:
            raise AuthError(
                f"credential {name!r} is older than the one that was last used here: somebody has put an old row back "
                "into the database, or a backup was copied over it by hand; set it again"
            )
        self.seen[name] = revision
        if revision > newest:
            self._list(name, revision)

    def forget(self) -> None:
        """Begin anew: the database was restored from a backup, whose credentials may be older."""
        self.seen.clear()
        listed = self._listed()
        if listed.pop(self.database, None) is not None:
            self._write(listed)

    def _listed(self) -> dict[str, Seen]:
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, Seen]) if self.file is not None else {}
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            raise AuthError(
                f"{self.file} can't be read, and it tells whether credentials were put back: mend or remove it"
            ) from None

    def _list(self, name: str, revision: int) -> None:
        if self.file is None:
            return
        with suppress(AuthError), self.keys.locked():  # a folder that can't be written: then memory has to do
            listed = self._listed()
            seen = listed.setdefault(self.database, {})
            seen[name] = max(revision, seen.get(name, 0))
            self._write(listed)

    def _write(self, listed: dict[str, Seen]) -> None:
        assert self.file is not None
        new = self.file.with_name(f"{self.file.name}.new")
        with suppress(OSError), open(os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(msgspec.json.encode(listed))
            file.flush()
            os.fsync(file.fileno())
            new.replace(self.file)
