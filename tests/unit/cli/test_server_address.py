"""Addresses that lead to no server, or to another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import noetl
from pytest_httpserver import HTTPServer
from tests.servers.ports import reserved_port

TOKEN = "noetl_4f9a1b77c0d8e2"


@pytest.mark.parametrize("verb", [("runs", "list"), ("server", "status"), ("exec", "shop/orders"), ("verify",)])
@pytest.mark.parametrize(("status", "body"), [(200, '{"page": 1}'), (200, "<html>"), (404, '{"authorization": "..."}')])
def test_another_server_at_the_address_is_reported(
    httpserver: HTTPServer, tmp_path: Path, verb: tuple[str, ...], status: int, body: str
) -> None:
    httpserver.expect_request("/api/v1/").respond_with_data(body, status)
    httpserver.no_handler_status_code = status
    url = httpserver.url_for("").rstrip("/")
    done = noetl(*verb, "--server", url, cwd=tmp_path, NOETL_TOKEN=TOKEN)
    assert done.code == 7
    assert done.err.startswith(f"noetl: no noetl server responds at {url}: the response {status} ")
    assert "check the address" in done.err
    assert body not in done.err
    assert TOKEN not in done.err


def test_an_address_where_nothing_listens_comes_with_advice(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{reserved_port()}"
    done = noetl("runs", "list", "--server", url, cwd=tmp_path)
    assert (done.code, done.err) == (
        7,
        f"noetl: no server responds at {url}: Connection refused; check the address, or start a server with "
        "`noetl server`\n",
    )
