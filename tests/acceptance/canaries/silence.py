"""Somebody on NATS who is asked and says nothing until he may."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any

import nats
from tests.servers.patience import PATIENCE_SECONDS

from noetl.nats.client import flush


class Silence:
    """Listens on `silent` and `hold`; what was asked on `hold` is answered with itself once it is open."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.heard = threading.Event()
        self.open = threading.Event()
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Silence:
        self.thread.start()
        assert self.ready.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        async with await nats.connect(self.url) as connection:
            await connection.subscribe("silent", cb=self._ignore)
            await connection.subscribe("hold", cb=self._answer)
            await flush(connection, PATIENCE_SECONDS)
            self.ready.set()
            await self.over.wait()

    async def _ignore(self, message: Any) -> None: ...

    async def _answer(self, message: Any) -> None:
        self.heard.set()
        if self.open.is_set():
            await message.respond(message.data)
