"""Copies a database in one state, also while others write to it.

A plain file copy mixes pages from different moments, and misses the newest commits in the `-wal` file; SQLite copies
from one read transaction. The copy gets its name only when it is complete, checked and on the disk.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

import apsw

from noetl.durable import sync
from noetl.errors import Conflict, DiskFull, StoreError
from noetl.store.sqlite.store import SqliteStore

SUFFIXES = ("-wal", "-shm", "-journal")  # of files that SQLite reads as parts of a database


def copy_database(source: Path, target: Path) -> int:
    """Copy a database to a new file; its size in bytes. Conflict if the file exists: it is never overwritten."""
    for path in (target, *(target.with_name(target.name + suffix) for suffix in SUFFIXES)):
        if path.exists():
            raise Conflict(
                f"{path} exists: move it away first, together with the files next to it ({', '.join(SUFFIXES)})"
            )
    SqliteStore(source, mode="read").close()  # raises if it is not a database of a known version
    draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _copy(source, draft)
        sync(draft)
        os.link(draft, target)  # unlike a rename, this never replaces a file
        sync(target.parent)
        return target.stat().st_size
    except FileExistsError:
        raise Conflict(f"{target} exists: move it away first") from None
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from error
    except apsw.FullError as error:
        raise DiskFull(f"cannot write {target}: the disk is full") from error
    except apsw.Error as error:
        raise StoreError(f"cannot copy {source}: {error}") from error
    finally:
        for suffix in ("", *SUFFIXES):
            with suppress(FileNotFoundError):
                os.unlink(f"{draft}{suffix}")


def _copy(source: Path, target: Path) -> None:
    with (
        closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as original,
        closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as copy,
    ):
        original.set_busy_timeout(30_000)
        with copy.backup("main", original, "main") as copying:
            copying.step(-1)  # all pages in one step: otherwise it restarts after each commit of others
        copy.execute("PRAGMA journal_mode = DELETE")
        problem = copy.execute("PRAGMA quick_check(1)").get
        if problem != "ok":
            raise StoreError(f"{source} is damaged ({problem}); the copy was deleted")
