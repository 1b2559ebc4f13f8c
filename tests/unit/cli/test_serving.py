"""The background loops of a server."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from tests.servers.patience import PATIENCE_SECONDS

from noetl.cli.server import HostOptions, running
from noetl.errors import NoetlError
from noetl.host import background
from noetl.log import Log
from noetl.server.health import Health
from noetl.server.listen import bound
from noetl.server.maintenance import Pruner
from noetl.server.scheduler import Scheduler
from noetl.store.sqlite import SqliteStore


def test_a_server_that_cannot_serve_says_why_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*arguments: object, **options: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("noetl.server.listen.listen", failing)
    stream = io.StringIO()

    async def story() -> None:
        options = HostOptions(log=Log(stream=stream))
        with bound("127.0.0.1", 0) as listener:
            async with (
                running(SqliteStore(tmp_path / "noetl.db"), listener, options) as server,
                asyncio.timeout(PATIENCE_SECONDS),
            ):
                await server.ended.wait()

    with pytest.raises(NoetlError, match="the HTTP server failed"):  # so the command does not end with exit code 0
        asyncio.run(story())
    assert "the HTTP server failed, shutting down: RuntimeError in failing" in stream.getvalue()


@pytest.mark.parametrize("loop", [Health, Pruner, Scheduler])
def test_a_loop_that_fails_is_logged_and_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: type) -> None:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0.01)
    calls, again = [], asyncio.Event()

    async def failing(self: object) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise RuntimeError("a defect")
        again.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(loop, "run", failing)
    stream = io.StringIO()

    async def story() -> None:
        options = HostOptions(retention=60.0, log=Log(stream=stream))
        async with (
            running(SqliteStore(tmp_path / "noetl.db"), bound("127.0.0.1", 0), options),
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await again.wait()

    asyncio.run(story())
    assert "background task failed, restarting in 0.01 s: RuntimeError in failing" in stream.getvalue()
