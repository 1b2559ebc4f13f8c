"""Until when a worker may rely on its leases.

A server calls a lease lost when no heartbeat names it in time. A worker that was stopped, suspended or cut off may hold
leases that others have by now, and does not know. So before each tool call it asks here: a lease that was not confirmed
lately has to be renewed by a heartbeat first. The clock counts the time that the machine was suspended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from noetl.clock import uptime
from noetl.engine.state import LEASE_SECONDS

GRANT_SECONDS = 15.0
"""How long after its grant a server waits for a heartbeat that names a lease."""
MARGIN_SECONDS = 5.0
"""A worker stops to rely on a lease so long before a server may call it lost."""

Key = tuple[str, int]
"""A lease: its execution and its fence."""


class LeaseTerms:
    """When each lease has to be renewed, counted from when the worker sent its request: a server acts later."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self.now = now
        self.until: dict[Key, float] = {}
        self.request_heartbeat: Callable[[], None] = lambda: None
        """Called when a heartbeat is needed at once."""
        self.answered = asyncio.Event()

    def grant(self, leases: Iterable[Key], requested: float) -> None:
        """Leases came in answer to a request that was sent at that time."""
        for lease in leases:
            self.until[lease] = requested + GRANT_SECONDS - MARGIN_SECONDS

    def renew(self, leases: Iterable[Key], sent: float) -> None:
        """A heartbeat that was sent at that time and named these leases was answered: they are the worker's."""
        named = dict.fromkeys(leases, sent + LEASE_SECONDS - MARGIN_SECONDS)
        now = self.now()
        self.until = {lease: until for lease, until in self.until.items() if until > now} | named
        self.answered.set()
        self.answered = asyncio.Event()

    async def current(self, lease: Key) -> None:
        """Return as soon as the worker can rely on the lease. Whoever waits for a lost one is cancelled."""
        while self.now() >= self.until.get(lease, 0.0):
            answered = self.answered
            self.request_heartbeat()
            await answered.wait()
