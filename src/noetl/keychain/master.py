"""The master key: in the environment, or in a file.

The file has one key per line, the current one first. Only its owner may read it, and it must not be in the folder of
the database, so that a copy of that folder does not contain the key. One file serves all databases of a user, so
rotation keeps older keys until they are removed explicitly.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noetl.durable import replace_file, sync
from noetl.errors import AuthError
from noetl.keychain.sealed import KEY_BYTES, MasterKey, MasterKeys
from noetl.settings import MasterKeySettings

VARIABLE = "NOETL_MASTER_KEY"
HEX = re.compile(r"[0-9A-Fa-f]{64}")


class MasterKeySource:
    def __init__(self, settings: MasterKeySettings, database: str | Path | None = None) -> None:
        self.variable = settings.key
        self.file = Path(settings.file)
        self.database = None if database is None else Path(database)

    @property
    def is_file(self) -> bool:
        return self.variable is None

    def read(self) -> MasterKeys:
        """The keys. AuthError if there are none, or if others could read them."""
        if self.variable is not None:
            return _parsed(self.variable.replace(",", "\n"), VARIABLE)
        self._check_place()
        try:
            with self.file.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    message = f"others can read the master key {self.file} (mode {mode:03o}): chmod 600 {self.file}"
                    raise AuthError(message)
                return _parsed(file.read(2**16).decode("ascii", "replace"), str(self.file))
        except FileNotFoundError:
            message = f"there is no master key: set {VARIABLE}, or write the key of this database to {self.file}"
            raise AuthError(message) from None
        except OSError as error:
            raise AuthError(f"cannot read the master key {self.file}: {error.strerror}") from None

    def read_or_create(self) -> MasterKeys:
        if self.variable is None and not self.file.exists():
            self._check_place()
            with self.locked():
                if not self.file.exists():
                    self._write([new_key()])
        return self.read()

    def add(self) -> MasterKeys:
        with self.locked():
            before = self.read()
            self._write([new_key(), before.current, *before.older])
        return self.read()

    def forget_older(self) -> int:
        with self.locked():
            keys = self.read()
            self._write([keys.current])
        return len(keys.older)

    def _check_place(self) -> None:
        folder = None if self.database is None else self.database.resolve().parent
        if folder is not None and self.file.resolve().is_relative_to(folder):
            raise AuthError(
                f"the master key {self.file} is in the folder of the database, {folder}, and would be copied with it: "
                "set NOETL_MASTER_KEY_FILE to a file elsewhere"
            )

    def _write(self, keys: list[MasterKey]) -> None:
        text = "".join(f"{b64encode(key.secret).decode()}\n" for key in keys)
        try:
            replace_file(self.file, text.encode("ascii"), self.file.with_name(f"{self.file.name}.new"), 0o600)
            sync(self.file.parent)
        except OSError as error:
            raise AuthError(f"cannot write the master key {self.file}: {error.strerror}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Changes by one process at a time, or one of two new keys would be lost. AuthError if the folder is not
        writable."""
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.file.with_name(f"{self.file.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise AuthError(f"cannot write the master key {self.file}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def new_key() -> MasterKey:
    return MasterKey(os.urandom(KEY_BYTES))


def _parsed(text: str, where: str) -> MasterKeys:
    """Keys in lines, in hex or in base64 of either alphabet, padded or not."""
    keys = []
    for line in filter(None, map(str.strip, text.splitlines())):
        plain = line.rstrip("=").replace("+", "-").replace("/", "_")
        try:
            secret = bytes.fromhex(line) if HEX.fullmatch(line) else urlsafe_b64decode(plain + "=" * (-len(plain) % 4))
        except ValueError:
            secret = b""
        if len(secret) != KEY_BYTES or not re.fullmatch(r"[\w-]+", plain, re.A):
            raise AuthError(
                f"{where}: a master key is {KEY_BYTES} random bytes in base64 or hex (`openssl rand -base64 32`)"
            )
        keys.append(MasterKey(secret))
    if not keys:
        raise AuthError(f"{where} contains no master key")
    return MasterKeys(keys[0], tuple(keys[1:]))
