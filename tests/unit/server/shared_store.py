"""Servers that share a database: a file, or a schema in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from api_server import ApiServer
from tests.servers.postgres import Schema

from noetl.keychain.master import MasterKeySource
from noetl.keychain.safe import Safe
from noetl.server.api import ServerSettings
from noetl.settings import MasterKeySettings
from noetl.store.open import open_store
from noetl.store.store import Store

KEY = MasterKeySettings("ab" * 32, "")

OpenServer = Callable[[], ApiServer]


def address_of(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The address of an empty database."""
    if kind == "sqlite":
        return str(folder / "noetl.db")
    schema: Schema = request.getfixturevalue("store_schema")
    return schema.store_address


def safe_of(store: Store) -> Safe:
    return Safe(store.credentials, MasterKeySource(KEY))


def server_at(address: str) -> ApiServer:
    """A server with a connection of its own."""
    store = open_store(address)
    return ApiServer(store, ServerSettings(version="9.9", safe=safe_of(store)))


def servers_at(address: str) -> Iterator[OpenServer]:
    """Opens servers on a database, and closes them at the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(server_at(address)))
