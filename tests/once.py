"""What takes long to make and is the same for all test processes of a run: one of them makes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.packages import locked


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], bytes]) -> bytes:
    """The content of a file that the first test process makes; others wait for it."""
    base = factory.getbasetemp()
    file = (base if "PYTEST_XDIST_WORKER" not in os.environ else base.parent) / name
    with locked(Path(f"{file}.lock")):
        if not file.exists():
            part = Path(f"{file}.part")
            part.write_bytes(make())
            part.rename(file)
    return file.read_bytes()
