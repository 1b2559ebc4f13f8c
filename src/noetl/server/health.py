"""What a server depends on, how it stands, and since when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, time
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.errors import NoetlError
from noetl.log import Log
from noetl.store.ports import Store

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

PATIENCE_SECONDS = 2.0
LOOK_SECONDS = 5.0
OK = "ok"
NOBODY = "00000000-0000-0000-0000-000000000000"


class Standing(NamedTuple):
    """How a dependency stands: `ok` or what is wrong, since when, and whether the server can't work without it."""

    word: str
    since: float
    at: float
    required: bool

    @property
    def is_up(self) -> bool:
        return self.word == OK

    @property
    def seconds(self) -> float:
        """How long it has been so."""
        return monotonic() - self.at


class Health:
    """Looks at the dependencies now and then, and whenever somebody asks; that one goes or comes back is told."""

    def __init__(
        self, store: Store, bus: NatsConnection | None, in_store: Callable[..., Awaitable[Any]], log: Log
    ) -> None:
        self.store, self.bus, self.in_store, self.log = store, bus, in_store, log
        self.standing: dict[str, Standing] = {}
        self._told: set[str] = set()
        """Dependencies of which the log says that they are down."""

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> dict[str, Standing]:
        """Every dependency as it stands at this moment."""
        self._note("store", await self._store(), required=True)
        if self.bus is not None:
            self._note("nats", self.bus.status(), required=False, settled=self.bus.attempted.is_set())
        return self.standing

    async def _store(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.in_store(self.store.seq, NOBODY)
        except TimeoutError:
            return f"no answer for {PATIENCE_SECONDS:g} s"
        except NoetlError as error:
            return str(error)
        return OK

    def _note(self, name: str, word: str, required: bool, settled: bool = True) -> None:
        """Note how a dependency stands. That it is down is told as soon as that is settled, and then that it is up."""
        before, is_up = self.standing.get(name), word == OK
        if before is not None and before.is_up is is_up:
            self.standing[name] = before._replace(word=word)
        else:
            self.standing[name] = Standing(word, time(), monotonic(), required)
        if not is_up and settled and name not in self._told:
            self._told.add(name)
            self.log.write("error" if required else "warning", "dependency down", dependency=name, error=word)
        elif is_up and name in self._told and before is not None:
            self._told.discard(name)
            self.log.write("info", "dependency up", dependency=name, down_seconds=round(before.seconds, 3))
