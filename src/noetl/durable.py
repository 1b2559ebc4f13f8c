"""Writes that survive a crash."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, draft: Path, mode: int = 0o666) -> None:
    """Write a file atomically: at any moment it has its old or its new content. `sync` its folder to keep the name."""
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def sync(path: str | Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
