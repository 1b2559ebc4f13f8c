"""The npm packages of the browser tests: Chromium and axe. `python -m tests.browser.packages` installs them."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.page import find_node

HERE = Path(__file__).parent
LOCK_FILE = HERE / "package-lock.json"
MODULES = HERE / "node_modules"
STAMP = MODULES / ".installed"


def installed() -> Path:
    """The folder of the packages of the lock file; they are installed first if they are missing or older."""
    if not _is_current():
        with locked(LOCK_FILE):
            if not _is_current():
                node = find_node()
                assert node is not None, "Node is missing: run `make page`"
                subprocess.run([*node.npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=HERE, check=True)
                STAMP.write_bytes(LOCK_FILE.read_bytes())
    return MODULES


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file, which is created if it is missing; other processes wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_current() -> bool:
    return STAMP.exists() and STAMP.read_bytes() == LOCK_FILE.read_bytes()


if __name__ == "__main__":
    installed()
