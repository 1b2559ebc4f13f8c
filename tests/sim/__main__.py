"""`make sim`: the seeds of every change, on all processors.

Fails if a seed has a problem, and prints the shrunk seed with the command that replays it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.sim.batches import SEEDS, fails, report
from tests.sim.playbooks import SEEDS_PER_PLAYBOOK

BATCHES_PER_LINE = 40  # of the progress


def main(seeds: Sequence[int] = range(SEEDS)) -> int:
    began = time.monotonic()
    batches = [seeds[first : first + SEEDS_PER_PLAYBOOK] for first in range(0, len(seeds), SEEDS_PER_PLAYBOOK)]
    failing: list[int] = []
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as pool:
        for done, failed in enumerate(pool.map(failing_seeds, batches), start=1):
            failing += failed
            if done % BATCHES_PER_LINE == 0:
                print(
                    f"{done * SEEDS_PER_PLAYBOOK:,} of {len(seeds):,} seeds, {len(failing)} with problems", flush=True
                )
    print(f"{len(seeds):,} seeds in {time.monotonic() - began:.0f} s: {len(failing)} have problems")
    if failing:
        print(report(failing))
    return 1 if failing else 0


def failing_seeds(seeds: Sequence[int]) -> list[int]:
    return [seed for seed in seeds if fails(seed)]


if __name__ == "__main__":
    sys.exit(main())
