"""The services that a server depends on: whether each is up, and since when."""

from __future__ import annotations

import asyncio
from time import monotonic, time
from typing import TYPE_CHECKING, Literal

import msgspec

from noetl.errors import NoetlError
from noetl.log import Log
from noetl.runtime.store_thread import InStore
from noetl.store.store import Store
from noetl.timestamps import rfc3339

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

TIMEOUT_SECONDS = 2.0
CHECK_SECONDS = 5.0
NO_EXECUTION = "00000000-0000-0000-0000-000000000000"


class Dependency(msgspec.Struct, frozen=True):
    """A service that the server uses; `required` if the server cannot work without it."""

    name: str
    status: Literal["ok", "down"]
    detail: str
    required: bool
    since: str
    seconds: float


class Health:
    def __init__(self, store: Store, bus: NatsConnection | None, in_store: InStore, log: Log) -> None:
        self.store, self.bus, self.in_store, self.log = store, bus, in_store, log
        self._changes: dict[str, tuple[bool, float, float]] = {}  # is it up, since when, and by the monotonic clock
        self._logged_down: set[str] = set()

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> list[Dependency]:
        detail = "ok"
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self.in_store(self.store.check_last_commit)
                await self.in_store(self.store.seq, NO_EXECUTION)
        except TimeoutError:
            detail = f"no answer for {TIMEOUT_SECONDS:g} s"
        except NoetlError as error:
            detail = str(error)
        dependencies = [self._record("store", detail, required=True)]
        if self.bus is not None:
            is_settled = self.bus.attempted.is_set()
            dependencies.append(self._record("nats", self.bus.status(), required=False, settled=is_settled))
        return dependencies

    def _record(self, name: str, detail: str, required: bool, settled: bool = True) -> Dependency:
        """Record a status. A dependency is logged as down once `settled`, and as up only after that."""
        is_up, now = detail == "ok", monotonic()
        was_up, since, changed = self._changes.get(name, (None, 0.0, now))
        seconds = now - changed
        if not is_up and settled and name not in self._logged_down:
            self._logged_down.add(name)
            self.log.write("error" if required else "warning", "dependency down", dependency=name, error=detail)
        elif is_up and name in self._logged_down:
            self._logged_down.discard(name)
            self.log.write("info", "dependency up", dependency=name, down_seconds=round(seconds, 3))
        if was_up is not is_up:
            since, seconds = time(), 0.0
            self._changes[name] = (is_up, since, now)
        return Dependency(name, "ok" if is_up else "down", detail, required, rfc3339(since), round(seconds, 3))
