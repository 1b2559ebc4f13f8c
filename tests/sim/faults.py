"""Which faults happen, and when. Every kind draws from a sequence of its own, so that a seed without one kind has the
others still."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

KINDS = {
    "crash before commit": "a server dies before the store gets its commit",
    "crash after commit": "a server dies after the store has committed, before it knows",
    "failed commit": "the store is unavailable: nothing is committed",
    "unknown commit": "the store has committed, and the server gets an error",
    "slow store": "a call of the store takes seconds",
    "lost request": "a request never arrives",
    "lost response": "a request is handled, and its response never arrives",
    "repeated request": "a request arrives twice",
    "delayed message": "a request or response takes seconds",
    "reordered message": "a request arrives after one that its sender has sent later",
    "crashed server": "a server dies at any point, and starts again later",
    "stopped server": "a server is suspended for seconds",
    "crashed worker": "a worker dies at any point, and starts again later",
    "drained worker": "a worker is asked to stop: it finishes or returns its work, and starts again later",
    "stopped worker": "a worker is suspended for less than its lease",
    "zombie worker": "a worker with leases is suspended until they have expired, and goes on",
    "clock jump": "the clock of a server, a worker or the store jumps",
    "stale cache": "a server is not notified of commits by others",
    "lost hint": "the hint of a server that there is work reaches no other server",
}

Level = Mapping[str, float]
LEVELS: list[Level] = [
    {},
    {
        "lost request": 0.05,
        "lost response": 0.05,
        "repeated request": 0.1,
        "delayed message": 0.1,
        "lost hint": 0.5,
    },
    {
        "crash before commit": 0.03,
        "crash after commit": 0.03,
        "failed commit": 0.05,
        "unknown commit": 0.05,
        "slow store": 0.01,
        "stale cache": 0.5,
    },
    {
        "crash before commit": 0.01,
        "crash after commit": 0.01,
        "failed commit": 0.02,
        "unknown commit": 0.02,
        "slow store": 0.005,
        "lost request": 0.02,
        "lost response": 0.02,
        "repeated request": 0.05,
        "delayed message": 0.05,
        "lost hint": 0.2,
        "stale cache": 0.2,
    },
]
"""The chance of each fault, every time that it could happen."""
MACHINE_FAULTS = (
    "crashed server",
    "stopped server",
    "crashed worker",
    "drained worker",
    "stopped worker",
    "zombie worker",
    "clock jump",
)
FAULTY_SECONDS = 40.0
"""Virtual time after which nothing fails any more."""


class Faults:
    """`without` has kinds that do not happen, `limits` the number of times that a kind happens at most."""

    def __init__(self, seed: int, without: frozenset[str], limits: Mapping[str, int]) -> None:
        self.without, self.limits = without, limits
        self.fired: Counter[str] = Counter()
        self._random = {kind: Random(f"{seed} {kind}") for kind in KINDS}
        random = Random(f"{seed} faults")
        self.level = random.choice(LEVELS)
        count = random.choice([0, 0, 1, 1, 2, 3, 5])
        machine_faults = [(random.expovariate(0.15), random.choice(MACHINE_FAULTS)) for _ in range(count)]
        self.plan = sorted(machine_faults)
        """When something happens to a machine, most of it while the runs are young."""

    def random(self, kind: str) -> Random:
        return self._random[kind]

    def happens(self, kind: str) -> bool:
        """Whether a fault of the level happens now."""
        drawn = self._random[kind].random()
        return drawn < self.level.get(kind, 0.0) and self.allows(kind)

    def allows(self, kind: str) -> bool:
        """Count a fault that is about to happen; False if the seed is played without it."""
        if kind in self.without or self.fired[kind] >= self.limits.get(kind, 1_000_000):
            return False
        self.fired[kind] += 1
        return True


Record = Callable[[str, str], None]
"""Takes a line of the story: who, and what happened."""
