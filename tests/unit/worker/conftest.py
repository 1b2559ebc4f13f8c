"""A server for workers, in the same process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_server import Scripted, scripted_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("NO_PROXY", "*")
    with scripted_server() as one:
        yield one
