"""Runs many seeds: a sample in `make test`, all of `make sim`, and the slices of the soak."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.sim.playbooks import SEEDS_PER_PLAYBOOK
from tests.sim.shrink import shrink
from tests.sim.story import simulate
from tests.verifying import verified

SEEDS = 20_000
"""Those of `make sim`, which every change has to pass."""
MAX_SHRUNK = 3
"""Failing seeds that are shrunk in a report; the others are listed with the command that replays them."""


def fails(seed: int) -> bool:
    try:
        with verified(damaged=True):  # `simulate` verifies the logs itself, and knows their seed
            return bool(simulate(seed).problems)
    except Exception as error:
        error.add_note(f"seed {seed}; replay it with: noetl sim --seed {seed}")
        raise


def report(seeds: Iterable[int]) -> str:
    """What fails in failing seeds, and the commands that replay them; empty if there are none."""
    failing = list(seeds)
    with verified(damaged=True):
        shrunk = [str(shrink(seed)) for seed in failing[:MAX_SHRUNK]]
    listed = [f"seed {seed}\nreplay it with: noetl sim --seed {seed} --shrink" for seed in failing[MAX_SHRUNK:]]
    return "\n\n".join([*shrunk, *listed])


class SoakLane:
    """Every n-th playbook of the soak with all of its seeds. Its files have the number of its next playbook, and the
    seeds that have failed, which each slice retries first."""

    def __init__(self, folder: Path, number: int, lanes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.number, self.lanes = number, lanes
        self._next, self._failed = folder / f"lane-{number}", folder / f"lane-{number}.failed"

    @property
    def next_playbook(self) -> int:
        return int(self._next.read_text()) if self._next.exists() else self.number

    @property
    def failed(self) -> list[int]:
        return [int(seed) for seed in self._failed.read_text().split()] if self._failed.exists() else []

    @property
    def seeds_done(self) -> int:
        return (self.next_playbook - self.number) // self.lanes * SEEDS_PER_PLAYBOOK

    def run(self, playbooks: int, seconds: float) -> Iterator[int]:
        """Each seed that fails, until the time is over or the first `playbooks` are done."""
        deadline = time.monotonic() + seconds
        failed = [seed for seed in self.failed if fails(seed)]
        self._write(failed)
        yield from failed
        while (playbook := self.next_playbook) < playbooks and time.monotonic() < deadline:
            for seed in range(playbook * SEEDS_PER_PLAYBOOK, (playbook + 1) * SEEDS_PER_PLAYBOOK):
                if fails(seed):
                    failed.append(seed)
                    yield seed
            self._write(failed)
            self._next.write_text(str(playbook + self.lanes))

    def _write(self, failed: list[int]) -> None:
        if failed:
            self._failed.write_text("\n".join(map(str, failed)))
        else:
            self._failed.unlink(missing_ok=True)
