"""The owner of an execution: the process that holds the lock on its lock file.

The lock is an `flock`, which the operating system releases when its holder dies: nothing has to expire, and only an
empty file can be left behind. Other processes may still append to the log of an owned execution (cancel, signal,
pause); the lock only decides who dispatches its work.

Three things need care.

- A file may be removed between opening and locking it, and a lock on a removed file is useless. So after locking, the
  file must still be the one at its path; otherwise `acquire` tries again. The owner removes the file under the lock.
- `is_owned` takes a shared lock for a moment, which can make an `acquire` fail. So `acquire` tries for a few
  milliseconds.
- A lock belongs to the open file, which forked children share: it would outlive a killed owner. So children close their
  copy at once.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.errors import StoreError

if TYPE_CHECKING:
    from noetl.store.sqlite.store import SqliteStore

MAX_ATTEMPTS = 10
RETRY_SECONDS = 0.002

_live: set[Owner] = set()


class Owner:
    """The right to dispatch the work of an execution, from `acquire` until `release` or the end of the process."""

    def __init__(self, execution: str, path: Path, descriptor: int) -> None:
        self.execution, self.path = execution, path
        self._descriptor: int | None = descriptor
        _live.add(self)

    @classmethod
    def acquire(cls, store: SqliteStore, execution: str) -> Owner | None:
        """None if another process owns the execution, or this one does already."""
        path = _path(store, execution)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for _ in range(MAX_ATTEMPTS):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                with suppress(FileNotFoundError):  # the previous owner has removed it
                    if _locked(descriptor, fcntl.LOCK_EX) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
                        return cls(execution, path, descriptor)
                os.close(descriptor)
                time.sleep(RETRY_SECONDS)
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {error.strerror}") from error
        return None

    @staticmethod
    def is_owned(store: SqliteStore, execution: str) -> bool:
        path = _path(store, execution)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"cannot open {path}: {error.strerror}") from error
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        """Give up the execution. A second call does nothing."""
        if self.held:
            self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Close the copy of the lock in this process; a parent process still holds its own."""
        descriptor, self._descriptor = self._descriptor, None
        _live.discard(self)
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _path(store: SqliteStore, execution: str) -> Path:
    if not execution.replace("-", "").isalnum():
        raise StoreError(f"{execution!r} is not an execution id")
    return store.locks / f"{execution}.lock"


def _locked(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget_all() -> None:
    for owner in list(_live):
        owner.forget()


os.register_at_fork(after_in_child=_forget_all)
