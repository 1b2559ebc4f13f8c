"""Kills, stops, cuts, full disks and exhausted descriptors strike real processes while runs go on: nothing is lost,
nothing is repeated after it was accepted, nothing is stuck.

The short chaos has a few faults of each kind. `make soak-chaos` runs two slices of the long one side by side, and adds
their figures to those of earlier slices in `.soak/chaos.json`, until there are as many faults as `TARGETS` says.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.acceptance.chaos.disk import SmallDisk, small_disk
from tests.acceptance.chaos.driver import Chaos, FaultCount, Tally, chaos
from tests.acceptance.chaos.faults import DATABASE_FAULTS, KILLS, NATS_FAULTS, ZOMBIES
from tests.servers.postgres import PostgresServer

SOAK = pytest.mark.slow(part="chaos")
SEEDS = (17,)
SLICE_SECONDS = float(os.environ.get("CHAOS_SECONDS", 10 * 60))
SLICES = Path(__file__).parents[3] / ".soak" / "chaos.json"
TARGETS = {KILLS: 1000, (ZOMBIES,): 200, DATABASE_FAULTS: 100, NATS_FAULTS: 100}
SLICES_AT_ONCE = 2
SOAK_WORKERS, SOAK_CALL_SECONDS = 8, 0.2
BURST = {"server killed": [1] * 4, "worker killed": [4, 4], ZOMBIES: [3]}
"""Faults of every burst: for each kind, how many targets are struck at once. Others come beside them."""
OTHERS_IN_A_BURST = 2
OpenChaos = Callable[..., Chaos]
MEGABYTES = 600
SMALL_WAL = {"max_wal_size": "64MB", "min_wal_size": "32MB"}


@pytest.fixture
def disk() -> Iterator[SmallDisk | str]:
    with small_disk(MEGABYTES) as tmpfs:
        yield tmpfs


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[list[str]], None]:
    def add(lines: list[str]) -> None:
        for line in lines:
            print(line)
            record_property("measured", line)

    return add


def each_kind(kinds: list[str], dice: random.Random) -> list[str]:
    """Every kind once, in any order; kills twice, and stopped workers last: they are waited for."""
    others = [kind for kind in [*kinds, *KILLS] if kind != ZOMBIES]
    dice.shuffle(others)
    return [*others, ZOMBIES]


def bursts(kinds: list[str], dice: random.Random, seconds: float) -> Iterator[list[FaultCount]]:
    """Kills and stopped workers, one fault of Postgres and of NATS, and others of any kind, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        others = dice.choices([kind for kind in kinds if kind not in BURST], k=OTHERS_IN_A_BURST)
        single = [dice.choice(DATABASE_FAULTS), dice.choice(NATS_FAULTS), *others]
        burst = [(kind, count) for kind, counts in BURST.items() for count in counts]
        burst += [(kind, 1) for kind in single]
        dice.shuffle(burst)
        yield burst


@pytest.fixture(params=["postgres", "sqlite"])
def open_chaos(request: pytest.FixtureRequest, tmp_path: Path, disk: SmallDisk | str) -> Iterator[OpenChaos]:
    """Opens a chaos for a seed: on two servers with Postgres, or on one with SQLite."""
    small = disk if isinstance(disk, SmallDisk) else None
    with ExitStack() as stack:

        def opened(seed: int, **options: Any) -> Chaos:
            postgres = None
            if request.param == "postgres":
                parent = None if small is None else small.folder
                postgres = stack.enter_context(closing(PostgresServer(parent, **SMALL_WAL)))
            return stack.enter_context(chaos(tmp_path, seed, postgres, small, **options))

        yield opened


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_repeated_or_stuck(
    open_chaos: OpenChaos, seed: int, report: Callable[[list[str]], None]
) -> None:
    began = time.monotonic()
    strikes = open_chaos(seed)
    strikes.run(each_kind(list(strikes.faults.kinds), strikes.dice))
    tally = strikes.audit(seed, began)
    assert set(tally.faults) == set(strikes.faults.kinds)
    report(tally.lines())


def test_the_chaos_has_full_disks(disk: SmallDisk | str) -> None:
    if isinstance(disk, str):
        pytest.skip(disk)
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        (disk.folder / "more").write_bytes(b"x")
    disk.clear()
    (disk.folder / "more").write_bytes(b"x")


@SOAK
@pytest.mark.parametrize("number", range(SLICES_AT_ONCE))
@pytest.mark.parametrize("open_chaos", ["postgres"], indirect=True)
def test_a_slice_of_the_long_chaos(open_chaos: OpenChaos, number: int, report: Callable[[list[str]], None]) -> None:
    seed, began = random.randrange(1 << 30), time.monotonic()
    print(f"slice {number}: seed {seed}")
    strikes = open_chaos(seed, workers=SOAK_WORKERS, call_seconds=SOAK_CALL_SECONDS)
    strikes.run_bursts(bursts(list(strikes.faults.kinds), strikes.dice, SLICE_SECONDS))
    tally = add_slice(strikes.audit(seed, began))
    report([*tally.lines(), *remaining(tally)])


def add_slice(tally: Tally) -> Tally:
    """Add the figures of a slice to the stored ones, and return the sum."""
    SLICES.parent.mkdir(exist_ok=True)
    with SLICES.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the other slice may end at the same time
        file.seek(0)
        before = file.read()
        total = (msgspec.json.decode(before, type=Tally) if before else Tally()) + tally
        file.truncate(0)
        file.write(msgspec.json.encode(total))
    return total


def remaining(tally: Tally) -> list[str]:
    """A line for each target that the slices have not reached yet."""
    counts = {kinds: sum(tally.faults.get(kind, 0) for kind in kinds) for kinds in TARGETS}
    return [
        f"chaos: {counts[kinds]} of {target} ({', '.join(kinds)}); run `make soak-chaos` again"
        for kinds, target in TARGETS.items()
        if counts[kinds] < target
    ]
