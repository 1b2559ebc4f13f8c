"""Who runs an execution: the process that holds the lock on its file.

The lock is the operating system's (`flock`), so it is free the moment its holder dies, by whatever death: nothing has
to expire and nothing can be left behind but an empty file. Others may still append to the log of an owned execution
(cancel, signal, pause); the key of the event table keeps that in order. The lock only says who hands out its work.

Three things need care.

- A file may be removed between opening and locking it. A lock on a removed file is worth nothing, so after locking,
  the file must still be the one at its path; otherwise everything is done again. The owner removes the file while it
  holds the lock.
- To ask whether an execution is owned takes a shared lock for a moment, which stands in the way of an owner-to-be. So
  `acquire` tries for a few milliseconds before it believes that there is an owner.
- A lock belongs to the open file, which a forked child shares, and would outlive a killed owner in its children. So
  children close their copy at once.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Protocol

from noetl.errors import StoreError

TRIES = 10
PAUSE_SECONDS = 0.002

_live: set[Owner] = set()


class HasLocks(Protocol):
    """A store that has a folder for locks."""

    @property
    def locks(self) -> Path: ...


class Owner:
    """The right to hand out an execution's work, from `acquire` until `release` or the end of the process."""

    def __init__(self, execution: str, path: Path, descriptor: int) -> None:
        self.execution, self.path = execution, path
        self._descriptor: int | None = descriptor
        _live.add(self)

    @classmethod
    def acquire(cls, store: HasLocks, execution: str) -> Owner | None:
        """Own an execution; None if another process does (or this one already)."""
        path = _path(store, execution)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for _ in range(TRIES):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if _locked(descriptor, fcntl.LOCK_EX) and _is_at(descriptor, path):
                    return cls(execution, path, descriptor)
                os.close(descriptor)
                time.sleep(PAUSE_SECONDS)
        except OSError as error:
            raise StoreError(f"can't lock {path}: {error.strerror}") from error
        return None

    @staticmethod
    def is_owned(store: HasLocks, execution: str) -> bool:
        """Whether a live process owns the execution."""
        path = _path(store, execution)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"can't look at {path}: {error.strerror}") from error
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        """Let others own the execution. A second call does nothing."""
        if self.held:
            self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Close this process's copy of the lock; a parent that has one goes on holding it."""
        descriptor, self._descriptor = self._descriptor, None
        _live.discard(self)
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def _path(store: HasLocks, execution: str) -> Path:
    if not execution.replace("-", "").isalnum():
        raise StoreError(f"{execution!r} is not the id of an execution")
    return store.locks / f"{execution}.lock"


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at its path."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _forget_all() -> None:
    for owner in list(_live):
        owner.forget()


os.register_at_fork(after_in_child=_forget_all)
