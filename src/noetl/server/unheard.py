"""Finds parents that wait for a child which has ended or was never started, because the server that knew has died.

Few queries find them without folding logs. A parent that has not moved between two scans is read once, and the ids of
the children it waits for are remembered for as long as its log stands still. Whenever one of them is not open, the
parent has something to hear.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from noetl.clock import uptime
from noetl.engine.state import Execution
from noetl.store.ports import Store

READ_SECONDS = 30.0
"""How soon a parent that never stands still is read all the same."""
READS_PER_SCAN = 100

Ask = Callable[..., Awaitable[object]]


class Awaited(NamedTuple):
    """A parent, as it was last read."""

    seq: int
    children: frozenset[str]


class Sighting(NamedTuple):
    """A parent, as the scan before this one saw it."""

    seq: int
    since: float
    """When it was last read, or first seen."""


class UnheardChildren:
    """Scans a store. `ask` calls a verb of it; `read` gives the state of an execution as it is stored, None if that is
    not possible now."""

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
        """Parents with awaited children that are not open."""
        digests = [digest for digest in await self._all(self.store.open_digests) if await self.may_start_others(digest)]
        parents: dict[str, int] = dict(await self._all(self.store.open_of, digests)) if digests else {}
        await self._read(parents)
        if not any(one.children for one in self.awaited.values()):
            return {}
        open_children = frozenset(await self._all(self.store.open_children))
        missing = {parent: one.children - open_children for parent, one in self.awaited.items()}
        return {parent: children for parent, children in missing.items() if children}

    async def _read(self, parents: dict[str, int]) -> None:
        """Read parents that stand still, and those that were not read for long."""
        now, reads = uptime(), 0
        self.awaited = {name: one for name, one in self.awaited.items() if parents.get(name) == one.seq}
        before, self.sightings = self.sightings, {}
        for name, seq in parents.items():
            seen = before.get(name, Sighting(-1, now))
            self.sightings[name] = Sighting(seq, seen.since)
            stands_still = seen.seq == seq or now - seen.since > READ_SECONDS
            if name not in self.awaited and stands_still and reads < READS_PER_SCAN:
                reads += 1
                state = await self.read(name)
                if state is not None:
                    self.sightings[name] = Sighting(seq, now)
                    self.awaited[name] = Awaited(state.seq, awaited_children(state))

    async def _all(self, verb: Callable[..., object], *arguments: object) -> list:  # type: ignore[type-arg]
        found = await self.ask(verb, *arguments)
        assert isinstance(found, list)
        return found


def awaited_children(state: Execution) -> frozenset[str]:
    """The ids of the children that an execution waits for."""
    return frozenset(
        parked.key for run in state.runs.values() for parked in run.parked.values() if parked.until == "child"
    )
