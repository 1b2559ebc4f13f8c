"""Finds parents that wait for a child execution that has ended or was never started, because a server crashed.

A few queries find them without folding logs. A parent whose log has not changed between two scans is read once, and the
ids of the children it waits for are cached until its log changes. If one of these children is not open, the parent has
to be notified.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from noetl.clock import uptime
from noetl.engine.state import Execution
from noetl.host.children import waits_for_children
from noetl.store.store import Store

READ_SECONDS = 30.0
"""Maximum time until a parent whose log keeps changing is read."""
READS_PER_SCAN = 100

Ask = Callable[..., Awaitable[object]]


class Awaited(NamedTuple):
    """A parent at its last read."""

    seq: int
    children: frozenset[str]


class Sighting(NamedTuple):
    """A parent at the previous scan."""

    seq: int
    since: float
    """When it was last read, or first seen."""


class UnheardChildren:
    """Scans a store. `ask` calls a method of the store; `read` returns the stored state of an execution, or None if it
    is not readable now."""

    def __init__(
        self,
        store: Store,
        ask: Ask,
        read: Callable[[str], Awaitable[Execution | None]],
        may_start_others: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.store, self.ask, self.read, self.may_start_others = store, ask, read, may_start_others
        self.sightings: dict[str, Sighting] = {}
        self.awaited: dict[str, Awaited] = {}

    async def scan(self) -> dict[str, frozenset[str]]:
        """Parents that wait for children that are not open."""
        digests = [digest for digest in await self._all(self.store.open_digests) if await self.may_start_others(digest)]
        parents: dict[str, int] = dict(await self._all(self.store.open_of, digests)) if digests else {}
        await self._read(parents)
        if not any(awaited.children for awaited in self.awaited.values()):
            return {}
        open_children = frozenset(await self._all(self.store.open_children))
        missing = {parent: awaited.children - open_children for parent, awaited in self.awaited.items()}
        return {parent: children for parent, children in missing.items() if children}

    async def _read(self, parents: dict[str, int]) -> None:
        """Read parents whose log has not changed, and those not read for READ_SECONDS."""
        now, reads = uptime(), 0
        self.awaited = {name: awaited for name, awaited in self.awaited.items() if parents.get(name) == awaited.seq}
        before, self.sightings = self.sightings, {}
        for name, seq in parents.items():
            previous = before.get(name, Sighting(-1, now))
            self.sightings[name] = Sighting(seq, previous.since)
            readable = previous.seq == seq or now - previous.since > READ_SECONDS
            if name not in self.awaited and readable and reads < READS_PER_SCAN:
                reads += 1
                state = await self.read(name)
                if state is not None:
                    self.sightings[name] = Sighting(seq, now)
                    self.awaited[name] = Awaited(
                        state.seq, frozenset(parked.key for parked in waits_for_children(state))
                    )

    async def _all(self, query: Callable[..., object], *arguments: object) -> list:  # type: ignore[type-arg]
        rows = await self.ask(query, *arguments)
        assert isinstance(rows, list)
        return rows
