"""The services that a server depends on: whether each is up, and since when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, time
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.errors import NoetlError
from noetl.log import Log
from noetl.store.store import Store

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

TIMEOUT_SECONDS = 2.0
CHECK_SECONDS = 5.0
OK = "ok"
NO_EXECUTION = "00000000-0000-0000-0000-000000000000"


class DependencyStatus(NamedTuple):
    detail: str
    """`ok`, or the error."""
    since: float
    since_monotonic: float
    required: bool

    @property
    def is_up(self) -> bool:
        return self.detail == OK

    @property
    def seconds(self) -> float:
        return monotonic() - self.since_monotonic


class Health:
    """Checks the dependencies periodically and on request; logs when one goes down or comes back."""

    def __init__(
        self, store: Store, bus: NatsConnection | None, in_store: Callable[..., Awaitable[Any]], log: Log
    ) -> None:
        self.store, self.bus, self.in_store, self.log = store, bus, in_store, log
        self.statuses: dict[str, DependencyStatus] = {}
        self._logged_down: set[str] = set()

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> dict[str, DependencyStatus]:
        detail = OK
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self.in_store(self.store.seq, NO_EXECUTION)
        except TimeoutError:
            detail = f"no answer for {TIMEOUT_SECONDS:g} s"
        except NoetlError as error:
            detail = str(error)
        self._record("store", detail, required=True)
        if self.bus is not None:
            self._record("nats", self.bus.status(), required=False, settled=self.bus.attempted.is_set())
        return self.statuses

    def _record(self, name: str, detail: str, required: bool, settled: bool = True) -> None:
        """Record a status. A dependency is logged as down once `settled`, and as up only after that."""
        before, is_up = self.statuses.get(name), detail == OK
        if before is not None and before.is_up is is_up:
            self.statuses[name] = before._replace(detail=detail)
        else:
            self.statuses[name] = DependencyStatus(detail, time(), monotonic(), required)
        if not is_up and settled and name not in self._logged_down:
            self._logged_down.add(name)
            self.log.write("error" if required else "warning", "dependency down", dependency=name, error=detail)
        elif is_up and name in self._logged_down and before is not None:
            self._logged_down.discard(name)
            self.log.write("info", "dependency up", dependency=name, down_seconds=round(before.seconds, 3))
