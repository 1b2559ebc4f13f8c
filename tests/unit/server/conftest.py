"""A server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_server import ApiServer

from noetl.store.sqlite import SqliteStore


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A server on a SQLite file."""
    server = ApiServer(SqliteStore(tmp_path_factory.mktemp("server") / "noetl.db"))
    yield server
    server.close()


@pytest.fixture
def admin(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("admin") as client:
        yield client
