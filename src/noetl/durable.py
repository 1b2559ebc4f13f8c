"""Writes that survive a crash."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, draft: Path, mode: int | None = None) -> None:
    """Write a file atomically: at any moment it has its old or its new content. `sync` its folder to keep the name.
    Without a mode, the umask decides."""
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def sync(path: str | Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
