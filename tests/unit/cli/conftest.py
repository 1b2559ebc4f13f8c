"""The places where verbs about runs are tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from places import Place
from tests.unit.server.api_server import ApiServer


@pytest.fixture(params=["database", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "database":
        yield Place(tmp_path, {})
        return
    server = ApiServer()
    yield Place(tmp_path, {"NOETL_SERVER": server.url, "NOETL_TOKEN": server.tokens["admin"], "NO_PROXY": "*"})
    server.close()
