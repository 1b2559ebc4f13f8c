"""Each mode is started once in a test process, and must be sound when it ends."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import CHILD, SECRET
from tests.servers.nats import nats_server
from tests.servers.postgres import PostgresServer, postgres_fixture  # noqa: F401

FULL = {"embedded", "postgres and nats", "two servers"}
"""Modes in which the default run plays everything. The others play what is marked `every_mode`, and all in a soak."""
MODES = ("embedded", "dev", "sqlite", "postgres", "postgres and nats", "two servers")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mode = getattr(item, "callspec", None) and item.callspec.params.get("mode")
        if mode in MODES and mode not in FULL and not item.get_closest_marker("every_mode"):
            item.add_marker(pytest.mark.slow(part="modes"))


@pytest.fixture(scope="session", params=MODES, ids=lambda name: name.replace(" ", "_"))
def mode(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[stage.Mode]:
    folder = tmp_path_factory.mktemp("mode")
    with ExitStack() as stack:
        one = stack.enter_context(opened(request.param, folder, stack))
        one.register(CHILD)
        one.set_credential("modes_api", "bearer", {"token": SECRET})
        yield one
        one.verify()  # while its database is there


def opened(mode: str, folder: Path, stack: ExitStack) -> stage.Opened:
    match mode:
        case "embedded":
            return stage.embedded(folder)
        case "dev":
            return stage.dev(folder)
        case "sqlite":
            return stage.served(folder, str(folder / "data" / "noetl.db"))
    postgres = stack.enter_context(closing(PostgresServer()))
    db = stage.database(postgres, f"modes_{uuid.uuid4().hex}")
    servers = 2 if mode == "two servers" else 1
    more = ("--nats", stack.enter_context(nats_server()).url) if mode == "postgres and nats" else ()
    return stage.served(folder, db, servers, servers + 1, *more)
