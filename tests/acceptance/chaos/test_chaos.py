"""Kills, stops, cuts, full disks and exhausted descriptors strike real processes while runs go on: nothing is lost,
nothing is repeated after it was accepted, nothing is stuck.

The short chaos has a few faults of each kind. `make soak-chaos` runs one slice of the long one, and adds its figures to
those of the slices before it in `.soak/chaos.json`, until it has made as many faults as `TARGETS` says.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest
from tests.acceptance.chaos.disk import SmallDisk, small_disk
from tests.acceptance.chaos.driver import Chaos, Tally, chaos
from tests.acceptance.chaos.faults import DATABASE_FAULTS, KILLS, NATS_FAULTS, ZOMBIES
from tests.servers.postgres import PostgresServer

SOAK = pytest.mark.slow(part="chaos")
SEEDS = (17,)
SLICE_SECONDS = float(os.environ.get("CHAOS_SECONDS", 20 * 60))
SLICES = Path(__file__).parents[3] / ".soak" / "chaos.json"
TARGETS = {KILLS: 1000, (ZOMBIES,): 200, DATABASE_FAULTS: 100, NATS_FAULTS: 100}
WEIGHTS = {"worker killed": 10, "server killed": 18, ZOMBIES: 6, "Postgres stopped": 2, "NATS restarted": 2}
"""How often a kind strikes, compared with each of the others."""
OpenChaos = Callable[[int], Chaos]
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


def forever(kinds: list[str], dice: random.Random, seconds: float) -> Iterator[str]:
    """Kinds by their weights, for so long."""
    end = time.monotonic() + seconds
    weights = [WEIGHTS.get(kind, 1) for kind in kinds]
    while time.monotonic() < end:
        yield from dice.choices(kinds, weights)


@pytest.fixture(params=["postgres", "sqlite"])
def open_chaos(request: pytest.FixtureRequest, tmp_path: Path, disk: SmallDisk | str) -> Iterator[OpenChaos]:
    """Opens a chaos for a seed: on two servers with Postgres, or on one with SQLite."""
    small = disk if isinstance(disk, SmallDisk) else None
    with ExitStack() as stack:

        def opened(seed: int) -> Chaos:
            postgres = None
            if request.param == "postgres":
                parent = None if small is None else small.folder
                postgres = stack.enter_context(closing(PostgresServer(parent, **SMALL_WAL)))
            return stack.enter_context(chaos(tmp_path, seed, postgres, small))

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
@pytest.mark.parametrize("open_chaos", ["postgres"], indirect=True)
def test_a_slice_of_the_long_chaos(open_chaos: OpenChaos, report: Callable[[list[str]], None]) -> None:
    before = msgspec.json.decode(SLICES.read_bytes(), type=Tally) if SLICES.exists() else Tally()
    seed, began = random.randrange(1 << 30), time.monotonic()
    print(f"seed {seed}")
    strikes = open_chaos(seed)
    strikes.run(forever(list(strikes.faults.kinds), strikes.dice, SLICE_SECONDS))
    tally = before + strikes.audit(seed, began)
    SLICES.parent.mkdir(exist_ok=True)
    SLICES.write_bytes(msgspec.json.encode(tally))
    report([*tally.lines(), *remaining(tally)])


def remaining(tally: Tally) -> list[str]:
    """A line for each target that the slices have not reached yet."""
    counts = {kinds: sum(tally.faults.get(kind, 0) for kind in kinds) for kinds in TARGETS}
    return [
        f"chaos: {counts[kinds]} of {target} ({', '.join(kinds)}); run `make soak-chaos` again"
        for kinds, target in TARGETS.items()
        if counts[kinds] < target
    ]
