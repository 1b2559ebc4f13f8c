"""Locks next to an SQLite file: the owner of an execution, and a fair lock in front of SQLite's write lock.

Both are an `flock`, which the operating system releases when its holder dies: nothing has to expire.

**The owner of an execution** is the process that dispatches its work; others may still append to its log. A lock on a
removed file is useless, so after locking, the file must still be the one at its path, and the owner removes it under
the lock. `is_owned` takes a shared lock for a moment, so `acquire` tries for a few milliseconds. Forked children share
the lock and would keep it beyond the death of the owner, so they close their copy at once.

**The fair lock** lets a waiting writer go before one that has just committed. SQLite's lock is not fair: a writer that
finds it taken sleeps up to 100 ms, while a process that commits all the time takes it again within microseconds. So a
writer holds the fair lock while it waits for SQLite's. A writer that cannot get it in time continues without it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.errors import StoreError

if TYPE_CHECKING:
    from noetl.store.sqlite.store import SqliteStore

MAX_ATTEMPTS = 10
RETRY_SECONDS = 0.002
MAX_WAIT_SECONDS = 2.0

_live: set[Owner] = set()


class Owner(AbstractContextManager["Owner"]):
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
            for _ in range(MAX_ATTEMPTS):
                descriptor = _open(path)
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
        if self.held:
            self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Close the copy of the lock in this process; a parent process still holds its own."""
        descriptor, self._descriptor = self._descriptor, None
        _live.discard(self)
        if descriptor is not None:
            os.close(descriptor)

    def __exit__(self, *_: object) -> None:
        self.release()


class FairLock:
    """The lock file of one database, as one store has it open; without a file, there is nothing to wait for."""

    def __init__(self, path: Path | None) -> None:
        self.path, self._wait = path, busy_handler(MAX_WAIT_SECONDS)
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        for attempt in count():
            if self._try() or not self._wait(attempt):
                return

    def _try(self) -> bool:
        """Whether there is nothing to wait for: the lock is ours, or the folder cannot be written."""
        if self.path is None:
            return True
        try:
            if self._descriptor is None:
                self._descriptor = _open(self.path)
            return _locked(self._descriptor, fcntl.LOCK_EX)
        except OSError:
            return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def busy_handler(seconds: float) -> Callable[[int], bool]:
    """Called while a lock is taken, with the number of calls so far: sleeps; False after that many seconds."""
    deadline = 0.0

    def wait(calls: int) -> bool:
        nonlocal deadline
        if calls == 0:
            deadline = time.monotonic() + seconds
        time.sleep(min(0.000_1 * (1 + calls), 0.001))  # short at first: a commit takes less than a millisecond
        return time.monotonic() < deadline

    return wait


def _path(store: SqliteStore, execution: str) -> Path:
    if not execution.replace("-", "").isalnum():
        raise StoreError(f"{execution!r} is not an execution id")
    return store.locks / f"{execution}.lock"


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


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
