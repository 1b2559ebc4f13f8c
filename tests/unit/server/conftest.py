"""A server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_server import ApiServer


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    one = ApiServer()
    yield one
    one.close()


@pytest.fixture
def admin(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("admin") as client:
        yield client
