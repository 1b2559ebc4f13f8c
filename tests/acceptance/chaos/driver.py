"""The chaos: a stream of runs on a site, and faults at random times. At the end all faults are removed, every run has
ended, and the ledger agrees with the logs."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from tests.acceptance.chaos.audit import Audit, percentiles, recovery
from tests.acceptance.chaos.disk import SmallDisk
from tests.acceptance.chaos.faults import LOSSES, Faults
from tests.acceptance.chaos.ledger import Ledger, ledger
from tests.acceptance.chaos.site import Site, site
from tests.acceptance.chaos.stream import Stream
from tests.acceptance.modes import stage
from tests.servers.nats import RestartedNats, restarted_nats
from tests.servers.postgres import PostgresServer
from tests.servers.short_leases import LEASE_SECONDS

WORKERS, SLOTS = 3, 4
CALL_SECONDS = 0.05
EFFECTS_BETWEEN = (1, 8)
"""Lines of the ledger between two faults."""
SECONDS_BETWEEN = (0.0, 0.5)
"""Between two faults of a burst."""
MAX_LOSSES = 3
"""Faults that take leases, since the last progress of an open run."""
MAX_POSTPONED = 10
"""Faults that come after all others; the rest of the postponed ones is left out."""
STUCK_SECONDS = 300.0

FaultCount = tuple[str, int]
"""A kind of fault, and the number of targets that it strikes at once."""


class Tally(msgspec.Struct):
    """The figures of a chaos: by kind of fault, the number of faults, and the seconds until a run (`progress`) and
    until every open run (`recoveries`) made progress."""

    faults: dict[str, int] = {}
    recoveries: dict[str, list[float]] = {}
    runs: int = 0
    executions: int = 0
    calls: int = 0
    seconds: float = 0.0
    seeds: list[int] = []
    progress: dict[str, list[float]] = {}

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            dict(Counter(self.faults) + Counter(other.faults)),
            joined(self.recoveries, other.recoveries),
            self.runs + other.runs,
            self.executions + other.executions,
            self.calls + other.calls,
            self.seconds + other.seconds,
            self.seeds + other.seeds,
            joined(self.progress, other.progress),
        )

    def lines(self) -> list[str]:
        return [
            f"chaos: {self.runs} runs ({self.executions} with children), {self.calls} calls, "
            f"{sum(self.faults.values())} faults in {self.seconds / 60:.1f} min; 0 lost, 0 repeated, 0 stuck",
            f"chaos: any fault: {self._times(sorted(self.recoveries))}",
            *(f"chaos: {kind}: {self.faults.get(kind, 0)} times, {self._times([kind])}" for kind in self.recoveries),
        ]

    def _times(self, kinds: list[str]) -> str:
        first, last = (
            percentiles([seconds for kind in kinds for seconds in times.get(kind, [])])
            for times in (self.progress, self.recoveries)
        )
        return f"a run went on after {first}; every open run after {last}"


def joined(first: dict[str, list[float]], second: dict[str, list[float]]) -> dict[str, list[float]]:
    return {kind: first.get(kind, []) + second.get(kind, []) for kind in sorted({*first, *second})}


class Chaos:
    def __init__(self, site: Site, book: Ledger, faults: Faults, dice: random.Random, call_seconds: float) -> None:
        self.site, self.book, self.faults, self.dice = site, book, faults, dice
        self.stream = Stream(site.client, book, call_seconds)
        self.losses: list[float] = []

    def run(self, kinds: Iterable[str]) -> None:
        """Strike with one kind after the other, each after some progress; in the end nothing is left of them. Kinds
        that take leases come later if a run has lost its workers too often."""
        postponed: list[str] = []
        for kind in kinds:
            self._progress(self.dice.randint(*EFFECTS_BETWEEN))
            if postponed and self._may_lose_leases():
                self._strike(postponed.pop(0))
            elif kind in LOSSES and not self._may_lose_leases():
                postponed.append(kind)
                continue
            self._strike(kind)
        for kind in postponed[:MAX_POSTPONED]:
            self._wait(self._may_lose_leases)
            self._strike(kind)
        self.faults.heal_all()

    def run_bursts(self, bursts: Iterable[list[FaultCount]]) -> None:
        """Strike with one burst after the other. Each lasts until nothing is left of its faults, and every run has made
        progress since they took its leases: no lease expires while servers are killed."""
        for burst in bursts:
            for kind, count in burst:
                self._pause(self.dice.uniform(*SECONDS_BETWEEN))
                self._wait(lambda kind=kind: kind not in LOSSES or self._may_lose_leases())
                self._strike(kind, count)
            self._wait(lambda: not self.faults.active)
            self._wait(lambda: self._have_progressed_since(self.losses[-1] if self.losses else 0.0))

    def _strike(self, kind: str, count: int = 1) -> None:
        """Strike so many targets at once. A run counts them as one loss: each of its leases is at one worker."""
        if kind in LOSSES:
            self.losses.append(time.time())
        for _ in range(count):
            self.faults.strike(kind)

    def audit(self, seed: int, began: float) -> Tally:
        """Wait for the end of all runs, and check them."""
        self.stream.finish(STUCK_SECONDS)
        time.sleep(LEASE_SECONDS)  # a worker may still act on an expired lease
        audit = Audit(self.site.client, self.book)
        for run, end in self.stream.ended:
            audit.run(run, end)
        assert not audit.problems, "\n".join(audit.problems)
        assert self.site.mode.verify() == audit.executions, "a run was started that is not in the stream"
        progress: dict[str, list[float]] = {}
        recoveries: dict[str, list[float]] = {}
        for kind, at in self.faults.times:
            if (seconds := recovery(audit.times, at)) is not None:
                progress.setdefault(kind, []).append(round(seconds[0], 3))
                recoveries.setdefault(kind, []).append(round(seconds[1], 3))
        counts, runs, took = dict(self.faults.struck), len(self.stream.ended), time.monotonic() - began
        return Tally(counts, recoveries, runs, audit.executions, audit.effects, took, [seed], progress)

    def _progress(self, lines: int) -> None:
        before = len(self.book.effects)
        self._wait(lambda: len(self.book.effects) >= before + lines)

    def _may_lose_leases(self) -> bool:
        """Whether every open run has made progress since the last few faults that took leases."""
        return self._have_progressed_since(self.losses[-MAX_LOSSES] if len(self.losses) >= MAX_LOSSES else 0.0)

    def _have_progressed_since(self, since: float) -> bool:
        """Whether every open run has made progress since then, or was started."""
        return all(self.stream.progress[execution] >= since for execution in list(self.stream.open))

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= end)

    def _wait(self, is_met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STUCK_SECONDS
        while not is_met():
            self.stream.check()
            self.faults.heal_due()
            assert time.monotonic() < deadline, (
                f"no progress within {STUCK_SECONDS:g} s; faults: {sorted(self.faults.active)}"
            )
            time.sleep(0.01)


@contextmanager
def chaos(
    folder: Path,
    seed: int,
    postgres: PostgresServer | None,
    disk: SmallDisk | None,
    *,
    workers: int = WORKERS,
    call_seconds: float = CALL_SECONDS,
) -> Iterator[Chaos]:
    """Two servers on Postgres, or one on SQLite; workers, NATS, and proxies between all of them."""
    dice = random.Random(seed)
    home = disk.folder if disk is not None else folder
    db = str(home / "noetl.db") if postgres is None else stage.database(postgres, "chaos")
    (folder / "nats").mkdir()
    with ExitStack() as stack:
        nats: RestartedNats = stack.enter_context(restarted_nats(folder / "nats"))
        book = stack.enter_context(ledger())
        servers = 1 if postgres is None else 2
        chaos_site = stack.enter_context(
            site(folder, db, dice, servers=servers, workers=workers, slots=SLOTS, proxied=True, nats=nats)
        )
        yield Chaos(chaos_site, book, Faults(chaos_site, book, dice, postgres, nats, disk), dice, call_seconds)
