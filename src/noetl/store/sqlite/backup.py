"""A copy of a database as of one moment, also while it is being written.

A plain copy of a live file is a trap: the newest commits are in the `-wal` file beside it, and what is copied page by
page while somebody writes is of no moment at all. SQLite copies from one read transaction instead. The copy is one
file, without anything beside it, and appears under its name only when it is whole, checked and on the disk.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

import apsw

from noetl.errors import Conflict, StoreError
from noetl.store.sqlite.store import SqliteStore

ALL_PAGES = -1
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite would take for a part of the database, if it lay there."""


def copy_database(source: Path, target: Path) -> int:
    """Copy a database of ours to a file that is not there yet; its size in bytes.

    Conflict if something is there: a database is never written over.
    """
    for path in (target, *(target.with_name(target.name + ending) for ending in BESIDE)):
        if path.exists():
            raise Conflict(
                f"{path} exists: move it away first, together with the files beside it ({', '.join(BESIDE)})"
            )
    SqliteStore(source, mode="read").close()  # a database, of ours, of a version that is known
    draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _copy(source, draft)
        _to_disk(draft)
        os.link(draft, target)  # unlike a rename, this never replaces what has come there meanwhile
        _to_disk(target.parent)
        return target.stat().st_size
    except FileExistsError:
        raise Conflict(f"{target} exists: move it away first") from None
    except OSError as error:
        raise StoreError(f"{target} can't be written: {error.strerror}") from error
    except apsw.Error as error:
        raise StoreError(f"{source} can't be copied: {error}") from error
    finally:
        for ending in ("", *BESIDE):
            with suppress(FileNotFoundError):
                os.unlink(f"{draft}{ending}")


def _copy(source: Path, target: Path) -> None:
    with (
        closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as theirs,
        closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as ours,
    ):
        theirs.set_busy_timeout(30_000)
        with ours.backup("main", theirs, "main") as copying:
            copying.step(ALL_PAGES)  # in one transaction: in parts it would begin anew after each commit of others
        ours.execute("PRAGMA journal_mode = DELETE")
        found = ours.execute("PRAGMA quick_check(1)").get
        if found != "ok":
            raise StoreError(f"{source} is damaged ({found}); the copy was thrown away")


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
