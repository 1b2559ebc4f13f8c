"""A small disk of its own for a database, which can be filled: a tmpfs, which only root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHUNKS = (16 << 20, 1 << 20, 4096)


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder, self.ballast = folder, folder / "ballast"

    def fill(self) -> None:
        """Take every free block."""
        with self.ballast.open("wb") as file:
            for chunk in CHUNKS:
                try:
                    while True:
                        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), chunk)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def clear(self) -> None:
        self.ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk | str]:
    """A disk, or the reason why there is none."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = mounted.stderr.strip() if mounted.returncode else ""
    except FileNotFoundError:
        reason = "there is no program `mount`"
    try:
        yield f"a tmpfs cannot be mounted: {reason}" if reason else SmallDisk(folder)
    finally:
        if not reason:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
