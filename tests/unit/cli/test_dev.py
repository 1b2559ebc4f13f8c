"""`noetl dev`: how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.cli import server
from noetl.errors import StoreError
from noetl.host.local_link import LocalLink
from noetl.server.listen import bound
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import Registry


def test_tools_are_closed_even_if_the_last_output_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Registry] = []

    async def fail(link: LocalLink) -> None:
        raise StoreError("the disk is full")

    async def close(registry: Registry) -> None:
        closed.append(registry)

    def stop_soon(act: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(0.1, act)

    monkeypatch.setattr(LocalLink, "store_output", fail)
    monkeypatch.setattr(Registry, "close", close)
    monkeypatch.setattr(server, "on_signal", stop_soon)
    monkeypatch.setattr(server, "forbid_addresses", lambda: None)
    store = SqliteStore(tmp_path / "noetl.db")
    with pytest.raises(StoreError, match="the disk is full"):
        asyncio.run(server._develop(store, bound("127.0.0.1", 0), "noetl_token", server.HostOptions()))
    store.close()
    assert closed == [server.KINDS]
