"""How long a worker may rely on its leases.

A server expires a lease when no heartbeat names it in time. A worker that was stopped, suspended or disconnected may
still hold leases that other workers have by now. So before each tool call it checks here: a lease that was not
confirmed recently has to be renewed by a heartbeat first. The clock includes the time for which the machine was
suspended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from noetl.clock import uptime
from noetl.engine.leases import LEASE_SECONDS

HEARTBEAT_SECONDS = 5.0  # interval between heartbeats of a worker
GRANT_SECONDS = 15.0  # time after the grant within which a heartbeat has to name a lease
MARGIN_SECONDS = 5.0  # safety margin: a worker stops relying on a lease this long before a server may expire it

Key = tuple[str, int]  # a lease: its execution and its fence


class LeaseTerms:
    """Renewal deadlines of leases, counted from when the worker sent its request, so the server expires them later."""

    def __init__(self, request_heartbeat: Callable[[], None], now: Callable[[], float] = uptime) -> None:
        self.request_heartbeat, self.now = request_heartbeat, now
        self.until: dict[Key, float] = {}
        self.in_flight: Counter[Key] = Counter()  # leases on their way to the worker or back
        self.paused: frozenset[str] = frozenset()  # executions that must start nothing new
        self.registered = asyncio.Event()
        """Set when the server has answered a heartbeat. Nothing is claimed before: the first heartbeat revokes the
        leases of an earlier process of that name."""
        self.answered = asyncio.Event()

    def grant(self, leases: Iterable[Key], requested: float) -> None:
        """Add the leases from the response to a request that was sent at that time."""
        self.until |= dict.fromkeys(leases, requested + GRANT_SECONDS - MARGIN_SECONDS)

    @contextmanager
    def holding(self, leases: Sequence[Key]) -> Iterator[None]:
        """Heartbeats inside name these leases."""
        self.in_flight.update(leases)
        try:
            yield
        finally:
            self.in_flight -= Counter(leases)

    def renew(self, leases: Iterable[Key], sent_at: float) -> None:
        """Renew the leases that were confirmed by the response to a heartbeat that was sent at that time."""
        named = dict.fromkeys(leases, sent_at + LEASE_SECONDS - MARGIN_SECONDS)
        now = self.now()
        self.until = {lease: until for lease, until in self.until.items() if until > now} | named
        self.answered.set()
        self.answered = asyncio.Event()

    async def current(self, lease: Key) -> None:
        """Wait until the worker can rely on the lease. The caller is cancelled if the lease is lost."""
        while self.now() >= self.until.get(lease, 0.0):
            answered = self.answered
            self.request_heartbeat()
            await answered.wait()
